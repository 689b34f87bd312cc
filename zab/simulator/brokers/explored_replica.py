"""One broker of a small world: the production code of a replica, its follower and its log, and a disk that does
everything whole, in order and at once.

    Sites.begin(broker)             the number of a broker that has just started with an empty log
    Sites.after(number, action)     the number of its next state, and what comes of the action
    Sites.facts[number]             what the world sees of it

A state is a number, so each action in it is computed once. No clock: a follower lags whenever it lacks something.

Not here: messages between brokers, the controller, and what has to be true (`explored_partition`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, TypeAlias

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import EpochEndOffset, FetchPartitionData
from zab.kafka.primitives import Uuid
from zab.partition.image.partition_state import PartitionState
from zab.partition.log.errors import LogError
from zab.partition.log.files import Files
from zab.partition.log.log import Log
from zab.partition.log.recovery import Marks, recover
from zab.partition.records.batch import BatchError, walk
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record, decode_records
from zab.partition.replica.follower import Follower, Next
from zab.partition.replica.follower import Question as Asks
from zab.partition.replica.in_sync_set import Proposal
from zab.partition.replica.replica import Reader, Replica, ReplicaError
from zab.partition.settings.topic_settings import TopicSettings
from zab.simulator.world.disk import FaultyDisk
from zab.simulator.world.verdict import BrokenError

TOPIC: Final = "t"
DIRECTORY: Final = "t-0"
WALL_MS: Final = 1_750_000_000_000
ANSWER_BYTES: Final = 1 << 20
PRODUCE_VERSION: Final = 9
ANY_LAG_MS: Final = -1
"""Nobody keeps up who lacks something."""

MISTAKES: Final = (
    *(AssertionError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    *(BatchError, LogError, ReplicaError),
)
"""What code under test raises if it is wrong. Anything else, like a lack of memory, ends the exploration."""

Action: TypeAlias = tuple[Any, ...]
Entry: TypeAlias = tuple[int, bytes]
"""The leader epoch and the value of a record."""


@attrs.frozen
class Question:
    """A fetch, or what a follower out of range asks instead: where the leader's log begins and ends."""

    epoch: int
    offset: int
    last_epoch: int
    log_start: int
    wants_offsets: bool


@attrs.frozen
class Reply:
    """The answer of a leader. For offsets `mark` is where its log ends."""

    error: int
    mark: int = -1
    log_start: int = 0
    diverging: tuple[int, int] = (-1, -1)
    records: bytes = b""


@attrs.frozen
class Facts:
    """What the world sees of a broker."""

    is_up: bool
    entries: tuple[Entry, ...] = ()
    mark: int = 0
    latest_epoch: int = -1
    known: tuple[Any, ...] | None = None
    """The state of the partition that it was told last."""
    leads: int | None = None
    """The epoch in which it leads."""
    committed: frozenset[int] = frozenset()
    maximal: frozenset[int] = frozenset()
    min_in_sync: int = 1
    proposal: Proposal | None = None
    source: int | None = None
    """The broker that it copies."""


