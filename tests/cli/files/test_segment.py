"""`zab segment`: what is in the files of a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Run, run
from tests.cli.json_page import table
from tests.partition.log.rig import NOW, TOPIC_ID, Stored, batch, marker, produced, settings
from zab.host.storage.disk import RealDisk
from zab.partition.log.checkpoints import MetaProperties, TopicPartition
from zab.partition.log.directory import LOCK_FILE, LogDirectory
from zab.partition.log.files import Files

__all__ = ["run"]

FIELDS = table("Lines of `zab segment`")
WHERE = TopicPartition("events", 0)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory after a clean stop, with all kinds of files."""
    root = tmp_path_factory.mktemp("logs")
    disk = RealDisk(str(root), lock_file=LOCK_FILE)
    directory = LogDirectory(disk, MetaProperties(1, "wfqzMqd6QDSiMXZHuGfvPA"))
    config = settings(segment_bytes=2_000, index_interval_bytes=100)
    stored = Stored(disk, Files(disk), directory.create(WHERE, TOPIC_ID, config, NOW))
    for number in range(20):
        stored.append(batch([b"value", b"\xff"], timestamp=NOW + number), epoch=number // 10)
        stored.append(produced(7, 0, number * 2, 2, timestamp=NOW + number), epoch=number // 10)
        stored.append(produced(8, 0, number, transactional=True), epoch=number // 10, verified=True)
        stored.append(marker(8, 0, commits=number % 2 == 0), epoch=number // 10)
        stored.store()
    stored.commit()
    logs = {WHERE: stored.log}
    stored.files.perform([directory.save_recovery_points(logs), directory.save_high_watermarks(logs)])
    stored.log.close()
    stored.store()
    stored.files.perform(directory.clean_shutdown(logs))
    stored.files.close()
    disk.close()
    return root


def files(root: Path) -> list[Path]:
    return sorted(each for each in root.rglob("*") if each.is_file() and not each.name.startswith("."))


def first_log(root: Path) -> Path:
    return root / str(WHERE) / f"{0:020d}.log"


def test_every_file_is_printed_with_the_fields_of_the_page(root: Path, run: Run) -> None:
    assert run("segment", "--json", "--records", *files(root)) == 0, run.err
    lines = [json.loads(line) for line in run.out.splitlines()]
    assert {line["type"] for line in lines} == FIELDS.keys()
    for line in lines:
        assert list(line) == FIELDS[line["type"]]
    batches = [line for line in lines if line["type"] == "batch"]
    assert [line["marker"] for line in batches if line["marker"]] == ["commit", "abort"] * 10
    assert batches[0]["position"] == 0
    assert sum(line["record_count"] for line in batches) == batches[-1]["last_offset"] + 1
    records = [line for line in lines if line["type"] == "record"]
    assert [(line["value"], line["value_encoding"]) for line in records[:2]] == [("value", "utf-8"), ("/w==", "base64")]
    assert len([line for line in lines if line["type"] == "aborted"]) == 10


def test_the_text_names_what_is_zero(root: Path, run: Run) -> None:
    assert run("segment", first_log(root)) == 0
    assert run.out.startswith("batch    position 0  bytes ")
    assert "  base_offset 0  last_offset 1  record_count 2  leader_epoch 0  " in run.out.splitlines()[0]
    assert "record " not in run.out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:-1], "of which"),
        (lambda data: data + b"\0" * 11 + b"x", "no whole header"),
        (lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], "position 81: batch has CRC-32C"),
        (lambda data: data[:8] + b"\x7f\xff\xff\xff" + data[12:], "a batch of 2147483659 bytes"),
    ],
    ids=["cut", "a piece", "a flipped bit", "a length that lies"],
)
def test_damage_is_told_with_its_position_after_what_can_be_read(
    root: Path, run: Run, tmp_path: Path, change, reason: str
) -> None:
    path = tmp_path / first_log(root).name
    path.write_bytes(change(first_log(root).read_bytes()))
    assert run("segment", path) == 1
    assert run.err.startswith(f"zab: {path}: position ")
    assert reason in run.err


def test_space_that_is_reserved_is_no_damage(root: Path, run: Run, tmp_path: Path) -> None:
    path = tmp_path / first_log(root).name
    path.write_bytes(first_log(root).read_bytes() + bytes(5_000))
    assert run("segment", "--json", path) == 0
    assert run("segment", "--json", first_log(root)) == 0


def test_a_file_that_cannot_be_read_does_not_stop_the_others(root: Path, run: Run, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("x")
    index = tmp_path / f"{0:020d}.index"
    index.write_bytes(b"abc")
    assert run("segment", "--json", other, index, root / "meta.properties") == 1
    assert (
        run.err == f"zab: {other}: no file of a broker has such a name\nzab: {index}: 3 bytes are not whole entries\n"
    )
    assert json.loads(run.out)["broker_id"] == 1
