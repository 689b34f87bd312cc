"""The cursors of a log: opened with it, stored while they move.

| event | order |
|---|---|
| create | a znode with the mark; no ledger |
| first time to be stored | a ledger, the state as its entry, then the znode names the ledger |
| later | the whole state as the next entry, at most one in `cursor_ms`, always the newest |
| the ledger is full | a new one, as at first; then the old one is closed and deleted |
| the ledger cannot be written | the state into the znode, which names no ledger any more; a new ledger later |
| takeover | the znode with the new epoch, by compare-and-set; then its ledger is recovered, and its last entry read |
| clean close | the state into the znode, if it fits; the ledger goes |
| delete | the znode, then the ledger |

An owner before, which still lives, can no longer store anything: its ledger is fenced, and the znode has another
version. An owner that notices that has lost the whole log.

Not here: what a cursor has consumed (`cursor_state`), a takeover (`cursor_loading`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from zab.coordination.operations import Create, Delete, Get, Multi, Set, Sync, ZooKeeperError
from zab.coordination.steps import Pause, Steps, read
from zab.ledger.entries.ids import NONE
from zab.ledger.managed.cursor_events import (
    CursorAcknowledge,
    CursorCall,
    CursorDelete,
    CursorFlush,
    CursorMark,
    CursorOpen,
    CursorOpened,
    CursorProperties,
)
from zab.ledger.managed.cursor_loading import CursorLoading
from zab.ledger.managed.cursor_parts import Cursor, CursorsOwner
from zab.ledger.managed.cursor_state import (
    RANGES_MAX,
    ZNODE_RANGES_MAX,
    CursorState,
    StoredCursor,
    check_properties,
    encode_cursor,
)
from zab.ledger.managed.deleting import delete_if_closed
from zab.ledger.managed.events import Done, Failed, LogReason
from zab.ledger.managed.log_info import (
    InvalidLogError,
    LogInfo,
    Position,
    check_name,
    cursor_path,
)
from zab.ledger.managed.parts import Handlers, Part, Parts
from zab.ledger.managed.sweep import CURSOR_KEY
from zab.ledger.store.events import Completed
from zab.ledger.store.ledgers import Created, create_ledger
from zab.ledger.writer.events import Abandon, Append, Appended, Close, WriterEnded, WriterState
from zab.ledger.writer.writer import LedgerWriter

CURSORS_MAX: Final = 1_000
"""The most cursors of one log."""
LEAVE_TRIES_MAX: Final = 200
LEAVE_MS: Final = 5
"""So often, and so long each time, a clean close waits for the ledgers of cursors to be closed."""


class Cursors:
    """`owner`: whose log it is; it says what its list is, and whether appends go on."""

    def __init__(self, owner: CursorsOwner, parts: Parts, list_handlers: Handlers, out: list[Any]) -> None:
        self._owner = owner
        self._list_handlers = list_handlers
        """The handlers of the owner: nothing is trimmed while one of them makes a cursor."""
        self._parts = parts
        self._out = out
        self._cursors: dict[str, Cursor] = {}
        self._waiting: list[CursorOpen | CursorFlush | CursorDelete] = []
        """What is asked before the cursors are loaded."""
        self._under_way: list[CursorOpen | CursorDelete] = []
        """What is asked, and not answered yet."""
        self._handlers = Handlers(owner.cursors_failed, self._begin_again)
        self._loading = CursorLoading(owner, parts, self._handlers, out, self._cursors, self._on_loaded)
        parts.add(self._handlers, None, lambda _token, _outcome: None)

    # --------------------------------------------------------------------------------------------------- what it shows

    @property
    def is_loaded(self) -> bool:
        return self._loading.is_loaded

    def load(self) -> Steps[None]:
        """Read all cursors, and claim them. Their ledgers are recovered meanwhile; see `is_loaded`."""
        return self._loading.load()

    def _on_loaded(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._ask(each)
        self._owner.cursors_are_loaded()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._cursors)

    def state(self, name: str) -> CursorState:
        """What it has consumed. Raises KeyError."""
        return self._cursors[name].state

    def backlog(self, name: str) -> int:
        """How many entries it has not consumed. Raises KeyError."""
        info, last = self._owner.info, self._owner.last_confirmed
        return 0 if info is None or last is None else self._cursors[name].state.backlog(info, last)

    def stored_marks(self) -> list[Position]:
        return [each.stored_mark for each in self._cursors.values()]

    @property
    def deadline_ms(self) -> int | None:
        return min((each.due_ms for each in self._cursors.values() if self._is_due_ever(each)), default=None)

    def _is_due_ever(self, each: Cursor) -> bool:
        return each.is_loaded and each.moves > each.stored and each.sending is None

    # --------------------------------------------------------------------------------------------------------- callers

    def takes(self, each: object) -> bool:
        """Take what callers ask. Whether it was one of these."""
        if not isinstance(each, CursorCall):
            return False
        if isinstance(each, CursorAcknowledge | CursorMark | CursorProperties):
            cursor = self._cursors.get(each.name)
            if cursor is not None and cursor.is_loaded and not self._owner.is_over and self._moved(cursor, each):
                cursor.moves += 1
        elif self._owner.is_over:
            self._out.append(Completed(each.token, self._owner.failed))
        elif not self.is_loaded:
            self._waiting.append(each)
        else:
            self._ask(each)
        return True

    def _moved(self, cursor: Cursor, each: CursorAcknowledge | CursorMark | CursorProperties) -> bool:
        info = self._info
        if isinstance(each, CursorProperties):
            check_properties(each.properties)
            cursor.state.properties = dict(each.properties)
            return True
        last = self._owner.last_confirmed
        if isinstance(each, CursorMark):
            is_known = last is not None and each.position <= last
            return is_known and cursor.state.mark_delete(each.position, info)
        here = info.at(each.ledger)
        if here is None or last is None or each.first < 0:
            return False
        end = here.entries - 1 if here.entries is not None else (last.entry if last.ledger == each.ledger else NONE)
        return cursor.state.acknowledge(each.ledger, each.first, min(each.last, end), info)

    def _ask(self, each: CursorOpen | CursorFlush | CursorDelete) -> None:
        cursor = self._cursors.get(each.name)
        match each:
            case CursorOpen(token) if cursor is not None:
                self._out.append(Completed(token, CursorOpened(cursor.state.mark, is_new=False)))
            case CursorOpen():
                self._under_way.append(each)
                self._list_handlers.offer(f"create {each.name} {each.token}", lambda: self._create(each))
            case CursorFlush(token) if cursor is not None:
                if cursor.moves == cursor.stored:
                    self._out.append(Completed(token, Done()))
                else:
                    cursor.flushes.append((cursor.moves, token))
                    cursor.due_ms = 0
            case CursorDelete() if cursor is not None:
                self._under_way.append(each)
                self._handlers.offer(f"delete {each.name} {each.token}", lambda: self._delete(each))
            case _:
                self._out.append(Completed(each.token, Failed(LogReason.NO_SUCH_CURSOR)))

    @property
    def _info(self) -> LogInfo:
        info = self._owner.info
        assert info is not None
        return info

    # -------------------------------------------------------------------------------------------------- create, delete

    def _create(self, asked: CursorOpen) -> Steps[None]:
        if asked.name in self._cursors:
            self._answer(asked, CursorOpened(self._cursors[asked.name].state.mark, is_new=False))
            return
        try:
            check_name(asked.name)
        except InvalidLogError as error:
            self._answer(asked, Failed(LogReason.NO_SUCH_CURSOR, str(error)))
            return
        if len(self._cursors) >= CURSORS_MAX:
            self._answer(asked, Failed(LogReason.TOO_MANY_CURSORS))
            return
        last = self._owner.last_confirmed
        mark = self._info.first if asked.is_earliest or last is None else last
        path = cursor_path(self._owner.logs, self._owner.name, asked.name)
        cursor = Cursor(asked.name, path, 0, self._owner.wall_ms, CursorState(mark), mark)
        if (yield from self._make(cursor)):
            self._cursors[asked.name] = cursor
            self._answer(asked, CursorOpened(mark, is_new=True))
        else:
            self._owner.cursor_is_taken()

    def _make(self, cursor: Cursor) -> Steps[bool]:
        """The znode, if the list is this owner's at that moment. Whether it is there."""
        path, data = cursor.path, self._znode_of(cursor, NONE)
        while True:
            (made,) = yield (Multi((self._owner.list.check(), Create(path, data))),)
            if made.ok:
                return True
            if made.error == ZooKeeperError.NONODE:
                # Never more than that: where the log itself is gone, it is not to be made again.
                parent = path.rpartition("/")[0]
                (above,) = yield (Create(parent),)
                if not (above.is_lost or above.is_missing or above.error == ZooKeeperError.NODEEXISTS):
                    above.must(parent)
            elif not made.is_lost and made.error not in (ZooKeeperError.BADVERSION, ZooKeeperError.NODEEXISTS):
                made.must(path)
            if not (yield from self._owner.list.still_mine()):
                return False
            (found,) = yield from read((Get(path),))
            if found.ok:
                return found.data == data

    def _delete(self, asked: CursorDelete) -> Steps[None]:
        cursor = self._cursors.get(asked.name)
        if cursor is not None:
            self._stop(cursor)
            flushes, cursor.flushes = cursor.flushes, []
            for _, token in flushes:
                self._out.append(Completed(token, Failed(LogReason.NO_SUCH_CURSOR)))
            (gone,) = yield (Delete(cursor.path, cursor.version),)
            while gone.is_lost:
                (gone,) = yield (Delete(cursor.path, cursor.version),)
            if gone.error == ZooKeeperError.BADVERSION:
                self._owner.cursor_is_taken()
                return
            if not gone.is_missing:
                gone.must(cursor.path)
            self._cursors.pop(asked.name, None)
            yield from delete_if_closed(self._owner.root, cursor.ledger)
        self._answer(asked, Done())

    def _answer(self, asked: CursorOpen | CursorDelete, outcome: object) -> None:
        if asked in self._under_way:
            self._under_way.remove(asked)
            self._out.append(Completed(asked.token, outcome))

    def _stop(self, cursor: Cursor) -> None:
        if cursor.part is not None:
            self._parts.remove(cursor.part)
        cursor.writer = cursor.part = None

    # --------------------------------------------------------------------------------------------------------- storing

    def check_times(self) -> bool:
        """Store what is due. Whether anything begins."""
        now, begun = self._owner.now_ms, False
        for cursor in self._cursors.values():
            if self._is_due_ever(cursor) and cursor.due_ms <= now:
                begun = True
                self._store(cursor)
        return begun

    def _store(self, cursor: Cursor) -> None:
        cursor.sending = cursor.moves, cursor.state.mark
        if cursor.writer is not None and cursor.part is not None and cursor.writer.state is WriterState.OPEN:
            is_full = cursor.writer.last_pushed + 1 >= self._owner.settings.cursor_entries
            if not is_full or self._owner.now_ms < cursor.ledger_due_ms:
                self._append(cursor)
                return
        name = cursor.name
        if self._owner.now_ms >= cursor.ledger_due_ms:
            self._handlers.offer(f"ledger of {name}", lambda: self._new_ledger(cursor))
        else:
            self._handlers.offer(f"store {name}", lambda: self._to_znode(cursor))

    def _append(self, cursor: Cursor) -> None:
        assert cursor.writer is not None
        assert cursor.part is not None
        stored = StoredCursor(cursor.created_ms, self._owner.epoch, cursor.writer.ledger, cursor.state)
        cursor.part.inputs.append(Append(encode_cursor(stored, RANGES_MAX), cursor.moves))

    def _new_ledger(self, cursor: Cursor) -> Steps[None]:
        """A ledger with the state as its first entry; the znode names it when that is there."""
        owner = self._owner
        metadata = owner.list.new_metadata({CURSOR_KEY: cursor.name.encode()})
        if metadata is not None:
            created = yield from create_ledger(owner.root, metadata)
            if isinstance(created, Created) and cursor.name in self._cursors:
                old = cursor.part
                cursor.writer = LedgerWriter(
                    owner.root, created.versioned, owner.placement, settings=owner.settings.writer
                )
                if old is not None:
                    old.inputs.append(Close("close", is_draining=False))
                cursor.part = self._parts.add(
                    cursor.writer,
                    created.versioned.ledger,
                    lambda token, outcome: self._answered(cursor, part, token, outcome),
                    is_writer=True,
                    effect=lambda effect: self._on_effect(cursor, part, effect),
                )
                part = cursor.part
                cursor.sending = cursor.moves, cursor.state.mark
                self._append(cursor)
                return
        cursor.ledger_due_ms = owner.now_ms + owner.settings.retry_ms
        yield from self._to_znode(cursor)

    def _answered(self, cursor: Cursor, part: Part, token: Hashable, outcome: object) -> None:
        if part is not cursor.part or cursor.sending is None or token == "close":
            return
        if not isinstance(outcome, Appended):
            self._give_up_ledger(cursor)
        elif cursor.is_switching:
            self._handlers.offer(f"switch {cursor.name}", lambda: self._switch(cursor))
        else:
            self._stored(cursor)

    def _on_effect(self, cursor: Cursor, part: Part, effect: Any) -> None:
        """A ledger that nobody names any more was closed: it goes. One that is named cannot be written any more."""
        if not isinstance(effect, WriterEnded):
            self._out.append(effect)
            return
        self._parts.remove(part)
        ledger = part.ledger
        if ledger is not None and ledger != cursor.ledger:
            self._handlers.offer(f"delete {ledger}", lambda: delete_if_closed(self._owner.root, ledger))
        if part is cursor.part:
            cursor.writer = cursor.part = None
            if cursor.sending is not None:
                self._give_up_ledger(cursor)

    def _give_up_ledger(self, cursor: Cursor) -> None:
        """It cannot be written: the znode has the state from now on, and another ledger follows later."""
        cursor.ledger_due_ms = self._owner.now_ms + self._owner.settings.retry_ms
        self._handlers.offer(f"store {cursor.name}", lambda: self._to_znode(cursor))

    def _switch(self, cursor: Cursor) -> Steps[None]:
        """The znode names the new ledger; then the old one goes."""
        if cursor.writer is None or cursor.sending is None:
            return
        old = cursor.ledger
        if (yield from self._set(cursor, cursor.writer.ledger)):
            self._stored(cursor)
            yield from delete_if_closed(self._owner.root, old)

    def _to_znode(self, cursor: Cursor) -> Steps[None]:
        """The state itself into the znode, which names no ledger any more."""
        old = cursor.ledger
        cursor.sending = cursor.moves, cursor.state.mark
        if (yield from self._set(cursor, NONE)):
            if cursor.part is not None:
                cursor.part.inputs.append(Close("close", is_draining=False))
                cursor.writer = cursor.part = None
            self._stored(cursor)
            yield from delete_if_closed(self._owner.root, old)

    def _znode_of(self, cursor: Cursor, ledger: int) -> bytes:
        stored = StoredCursor(cursor.created_ms, self._owner.epoch, ledger, cursor.state)
        return encode_cursor(stored, ZNODE_RANGES_MAX)

    def _set(self, cursor: Cursor, ledger: int) -> Steps[bool]:
        """Write the znode by compare-and-set. If another one has written it, the log is another owner's."""
        data = self._znode_of(cursor, ledger)
        sent = cursor.moves, cursor.state.mark
        while True:
            (written,) = yield (Set(cursor.path, data, cursor.version),)
            if written.ok:
                cursor.version = written.stat.version
                break
            if not written.is_lost and written.error not in (ZooKeeperError.BADVERSION, ZooKeeperError.NONODE):
                written.must(cursor.path)
            _, found = yield from read((Sync(cursor.path), Get(cursor.path)))
            if found.ok and found.data == data:
                cursor.version = found.stat.version
                break
            if found.ok and found.stat.version == cursor.version:
                continue
            if cursor.name in self._cursors:
                self._owner.cursor_is_taken()
            return False
        cursor.ledger = ledger
        if ledger == NONE:
            # The writer may have answered meanwhile.
            cursor.sending = sent
        return True

    def _stored(self, cursor: Cursor) -> None:
        """What was sent is stored. If nothing is being sent, that was stored in another way, or will be sent again."""
        if cursor.sending is None:
            return
        (cursor.stored, cursor.stored_mark), cursor.sending = cursor.sending, None
        cursor.due_ms = self._owner.now_ms + self._owner.settings.cursor_ms
        ready = [token for moves, token in cursor.flushes if moves <= cursor.stored]
        cursor.flushes = [each for each in cursor.flushes if each[0] > cursor.stored]
        self._out.extend(Completed(token, Done()) for token in ready)
        if cursor.flushes:
            cursor.due_ms = 0

    # ------------------------------------------------------------------------------------------------------------ ends

    def leave(self) -> Steps[None]:
        """A clean close: states into znodes, if they fit; their ledgers go."""
        left: list[tuple[int, Part | None]] = []
        for cursor in list(self._cursors.values()):
            fits = len(cursor.state.lowest(ZNODE_RANGES_MAX + 1)) <= ZNODE_RANGES_MAX
            is_stored = cursor.moves == cursor.stored and cursor.ledger == NONE
            if not cursor.is_loaded or is_stored or not fits:
                continue
            old, part = cursor.ledger, cursor.part
            cursor.sending = cursor.moves, cursor.state.mark
            if (yield from self._set(cursor, NONE)):
                self._stored(cursor)
                if part is not None:
                    part.inputs.append(Close("close", is_draining=False))
                left.append((old, part))
        for _ in range(LEAVE_TRIES_MAX):
            if not any(part is not None and self._parts.has(part) for _, part in left):
                break
            yield Pause(LEAVE_MS)
        for ledger, _ in left:
            yield from delete_if_closed(self._owner.root, ledger)

    def _begin_again(self) -> None:
        """What was being stored is stored again, and what was asked is begun again."""
        again, self._under_way = self._under_way, []
        for each in again:
            self._ask(each)
        for cursor in self._cursors.values():
            if cursor.sending is not None and (cursor.part is None or cursor.is_switching):
                cursor.sending = None
                cursor.due_ms = 0
        self._loading.begin_again()

    def end(self) -> None:
        """Nothing is stored from now on."""
        for cursor in self._cursors.values():
            if cursor.part is not None:
                cursor.part.inputs.append(Abandon())
            self._out.extend(Completed(token, self._owner.failed) for _, token in cursor.flushes)
            cursor.flushes = []
        asked = [*self._waiting, *self._under_way]
        self._waiting, self._under_way = [], []
        self._out.extend(Completed(each.token, self._owner.failed) for each in asked)