class Site:
    """One broker, as it is while an action happens."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.disk = FaultyDisk()
        self.log: Log | None = Log.create(self.disk, DIRECTORY, TopicSettings(), b"version: 0\n", WALL_MS)
        self.follower: Follower | None = None
        self.wants_offsets = False
        self.replica = self._replica(self.log)
        self._store()

    def _replica(self, log: Log) -> Replica:
        return Replica(self.broker_id, TOPIC, Uuid(b"i" * 16), 0, log, lag_max_ms=ANY_LAG_MS)

    def _store(self) -> None:
        if self.log is None:
            return
        for answer in Files(self.disk).perform(self.log.take_effects()):
            self.log.confirmed(answer.token)
        self.replica.advance(0)

    def act(self, action: Action) -> Any:
        """Do this."""
        name, *rest = action
        methods: dict[str, Callable[..., Any]] = {
            "told": self._told,
            "write": self._write,
            "ask": self._ask,
            "serve": self._serve,
            "take": self._take,
            "propose": self._propose,
            "confirmed": self._confirmed,
            "refused": self._refused,
            "abdicate": self.replica.abdicate,
            "crash": self._crash,
            "start": self._start,
        }
        found = methods[name](*rest)
        self._store()
        return found

    # --------------------------------------------------------------------------------------------------------- roles

    def _told(self, known: tuple[Any, ...]) -> None:
        state = state_of(known)
        self.replica.take_state(state, 0)
        replica = self.replica
        assert replica.state is not None
        if replica.source is None:
            self.follower, self.wants_offsets = None, False
        elif self.follower is None or self.follower.epoch != replica.state.leader_epoch:
            self.follower, self.wants_offsets = Follower(replica, replica.state.leader_epoch, []), False

    def _write(self, value: bytes) -> None:
        batch = encode_batch([Record(0, WALL_MS, None, value)])
        self.replica.append(memoryview(batch), PRODUCE_VERSION, 1, WALL_MS)

    def _crash(self) -> None:
        self.disk.kill()
        self.log, self.follower, self.wants_offsets = None, None, False

    def _start(self) -> None:
        """Recover; the mark that was written down is the oldest one."""
        marks = Marks(0, 0, 0, 0)
        self.log = recover(self.disk, DIRECTORY, TopicSettings(), marks, is_clean=False, now_ms=WALL_MS).log
        self.replica = self._replica(self.log)

    # -------------------------------------------------------------------------------------------------------- copying

    def _ask(self) -> Question:
        assert self.follower is not None
        asks = self.follower.asks
        return Question(self.follower.epoch, asks.offset, asks.last_epoch, asks.log_start, self.wants_offsets)

    def _serve(self, follower: int, broker_epoch: int, question: Question) -> Reply:
        replica = self.replica
        try:
            if question.wants_offsets:
                replica.leading(question.epoch)
                return Reply(0, replica.log.log_end, replica.log.log_start)
            read = replica.read_for(
                Reader(follower, broker_epoch, question.log_start, is_noted=True, now=0),
                *(question.offset, ANSWER_BYTES),
                current_leader_epoch=question.epoch,
                last_fetched_epoch=question.last_epoch,
            )
        except ReplicaError as error:
            return Reply(error.error)
        replica.advance(0)
        piece = read.data
        records = b"" if piece is None else bytes(self.disk.read(piece.path, piece.position, piece.length))
        return Reply(0, replica.log.high_watermark, read.log_start, read.diverging or (-1, -1), records)

    def _take(self, question: Question, reply: Reply) -> None:
        follower = self.follower
        if follower is None or follower.epoch != question.epoch:
            return
        if question.wants_offsets:
            self.wants_offsets = False
            if not reply.error:
                follower.take_offsets(reply.mark, reply.log_start, WALL_MS)
            return
        epoch, end = reply.diverging
        data = FetchPartitionData(
            partition_index=0,
            error_code=reply.error,
            high_watermark=reply.mark,
            log_start_offset=reply.log_start,
            diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end),
            aborted_transactions=None,
            records=reply.records,
        )
        asks = Asks(question.offset, question.last_epoch, question.log_start)
        self.wants_offsets = follower.take(asks, data, WALL_MS) is Next.AFTER_OFFSETS

    # ------------------------------------------------------------------------------------------------------ in-sync set

    def _propose(self, looks_for_lag: bool) -> Proposal | None:
        leader = self.replica.leader
        assert leader is not None
        return leader.proposal(0, self.replica.position, looks_for_lag=looks_for_lag)

    def _confirmed(self, epoch: int, isr: tuple[int, ...], partition_epoch: int, recovering: bool, least: int) -> None:
        """As `zab.partition.proposals` takes the controller's answer."""
        leader = self.replica.leader
        if leader is None or leader.epoch != epoch or leader.in_sync.proposal is None:
            return
        known = attrs.evolve(
            leader.state, isr=isr, partition_epoch=partition_epoch, is_recovering=recovering, min_isr=least
        )
        self.replica.take_state(known, 0)

    def _refused(self, proposal: Proposal, error: int) -> None:
        leader = self.replica.leader
        if leader is not None and leader.in_sync.proposal == proposal:
            leader.refused(leader.in_sync.proposal, ErrorCode(error))

    # ----------------------------------------------------------------------------------------------------------- facts

    def facts(self) -> Facts:
        """What the world sees."""
        if self.log is None:
            return Facts(is_up=False)
        replica, log, leader = self.replica, self.log, self.replica.leader
        entries = []
        for segment in log.segments:
            data = bytes(self.disk.read(segment.path, 0, segment.size))
            for at, header in walk(data):
                [record] = decode_records(data, at)
                entries.append((header.partition_leader_epoch, record.value or b""))
        return Facts(
            is_up=True,
            entries=tuple(entries),
            mark=log.high_watermark,
            latest_epoch=log.latest_epoch,
            known=None if replica.state is None else known_of(replica.state),
            leads=None if leader is None else leader.epoch,
            committed=frozenset() if leader is None else leader.in_sync.committed,
            maximal=frozenset() if leader is None else leader.in_sync.maximal,
            min_in_sync=replica.min_in_sync,
            proposal=None if leader is None else leader.in_sync.proposal,
            source=replica.source,
        )

    def key(self, facts: Facts) -> tuple[Any, ...]:
        """All that decides what it does."""
        files = tuple(sorted(self.disk.image().items()))
        log, leader = self.log, self.replica.leader
        if log is None:
            return (self.broker_id, files)
        followers = () if leader is None else tuple((k, v.log_end, v.broker_epoch) for k, v in leader.followers.items())
        of_leader = None if leader is None else (leader.epoch_start, leader.in_sync.partition_epoch, followers)
        known_by_leader = None if leader is None else known_of(leader.state)
        epochs = tuple(log.epochs.entries)
        follower = None if self.follower is None else self.follower.epoch
        return (self.broker_id, facts, files, epochs, of_leader, known_by_leader, follower, self.wants_offsets)


