"""The comparison of replicas: what is right passes, and every difference is named with its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.pipeline.rigs.topic_files import BLANK, PAIRS, BrokerFiles, batch, replica_files, rewrite
from zab.pipeline.errors import PipelineError
from zab.pipeline.jobs.verify_topics import replicas_in, verify, verify_here
from zab.pipeline.topics import comparing
from zab.pipeline.topics.comparing import Compared, Group, TopicFinding, compare

LAST = 2 * PAIRS


def three(root: Path) -> list[BrokerFiles]:
    return [replica_files(root, number) for number in (1, 2, 3)]


def found(root: Path, *, task_bytes: int = 1 << 30) -> list[TopicFinding]:
    return verify_here(replicas_in([root]), task_bytes=task_bytes).findings


def deviations(root: Path, **options: int) -> list[TopicFinding]:
    return [each for each in found(root, **options) if each.deviation]


def shown(findings: list[TopicFinding]) -> list[tuple[str, str | None, int | None, int | None]]:
    return [(each.kind, each.broker, each.offset, each.until) for each in findings]


@pytest.mark.parametrize("task_bytes", [1, 2000, 1 << 30])
def test_equal_replicas_are_equal_however_the_work_is_cut(tmp_path: Path, task_bytes: int) -> None:
    three(tmp_path)
    verified = verify_here(replicas_in([tmp_path]), task_bytes=task_bytes)
    assert verified.findings == []
    assert (verified.partition_count, verified.broker_count, verified.batch_count) == (1, 3, 3 * PAIRS)
    assert verified.byte_count == sum(path.stat().st_size for path in tmp_path.glob("*/t-0/*.log"))


def test_a_part_of_the_work_has_only_the_files_of_its_range(tmp_path: Path) -> None:
    three(tmp_path)
    counts = []

    def compare_all(work: Sequence[tuple[int, Group, int, int]]) -> list[tuple[int, Compared]]:
        counts.extend(sum(len(each.segments) for each in group.replicas) for _, group, _, _ in work)
        return [(number, compare(group, start, until)) for number, group, start, until in work]

    assert verify(replicas_in([tmp_path]), compare_all, task_bytes=1).findings == []
    files = len(list(tmp_path.glob("*/t-0/*.log")))
    assert len(counts) == files // 3 > 1
    assert counts == [3] * len(counts)


@pytest.mark.parametrize("task_bytes", [1, 1 << 30])
def test_other_bytes_are_named_with_broker_offset_epoch_and_place(tmp_path: Path, task_bytes: int) -> None:
    brokers = three(tmp_path)
    segment = rewrite(brokers[1], 11, b"other")
    [finding] = deviations(tmp_path, task_bytes=task_bytes)
    assert (finding.kind, finding.broker, finding.offset, finding.until, finding.epoch) == ("differs", "2", 22, 24, 0)
    assert (finding.topic, finding.partition, finding.file) == ("t", 0, str(segment))
    assert segment.read_bytes()[finding.position : finding.position + 8] == (22).to_bytes(8, "big")
    assert finding.sentence.startswith("from offset 22 to 23 it differs from brokers 1, 3: a batch of ")
    assert "nothing tells" not in finding.sentence


def test_several_stretches_and_two_wrong_brokers(tmp_path: Path) -> None:
    brokers = three(tmp_path)
    for number in (3, 4, 20):
        rewrite(brokers[0], number, b"other")
    rewrite(brokers[2], 20, b"third")
    assert shown(deviations(tmp_path)) == [
        *[("differs", "1", 6, 10)],
        *[("differs", "2", 40, 42), ("differs", "3", 40, 42)],
    ]


def test_two_replicas_that_contradict_each_other_cannot_be_told_apart(tmp_path: Path) -> None:
    replica_files(tmp_path, 1)
    rewrite(replica_files(tmp_path, 2), 5, b"other")
    [finding] = deviations(tmp_path)
    assert finding.sentence.endswith("nothing tells which of them is right")


def test_other_boundaries_of_batches_are_a_difference(tmp_path: Path) -> None:
    for broker, sizes in ((1, (2, 2, 2)), (2, (2, 1, 1, 2))):
        one = BrokerFiles(tmp_path / str(broker), broker=broker)
        one.add("t", *(batch([BLANK] * size) for size in sizes))
        one.save()
    assert shown(deviations(tmp_path)) == [("differs", "2", 2, 4)]


def test_the_end_of_a_deposed_leader_is_no_fault(tmp_path: Path) -> None:
    """Above its own high watermark; with the epoch of the others it is one."""
    one, two = replica_files(tmp_path, 1, epoch=5), replica_files(tmp_path, 2, epoch=5)
    for number in range(25, PAIRS):
        rewrite(two, number, b"mine", epoch=4)
    two.save({"t": 50})
    [finding] = found(tmp_path)
    assert (finding.kind, finding.broker, finding.offset, finding.epoch) == ("diverged", "2", 50, 4)
    one.save({"t": 50})
    two.save()
    [finding] = found(tmp_path)
    assert (finding.kind, finding.broker) == ("diverged", "1"), "the one that says it is committed is right"
    one.save()
    assert shown(deviations(tmp_path))[0][0] == "differs"
    for number in range(25, PAIRS):
        rewrite(two, number, b"mine", epoch=5)
    two.save({"t": 50})
    assert shown(deviations(tmp_path)) == [("differs", "2", 50, LAST)]


def test_nothing_above_the_high_watermark_is_compared(tmp_path: Path) -> None:
    one, two = replica_files(tmp_path, 1), replica_files(tmp_path, 2)
    rewrite(two, 25, b"other")
    for each in (one, two):
        each.save({"t": 50})
    assert found(tmp_path) == []


def test_lags_and_late_beginnings_are_stated(tmp_path: Path) -> None:
    replica_files(tmp_path, 1)
    two = replica_files(tmp_path, 2, upto=20)
    two.save({"t": 40}, starts={"t": 10})
    assert shown(found(tmp_path)) == [("begins", "2", 10, None), ("lags", "2", 40, None)]
    assert not deviations(tmp_path)


def test_what_a_broker_itself_calls_committed_has_to_be_there(tmp_path: Path) -> None:
    one, two = replica_files(tmp_path, 1), replica_files(tmp_path, 2)
    last = two.segments("t")[-1]
    base = int(last.stem)
    last.unlink()
    [finding] = deviations(tmp_path)
    assert (finding.kind, finding.broker) == ("gap", "2")
    assert f"offsets {base} to {LAST - 1} are missing" in finding.sentence
    middle = one.segments("t")[2]
    middle.unlink()
    assert {(each.kind, each.broker) for each in deviations(tmp_path)} == {("gap", "2"), ("gap", "1")}


def test_damage_is_named_once_and_not_also_as_a_difference(tmp_path: Path) -> None:
    brokers = three(tmp_path)
    segment = brokers[0].segments("t")[1]
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)
    [finding] = deviations(tmp_path)
    assert (finding.kind, finding.broker, finding.file) == ("damaged", "1", str(segment))


def test_damage_in_the_last_file_hides_nothing_after_it(tmp_path: Path) -> None:
    brokers = three(tmp_path)
    segment = brokers[0].segments("t")[-1]
    content = bytearray(segment.read_bytes())
    content[30] ^= 1
    segment.write_bytes(content)
    rewrite(brokers[0], PAIRS - 1, b"other")
    assert [(each.kind, each.broker) for each in deviations(tmp_path)] == [("damaged", "1"), ("differs", "1")]


def test_a_replica_alone_has_its_checksums_compared(tmp_path: Path) -> None:
    one = replica_files(tmp_path, 1)
    assert shown(found(tmp_path)) == [("alone", "1", None, None)]
    segment = one.segments("t")[0]
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    assert [each.kind for each in deviations(tmp_path)] == ["damaged"]


def test_copies_without_checkpoints_are_compared_up_to_the_shorter_end(tmp_path: Path) -> None:
    for number, upto in ((1, PAIRS), (2, 20)):
        shutil.copytree(
            replica_files(tmp_path / "from", number, upto=upto).root / "t-0", tmp_path / f"copy-{number}" / "t-0"
        )
    dirs = [tmp_path / "copy-1" / "t-0", tmp_path / "copy-2" / "t-0"]
    [finding] = verify_here(replicas_in(dirs)).findings
    assert finding.kind == "unmarked"
    assert "compared up to offset 40" in finding.sentence


def compacted(root: Path, broker: int, keeps: Callable[[int], bool], *, cleaned: int = LAST) -> BrokerFiles:
    """A broker whose cleaner has left only these batches of the first segments."""
    one = replica_files(root, broker, cleaned=cleaned)
    for segment in one.segments("t")[:-1]:
        content, left, at = segment.read_bytes(), b"", 0
        while at < len(content):
            size = 12 + int.from_bytes(content[at + 8 : at + 12], "big")
            if keeps(int.from_bytes(content[at : at + 8], "big") // 2):
                left += content[at : at + size]
            at += size
        segment.write_bytes(left)
        for suffix in (".index", ".timeindex"):
            segment.with_suffix(suffix).unlink(missing_ok=True)
    return one


def test_each_broker_compacts_for_itself(tmp_path: Path) -> None:
    compacted(tmp_path, 1, lambda number: number % 3 == 0)
    compacted(tmp_path, 2, lambda number: number % 2 == 0)
    replica_files(tmp_path, 3)
    assert found(tmp_path) == []


def test_records_that_several_have_are_equal_after_compaction_too(tmp_path: Path) -> None:
    compacted(tmp_path, 1, lambda number: number % 3 == 0)
    two = compacted(tmp_path, 2, lambda number: number % 2 == 0)
    rewrite(two, 6, b"other")
    rewrite(two, 12, b"other")
    [finding] = deviations(tmp_path)
    assert (finding.kind, finding.broker, finding.offset, finding.until) == ("differs", "2", 12, 25)


def test_more_stretches_than_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = three(tmp_path)
    for number in range(0, 12, 2):
        rewrite(brokers[0], number, b"other")
    monkeypatch.setattr(comparing, "STRETCHES_MAX", 4)
    assert [each.kind for each in deviations(tmp_path)] == ["more", *["differs"] * 4]


def test_files_that_the_cleaner_is_replacing_are_passed_over(tmp_path: Path) -> None:
    brokers = three(tmp_path)
    segment = brokers[0].segments("t")[0]
    segment.rename(f"{segment}.swap")
    assert shown(found(tmp_path)) == [("busy", "1", None, None)]


def test_only_topics_that_are_there_can_be_named(tmp_path: Path) -> None:
    one = replica_files(tmp_path, 1)
    one.add("u", batch())
    one.save()
    assert {each.topic for each in replicas_in([tmp_path], ["u"])} == {"u"}
    with pytest.raises(PipelineError, match=r"no topic orders; the topics are t, u"):
        replicas_in([tmp_path], ["orders"])
