"""What is true inside of the brokers, after every step of each; names are those of the TLA+ model of KIP-966.

    ValidReplicaState           log start, high watermark and ends of a log are in their order
    one leader for each epoch   of every partition
    the high watermark rises    at a leader, within its epoch
    LeaderCompletenessProperty  the leader of the newest epoch has everything below the true high watermark, which is
                                the highest that such a leader had
    what was synced survives    a power cut; and what was written survives the end of a process
    LogMatchingProperty         two replicas have the same bytes below both their high watermarks (`compare`)

What a topic may lose by its settings is told to the judge, and lowers the true high watermark: without `flush.mode`
batch, what the only replica had not synced when its machine lost its power.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from zab.partition.image.cluster_image import INTERNAL
from zab.partition.log.log import BATCH
from zab.partition.log.paths import LOG
from zab.partition.records.batch import HEADER_BYTES, read_header
from zab.partition.replica.replica import Replica
from zab.simulator.brokers.judge import Judge, Key
from zab.simulator.brokers.process import BrokerProcess
from zab.simulator.world.disk import FaultyDisk
from zab.simulator.world.verdict import SafetyError, demand

MAY_STOP: Final = ("the logs cannot be read: [Errno",)
"""Reasons for which a broker may stop by itself: its disk failed."""


@attrs.frozen
class _Left:
    """What a log had when its process ended."""

    written_end: int
    synced_end: int
    with_power: bool


class Observer:
    """See the docstring of the module."""

    def __init__(self, judge: Judge, replicas: Mapping[str, int]) -> None:
        """`replicas`: how many the partitions of each topic have."""
        self.judge = judge
        self.true_marks: dict[Key, int] = {}
        """The highest high watermark that a leader had."""
        self.leaders: dict[tuple[Key, int], int] = {}
        """The broker that led in an epoch."""
        self.newest: dict[str, bytes] = {}
        """The id of the newest topic of each name that a broker had a replica of."""
        self._ids: set[bytes] = set()
        self._replicas = replicas
        self._newest_epochs: dict[Key, int] = {}
        self._left: dict[tuple[int, Key], _Left] = {}
        self._seen: dict[tuple[int, Key], tuple[object, int, int]] = {}
        """The log, the epoch and the high watermark of each replica after the last step."""

    def count(self, what: str, number: int = 1) -> None:
        self.judge.counts[what] += number

    def stepped(self, process: BrokerProcess) -> None:
        """See `Watcher`."""
        for replica in process.broker.replicas:
            if replica.topic not in INTERNAL:
                self._look_at(process, replica)

    def _look_at(self, process: BrokerProcess, replica: Replica) -> None:
        log, key = replica.log, (bytes(replica.topic_id), replica.index)
        if key[0] not in self._ids:
            self._ids.add(key[0])
            self.newest[replica.topic] = key[0]
        marks = (log.log_start, log.high_watermark, log.log_end)
        if not 0 <= marks[0] <= marks[1] <= marks[2] or not log.synced_end <= log.written_end <= log.log_end:
            raise SafetyError("ValidReplicaState", f"{_name(process, replica)}: {marks}, {log.written_end}")
        where = (process.sid, key)
        seen = self._seen.get(where)
        if seen is None or seen[0] is not log:
            self._first_seen(process, replica, key)
        leader = replica.leader
        epoch = -1 if leader is None else leader.epoch
        if leader is not None:
            self._look_at_leader(process, replica, key, epoch)
            if seen is not None and seen[0] is log and seen[1] == epoch and log.high_watermark < seen[2]:
                text = f"{_name(process, replica)}: {log.high_watermark} after {seen[2]}"
                raise SafetyError("the high watermark rises", text)
        self._seen[where] = (log, epoch, log.high_watermark)

    def _look_at_leader(self, process: BrokerProcess, replica: Replica, key: Key, epoch: int) -> None:
        known = self.leaders.setdefault((key, epoch), process.sid)
        if known != process.sid:
            text = f"{_name(process, replica)} leads epoch {epoch}, as broker {known} did"
            raise SafetyError("one leader for each epoch", text)
        newest = self._newest_epochs[key] = max(epoch, self._newest_epochs.get(key, epoch))
        if epoch < newest:
            # It does not know yet that it has been deposed.
            return
        log, mark = replica.log, self.true_marks.get(key, 0)
        if log.log_end < mark and log.failure is None:
            text = f"{_name(process, replica)} leads epoch {epoch} and ends at {log.log_end}, below {mark}"
            raise SafetyError("LeaderCompletenessProperty", text)
        if log.high_watermark > mark:
            self.true_marks[key] = log.high_watermark

    # ------------------------------------------------------------------------------------------------ ends and restarts

    def stopped(self, process: BrokerProcess, *, with_power: bool) -> None:
        """See `Watcher`."""
        self.count("stops with power" if with_power else "stops")
        if with_power:
            for (sid, key), left in self._left.items():
                if sid == process.sid:
                    self._left[sid, key] = attrs.evolve(left, with_power=True)
        for replica in process.broker.replicas:
            log, key = replica.log, (bytes(replica.topic_id), replica.index)
            self._left[process.sid, key] = _Left(log.written_end, log.synced_end, with_power)

    def gave_up(self, process: BrokerProcess, reason: str) -> None:
        """See `Watcher`."""
        demand(reason.startswith(MAY_STOP), "no broker stops by itself", f"broker {process.sid}: {reason}")

    def _first_seen(self, process: BrokerProcess, replica: Replica, key: Key) -> None:
        """A replica after a start: what has its log kept?"""
        left = self._left.pop((process.sid, key), None)
        if left is None:
            return
        log = replica.log
        kept = left.synced_end if left.with_power else left.written_end
        if log.log_end < kept:
            text = f"{_name(process, replica)} ends at {log.log_end} after a restart, {kept} were stored"
            raise SafetyError("what was stored survives", text)
        if self._replicas[replica.topic] == 1 and left.with_power and log.settings.flush_mode != BATCH:
            self.judge.lost(key, log.log_end)
            self.true_marks[key] = min(self.true_marks.get(key, 0), log.log_end)

    # ------------------------------------------------------------------------------------------------------ comparisons

    def compare(self, processes: Iterable[BrokerProcess], *, whole: bool = False) -> None:
        """Compare the replicas of every partition, below both high watermarks or, with `whole`, to their ends."""
        first: dict[Key, tuple[BrokerProcess, Replica, bytes]] = {}
        for process in processes:
            for replica in process.broker.replicas:
                if replica.log.failure is not None:
                    continue
                key = (bytes(replica.topic_id), replica.index)
                if replica.log.settings.is_compacted:
                    # Each replica compacts for itself.
                    continue
                data = content(process.machine.disk, replica)
                if key not in first:
                    first[key] = (process, replica, data)
                    continue
                other, other_replica, other_data = first[key]
                names = f"{_name(process, replica)} and broker {other.sid}"
                if whole:
                    ends = (replica.log.log_end, other_replica.log.log_end)
                    sizes = f"{names}: {len(data)}, {len(other_data)} bytes, ends {ends}"
                    demand(data == other_data, "replicas are equal", sizes)
                    continue
                mark = min(replica.log.high_watermark, other_replica.log.high_watermark)
                one, two = prefix(data, mark), prefix(other_data, mark)
                size = min(len(one), len(two))
                demand(one[:size] == two[:size], "LogMatchingProperty", f"{names} differ below {mark}")
                self.count("replicas compared")


def prefix(data: bytes, mark: int) -> bytes:
    """The whole batches below an offset. What is being written may be cut anywhere."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        header = read_header(data, at)
        if header.last_offset >= mark or at + header.size_bytes > len(data):
            break
        at += header.size_bytes
    return data[:at]


def content(disk: FaultyDisk, replica: Replica) -> bytes:
    """The bytes of all segments of a log."""
    directory = replica.log.directory
    names = [name for name in disk.list(directory) if name.endswith(LOG)]
    return b"".join(disk.read(f"{directory}/{name}") for name in names)


def _name(process: BrokerProcess, replica: Replica) -> str:
    return f"{replica.topic}-{replica.index} of broker {process.sid}"
