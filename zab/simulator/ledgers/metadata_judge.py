"""Which changes the metadata of a ledger may go through: every write of the coordination service is looked at before
it is applied.

    "G2"        a closed ledger keeps its end, its length and its quorums; there is one CLOSED
    "G9"        fragments begin at rising entries, and a fragment that is not the last keeps its first entry
    "G9"        a writer changes the last fragment alone; while a ledger is recovered nobody does, except to close it
    states      open, in recovery, closed: never back
    locks       re-replication changes one member of a fragment that is complete, in the session that has the lock
"""

from __future__ import annotations

from collections.abc import Callable

from zab.coordination.operations import Create, Delete, Set
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError, LedgerMetadata, LedgerState
from zab.simulator.coordination.znode_tree import Write, ZnodeTree
from zab.simulator.ledgers.judge import Judge
from zab.simulator.world.verdict import SafetyError, demand


class MetadataJudge:
    """See the docstring of the module. `ledger_of`: the ledger whose metadata a path has; None: it is no ledger's.
    `lock_of`: the path of a ledger's lock."""

    def __init__(
        self,
        tree: ZnodeTree,
        judge: Judge,
        ledger_of: Callable[[str], int | None],
        parse: Callable[[bytes], LedgerMetadata],
        lock_of: Callable[[int], str],
    ) -> None:
        self._tree = tree
        self._judge = judge
        self._ledger_of = ledger_of
        self._parse = parse
        self._lock_of = lock_of

    def before_write(self, session: int, parts: tuple[Write, ...]) -> None:
        """These parts are applied next."""
        for part in parts:
            ledger = self._ledger_of(part.path)
            if ledger is None:
                continue
            if isinstance(part, Delete):
                self._judge.deleted(ledger)
            elif isinstance(part, Create):
                self._judge.created(ledger, self._parsed(ledger, part.data))
            elif isinstance(part, Set):
                before = self._tree.data(part.path)
                assert before is not None
                old, new = self._parsed(ledger, before), self._parsed(ledger, part.data)
                if _is_repair(old, new):
                    lock = self._tree.znodes.get(self._lock_of(ledger))
                    is_owner = lock is not None and lock.stat.ephemeral_owner == session
                    demand(is_owner, "locks", f"a member of ledger {ledger} is replaced without its lock")
                self._judge_change(ledger, old, new)

    def _parsed(self, ledger: int, data: bytes) -> LedgerMetadata:
        try:
            return self._parse(data)
        except InvalidMetadataError as error:
            raise SafetyError("G9", f"the metadata of ledger {ledger} are invalid: {error}") from error

    def _judge_change(self, ledger: int, old: LedgerMetadata, new: LedgerMetadata) -> None:
        name = f"ledger {ledger}"
        fixed_old, fixed_new = _fixed(old), _fixed(new)
        demand(fixed_old == fixed_new, "states", f"{name} changes what it is: {fixed_old} to {fixed_new}")
        if old.is_closed:
            demand(new.is_closed, "G2", f"{name} was closed, and is {new.state.name}")
            end = f"{name} ended at {old.last} with {old.length} bytes, and ends at {new.last} with {new.length}"
            demand((old.last, old.length) == (new.last, new.length), "G2", end)
        if old.state != new.state:
            is_next = (old.state, new.state) != (LedgerState.IN_RECOVERY, LedgerState.OPEN)
            demand(is_next, "states", f"{name} was {old.state.name}, and is {new.state.name}")
        _judge_fragments(name, old, new)
        self._judge.changed(ledger, new)


def _fixed(metadata: LedgerMetadata) -> tuple[object, ...]:
    """What never changes."""
    quorums = (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    return (*quorums, metadata.digest_type, metadata.password, metadata.ctime_ms, metadata.token)


def _is_repair(old: LedgerMetadata, new: LedgerMetadata) -> bool:
    """Whether a member of a complete fragment is replaced, and nothing else happens."""
    complete = len(old.fragments) - (not old.is_closed)
    return old.state == new.state and old.fragments[:complete] != new.fragments[:complete]


def _judge_fragments(name: str, old: LedgerMetadata, new: LedgerMetadata) -> None:
    """What may become of fragments: the last one gets other members or a successor, and one member of a complete one is
    replaced. A recovery replaces the last one by any number of others as it closes the ledger, or leaves it out."""
    before, after = old.fragments, new.fragments
    is_end_of_recovery = old.state == LedgerState.IN_RECOVERY and new.is_closed
    sizes = range(len(before) - is_end_of_recovery, len(before) + (1 << 30 if is_end_of_recovery else 1 + old.is_open))
    if len(after) not in sizes:
        raise SafetyError("G9", f"{name} is {old.state.name} and gets {len(after)} fragments after {len(before)}")
    for index, (one, other) in enumerate(zip(before, after, strict=False)):
        if one.first != other.first:
            raise SafetyError("G9", f"a fragment of {name} began at {one.first}, and begins at {other.first}")
        replaced = sum(left != right for left, right in zip(one.ensemble, other.ensemble, strict=True))
        is_last = index == len(before) - 1 and not old.is_closed
        if is_last and replaced and old.state == LedgerState.IN_RECOVERY and not new.is_closed:
            raise SafetyError("G9", f"the last fragment of {name} changes while it is recovered: {one} to {other}")
        if not is_last and replaced > 1:
            raise SafetyError("G9", f"{replaced} members of the fragment of {name} from {one.first} go at once")
    if old.is_open and new.state == LedgerState.IN_RECOVERY and before != after:
        raise SafetyError("G9", f"the fragments of {name} change with the beginning of its recovery")
