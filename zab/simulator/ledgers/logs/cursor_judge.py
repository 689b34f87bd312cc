"""What has to hold for those who read a log, and for its cursors.

    "order"     a reader gets the entries of a log in the order of their positions: none twice, none left out but those
                that are consumed at its cursor, or trimmed
    "cursors"   what is stored of a cursor was consumed; what was stored for certain is known to each later owner, and
                is not read again; a mark never falls while its owner is the same
    "trim"      a ledger that is trimmed was consumed at every cursor, as it is stored; and it is old enough, or the
                log is too large

A position is consumed when a consumer has said so to an owner. Consumers are those of any owner, one that has lost the
log and does not know it included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from zab.ledger.entries.ids import NONE
from zab.ledger.managed.cursor_state import CursorState, StoredCursor, decode_cursor
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Position, cursor_path, log_path
from zab.ledger.managed.sweep import CURSOR_KEY, LOG_KEY
from zab.simulator.coordination.znode_tree import ZnodeTree
from zab.simulator.ledgers.judge import Judge, Ledger
from zab.simulator.world.verdict import demand


@attrs.define(eq=False)
class Stream:
    """Somebody reads a log. `last`: what was read last; `cursor`: the path of its cursor, "" without one."""

    path: str
    last: Position
    cursor: str = ""
    stored: frozenset[Position] = frozenset()
    """What was stored for certain when the cursor was opened."""


@attrs.define(eq=False)
class JudgedCursor:
    """One cursor, and what its consumers said."""

    begins: Position
    """It was made with this mark."""
    consumed: set[Position] = attrs.Factory(set)
    delivered: set[Position] = attrs.Factory(set)
    stored: set[Position] = attrs.Factory(set)
    """What was stored for certain."""
    proven: Position = Position(NONE, NONE)
    """Everything up to there was consumed."""
    marks: dict[int, Position] = attrs.Factory(dict)
    """The last mark that the owner of each epoch stored."""
    opened: tuple[int, CursorState] | None = None
    """The newest owner that has opened it, and what that one found."""

    def has(self, position: Position) -> bool:
        return position <= self.begins or position in self.consumed


class CursorJudge:
    """`logs`: the root of the lists."""

    def __init__(self, logs: str, judge: Judge, tree: ZnodeTree) -> None:
        self._logs = logs
        self._judge = judge
        self._tree = tree
        self.cursors: dict[str, JudgedCursor] = {}
        self._ends: dict[str, dict[int, int]] = {}
        """For each log, the entries of all ledgers that have ever been in its list and have an end."""
        self._trimmed: dict[str, set[int]] = {}
        self._retention_ms: int | None = None
        self._retention_bytes: int | None = None

    def limits(self, retention_ms: int | None, retention_bytes: int | None) -> None:
        """How long, and how much, owners keep from now on."""
        self._retention_ms, self._retention_bytes = retention_ms, retention_bytes

    # ------------------------------------------------------------------------------------------------------- positions

    def _between(self, path: str, first: Position, last: Position) -> Iterator[Position]:
        """The positions of entries after the first, and before the last one."""
        ends = self._ends.get(path, {})
        for ledger in sorted({*ends, last.ledger}):
            if first.ledger <= ledger <= last.ledger:
                begin = first.entry + 1 if ledger == first.ledger else 0
                end = last.entry if ledger == last.ledger else ends[ledger]
                yield from (Position(ledger, entry) for entry in range(begin, end))

    def _is_gone(self, path: str, position: Position) -> bool:
        return position.ledger in self._trimmed.get(path, ())

    # --------------------------------------------------------------------------------------------------------- reading

    def delivers(self, stream: Stream, position: Position) -> None:
        """This entry comes next."""
        path, cursor = stream.path, self.cursors.get(stream.cursor)
        who = stream.cursor or path
        demand(stream.last < position, "order", f"{position} is read at {who} after {stream.last}")
        for each in self._between(path, stream.last, position):
            is_left_out = self._is_gone(path, each) or (cursor is not None and each in cursor.consumed)
            demand(is_left_out, "order", f"{position} is read at {who} after {stream.last}, without {each}")
        stream.last = position
        if cursor is not None:
            demand(position not in stream.stored, "cursors", f"{position} is read at {who}, and was stored as consumed")
            cursor.delivered.add(position)

    # --------------------------------------------------------------------------------------------------------- cursors

    def begins(self, path: str, stored: StoredCursor) -> None:
        """A cursor is made."""
        self.cursors[path] = JudgedCursor(stored.state.mark)

    def ends(self, path: str) -> None:
        """A cursor is deleted."""
        self.cursors.pop(path, None)

    def consumes(self, path: str, positions: Iterable[Position]) -> None:
        """A consumer says to an owner that it has consumed these."""
        cursor = self.cursors.get(path)
        if cursor is not None:
            cursor.consumed.update(positions)

    def marks(self, log: str, path: str, position: Position) -> list[Position]:
        """A consumer says to an owner that it has consumed all up to this one. Returns what that is."""
        cursor = self.cursors.get(path)
        after = position if cursor is None else cursor.begins
        found = list(self._between(log, after, Position(position.ledger, position.entry + 1)))
        self.consumes(path, found)
        return found

    def opens(self, log: str, path: str, epoch: int, state: CursorState) -> Stream:
        """An owner has opened a cursor, and found this."""
        cursor = self.cursors.setdefault(path, JudgedCursor(state.mark))
        self._judge_state(path, state)
        stored = frozenset(each for each in cursor.stored if not self._is_gone(log, each))
        if cursor.opened is not None and cursor.opened[0] > epoch:
            # It has lost the log, and does not know it.
            return Stream(log, state.mark, path)
        missing = sorted(each for each in stored if not state.covers(each))
        demand(not missing, "cursors", f"{path} was stored with {missing[:3]}, and owner {epoch} finds {state}")
        if cursor.opened is None or cursor.opened[0] < epoch:
            cursor.opened = epoch, state.copy()
        return Stream(log, state.mark, path, stored)

    def flushed(self, log: str, path: str, epoch: int, consumed: frozenset[Position]) -> None:
        """An owner has said that this is stored."""
        cursor = self.cursors[path]
        if cursor.opened is not None and cursor.opened[0] > epoch:
            found, state = cursor.opened
            lost = [each for each in consumed if not self._is_gone(log, each) and not state.covers(each)]
            text = f"{lost[:3]} of {path} is stored, says owner {epoch}, and owner {found} has opened it without that"
            demand(not lost, "cursors", text)
        cursor.stored |= consumed

    def stores(self, path: str, stored: StoredCursor) -> None:
        """An owner stores this."""
        cursor = self.cursors.get(path)
        if cursor is None:
            return
        self._judge_state(path, stored.state)
        before, mark = cursor.marks.get(stored.epoch), stored.state.mark
        text = f"the mark of {path} falls from {before} to {mark} while its owner is {stored.epoch}"
        demand(before is None or before <= mark, "cursors", text)
        cursor.marks[stored.epoch] = mark

    def stores_entry(self, ledger: Ledger, payload: bytes) -> None:
        """An owner stores this in the ledger of a cursor."""
        custom = ledger.metadata.custom
        path = cursor_path(self._logs, custom[LOG_KEY].decode(), custom[CURSOR_KEY].decode())
        self.stores(path, decode_cursor(payload))

    def _judge_state(self, path: str, state: CursorState) -> None:
        """Everything in it was consumed."""
        cursor = self.cursors[path]
        log = path.rpartition("/cursors/")[0]
        after = max(cursor.proven, cursor.begins)
        if state.mark > after:
            for each in self._between(log, after, Position(state.mark.ledger, state.mark.entry + 1)):
                is_right = cursor.has(each) or self._is_gone(log, each)
                demand(is_right, "cursors", f"the mark of {path} is {state.mark}, and nobody has consumed {each}")
            cursor.proven = state.mark
        for ledger, first, last in state.ranges:
            for entry in range(first, last + 1):
                each = Position(ledger, entry)
                demand(cursor.has(each), "cursors", f"{path} has {each} as consumed, and nobody has consumed it")

    # -------------------------------------------------------------------------------------------------------- trimming

    def lists(self, path: str, info: LogInfo) -> None:
        """The list of a log is this from now on."""
        ends = self._ends.setdefault(path, {})
        ends.update({each.id: each.entries for each in info.ledgers if each.entries is not None})

    def trims(self, path: str, old: LogInfo, gone: list[LedgerInfo], wall_ms: int | None) -> None:
        """These ledgers, which have entries, leave the list of a log. `wall_ms`: the clock of its owner, if it is
        known."""
        self._trimmed.setdefault(path, set()).update(each.id for each in gone)
        states = [self._stored(f"{path}/cursors/{name}") for name in self._tree.children(f"{path}/cursors")]
        length = old.length
        for each in gone:
            assert each.entries is not None
            for name, found in states:
                entries = (Position(each.id, entry) for entry in range(each.entries))
                kept = [entry for entry in entries if not any(state.covers(entry) for state in found)]
                text = f"ledger {each.id} is trimmed, and {name} is stored without {kept[:3]}: {found}"
                demand(not kept, "trim", text)
            closed_ms, retention_ms, retention_bytes = each.closed_ms or 0, self._retention_ms, self._retention_bytes
            is_old = retention_ms is not None and (wall_ms is None or wall_ms - closed_ms >= retention_ms)
            is_too_much = retention_bytes is not None and length > retention_bytes
            text = f"ledger {each.id} of {path} is trimmed before its time: {wall_ms} after {closed_ms}, {length} bytes"
            demand(is_old or is_too_much, "trim", text)
            length -= each.length

    def _stored(self, path: str) -> tuple[str, list[CursorState]]:
        """What an owner that takes the log over now would find of a cursor: in its znode, and in the ledger that the
        znode names."""
        data = self._tree.data(path)
        assert data is not None
        stored = decode_cursor(data)
        known = self._judge.ledgers.get(stored.ledger)
        last = NONE
        while known is not None and known.copies_of(last + 1) >= known.metadata.ack_quorum:
            last += 1
        states = [stored.state]
        if known is not None and last > NONE:
            states.append(decode_cursor(known.payloads[last]).state)
        return path, states

    def ledgers(self) -> set[int]:
        """The ledgers that the znodes of cursors name."""
        znodes = (self._tree.data(path) for path in self.cursors)
        return {decode_cursor(data).ledger for data in znodes if data is not None}

    # ------------------------------------------------------------------------------------------------------------- end

    def finish(self, log: str, acknowledged: list[Position]) -> None:
        """Every cursor has been read to the end: nothing that was acknowledged has been left out."""
        prefix = f"{log_path(self._logs, log)}/cursors/"
        for path, cursor in self.cursors.items():
            if path.startswith(prefix):
                left = [each for each in acknowledged if each > cursor.begins and each not in cursor.delivered]
                left = [each for each in left if each not in cursor.consumed]
                demand(not left, "order", f"{left[:3]} was acknowledged, and never read at {path}")
