"""Clients load brokers to which faults happen, then everything is judged: see `nodes.run`.

python -m tests.chaos.brokers.run --directory D [--seconds 600] [--seed 1]
"""

from __future__ import annotations

import hashlib
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Final

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
from tests.chaos.brokers.cluster import SIZE, Brokers
from tests.chaos.brokers.faults import BrokerFaults
from tests.chaos.brokers.history import History, Outcome, Partition, Record
from tests.chaos.brokers.recording import Recording
from tests.chaos.nodes.run import Given, Report, main
from tests.rigs.waiting import PATIENCE_SECONDS

WORDS: Final = [("words", index) for index in range(3)]
ANSWERS: Final = [("answers", index) for index in range(2)]
TOPIC: Final = {"min.insync.replicas": "2"}


def _quantiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return f"{len(seconds)} times"
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return f"{len(seconds)} times, median {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s, at most {max(seconds):.2f} s"


def run(found: Brokers, given: Given) -> Report:
    """Load, faults for so long, the last reading, the verdict. The brokers are stopped then."""
    recording = Recording()
    _create(found)
    clients = _clients(recording, found.bootstrap, given.seed)
    faults = given.faults(BrokerFaults, found, topic=WORDS[0][0])
    start(clients)
    try:
        recording.complaints += without_progress(clients, PATIENCE_SECONDS)
        faults.run(given.seconds)
        recording.complaints += without_progress(clients, PATIENCE_SECONDS)
    finally:
        recording.complaints += stop(clients)
    _wait_for_replicas(found)
    ends = last_reading(found.bootstrap, [*WORDS, *ANSWERS])
    for broker in found.nodes.values():
        broker.ask_to_end()
    for broker in found.nodes.values():
        broker.stop()
    history = recording.history(ends, {where: _digests(found, where) for where in ends})
    unwritable = _quantiles(_unwritable(history, faults))
    return Report(
        counts=_counts(history),
        faults=faults,
        measured=[
            f"without a leader: {_quantiles(faults.failovers)}",
            f"no write acknowledged after the end of a leader: {unwritable}",
        ],
        errors=recording.errors,
        violations=check(history),
        complaints=recording.complaints,
    )


def _counts(history: History) -> list[str]:
    sends, ends = history.sends, [each.outcome for each in history.transactions]
    polled = sum(len(poll.records) for poll in history.polls)
    return [
        f"{len(sends)} sends, {sum(send.outcome is Outcome.OK for send in sends)} acknowledged; {polled} polled",
        f"{len(ends)} transactions, {ends.count(Outcome.OK)} committed, {ends.count(Outcome.FAIL)} aborted",
        f"{len(history.commits)} commits of groups, {len(history.committed)} asked for",
    ]


def _create(found: Brokers) -> None:
    admin = AdminClient({"bootstrap.servers": found.bootstrap})
    wanted = [NewTopic(topic, count, SIZE, config=TOPIC) for topic, count in (("words", 3), ("answers", 2))]
    for made in admin.create_topics(wanted).values():
        made.result(PATIENCE_SECONDS)
    _wait_for_replicas(found)


def _wait_for_replicas(found: Brokers) -> None:
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


def _digests(found: Brokers, partition: Partition) -> dict[str, bytes]:
    name = f"{partition[0]}-{partition[1]}"
    digests = {}
    for broker in found.nodes.values():
        digest = hashlib.sha256()
        for path in sorted((broker.logs_directory / name).glob("*.log")):
            digest.update(path.read_bytes())
        digests[f"broker {broker.number}"] = digest.digest()
    return digests


def _unwritable(history: History, faults: BrokerFaults) -> list[float]:
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


if __name__ == "__main__":
    sys.exit(main(Brokers, run, "tests.chaos.brokers.faulty"))
