"""What is measured of brokers under load: the cells, and one run of `records.c` for one of them.

A cell is a request (produce or fetch), what a batch has in it, connections x requests in flight, the replicas of the
topic, and whether the brokers sync what they acknowledge. Kafka syncs with `flush.messages=1`, zab with
`flush.mode=batch`, which syncs once for all that arrived together.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.brokers.sides import Side
from bench.cells import BUILD
from bench.process_tree import user_and_system_seconds

PARTITIONS = 4
VALUE_BYTES = 100
RECORD_BYTES = 110
WARMUP_SECONDS = 0.5
_SYNCED = {"Kafka": {"flush.messages": "1"}, "zab": {"flush.mode": "batch"}}


@dataclass(frozen=True)
class Cell:
    """`records` of `size` bytes a batch; of a fetch, `fetched_bytes` at a time from a topic of such batches."""

    op: str
    records: int
    connections: int
    flight: int
    replicas: int = 1
    is_synced: bool = False
    size: int = VALUE_BYTES
    fetched_bytes: int = 0

    @property
    def key(self) -> str:
        """How `--cells` names it."""
        amount = self.fetched_bytes or self.records
        synced = ":synced" if self.is_synced else ""
        return f"{self.op}:{amount}:{self.connections}x{self.flight}:{self.replicas}{synced}"

    @property
    def title(self) -> str:
        what = f"{self.records:,} x {self.size} B a request" if not self.fetched_bytes else _size(self.fetched_bytes)
        acks = ", acks=all" if self.op == "produce" and self.replicas > 1 else ""
        synced = ", synced" if self.is_synced else ""
        return f"{self.op} {what}, {self.connections} x {self.flight}{acks}{synced}"

    @property
    def topic(self) -> str:
        return self.key.replace(":", "-")


@dataclass(frozen=True)
class Result:
    """One run: requests a second, bytes a second, latencies in microseconds, the processor time of the brokers in
    seconds a second, requests that were refused."""

    per_second: float
    bytes_per_second: float
    p50_us: float
    p99_us: float
    cpu: float
    errors: int


ONE_BROKER = (
    Cell("produce", 1, 1, 1),
    Cell("produce", 1, 8, 64),
    Cell("produce", 1, 8, 64, is_synced=True),
    Cell("produce", 148, 8, 16),
    Cell("produce", 148, 8, 16, is_synced=True),
    Cell("produce", 1190, 4, 8),
    Cell("fetch", 148, 4, 1, fetched_bytes=16 << 10),
    Cell("fetch", 148, 4, 1, fetched_bytes=1 << 20),
)
THREE_BROKERS = (
    Cell("produce", 1, 1, 1, 3),
    Cell("produce", 1, 1, 1, 3, is_synced=True),
    Cell("produce", 148, 8, 16, 3),
    Cell("fetch", 148, 4, 1, 3, fetched_bytes=1 << 20),
)
_FILLED_RECORDS = 148 * 2_000


def prepare(cell: Cell, side: Side) -> None:
    """The cell's topic, with something in it to fetch."""
    settings = {"min.insync.replicas": str(min(2, cell.replicas)), "retention.bytes": str(1 << 30)}
    side.create_topic(cell.topic, PARTITIONS, cell.replicas, settings | (_SYNCED[side.name] if cell.is_synced else {}))
    if cell.op == "fetch":
        _fill(cell.topic, side, cell.records, _FILLED_RECORDS // cell.records)


def fill(topic: str, side: Side, size_bytes: int) -> None:
    """Make a topic, unless it is there, and write so many bytes more."""
    records = 1_190
    if topic not in side.topics():
        side.create_topic(topic, PARTITIONS, len(side.brokers), {})
    _fill(topic, side, records, size_bytes // PARTITIONS // (records * RECORD_BYTES))


def _fill(topic: str, side: Side, records: int, each: int) -> None:
    """Write so many batches into each partition."""
    options = {"op": "produce", "records": records, "connections": PARTITIONS, "flight": 4}
    _run(topic, side, {**options, "size": VALUE_BYTES, "acks": -1, "warmup": 0, "operations": each})


def run(cell: Cell, side: Side, seconds: float) -> Result:
    """One run of so many seconds. Raises CalledProcessError where a connection fails."""
    options: dict[str, object] = {"op": cell.op, "connections": cell.connections, "flight": cell.flight}
    if cell.op == "produce":
        options |= {"records": cell.records, "size": cell.size, "acks": -1 if cell.replicas > 1 else 1}
    else:
        step = max(1, cell.fetched_bytes // RECORD_BYTES)
        options |= {"bytes": cell.fetched_bytes, "step": step, "end": _FILLED_RECORDS - step}
    return _run(cell.topic, side, {**options, "warmup": WARMUP_SECONDS, "seconds": seconds})


def _run(topic: str, side: Side, options: Mapping[str, object]) -> Result:
    leaders = ",".join(f"{address}/{number}" for number, address in sorted(side.leaders(topic).items()))
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [str(BUILD / "records"), "--topic", topic, "--leaders", leaders, *words]
    before = _cpu_seconds(side)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    # The processor's time is that of the warm-up, too, which has the same load.
    whole_seconds = answer["seconds"] + float(str(options["warmup"]))
    return Result(
        answer["per_second"],
        answer["bytes"] / answer["seconds"],
        answer["p50_us"],
        answer["p99_us"],
        (_cpu_seconds(side) - before) / whole_seconds,
        answer["errors"],
    )


def _cpu_seconds(side: Side) -> float:
    return sum(sum(user_and_system_seconds(broker.pid)) for broker in side.brokers)


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
