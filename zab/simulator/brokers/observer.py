"""What is true inside of the brokers, after every step of each; names are those of the TLA+ model of KIP-966.

    ValidReplicaState           log start, high watermark and ends of a log are in their order; a leader has noted
                                that its epoch has begun
    ValidFetcherState           who leads copies from nobody
    one leader for each epoch   of every partition
    the high watermark rises    at a leader, within its epoch
    LeaderCompletenessProperty  the leader of the newest epoch has everything below the true high watermark; nothing is
                                acknowledged with acks=all above it
    MetadataLogMatchingProperty brokers that know the same partition epoch know the same state
    a new topic is empty        whatever topics of its name there were before
    what was stored survives    what was synced a power cut, what was written the end of a process
    the last stable offset      is the first offset of a transaction that is open, or ends at the mark or above
    LogMatchingProperty         two replicas have the same bytes below both their high watermarks (`compare`)

The true high watermark is the largest offset below which everything ever was stored on the whole maximal in-sync set of
a leader, in its epoch, with min.insync.replicas in sync; whether the leader has heard of it or not.

What a topic may lose by its settings is told to the judge, and lowers the true high watermark (`losses`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from zab.kafka.primitives import Uuid
from zab.partition.image.cluster_image import INTERNAL
from zab.partition.image.partition_state import PartitionState
from zab.partition.log.checkpoints import TopicPartition
from zab.partition.log.log import Log
from zab.partition.log.paths import LOG
from zab.partition.records.batch import HEADER_BYTES, read_header
from zab.partition.replica.replica import Replica
from zab.partition.settings.topic_settings import BATCH
from zab.simulator.brokers.judge import Judge, Key
from zab.simulator.brokers.losses import Left, Losses
from zab.simulator.brokers.process import BrokerProcess
from zab.simulator.world.disk import FaultyDisk
from zab.simulator.world.verdict import SafetyError, demand

MAY_STOP: Final = ("the logs cannot be read: [Errno", "the storage of ")
"""Reasons for which a broker may stop by itself: its disk failed."""


class Observer:
    """See the docstring of the module."""

    def __init__(
        self,
        judge: Judge,
        replicas: Mapping[str, int],
        min_in_sync: Mapping[str, int],
        process: Callable[[int], BrokerProcess | None],
    ) -> None:
        """`replicas`: how many the partitions of each topic have. `min_in_sync`: the lowest number that has to be in
        sync. `process`: the process of a broker."""
        self.judge = judge
        judge.true_mark = self.true_mark
        self.losses = Losses(min_in_sync)
        self.true_marks: dict[Key, int] = {}
        """The true high watermark of each partition."""
        self.leaders: dict[tuple[Key, int], int] = {}
        """The broker that led in an epoch."""
        self.newest: dict[str, bytes] = {}
        """The id of the newest topic of each name that a broker had a replica of."""
        self._known: set[Key] = set()
        """The partitions that a broker had a replica of."""
        self._replicas = replicas
        self._newest_epochs: dict[Key, int] = {}
        self._told: dict[Key, int] = {}
        """The highest mark of any leader."""
        self._counted: dict[Key, tuple[int, frozenset[int]]] = {}
        """The epoch of the newest leader, and whom it counts."""
        self._process = process
        self._states: dict[tuple[Key, int, int], PartitionState] = {}
        """What brokers know, by leader epoch and partition epoch."""
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
        if key not in self._known:
            if all(key[0] != known[0] for known in self._known):
                self.newest[replica.topic] = key[0]
            self._known.add(key)
            demand(log.written_end == 0, "a new topic is empty", f"{_name(process, replica)}: {log.written_end}")
        marks = (log.log_start, log.high_watermark, log.log_end)
        if not 0 <= marks[0] <= marks[1] <= marks[2] or not log.synced_end <= log.written_end <= log.log_end:
            raise SafetyError("ValidReplicaState", f"{_name(process, replica)}: {marks}, {log.written_end}")
        where = (process.sid, key)
        seen = self._seen.get(where)
        leader = replica.leader
        self._look_at_state(process, replica, key)
        epoch = -1 if leader is None else leader.epoch
        if leader is not None:
            if log.latest_epoch != epoch and log.failure is None:
                text = f"{_name(process, replica)} leads epoch {epoch}, and {log.latest_epoch} is its newest"
                raise SafetyError("ValidReplicaState", text)
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
        log, mark = replica.log, self.true_mark(key)
        if log.log_end < mark and log.failure is None:
            if not self.losses.may_lose(replica.topic, key):
                text = f"{_name(process, replica)} leads epoch {epoch} and ends at {log.log_end}, below {mark}"
                raise SafetyError("LeaderCompletenessProperty", text)
            self._lose(replica, key)
        self._told[key] = max(self._told.get(key, 0), log.high_watermark)
        if self._has_grown(replica, key, epoch):
            # Who joins has all below the mark of the leader, not what others have and it has not heard of yet.
            self.true_marks[key] = self._told[key]
        self.true_marks[key] = max(self.true_mark(key), log.high_watermark, self._on_all(process, replica))

    def _has_grown(self, replica: Replica, key: Key, epoch: int) -> bool:
        """Whether this leader counts somebody whom it did not count before."""
        leader = replica.leader
        assert leader is not None
        maximal = leader.in_sync.maximal
        known_epoch, known = self._counted.get(key, (epoch, maximal))
        self._counted[key] = epoch, maximal
        return known_epoch == epoch and not maximal <= known

    def _on_all(self, process: BrokerProcess, replica: Replica) -> int:
        """Up to where everybody has this leader's log whom it counts; 0 if too few are in sync, or somebody does not
        run."""
        leader = replica.leader
        assert leader is not None
        if len(leader.in_sync.committed) < replica.min_in_sync or replica.log.failure is not None:
            return 0
        reached = replica.stored_end
        for broker in leader.in_sync.maximal - {process.sid}:
            other = self.replica(broker, (bytes(replica.topic_id), replica.index))
            if other is None or other.log.failure is not None or other.log.latest_epoch != leader.epoch:
                return 0
            reached = min(reached, other.stored_end)
        return reached

    def _look_at_state(self, process: BrokerProcess, replica: Replica, key: Key) -> None:
        state, leader = replica.state, replica.leader
        if state is None:
            return
        if leader is not None and replica.source is not None:
            raise SafetyError("ValidFetcherState", f"{_name(process, replica)} leads, and copies {replica.source}")
        known = self._states.setdefault((key, state.leader_epoch, state.partition_epoch), state)
        if known is not state and (known.leader, known.isr) != (state.leader, state.isr):
            raise SafetyError("MetadataLogMatchingProperty", f"{_name(process, replica)} knows {state}, not {known}")
        is_newest = replica.log.latest_epoch == self._newest_epochs.get(key)
        if is_newest and self.true_mark(key) <= replica.log.log_end and process.sid in state.isr:
            self.losses.caught_up(process.sid, key)

    # --------------------------------------------------------------------------------------------------- what is known

    def true_mark(self, key: Key) -> int:
        """Everything below it is committed."""
        return self.true_marks.get(key, 0)

    def is_lossy(self, broker: int, key: Key) -> bool:
        """Whether this replica may lack what it had."""
        return self.losses.is_lossy(broker, key)

    def replica(self, broker: int, key: Key) -> Replica | None:
        """A replica on a broker that runs."""
        process = self._process(broker) if broker >= 0 else None
        if process is None:
            return None
        found = (each for each in process.broker.replicas if each.index == key[1] and bytes(each.topic_id) == key[0])
        return next(found, None)

    # ------------------------------------------------------------------------------------------------ ends and restarts

    def stopped(self, process: BrokerProcess, *, with_power: bool, is_clean: bool) -> None:
        """See `Watcher`."""
        self.count("clean stops" if is_clean else "stops with power" if with_power else "stops")
        left = {
            (bytes(each.topic_id), each.index): Left(
                each.log.written_end, each.log.synced_end, _counted_end(each.log), with_power
            )
            for each in process.broker.replicas
            if each.topic not in INTERNAL
        }
        self.losses.stopped(process.sid, left, with_power=with_power, is_clean=is_clean)

    def gave_up(self, process: BrokerProcess, reason: str) -> None:
        """See `Watcher`."""
        demand(reason.startswith(MAY_STOP), "no broker stops by itself", f"broker {process.sid}: {reason}")

    def opened(self, process: BrokerProcess, logs: Mapping[TopicPartition, tuple[Uuid, Log]]) -> None:
        """See `Watcher`."""
        names = {(bytes(topic_id), where.partition): where for where, (topic_id, _) in logs.items()}
        ends = {key: logs[where][1].log_end for key, where in names.items()}
        for key, end, left in self.losses.opened(process.sid, ends):
            text = f"{names[key]} of broker {process.sid} ends at {end} after a restart, {left.kept} were stored"
            raise SafetyError("what was stored survives", text)

    def _lose(self, replica: Replica, key: Key) -> None:
        """The partition has lost what is above its leader's log."""
        self.judge.lost(key, replica.log.log_end, is_shared=self._replicas[replica.topic] > 1)
        self.true_marks[key] = replica.log.log_end
        self._told[key] = min(self._told.get(key, 0), replica.log.log_end)

    # ------------------------------------------------------------------------------------------------------ comparisons

    def compare(self, processes: Iterable[BrokerProcess], *, whole: bool = False) -> None:
        """Compare the replicas of every partition, below both high watermarks or, with `whole`, to their ends."""
        first: dict[Key, tuple[BrokerProcess, Replica, bytes]] = {}
        for process in processes:
            for replica in process.broker.replicas:
                if replica.log.failure is not None:
                    continue
                if whole and not _is_assigned(process, replica):
                    # As with Kafka, who was away while a partition was moved off it keeps what it had.
                    self.count("replicas left over")
                    continue
                key = (bytes(replica.topic_id), replica.index)
                if replica.log.settings.is_compacted:
                    # Each replica compacts for itself.
                    continue
                if not whole and self.judge.of(key).is_excused:
                    continue
                data = content(process.machine.disk, replica)
                if replica.leader is not None and replica.log.written_end >= replica.log.high_watermark:
                    stable = stable_end(data, replica.log.high_watermark)
                    text = f"{_name(process, replica)}: {replica.log.last_stable_offset}, not {stable}"
                    demand(replica.log.last_stable_offset == stable, "the last stable offset", text)
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


