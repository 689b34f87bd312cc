"""The real cleaner of Kafka 3.9.1 on copies of our logs: what it leaves is what ours leaves, byte by byte."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from tests.downloads.kafka import kafka_jars
from tests.partition.log.compaction import COMPACTED, compact, keyed
from tests.partition.log.rig import DIRECTORY, NOW, Stored, marker
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS
from zab.host.storage.disk import RealDisk
from zab.partition.log.checkpoints import format_partition_metadata
from zab.partition.log.files import Files
from zab.partition.log.log import Log
from zab.partition.log.recovery import Marks, recover
from zab.partition.records.batch import Codec
from zab.partition.settings.topic_settings import TopicSettings

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "clients" / "KafkaCleaner.java"
DAY_MS = 86_400_000
SMALL: dict[str, Any] = {**COMPACTED, "segment_bytes": 600}


def written(root: Path, seed: int) -> int:
    """A log with keys, tombstones, producers, transactions, epochs; closed. Its end."""
    disk, rng = RealDisk(str(root)), Random(seed)
    log = Log.create(disk, DIRECTORY, TopicSettings(**SMALL), format_partition_metadata(bytes(range(16))), NOW)
    stored = Stored(disk, Files(disk), log)
    sequences = {1: 0, 2: 0}
    for number in range(60):
        pairs = [
            (b"%d" % rng.randrange(6) if rng.random() < 0.95 else None, rng.randbytes(rng.randrange(30)))
            for _ in range(rng.randrange(1, 4))
        ]
        pairs = [(key, None if key is not None and rng.random() < 0.3 else value) for key, value in pairs]
        time = NOW + rng.randrange(1000)
        what = rng.random()
        if what < 0.4:
            stored.add(keyed(pairs, timestamp=time, codec=Codec.NONE), epoch=number // 20)
            continue
        producer = rng.choice([1, 2])
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences[producer]}
        is_transactional = producer == 1
        stored.add(
            keyed(pairs, timestamp=time, is_transactional=is_transactional, **fields), epoch=number // 20, verified=True
        )
        sequences[producer] += len(pairs)
        if is_transactional:
            stored.add(marker(1, 0, commits=rng.random() < 0.6, timestamp=time), epoch=number // 20)
    stored.add(keyed([(b"end", bytes(500))]), epoch=3)
    stored.log.close()
    stored.store()
    stored.files.close()
    disk.close()
    return stored.log.log_end


def ours(root: Path, end: int, now: int) -> None:
    disk = RealDisk(str(root))
    settings = attrs.evolve(TopicSettings(**SMALL), segment_bytes=1 << 30)
    found = recover(disk, DIRECTORY, settings, Marks(end, 0, end), is_clean=True, now_ms=NOW)
    stored = Stored(disk, Files(disk), found.log)
    assert compact(stored, now, piece_bytes=1 << 20)
    stored.log.close()
    stored.store()
    stored.files.close()
    disk.close()


def theirs(root: Path, now: int) -> None:
    command = ["java", "-Xmx256m", *QUICK, "-classpath", f"{kafka_jars()}/*", str(PROGRAM)]
    command += [str(root / DIRECTORY), "0", str(now)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG_PATIENCE_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr


def logs_in(root: Path) -> dict[str, bytes]:
    files = [path for path in (root / DIRECTORY).iterdir() if path.suffix in (".log", ".txnindex")]
    return {path.name: path.read_bytes() for path in files if path.stat().st_size}


@pytest.mark.parametrize("seed", [1, 2])
def test_three_rounds_leave_the_same_bytes(tmp_path: Path, seed: int) -> None:
    end = written(tmp_path / "ours", seed)
    before = sum(map(len, logs_in(tmp_path / "ours").values()))
    for now in (NOW + 1000, NOW + 2000, NOW + 2 * DAY_MS):
        shutil.rmtree(tmp_path / "theirs", ignore_errors=True)
        shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
        theirs(tmp_path / "theirs", now)
        ours(tmp_path / "ours", end, now)
        assert logs_in(tmp_path / "ours") == logs_in(tmp_path / "theirs")
    assert sum(map(len, logs_in(tmp_path / "ours").values())) < before / 2
