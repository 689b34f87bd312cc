"""Checks that a connection gets exactly the watch events that are due, at the right time.

The judge keeps the watches of one connection as its client knows them: set by replies, in the order of arrival. With
every message it goes through all changes up to that message's zxid (`model`), and so knows which events must have come
before it:

    no event comes before the reply that registered its watch        it is not expected yet
    no watch is lost                                                 a message comes for a zxid after an expected event
    none fires twice                                                 the second one is not expected
    the order is that of the transactions                            the oldest expected event is the next to come

Watches that move to another connection (setWatches) report at once what changed meanwhile, in events with zxid -1
before the reply; the model at the zxid of the reply says what they have to be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from datatree.requests import SetWatches
from zab.simulator.ensemble.judges.model import CHANGED, CHILD, CHILDREN_CHANGED, CREATED, DATA, DELETE, DELETED, Model
from zab.simulator.world.verdict import SafetyError

Event = tuple[int, bytes]
"""Type and path."""


class WatchChecker:
    """The watches of one connection."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._at = 0
        """How many of the model's triggers have been handled."""
        self._expected: deque[tuple[int, int, bytes]] = deque()
        self.data: dict[bytes, bool] = {}
        """Data watches, and whether the znode existed when the watch was set."""
        self.child: dict[bytes, None] = {}
        self.persistent: dict[bytes, None] = {}
        self.recursive: dict[bytes, None] = {}
        self._made_up: list[Event] = []

    # ----------------------------------------------------------------------------------------------------- what comes

    def event(self, zxid: int, kind: int, path: bytes) -> None:
        """Check an event."""
        if zxid == -1:
            self._made_up.append((kind, path))
            return
        self._go_to(zxid)
        expected = self._expected.popleft() if self._expected else None
        if expected != (zxid, kind, path):
            wanted = "none" if expected is None else f"{expected[1]} of {expected[2]!r} at {expected[0]:#x}"
            raise SafetyError("watches", f"event {kind} of {path!r} at {zxid:#x} has come, expected is {wanted}")

    def reply(self, zxid: int) -> None:
        """Check that every event up to the zxid of a reply has come before it."""
        self._go_to(zxid)
        if self._expected:
            lost_at, kind, path = self._expected[0]
            raise SafetyError(
                "watches", f"event {kind} of {path!r} at {lost_at:#x} is lost: a reply at {zxid:#x} has come"
            )

    # ---------------------------------------------------------------------------------------------------- what is set

    def set_data(self, path: bytes, *, is_there: bool) -> None:
        """Note a data watch, since the reply that registered it has come."""
        self.data.setdefault(path, is_there)

    def set_child(self, path: bytes) -> None:
        self.child[path] = None

    def set_mode(self, path: bytes, mode: int) -> None:
        (self.persistent if mode == 0 else self.recursive)[path] = None

    def request(self, seen: int) -> SetWatches | None:
        """The request that moves these watches to another connection; None if there are none."""
        if not (self.data or self.child or self.persistent or self.recursive):
            return None
        there = tuple(path for path, is_there in self.data.items() if is_there)
        absent = tuple(path for path, is_there in self.data.items() if not is_there)
        return SetWatches(seen, there, absent, tuple(self.child), tuple(self.persistent), tuple(self.recursive))

    def adopt(self, request: SetWatches) -> None:
        """Keep watches of a request whose connection broke before they were restored, for the next one."""
        for path in request.data:
            self.data.setdefault(path, True)
        for path in request.exist:
            self.data.setdefault(path, False)
        self.child.update(dict.fromkeys(request.child))
        self.persistent.update(dict.fromkeys(request.persistent or ()))
        self.recursive.update(dict.fromkeys(request.recursive))

    def restored(self, request: SetWatches, zxid: int) -> None:
        """Continue with these watches, since the reply to setWatches has come with this zxid."""
        made_up: list[Event] = []
        model = self._model
        for path, is_there in (*((p, True) for p in request.data), *((p, False) for p in request.exist)):
            znode = model.znode_at(path, zxid)
            if is_there and znode is None:
                made_up.append((DELETED, path))
            elif znode is not None and (not is_there or znode.mzxid > request.zxid):
                made_up.append((CHANGED if is_there else CREATED, path))
            else:
                self.set_data(path, is_there=is_there)
        for path in request.child:
            znode = model.znode_at(path, zxid)
            if znode is None:
                made_up.append((DELETED, path))
            elif znode.pzxid > request.zxid:
                made_up.append((CHILDREN_CHANGED, path))
            else:
                self.set_child(path)
        for path in request.persistent or ():
            self.set_mode(path, 0)
        for path in request.recursive:
            self.set_mode(path, 1)
        if made_up != self._made_up:
            raise SafetyError("watches", f"setWatches at {zxid:#x} told {self._made_up}, expected is {made_up}")
        self._made_up = []

    # -------------------------------------------------------------------------------------------------------- the twin

    def _go_to(self, zxid: int) -> None:
        """Go through all changes up to this zxid."""
        zxids = self._model.trigger_zxids
        if not (self.data or self.child or self.persistent or self.recursive):
            self._at = bisect_right(zxids, zxid)
            return
        while self._at < len(zxids) and zxids[self._at] <= zxid:
            kind, path, event = self._model.triggers[self._at]
            if self._concerns(kind, path):
                self._expected.append((zxids[self._at], event, path))
            self._at += 1

    def _concerns(self, kind: int, path: bytes) -> bool:
        """Whether this connection gets an event; one-shot watches are removed."""
        told = path in self.persistent
        if kind in (DATA, DELETE):
            told = self.data.pop(path, None) is not None or told
            told = told or any(path == top or path.startswith(top + b"/") for top in self.recursive)
        if kind in (CHILD, DELETE) and path in self.child:
            del self.child[path]
            told = True
        return told