def _is_assigned(process: BrokerProcess, replica: Replica) -> bool:
    """Whether the partition is to have a replica on this broker."""
    topic = process.broker.image.topics.get(replica.topic)
    state = None if topic is None or topic.id != replica.topic_id else topic.partitions.get(replica.index)
    return state is not None and process.sid in state.replicas


def _counted_end(log: Log) -> int:
    """What is below it may be acknowledged."""
    return log.synced_end if log.settings.flush_mode == BATCH else log.written_end


def prefix(data: bytes, mark: int) -> bytes:
    """The whole batches below an offset. What is being written may be cut anywhere."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        header = read_header(data, at)
        if header.last_offset >= mark or at + header.size_bytes > len(data):
            break
        at += header.size_bytes
    return data[:at]


def stable_end(data: bytes, mark: int) -> int:
    """The last stable offset of a log of which nothing was deleted."""
    open_since: dict[int, int] = {}
    unstable, at = [mark], 0
    while at + HEADER_BYTES <= len(data):
        header = read_header(data, at)
        at += header.size_bytes
        if header.is_control:
            first = open_since.pop(header.producer_id, mark)
            unstable += [first] if header.last_offset >= mark else []
        elif header.is_transactional:
            open_since.setdefault(header.producer_id, header.base_offset)
    return min(*unstable, *open_since.values(), mark)


def content(disk: FaultyDisk, replica: Replica) -> bytes:
    """The bytes of all segments of a log."""
    directory = replica.log.directory
    names = [name for name in disk.list(directory) if name.endswith(LOG)]
    return b"".join(disk.read(f"{directory}/{name}") for name in names)


def _name(process: BrokerProcess, replica: Replica) -> str:
    return f"{replica.topic}-{replica.index} of broker {process.sid}"