class Sites:
    """All states that brokers have had. See the docstring of the module."""

    def __init__(self) -> None:
        self.facts: list[Facts] = []
        self._sites: list[Site] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._after: dict[tuple[int, Action], tuple[int, Any]] = {}

    @property
    def count(self) -> int:
        return len(self._sites)

    def begin(self, broker_id: int) -> int:
        """A broker with an empty disk, which runs."""
        return self._number(Site(broker_id))

    def _number(self, site: Site) -> int:
        facts = site.facts()
        key = site.key(facts)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sites)
            self._sites.append(site)
            self.facts.append(facts)
        return number

    def after(self, number: int, action: Action) -> tuple[int, Any]:
        """The state after this action, and what comes of it."""
        found = self._after.get((number, action))
        if found is None:
            site = deepcopy(self._sites[number])
            try:
                output = site.act(action)
            except MISTAKES as error:
                raise BrokenError(f"broker {site.broker_id} fails at {action}: {error!r}") from error
            found = self._after[number, action] = self._number(site), output
        return found


def known_of(state: PartitionState) -> tuple[Any, ...]:
    """A state of the partition as a value with a hash."""
    epochs = tuple(sorted(state.broker_epochs.items()))
    return (
        *(state.leader, state.leader_epoch, state.partition_epoch, state.isr, state.replicas),
        *(state.is_recovering, state.min_isr, epochs),
    )


def state_of(known: tuple[Any, ...]) -> PartitionState:
    """The inverse of `known_of`."""
    leader, leader_epoch, partition_epoch, isr, replicas, is_recovering, min_isr, epochs = known
    return PartitionState(
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=isr,
        replicas=replicas,
        is_recovering=is_recovering,
        min_isr=min_isr,
        broker_epochs=dict(epochs),
    )
