"""Reading batches from log files: which ones, and what is told of damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.rigs.topic_files import BrokerFiles, batch
from zab.partition.records.batch import walk
from zab.pipeline.topics.batches import Batches, Fault, batches, end_of
from zab.pipeline.topics.replicas import Replica, find_replicas

VALUE = b"x" * 40


@pytest.fixture
def broker(tmp_path: Path) -> BrokerFiles:
    """Sixty batches of two records each, in some segments."""
    files = BrokerFiles(tmp_path / "one", segment_bytes=3000)
    files.add("t", *(batch([VALUE, b"%d" % number]) for number in range(60)))
    assert len(files.segments("t")) > 2
    return files.save()


def replica(files: BrokerFiles) -> Replica:
    (found,) = find_replicas([files.root])
    return found


def bases(found: list[Batches | Fault]) -> list[int]:
    return [base for one in found if isinstance(one, Batches) for base in one.headers["base_offset"].tolist()]


def faults(found: list[Batches | Fault]) -> list[tuple[str, int, int | None]]:
    return [(one.damage.kind, one.damage.offset, one.damage.end) for one in found if isinstance(one, Fault)]


@pytest.mark.parametrize("piece_bytes", [64, 200, 1000, 1 << 20])
@pytest.mark.parametrize(("start", "until"), [(0, 120), (0, 1), (1, 2), (37, 38), (38, 80), (119, 120), (50, 50)])
def test_batches_are_those_that_reach_into_the_range(
    broker: BrokerFiles, start: int, until: int, piece_bytes: int
) -> None:
    found = list(batches(replica(broker), start, until, piece_bytes=piece_bytes))
    assert faults(found) == []
    assert bases(found) == [base for base in range(0, 120, 2) if base + 1 >= start and base < until]


def test_the_index_spares_what_is_before(broker: BrokerFiles) -> None:
    first = broker.segments("t")[0]
    content = bytearray(first.read_bytes())
    content[0:40] = bytes(40)
    first.write_bytes(content)
    assert faults(list(batches(replica(broker), 30, 40))) == []
    first.with_suffix(".index").unlink()
    assert faults(list(batches(replica(broker), 30, 40))) != []


@pytest.mark.parametrize("entry", [b"\0\0\0\x09\0\0\0\x20", b"\0\0\0\x01\0\0\x04\0", b"\0\0"])
def test_a_wrong_index_is_not_believed(broker: BrokerFiles, entry: bytes) -> None:
    broker.segments("t")[0].with_suffix(".index").write_bytes(entry)
    found = list(batches(replica(broker), 20, 30))
    assert (bases(found), faults(found)) == ([20, 22, 24, 26, 28], [])


def positions(file: Path) -> list[int]:
    return [position for position, _ in walk(file.read_bytes())]


def test_a_wrong_checksum_costs_one_batch(broker: BrokerFiles) -> None:
    (where, after) = positions(broker.segments("t")[0])[2:4]
    flip(broker.segments("t")[0], where + 80)
    found = list(batches(replica(broker), 0, 120))
    assert faults(found) == [("damaged", where, after)]
    assert bases(found) == [base for base in range(0, 120, 2) if base != 4]
    assert bases(list(batches(replica(broker), 0, 120, checks=False))) == list(range(0, 120, 2))


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 0xFF
    file.write_bytes(content)


@pytest.mark.parametrize("byte", [8, 9, 11])
def test_after_a_wrong_length_the_index_shows_the_way(broker: BrokerFiles, byte: int) -> None:
    where = positions(broker.segments("t")[0])[3]
    flip(broker.segments("t")[0], where + byte)
    found = list(batches(replica(broker), 0, 120))
    ((kind, offset, end),) = faults(found)
    assert (kind, offset) == ("damaged", where)
    assert end is not None
    lost = set(range(0, 120, 2)) - set(bases(found))
    assert 6 in lost
    assert len(lost) < 6


@pytest.mark.parametrize(("at", "value"), [(16, 1), (22, 7), (0, 0x7F)])
def test_an_impossible_header_is_damage(broker: BrokerFiles, at: int, value: int) -> None:
    where = positions(broker.segments("t")[0])[3]
    content = bytearray(broker.segments("t")[0].read_bytes())
    content[where + at] = value
    broker.segments("t")[0].write_bytes(content)
    found = list(batches(replica(broker), 0, 120, checks=False))
    assert [fault[1] for fault in faults(found)] == [where]
    assert 6 not in bases(found)


def test_a_missing_segment_is_a_gap(broker: BrokerFiles) -> None:
    lost = broker.segments("t")[1]
    first, following = int(lost.stem), int(broker.segments("t")[2].stem)
    lost.unlink()
    found = list(batches(replica(broker), 0, 120))
    assert faults(found) == [("gap", 0, 0)]
    (fault,) = (one for one in found if isinstance(one, Fault))
    assert f"offsets {first} to {following - 1} are missing" in fault.sentence
    assert fault.sentence.startswith(str(broker.segments("t")[1]))
    assert faults(list(batches(replica(broker), following, 120))) == []
    assert faults(list(batches(replica(broker), first + 1, 120))) == [("gap", 0, 0)]
    before = broker.segments("t")[0].stat().st_size
    assert faults(list(batches(replica(broker), 0, following))) == [("gap", before, None)]


def test_what_compaction_took_is_no_gap(broker: BrokerFiles) -> None:
    broker.segments("t")[1].unlink()
    (broker.root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    assert faults(list(batches(replica(broker), 0, 120))) == []
    (broker.root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    assert [fault[0] for fault in faults(list(batches(replica(broker), 0, 120)))] == ["gap"]


def test_a_torn_end_is_told_only_if_it_is_reached(broker: BrokerFiles) -> None:
    last = broker.segments("t")[-1]
    size = last.stat().st_size
    with last.open("ab") as file:
        file.write(batch([VALUE], offset=120)[:70])
    assert faults(list(batches(replica(broker), 0, 120))) == []
    assert faults(list(batches(replica(broker), 0, 121))) == [("torn", size, None)]
    assert end_of(replica(broker)) == 120


def test_a_file_that_went_away_is_damage(broker: BrokerFiles) -> None:
    found = replica(broker)
    broker.segments("t")[0].unlink()
    first, *_ = batches(found, 0, 120)
    assert isinstance(first, Fault)
    assert (first.damage.kind, first.damage.end) == ("unreadable", None)


@pytest.mark.parametrize("has_index", [True, False])
def test_the_end_is_after_the_last_whole_batch(broker: BrokerFiles, has_index: bool) -> None:
    if not has_index:
        for file in broker.segments("t"):
            file.with_suffix(".index").unlink(missing_ok=True)
    assert end_of(replica(broker)) == 120
    last = broker.segments("t")[-1]
    last.write_bytes(last.read_bytes()[:-1])
    assert end_of(replica(broker)) == 118
