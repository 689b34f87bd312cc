"""Kafka's own reader of logs, on the files of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.downloads.kafka import kafka_tool
from tests.partition.log.rig import NOW, TOPIC_ID, Stored, batch, marker, produced, settings
from zab.host.storage.disk import RealDisk
from zab.partition.log.checkpoints import MetaProperties, TopicPartition
from zab.partition.log.directory import LOCK_FILE, LogDirectory
from zab.partition.log.files import Files
from zab.partition.log.log import Log

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

DUMP = "kafka.tools.DumpLogSegments"
WHERE = TopicPartition("events", 0)
COMPLAINTS = re.compile(r"mismatch|not found|out of order|isvalid: false|corrupt", re.IGNORECASE)


def written(root: Path) -> Log:
    """A log with five segments and all that can be in them, after a clean stop."""
    disk = RealDisk(str(root), lock_file=LOCK_FILE)
    directory = LogDirectory(disk, MetaProperties(1, "wfqzMqd6QDSiMXZHuGfvPA"))
    config = settings(segment_bytes=20_000, index_interval_bytes=300)
    stored = Stored(disk, Files(disk), directory.create(WHERE, TOPIC_ID, config, NOW))
    for number in range(300):
        epoch = number // 60
        stored.append(batch([b"v" * 40] * 3, timestamp=NOW + number * 13 - (number % 5) * 40), epoch=epoch)
        stored.append(produced(7, 0, number * 2, 2, timestamp=NOW + number), epoch=epoch)
        if number % 10 == 0:
            stored.append(produced(8, 0, number // 10, transactional=True), epoch=epoch, verified=True)
        if number % 20 == 5:
            stored.append(marker(8, 0, commits=number % 40 == 5), epoch=epoch)
        stored.store()
    stored.commit()
    stored.log.close()
    stored.store()
    stored.files.perform(directory.clean_shutdown({WHERE: stored.log}))
    stored.files.close()
    disk.close()
    return stored.log


def files_of(root: Path) -> str:
    found = sorted(map(str, (root / str(WHERE)).glob("0*")))
    assert {path.rpartition(".")[2] for path in found} == {"log", "index", "timeindex", "txnindex", "snapshot"}
    return ",".join(found)


def test_kafka_reads_every_file_and_finds_nothing_wrong(tmp_path):
    log = written(tmp_path)
    files = files_of(tmp_path)
    dumped = kafka_tool(DUMP, "--deep-iteration", "--files", files)
    assert not COMPLAINTS.search(dumped)
    assert dumped.count("isvalid: true") == 300 * 2 + 30 + 15
    last = re.findall(r"baseOffset: (\d+) lastOffset: (\d+).*partitionLeaderEpoch: (\d+)", dumped)[-1]
    assert (int(last[1]) + 1, int(last[2])) == (log.log_end, log.latest_epoch)
    entries = sum(len(index or ()) for index in (segment.offsets for segment in log.segments))
    assert dumped.count("position: ") - dumped.count("isvalid: true") >= entries
    aborted = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", dumped)
    assert [(int(each[1]), int(each[2])) for each in aborted] == [
        (each.first_offset, each.last_offset) for each in log.aborted_transactions(0, log.log_end)
    ]
    assert re.findall(r"producerId: (\d).* lastSequence: (\d+) lastOffset", dumped)[-2:] == [("7", "599"), ("8", "29")]
    assert not COMPLAINTS.search(kafka_tool(DUMP, "--verify-index-only", "--files", files))
    sane = kafka_tool(DUMP, "--index-sanity-check", "--files", files)
    assert sane.count("passed sanity check") == 2 * len(log.segments)


def test_kafka_sees_an_index_that_is_wrong(tmp_path):
    """The check can fail."""
    written(tmp_path)
    path = tmp_path / str(WHERE) / f"{0:020d}.index"
    data = bytearray(path.read_bytes())
    data[3] += 1
    path.write_bytes(data)
    assert COMPLAINTS.search(kafka_tool(DUMP, "--verify-index-only", "--files", files_of(tmp_path)))
