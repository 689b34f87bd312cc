"""What has to be true of every answer, and of the group when calm has come."""

from __future__ import annotations

from typing import Any

from attrs import Factory, define

from tests.partition.groups.bench import GROUP, snapshot
from tests.partition.groups.simulated_clients import Consumer, partitions_in
from tests.partition.groups.simulated_world import PARTITION_COUNT, TOPIC, Broker, World, offsets_in
from zab.kafka.coordinator_records import GroupValue, OffsetKey, OffsetValue
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import NO_PRODUCER
from zab.partition.groups.group import GroupState
from zab.partition.groups.requests import OffsetFetch, Request
from zab.partition.groups.results import CommitResult, FetchResult, JoinResult, SyncResult


@define
class Offsets:
    """What the log says up to its high watermark: an independent reading of it."""

    visible: dict[int, tuple[int, int]] = Factory(dict)
    """Partition -> (position, offset)."""
    held: dict[int, list[tuple[int, int, int]]] = Factory(dict)
    """Producer -> (position, partition, offset)."""
    history: dict[int, set[int]] = Factory(dict)
    """Partition -> all offsets that were ever visible; -1 for none."""
    read: int = 0

    def read_on(self, world: World) -> None:
        for position in range(self.read, world.high_watermark):
            batch = world.log[position]
            if batch.marker is not None:
                producer_id, commits = batch.marker
                for each in self.held.pop(producer_id, []) if commits else self.held.pop(producer_id, [])[:0]:
                    self._show(*each)
            elif batch.append is not None:
                for record in batch.append.records:
                    if isinstance(record.key, OffsetKey) and isinstance(record.value, OffsetValue):
                        entry = (position, record.key.partition, record.value.offset)
                        if batch.append.producer_id == NO_PRODUCER:
                            self._show(*entry)
                        else:
                            self.held.setdefault(batch.append.producer_id, []).append(entry)
        self.read = world.high_watermark

    def _show(self, position: int, partition: int, offset: int) -> None:
        if self.visible.get(partition, (-1, -1))[0] < position:
            self.visible[partition] = (position, offset)
            self.history.setdefault(partition, {-1}).add(offset)

    def is_held(self, partition: int) -> bool:
        return any(each[1] == partition for held in self.held.values() for each in held)


@define(eq=False)
class Judges:
    """They see every answer when the coordinator gives it."""

    offsets: Offsets = Factory(Offsets)
    leaders: dict[tuple[int, int], str] = Factory(dict)
    """(leader epoch, generation) -> the member that was told to assign."""
    assigned: dict[int, dict[int, str]] = Factory(dict)
    """Generation -> partition -> instance or member that has it."""
    counts: dict[str, int] = Factory(dict)
    """What was seen: a run in which nothing happens proves nothing."""

    def watch(self, world: World, broker: Broker, request: Request, result: Any) -> None:
        self.offsets.read_on(world)
        if isinstance(result, JoinResult):
            self._on_join(broker, result)
        elif isinstance(result, SyncResult) and result.error is ErrorCode.NONE:
            self._on_sync(world, request, result)
        elif isinstance(result, CommitResult):
            self._on_commit(request, result)
        elif isinstance(result, FetchResult) and result.error is ErrorCode.NONE:
            self._on_fetch(world, broker, request, result)
        if broker is world.leader and world.is_settled:
            self._on_settled(world)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _on_join(self, broker: Broker, result: JoinResult) -> None:
        """A generation never has two leaders."""
        if result.error is ErrorCode.FENCED_INSTANCE_ID:
            self._count("fenced")
        if result.error is ErrorCode.NONE and result.members and not result.skip_assignment:
            epoch = broker.coordinator._context.partitions[0].leader_epoch
            before = self.leaders.setdefault((epoch, result.generation), result.member_id)
            assert before == result.member_id, f"generation {result.generation} has two leaders"
            self._count("generations")

    def _on_sync(self, world: World, request: Any, result: SyncResult) -> None:
        """No partition is assigned twice in a generation, and each assignment is committed before anybody has it."""
        owner = request.group_instance_id or request.member_id
        taken = self.assigned.setdefault(request.generation, {})
        for index in partitions_in(result.assignment):
            assert taken.setdefault(index, owner) == owner, f"{index} is assigned twice in {request.generation}"
        stored = [
            record.value
            for batch in world.log[: world.high_watermark]
            if batch.append is not None
            for record in batch.append.records
            if isinstance(record.value, GroupValue) and record.value.generation == request.generation
        ]
        assert any(member.assignment == result.assignment for value in stored for member in value.members), (
            "nobody has an assignment that is not stored"
        )
        self._count("assignments")

    def _on_commit(self, request: Any, result: CommitResult) -> None:
        """What was answered is in the log, committed."""
        wanted = offsets_in(request)
        for each in result.partitions:
            if each.error is ErrorCode.NONE:
                offset = wanted[each.partition]
                held = any(one[2] == offset for some in self.offsets.held.values() for one in some)
                assert held or offset in self.offsets.history.get(each.partition, ()), (
                    "answered before it was committed"
                )
                self._count("commits")

    def _on_fetch(self, world: World, broker: Broker, request: Any, result: FetchResult) -> None:
        """An offset is visible when it is committed, not before, and never lost afterwards."""
        assert isinstance(request, OffsetFetch)
        for each in result.offsets:
            history = self.offsets.history.get(each.partition, {-1})
            if each.error is ErrorCode.UNSTABLE_OFFSET_COMMIT:
                assert request.require_stable
                self._count("unstable")
                continue
            assert each.offset in history, f"{each.offset} was never committed"
            if broker is world.leader and world.is_ready:
                assert each.offset == self.offsets.visible.get(each.partition, (-1, -1))[1]
                assert not (request.require_stable and self.offsets.is_held(each.partition))
            if each.offset >= 0:
                self._count("fetches")

    def _on_settled(self, world: World) -> None:
        """A broker that reads the log has the state that this one has."""
        group = world.leader.coordinator._context.group(GROUP)
        is_stored = group is None or group.state in (GroupState.EMPTY, GroupState.STABLE)
        if is_stored and not world.has_lost_a_generation:
            assert world.loaded_elsewhere() == snapshot(world.leader.coordinator)
            self._count("comparisons")

    def when_calm(self, world: World, consumers: list[Consumer]) -> None:
        """Every live member is in one Stable generation and has what its leader assigned to it."""
        alive = [each for each in consumers if each.is_alive]
        group = world.leader.coordinator._context.group(GROUP)
        if not alive:
            assert group is None or not group.members
            return
        assert group is not None
        assert group.state is GroupState.STABLE
        assert {each.generation for each in alive} == {group.generation}
        assert sorted(group.members) == sorted(each.member_id for each in alive)
        for each in alive:
            assert each.owned == partitions_in(group.members[each.member_id].assignment)
        owned = [index for each in alive for index in each.owned]
        assert sorted(owned) == list(range(PARTITION_COUNT)), "every partition has one owner"
        found = {
            index: offset.value.offset for (topic, index), offset in group.offsets.committed.items() if topic == TOPIC
        }
        self.offsets.read_on(world)
        assert found == {index: offset for index, (_, offset) in self.offsets.visible.items()}
        assert not any(len(each) > 1 for each in self._processes_of_instances(alive).values())

    def _processes_of_instances(self, alive: list[Consumer]) -> dict[str, list[Consumer]]:
        found: dict[str, list[Consumer]] = {}
        for each in alive:
            if each.style.instance_id is not None:
                found.setdefault(each.style.instance_id, []).append(each)
        return found
