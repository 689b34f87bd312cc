"""A while of brokers' lives: clients load them, faults happen, then everything is judged.

    python -m tests.chaos.brokers.run --directory D [--seconds 600] [--seed 1]

The same faults in the same order for a seed; the processes, the disks and the scheduler are real, so a run is not
repeated exactly. Under `rigs.namespaces.IN_A_NAMESPACE`, with `--machines`, each process has a machine of its own, and
networks fail, too. Prints counts; exit code 1 if anything that clients were told does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.brokers.checker import check
from tests.chaos.brokers.clients import (
    QUICK,
    Answerer,
    Client,
    GroupMember,
    Reader,
    Sender,
    Transactor,
    start,
    stop,
    without_progress,
)
from tests.chaos.brokers.cluster import SIZE, Cluster, cluster
from tests.chaos.brokers.faults import Faults
from tests.chaos.brokers.history import History, Outcome, Partition, Record
from tests.chaos.brokers.recording import Recording
from tests.chaos.checker import Violation
from tests.chaos.faults import can_mount, small_disk
from tests.rigs.namespaces import Namespaces, namespaces
from tests.rigs.waiting import PATIENCE_SECONDS

WORDS: Final = [("words", index) for index in range(3)]
ANSWERS: Final = [("answers", index) for index in range(2)]
DISK_MIB: Final = 256
TOPIC: Final = {"min.insync.replicas": "2"}
SHOWN: Final = 5
"""Violations of one rule that are told."""


@frozen(kw_only=True)
class Report:
    """What happened, and what was wrong with it."""

    history: History
    violations: list[Violation]
    complaints: list[str]
    errors: dict[str, int]
    happened: list[str]
    kill_count: int
    failovers: list[float]
    unwritable: list[float]
    """How long after its leader was taken away no write to a partition was acknowledged to anybody, in seconds."""

    @property
    def is_good(self) -> bool:
        return not self.violations and not self.complaints

    def __str__(self) -> str:
        sends, ends = self.history.sends, [each.outcome for each in self.history.transactions]
        polled = sum(len(poll.records) for poll in self.history.polls)
        by_rule: dict[str, list[str]] = defaultdict(list)
        for violation in self.violations:
            by_rule[violation.rule].append(str(violation))
        lines = [
            f"{len(sends)} sends, {sum(send.outcome is Outcome.OK for send in sends)} acknowledged; {polled} polled",
            f"{len(ends)} transactions, {ends.count(Outcome.OK)} committed, {ends.count(Outcome.FAIL)} aborted",
            f"{len(self.history.commits)} commits of groups, {len(self.history.committed)} asked for",
            f"{len(self.happened)} faults, {self.kill_count} kills",
            f"without a leader: {_quantiles(self.failovers)}",
            f"no write acknowledged after the end of a leader: {_quantiles(self.unwritable)}",
            *self.happened,
            *(f"{count} times {error}" for error, count in sorted(self.errors.items())),
            f"{len(self.violations)} violations",
            *(text for rule in sorted(by_rule) for text in by_rule[rule][:SHOWN]),
            f"{len(self.complaints)} complaints",
            *self.complaints,
        ]
        return "\n".join(lines)


def _quantiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return f"{len(seconds)} times"
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return f"{len(seconds)} times, median {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s, at most {max(seconds):.2f} s"


def run(found: Cluster, *, seconds: float, seed: int, disk: Path | None = None, only: Sequence[str] = ()) -> Report:
    """Load, faults for so long, the last reading, the verdict. The brokers are stopped then."""
    recording = Recording()
    _create(found)
    clients = _clients(recording, found.bootstrap, seed)
    faults = Faults(found, random.Random(seed), WORDS[0][0], disk, only)
    start(clients)
    try:
        recording.complaints += without_progress(clients, PATIENCE_SECONDS)
        faults.run(seconds)
        recording.complaints += without_progress(clients, PATIENCE_SECONDS)
    finally:
        recording.complaints += stop(clients)
    _wait_for_replicas(found)
    ends = last_reading(found.bootstrap, [*WORDS, *ANSWERS])
    for broker in found.brokers.values():
        broker.ask_to_end()
    for broker in found.brokers.values():
        broker.stop()
    history = recording.history(ends, {where: _digests(found, where) for where in ends})
    return Report(
        history=history,
        violations=check(history),
        complaints=recording.complaints,
        errors=recording.errors,
        happened=faults.happened,
        kill_count=faults.kill_count,
        failovers=faults.failovers,
        unwritable=_unwritable(history, faults),
    )


def _create(found: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": found.bootstrap})
    wanted = [NewTopic(topic, count, SIZE, config=TOPIC) for topic, count in (("words", 3), ("answers", 2))]
    for made in admin.create_topics(wanted).values():
        made.result(PATIENCE_SECONDS)
    _wait_for_replicas(found)


def _wait_for_replicas(found: Cluster) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not found.is_whole(SIZE):
        assert time.monotonic() < deadline, f"not all replicas are in sync: {found.view()}"
        time.sleep(0.1)


def _clients(recording: Recording, bootstrap: str, seed: int) -> list[Client]:
    def shared(name: str) -> tuple[str, Recording, str, int]:
        return name, recording, bootstrap, seed

    return [
        Sender(*shared("s1"), partitions=WORDS, is_idempotent=True, gap_seconds=0.01),
        Sender(*shared("s2"), partitions=WORDS, is_idempotent=True, gap_seconds=0.02),
        Sender(*shared("s3"), partitions=WORDS, is_idempotent=False, gap_seconds=0.05),
        Transactor(*shared("t1"), partitions=[*WORDS, *ANSWERS]),
        Transactor(*shared("t2"), partitions=WORDS),
        Reader(*shared("r1"), partitions=[*WORDS, *ANSWERS], is_committed=True),
        Reader(*shared("r2"), partitions=WORDS, is_committed=False),
        GroupMember(*shared("g1"), group="g", topics=["words"]),
        GroupMember(*shared("g2"), group="g", topics=["words"]),
        Answerer(*shared("a1"), group="a", topics=["words"], answers=ANSWERS),
    ]


def last_reading(bootstrap: str, partitions: Sequence[Partition]) -> dict[Partition, tuple[Record, ...]]:
    """Everything with read_committed, to the high watermarks: open transactions have to end before."""
    options = {"group.id": "last", "enable.partition.eof": True, "isolation.level": "read_committed", **QUICK}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options})
    places = [TopicPartition(topic, index, 0) for topic, index in partitions]
    marks = {(each.topic, each.partition): consumer.get_watermark_offsets(each, 30)[1] for each in places}
    consumer.assign(places)
    found: dict[Partition, list[Record]] = {partition: [] for partition in partitions}
    waiting = {partition for partition, mark in marks.items() if mark}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while waiting:
        assert time.monotonic() < deadline, f"{waiting} cannot be read to {marks}"
        for message in consumer.consume(500, 0.2):
            where, error = (message.topic() or "", message.partition() or 0), message.error()
            if error is None:
                found[where].append(Record(where, message.offset() or 0, (message.value() or b"").decode()))
            elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= marks[where]:
                waiting.discard(where)
    consumer.close()
    return {partition: tuple(records) for partition, records in found.items()}


def _digests(found: Cluster, partition: Partition) -> dict[str, bytes]:
    name = f"{partition[0]}-{partition[1]}"
    digests = {}
    for broker in found.brokers.values():
        digest = hashlib.sha256()
        for path in sorted((broker.logs_directory / name).glob("*.log")):
            digest.update(path.read_bytes())
        digests[f"broker {broker.broker_id}"] = digest.digest()
    return digests


def _unwritable(history: History, faults: Faults) -> list[float]:
    """For each partition and each end of its leader: until a record was acknowledged that was sent after it."""
    acknowledged = sorted((s.end, s.start, s.partition) for s in history.sends if s.outcome is Outcome.OK)
    found = []
    for begin, partitions in faults.begun:
        for partition in {*partitions}.intersection([*WORDS, *ANSWERS]):
            ends = (end for end, start, where in acknowledged if where == partition and start > begin)
            end = next(ends, None)
            if end is not None:
                found.append(end - begin)
    return found


@contextlib.contextmanager
def _surroundings(directory: Path, *, has_machines: bool) -> Iterator[tuple[Namespaces | None, Path | None]]:
    """The network, and the small disk of broker 3, where they can be had."""
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(namespaces(2 * SIZE)) if has_machines else None
        place = directory / "broker3"
        disk = place if can_mount(place) else None
        if disk is not None:
            stack.enter_context(small_disk(disk, DISK_MIB))
        yield net, disk


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0, help="0: any")
    parser.add_argument("--machines", action="store_true", help="each process has one of its own (`rigs.namespaces`)")
    parser.add_argument("--only", nargs="*", default=[], help="these faults alone (`faults`)")
    parser.add_argument("--faulty", help="brokers with this fault (`faulty`)")
    given = parser.parse_args()
    seed = given.seed or random.SystemRandom().randrange(1, 1_000_000)
    program = ("-m", "zab.broker") if given.faulty is None else ("-m", "tests.chaos.brokers.faulty", given.faulty)
    print(f"seed {seed}", flush=True)
    given.directory.mkdir(parents=True, exist_ok=True)
    with (
        _surroundings(given.directory, has_machines=given.machines) as (net, disk),
        cluster(given.directory, net, program) as found,
    ):
        report = run(found, seconds=given.seconds, seed=seed, disk=disk, only=given.only)
    print(report)
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
