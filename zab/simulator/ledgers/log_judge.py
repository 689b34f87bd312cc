"""What has to hold for managed ledgers: every write of a list is looked at before it is applied, and what callers are
told.

    "G11"       all ledgers of a list but the last are closed, and as long as the list says
    "G12"       a ledger that leaves a list is empty, or one of the first, and goes in the same transaction; none goes
                that a list names
    "G13"       an entry that was appended after another one had been acknowledged comes after it
    epochs      an owner writes lists of its own epoch alone; epochs and ids rise
    "G1"        what was acknowledged is in the list, at its position
    "fenced"    what an owner is asked to append after a later one has opened the log is never acknowledged
    "end"       a log that is terminated gets no ledgers, and keeps its end
    cursors     once an owner has opened the log, no earlier one writes the znode of a cursor

The judge of ledgers sees the rest: an entry is in the ledgers once, and what was "definitely not" never is. What is
read and consumed is judged by `cursor_judge`.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from zab.coordination.operations import Create, Delete, Set
from zab.ledger.managed.cursor_state import decode_cursor
from zab.ledger.managed.log_info import InvalidLogError, LogInfo, LogState, Position, decode_log
from zab.ledger.managed.sweep import CURSOR_KEY, LOG_KEY
from zab.ledger.metadata.paths import ledger_of
from zab.simulator.coordination.znode_tree import Write, ZnodeTree
from zab.simulator.ledgers.judge import Judge
from zab.simulator.ledgers.logs.cursor_judge import CursorJudge
from zab.simulator.world.verdict import SafetyError, demand


@attrs.define(eq=False)
class JudgedLog:
    """One log, and what its callers were told."""

    info: LogInfo
    trimmed_or_empty: set[int] = attrs.Factory(set)
    opened_epoch: int = 0
    """The owner that has opened it last."""
    last_acknowledged: Position = Position(-1, -1)
    acknowledged: dict[bytes, Position] = attrs.Factory(dict)
    late: dict[bytes, int] = attrs.Factory(dict)
    """Payloads whose owner had lost the log when it was asked to append them, and its epoch."""
    since: dict[bytes, Position] = attrs.Factory(dict)
    """For each payload, the last position that was acknowledged when it was appended."""


class LogJudge:
    """`logs`: the root of the lists."""

    def __init__(
        self,
        root: str,
        logs: str,
        judge: Judge,
        tree: ZnodeTree,
        wall_ms: Callable[[int], int | None] = lambda _session: None,
    ) -> None:
        """From now on it looks at all that is written into `tree`. `wall_ms`: the clock of who has this session."""
        self._root = root
        self._logs = logs
        self._judge = judge
        self._wall_ms = wall_ms
        self.logs: dict[str, JudgedLog] = {}
        self.cursors = CursorJudge(logs, judge, tree)
        before = tree.before_write

        def before_write(session: int, parts: tuple[Write, ...]) -> None:
            if before is not None:
                before(session, parts)
            self.before_write(session, parts)

        tree.before_write = before_write

    # ------------------------------------------------------------------------------------------------------------ lists

    def before_write(self, session: int, parts: tuple[Write, ...]) -> None:
        """These parts are applied next; the judge of ledgers has seen them."""
        for part in parts:
            parent, _, _ = part.path.rpartition("/")
            if parent != self._logs:
                self._judge_cursor(parent, part)
                continue
            if isinstance(part, Create):
                self.logs[part.path] = JudgedLog(self._parsed(part.data))
            elif isinstance(part, Set):
                self._judge_change(part.path, self._parsed(part.data), parts, session)
            elif isinstance(part, Delete):
                demand(not self.logs[part.path].info.ledgers, "G12", f"{part.path} goes, and has ledgers")
                del self.logs[part.path]

        for part in parts:
            ledger = ledger_of(self._root, part.path) if isinstance(part, Delete) else None
            named = [path for path, known in self.logs.items() if ledger is not None and known.info.at(ledger)]
            demand(not named, "G12", f"ledger {ledger} goes, and {named} names it")

    def _judge_cursor(self, parent: str, part: Write) -> None:
        known = self.logs.get(parent.removesuffix("/cursors"))
        if known is None or not parent.endswith("/cursors"):
            return
        if not isinstance(part, Create | Set):
            self.cursors.ends(part.path)
            return
        stored = decode_cursor(part.data)
        if isinstance(part, Create):
            self.cursors.begins(part.path, stored)
        self.cursors.stores(part.path, stored)
        epoch = stored.epoch
        text = f"{part.path} is written by owner {epoch}, and owner {known.opened_epoch} has the log"
        demand(epoch >= known.opened_epoch, "cursors", text)

    def _parsed(self, data: bytes) -> LogInfo:
        try:
            return decode_log(data)
        except InvalidLogError as error:
            raise SafetyError("G11", f"the list is invalid: {error}") from error

    def _judge_change(self, path: str, new: LogInfo, parts: tuple[Write, ...], session: int) -> None:
        known = self.logs[path]
        old = known.info
        is_claim = new.epoch == old.epoch + 1 and new.owner != old.owner
        is_same = (new.epoch, new.owner) == (old.epoch, old.owner)
        demand(is_claim or is_same, "epochs", f"{path} goes from {old.epoch, old.owner} to {new.epoch, new.owner}")
        for each in new.ledgers[:-1] if new.open_ledger is not None else new.ledgers:
            metadata = self._judge.of(each.id).metadata
            demand(metadata.is_closed, "G11", f"ledger {each.id} of {path} is {metadata.state.name}, and not the last")
            end = (metadata.last + 1, metadata.length)
            demand((each.entries, each.length) == end, "G11", f"ledger {each.id} of {path} has {end}, not {each}")
        kept = {each.id for each in new.ledgers}
        gone = [each for each in old.ledgers if each.id not in kept]
        for each in gone:
            metadata = self._judge.of(each.id).metadata
            is_empty = metadata.is_closed and metadata.last < 0
            is_first = each.id < min(kept, default=each.id + 1)
            demand(is_empty or is_first, "G12", f"ledger {each.id} leaves {path}, and has entries")
            is_deleted = self._judge.of(each.id).is_deleted
            demand(is_deleted or new.state is LogState.DELETING, "G12", f"ledger {each.id} leaves {path}, and stays")
        fresh = kept - {each.id for each in old.ledgers}
        created = {each.path for each in parts if isinstance(each, Create)}
        demand(len(fresh) <= 1 and len(created) == len(fresh), "G12", f"{path} gets {fresh}, and {created} are made")
        if old.state is LogState.TERMINATED:
            is_same = not fresh and new.state is not LogState.OPEN and new.terminated == old.terminated
            demand(is_same, "end", f"{path} was terminated at {old.terminated}, and goes on: {new}")
        known.trimmed_or_empty |= {each.id for each in gone}
        known.info = new
        self.cursors.lists(path, new)
        trimmed = [each for each in gone if each.entries]
        if trimmed and new.state is not LogState.DELETING:
            self.cursors.trims(path, old, trimmed, self._wall_ms(session))

    # ---------------------------------------------------------------------------------------------------------- callers

    def appends(self, path: str, payload: bytes, epoch: int) -> None:
        """A caller appends this payload, by an owner with this epoch; 0: it has none yet."""
        known = self.logs.get(path)
        if known is not None:
            known.since[payload] = known.last_acknowledged
            if 0 < epoch < known.opened_epoch:
                known.late[payload] = epoch

    def opened(self, path: str, epoch: int) -> None:
        """An owner has taken it over."""
        known = self.logs.get(path)
        if known is not None:
            known.opened_epoch = max(known.opened_epoch, epoch)

    def acknowledged(self, path: str, payload: bytes, position: Position) -> None:
        """It is told that its payload is there."""
        known = self.logs.get(path)
        if known is None:
            return
        before = known.since.get(payload, Position(-1, -1))
        late = known.late.get(payload)
        text = f"{position} is acknowledged by owner {late}, which was asked after owner {known.opened_epoch} had it"
        demand(late is None, "fenced", text)
        demand(before < position, "G13", f"{position} is acknowledged for an append that came after {before}")
        known.acknowledged[payload] = position
        known.last_acknowledged = max(known.last_acknowledged, position)
        ledger = self._judge.of(position.ledger)
        is_listed = known.info.at(position.ledger) is not None or position.ledger in known.trimmed_or_empty
        demand(is_listed, "G12", f"{position} is acknowledged, and {ledger.name} is in no list")

    # -------------------------------------------------------------------------------------------------------------- end

    def finish(self) -> None:
        """All ledgers are closed: every list names its ledgers, and has what was acknowledged."""
        for path, known in self.logs.items():
            listed = {each.id for each in known.info.ledgers}
            for payload, position in known.acknowledged.items():
                ledger = self._judge.of(position.ledger)
                is_there = position.ledger in listed or (
                    ledger.is_deleted and position.ledger in known.trimmed_or_empty
                )
                is_in = ledger.payloads.get(position.entry) == payload and position.entry <= ledger.metadata.last
                demand(is_there and is_in, "G1", f"{position} of {path} was acknowledged, and is not there")
        named = {each.id for known in self.logs.values() for each in known.info.ledgers}
        for ledger in self._judge.ledgers.values():
            custom = ledger.metadata.custom
            if LOG_KEY in custom and CURSOR_KEY not in custom and not ledger.is_deleted:
                demand(ledger.id in named, "G12", f"{ledger.name} is in no list")
