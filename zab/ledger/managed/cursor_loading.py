"""How the cursors of a log are read when an owner takes it over: claimed, recovered, and the last entry read.

    znode with the new epoch, by compare-and-set -> ledger recovered -> last entry read -> state fitted to the list

An entry that cannot be read leaves what the znode says: some entries are delivered again.

Not here: when all of that begins (`owner`), and what comes after it (`cursors`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from attrs import evolve

from zab.coordination.operations import Children, Get, Set, Sync, ZooKeeperError
from zab.coordination.steps import Pause, Steps, read
from zab.ledger.entries.ids import NONE
from zab.ledger.managed.cursor_parts import Cursor, CursorsOwner
from zab.ledger.managed.cursor_state import ZNODE_RANGES_MAX, decode_cursor, encode_cursor
from zab.ledger.managed.log_info import InvalidLogError, LogInfo, Position, cursors_path, name_of
from zab.ledger.managed.parts import Handlers, Part, Parts
from zab.ledger.reader.events import Delivered, DigestError, EntryLost, LedgerMissing, ReadDone, ReadRange
from zab.ledger.reader.reader import Reader
from zab.ledger.recovery.events import NoSuchLedger, Recovered
from zab.ledger.recovery.recovery import Recovery


class CursorLoading:
    """`cursors`: where they go, by their names. `on_loaded`: called once all are read."""

    def __init__(
        self,
        owner: CursorsOwner,
        parts: Parts,
        handlers: Handlers,
        out: list[Any],
        cursors: dict[str, Cursor],
        on_loaded: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._parts = parts
        self._handlers = handlers
        self._out = out
        self._cursors = cursors
        self._on_loaded = on_loaded
        self._is_listed = False

    @property
    def is_loaded(self) -> bool:
        return self._is_listed and all(each.is_loaded for each in self._cursors.values())

    def begin_again(self) -> None:
        """Handlers are gone: recover what was not read yet."""
        for cursor in self._cursors.values():
            if not cursor.is_loaded:
                self._handlers.offer(f"recover {cursor.name}", partial(self._again, cursor))

    def load(self) -> Steps[None]:
        """Read all cursors, and claim them. Their ledgers are recovered meanwhile; see `is_loaded`."""
        if self._is_listed:
            return
        owner = self._owner
        path = cursors_path(owner.logs, owner.name)
        _, listed = yield from read((Sync(path), Children(path)))
        for child in () if listed.is_missing else listed.must(path).children:
            cursor = yield from self._claim(name_of(child), f"{path}/{child}")
            if cursor is None:
                continue
            self._cursors[cursor.name] = cursor
            if cursor.ledger >= 0:
                cursor.is_loaded = False
                self._recover(cursor)
        self._is_listed = True
        self._loaded()

    def _claim(self, name: str, path: str) -> Steps[Cursor | None]:
        """The znode with this owner's epoch: the owner before can no longer write it. None: it is gone."""
        while True:
            _, found = yield from read((Sync(path), Get(path)))
            if found.is_missing:
                return None
            stored = decode_cursor(found.must(path).data)
            if stored.epoch > self._owner.epoch:
                self._owner.cursor_is_taken()
                return None
            claimed = encode_cursor(evolve(stored, epoch=self._owner.epoch), ZNODE_RANGES_MAX)
            (written,) = yield (Set(path, claimed, found.stat.version),)
            if written.ok:
                state = stored.state
                version = written.stat.version
                return Cursor(name, path, version, stored.created_ms, state, state.mark, stored.ledger)
            if not written.is_lost and written.error not in (ZooKeeperError.BADVERSION, ZooKeeperError.NONODE):
                written.must(path)

    def _recover(self, cursor: Cursor) -> None:
        owner = self._owner
        core = Recovery(
            owner.root, cursor.ledger, owner.placement, password=owner.password, settings=owner.settings.recovery
        )
        part = self._parts.add(core, cursor.ledger, lambda _token, outcome: self._recovered(cursor, part, outcome))

    def _recovered(self, cursor: Cursor, part: Part, outcome: object) -> None:
        self._parts.remove(part)
        match outcome:
            case Recovered(versioned) if versioned.metadata.last >= 0:
                self._read(cursor, versioned.metadata.last)
            case Recovered() | NoSuchLedger():
                self._is_read(cursor)
            case _:
                self._handlers.offer(f"recover {cursor.name}", lambda: self._again(cursor))

    def _again(self, cursor: Cursor) -> Steps[None]:
        yield Pause(self._owner.settings.retry_ms)
        self._recover(cursor)

    def _read(self, cursor: Cursor, last: int) -> None:
        """The last entry of its ledger, which is closed."""
        found: list[bytes] = []
        reader = Reader(self._owner.root, cursor.ledger, password=self._owner.password)

        def completed(_token: Hashable, outcome: object) -> None:
            self._parts.remove(part)
            if isinstance(outcome, ReadDone) and found:
                self._took(cursor, found[0])
            elif isinstance(outcome, EntryLost | DigestError | LedgerMissing):
                cursor.note = f"its ledger {cursor.ledger} cannot be read: {type(outcome).__name__}"
                self._is_read(cursor)
            else:
                self._handlers.offer(f"recover {cursor.name}", lambda: self._again(cursor))

        def effect(each: Any) -> None:
            if isinstance(each, Delivered):
                found.extend(entry.payload for entry in each.entries)
            else:
                self._out.append(each)

        part = self._parts.add(reader, cursor.ledger, completed, effect=effect)
        part.inputs.append(ReadRange("last", last, last))

    def _took(self, cursor: Cursor, data: bytes) -> None:
        """The znode may say more than the ledger: it was written after the ledger's first entry."""
        of_znode, info = cursor.state, self._owner.info
        assert info is not None
        try:
            cursor.state = decode_cursor(data).state
            cursor.state.mark_delete(of_znode.mark, info)
            for ledger, first, last in of_znode.ranges:
                cursor.state.acknowledge(ledger, first, last, info)
        except InvalidLogError as error:
            cursor.note = f"entry of its ledger {cursor.ledger}: {error}"
        self._is_read(cursor)

    def _is_read(self, cursor: Cursor) -> None:
        """Its state is known. Its ledger is closed: what comes next is stored in another one."""
        cursor.is_loaded = True
        if self._is_listed:
            self._loaded()

    def _loaded(self) -> None:
        if not self.is_loaded:
            return
        info = self._owner.info
        assert info is not None
        for cursor in self._cursors.values():
            wrong = cursor.state.fit(info, self._end_of(info))
            cursor.note = wrong or cursor.note
            cursor.stored_mark = cursor.state.mark
        self._on_loaded()

    @staticmethod
    def _end_of(info: LogInfo) -> Position:
        """The last entry that a cursor may have consumed: the open ledger is new, and empty."""
        return Position(info.open_ledger.id, NONE) if info.open_ledger is not None else info.last
