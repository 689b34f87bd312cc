"""A coordinator on a bench: requests go in, the log is a list, and time passes when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Answer, Append, Token
from zab.partition.groups.context import Surroundings
from zab.partition.groups.coordinator import GroupCoordinator
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.records import Loaded, LoadedMarker, LoadedRecord
from zab.partition.groups.requests import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    Protocol,
    Request,
    SyncGroup,
)
from zab.partition.groups.results import CommitResult, FetchResult, HeartbeatResult, JoinResult, SyncResult
from zab.partition.settings.broker_settings import GroupSettings

R = TypeVar("R")

WALL = 1_700_000_000_000
GROUP = "g"
RANGE = (Protocol("range", b"r"),)
NONE = ErrorCode.NONE


def one_partition(_: str) -> int:
    return 0


@define
class Bench:
    """By default appends are committed at once; with `holds`, when `settle` is called."""

    settings: GroupSettings = field(factory=GroupSettings)
    partition_for: Callable[[str], int] = one_partition
    topics: set[str] = field(factory=lambda: {"t", "u"})
    holds: bool = False
    now: int = 0
    coordinator: GroupCoordinator = field(init=False)
    answers: dict[Token, Any] = field(factory=dict)
    appends: list[Append] = field(factory=list)
    log: list[Loaded] = field(factory=list)
    end: int = 0
    _tokens: int = 0
    _ids: int = 0

    def __attrs_post_init__(self) -> None:
        self.coordinator = self._made()
        self.lead(0, 1)

    def _made(self) -> GroupCoordinator:
        surroundings = Surroundings(self.settings, self.partition_for, self._unique, self._has_partition)
        return GroupCoordinator(surroundings, self.now, WALL + self.now)

    def _unique(self) -> str:
        self._ids += 1
        return f"{self._ids:04}"

    def _has_partition(self, topic: str, index: int) -> bool:
        return topic in self.topics and 0 <= index < 10

    # ---------------------------------------------------------------------------------------------------- partitions

    def lead(self, number: int, epoch: int) -> None:
        self.coordinator.begin_load(number, epoch)
        self.coordinator.load(number, epoch, self.log if number == 0 else [])
        self.coordinator.finish_load(number, epoch)
        self._drain()

    def reloaded(self) -> Bench:
        """Another broker, which has read the same log."""
        other = Bench(self.settings, self.partition_for, self.topics, now=self.now)
        other._ids = self._ids + 100
        other.coordinator.unload(0, 2)
        other.log, other.end = list(self.log), self.end
        other.lead(0, 3)
        return other

    # ------------------------------------------------------------------------------------------------------ requests

    def ask(self, request: Request) -> Token:
        self._tokens += 1
        self.coordinator.request(self._tokens, request)
        self._drain()
        return self._tokens

    def call(self, request: Request, result: type[R]) -> R:
        """The answer, which has to be there."""
        answer = self.answers[self.ask(request)]
        assert isinstance(answer, result)
        return answer

    def is_open(self, token: Token) -> bool:
        return token not in self.answers

    def _drain(self) -> None:
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Answer):
                    assert effect.token not in self.answers
                    self.answers[effect.token] = effect.result
                else:
                    self.appends.append(effect)
            if not self.holds:
                self.settle()
        for partition in self.coordinator._context.partitions.values():
            for group in partition.groups.values():
                group.check()

    def settle(self, error: ErrorCode | None = None, count: int | None = None) -> None:
        """Commit the appends that wait, or the first ones; or give them this error."""
        chosen, self.appends = self.appends[:count], [] if count is None else self.appends[count:]
        for append in chosen:
            if error is None:
                self.coordinator.on_appended(append.partition, append.append_id, self.write(append))
            else:
                self.coordinator.on_appended(append.partition, append.append_id, error)
        self._drain()

    def write(self, append: Append) -> int:
        """Put it into the log; returns its position."""
        position = self.end
        self.end += len(append.records)
        for record in append.records:
            self.log.append(
                LoadedRecord(position=position, key=record.key, value=record.value, producer_id=append.producer_id)
            )
        return position

    def mark(self, producer_id: int, commits: bool) -> None:
        """The marker of a transaction."""
        self.log.append(LoadedMarker(position=self.end, producer_id=producer_id, commits=commits))
        self.end += 1
        self.coordinator.on_marker(0, producer_id, commits)
        self._drain()

    # ---------------------------------------------------------------------------------------------------------- time

    def wait(self, ms: int) -> None:
        """Let time pass, from deadline to deadline."""
        until = self.now + ms
        while True:
            due = self.coordinator.next_deadline()
            self.now = min(max(due, self.now), until)
            self.coordinator.advance(self.now, WALL + self.now)
            self._drain()
            if due > until:
                return

    # ---------------------------------------------------------------------------------------------------- what it has

    def group(self, group_id: str = GROUP) -> Group:
        group = self.coordinator._context.group(group_id)
        assert group is not None
        return group

    def has_group(self, group_id: str = GROUP) -> bool:
        return self.coordinator._context.group(group_id) is not None

    @property
    def state(self) -> GroupState:
        return self.group().state

    def join(self, member_id: str = "", **changes: Any) -> Token:
        return self.ask(a_join(member_id, **changes))

    def joined(self, token: Token) -> JoinResult:
        answer = self.answers[token]
        assert isinstance(answer, JoinResult)
        return answer

    def member(self, **changes: Any) -> str:
        """An id, as a new dynamic member of version 4 gets it."""
        result = self.call(a_join(**changes), JoinResult)
        assert result.error is ErrorCode.MEMBER_ID_REQUIRED
        return result.member_id

    def sync(self, joined: JoinResult, **assignments: bytes) -> Token:
        """With assignments by position: `a` is that of the first member that the leader was told."""
        named = zip(joined.members, [assignments[each] for each in sorted(assignments)], strict=False)
        pairs = tuple((each.member_id, data) for each, data in named)
        return self.ask(a_sync(joined.member_id, joined.generation, assignments=pairs))

    def synced(self, token: Token) -> SyncResult:
        answer = self.answers[token]
        assert isinstance(answer, SyncResult)
        return answer

    def stable(self, count: int = 1, **changes: Any) -> list[JoinResult]:
        """A stable group of so many members; the first one leads, and the i-th has the assignment b"i"."""
        tokens = [self.join(self.member(**changes), **changes) for _ in range(count)]
        self.wait(10_000)
        results = [self.joined(each) for each in tokens]
        leader = next(each for each in results if each.member_id == each.leader)
        pairs = tuple((each.member_id, str(at).encode()) for at, each in enumerate(results))
        for each in results:
            data = pairs if each is leader else ()
            self.ask(a_sync(each.member_id, each.generation, assignments=data))
        assert self.state is GroupState.STABLE
        return results

    def beat(self, member_id: str, generation: int, instance_id: str | None = None, group_id: str = GROUP) -> ErrorCode:
        request = Heartbeat(
            group_id=group_id, generation=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.call(request, HeartbeatResult).error

    def commit(self, offset: int = 1, **changes: Any) -> Token:
        return self.ask(a_commit(offset, **changes))

    def committed(self, offset: int = 1, **changes: Any) -> ErrorCode:
        """The error of the one partition that is committed."""
        (partition,) = self.call(a_commit(offset, **changes), CommitResult).partitions
        return partition.error

    def offset(self, topic: str = "t", index: int = 0, require_stable: bool = False, group_id: str = GROUP) -> int:
        """What a client sees; an error as its negative number, less 100."""
        request = OffsetFetch(group_id=group_id, partitions=((topic, index),), require_stable=require_stable)
        (found,) = self.call(request, FetchResult).offsets
        return found.offset if found.error is NONE else -100 - found.error


def a_join(member_id: str = "", **changes: Any) -> JoinGroup:
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": member_id,
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return JoinGroup(**(fields | changes))


def a_sync(member_id: str, generation: int, **changes: Any) -> SyncGroup:
    fields: dict[str, Any] = {"group_id": GROUP, "member_id": member_id, "generation": generation}
    return SyncGroup(**(fields | changes))


def a_leave(*members: str | tuple[str, str | None]) -> LeaveGroup:
    """By member id, or by member id and instance id."""
    pairs = [(each, None) if isinstance(each, str) else each for each in members]
    return LeaveGroup(group_id=GROUP, members=tuple(LeavingMember(*each) for each in pairs))


def offsets_to_commit(offset: int, topic: str = "t", index: int = 0, **changes: Any) -> tuple[OffsetToCommit, ...]:
    return (OffsetToCommit(topic=topic, partition=index, offset=offset, **changes),)


def a_commit(offset: int = 1, **changes: Any) -> OffsetCommit:
    fields: dict[str, Any] = {"group_id": GROUP, "offsets": offsets_to_commit(offset)}
    return OffsetCommit(**(fields | changes))


def snapshot(coordinator: GroupCoordinator) -> dict[str, Any]:
    """All that a log has to bring back: of groups that are Empty or Stable, and every offset."""
    found = {}
    for partition in coordinator._context.partitions.values():
        for group in partition.groups.values():
            if group.protocol_type is not None or group.offsets.committed or group.offsets.held:
                found[group.group_id] = (_generation(group), group.offsets.committed, group.offsets.held)
    return found


def _generation(group: Group) -> Any:
    members = [each.value(group.protocol_name, each.assignment) for each in group.members.values()]
    since = group.state_timestamp if group.state is GroupState.EMPTY and group.protocol_type is not None else None
    return group.state, group.generation, group.protocol_type, group.protocol_name, group.leader, since, members
