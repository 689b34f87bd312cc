"""What producers were told, against what consumers see that read committed.

all or none         of the acknowledged records of a transaction are seen, in all its partitions
commits count       what its producer was told is committed is seen
aborts count        what can not have been committed is never seen
no regrets          what was seen once is seen for ever, in its order
one epoch each      no epoch is given to two producers
no hanging          when calm has come, nothing holds consumers back
"""

from __future__ import annotations

from attrs import Factory, define

from tests.partition.transactions.simulated_world import World


@define(eq=False)
class Attempt:
    """A transaction, as its producer knows it."""

    number: int
    sent: dict[int, list[bytes]] = Factory(dict)
    known: dict[int, list[bytes]] = Factory(dict)
    """Acknowledged values by partition."""
    may_commit: bool = True
    """Unless it is known that nobody has asked for that with success."""
    has_committed: bool = False
    """Its producer was told so."""

    def value(self, index: int) -> bytes:
        """A new value for this partition."""
        values = self.sent.setdefault(index, [])
        values.append(b"%d/%d/%d" % (self.number, index, len(values)))
        return values[-1]

    def acknowledged(self, index: int) -> None:
        """The last value is written."""
        self.known.setdefault(index, []).append(self.sent[index][-1])


@define(eq=False)
class Judge:
    """See the top of the file."""

    attempts: list[Attempt] = Factory(list)
    _given: dict[tuple[int, int], tuple[str, tuple[int, int] | None]] = Factory(dict)
    _seen: dict[int, list[bytes | None]] = Factory(dict)

    def begin(self, _transactional_id: str, _producer: tuple[int, int]) -> Attempt:
        self.attempts.append(Attempt(len(self.attempts)))
        return self.attempts[-1]

    def given(self, name: str, producer_id: int, epoch: int, expected: tuple[int, int] | None) -> None:
        """A producer has this id and epoch: nobody else may."""
        before = self._given.setdefault((producer_id, epoch), (name, expected))
        is_repeated = expected is not None and before == (name, expected)
        assert before == (name, expected) or is_repeated, (before, name, expected)

    def look(self, world: World) -> None:
        """What consumers see now."""
        for index in range(len(world.partitions)):
            found = world.committed(index, max_bytes=world.random.choice([1, 500, 1 << 20]))
            before = self._seen.get(index, [])
            assert found[: len(before)] == before, f"partition {index}"
            self._seen[index] = found
        world.saw("looks")

    def when_calm(self, world: World) -> None:
        """Everything has ended."""
        for stored in world.partitions:
            log = stored.log
            assert log.last_stable_offset == log.log_end, "a transaction hangs"
        self.look(world)
        for partition in world.leader.coordinator._context.partitions.values():
            for transaction in partition.transactions.values():
                assert transaction.state.is_at_rest, transaction
        seen = {index: set(values) for index, values in self._seen.items()}
        for index, values in self._seen.items():
            assert len(values) == len(seen[index]), "twice"
        for attempt in self.attempts:
            self._judge(attempt, seen)

    def _judge(self, attempt: Attempt, seen: dict[int, set[bytes | None]]) -> None:
        known = {(index, value) for index, values in attempt.known.items() for value in values}
        sent = {(index, value) for index, values in attempt.sent.items() for value in values}
        found = {(index, value) for index, value in sent if value in seen[index]}
        if attempt.has_committed:
            assert known <= found, f"transaction {attempt.number} is committed, and {known - found} are missing"
        elif not attempt.may_commit:
            assert not found, f"transaction {attempt.number} is aborted, and {found} are seen"
        else:
            assert not found or known <= found, f"of transaction {attempt.number} only {found} of {known} are seen"
