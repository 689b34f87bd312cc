"""The tasks and worker threads that a member's turn starts without waiting for them, on trio.

    Tasks           dials, reads for learners and for the change feed, fetches snapshots, and has snapshots written

This is a port of `zab.member.turn`, which decides when it is used. Answers go to the `Mailbox`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import attrs
import trio

from datatree.log.disk import is_out_of_descriptors
from datatree.log.zxid import Zxid
from zab.host.journal.journal import Journal
from zab.host.loop.dial import Address
from zab.host.loop.greeting import Greeting
from zab.host.loop.link_dial import dial_link
from zab.host.loop.links import Links
from zab.host.loop.mailbox import Mailbox
from zab.member.events import Answer, Input
from zab.member.storage.events import (
    ChooseSnapshot,
    FetchFailed,
    FetchTree,
    LookBackSlice,
    ReadChanges,
    SnapshotFetched,
    StorageFailed,
    TakeSnapshot,
)
from zab.member.storage.snapshot_fetch import FetchError
from zab.member.storage.storage import Storage
from zab.member.trees.events import KeepSnapshot, RebuildTree
from zab.member.words.events import LookedAround
from zab.member.words.surroundings import Surroundings
from zab.protocol import effects as fx
from zab.protocol.message import Message
from zab.quorum.ids import Link, ServerId
from zab.server.snapshot_transfer import Fetcher
from zab.server.snapshotter import Snapshotter

E = TypeVar("E")

Spawn: TypeAlias = Callable[..., None]
"""Starts a task of the server: an async function and its arguments."""


journal = Journal("server")


@attrs.define
class Tasks:
    """The port `zab.member.ports.Tasks`."""

    mailbox: Mailbox[Answer]
    links: Links[Message, Input]
    storage: Storage
    snapshotter: Snapshotter
    quorum_addresses: Mapping[ServerId, Address]
    observer_addresses: Mapping[ServerId, Address]
    """The addresses of masters for observers."""
    greeting: Greeting
    connect_timeout_ms: int
    stall_ms: int
    """How long a snapshot transfer may make no progress."""
    spawn: Spawn
    look: Callable[[], Surroundings]
    """Looks at the surroundings of the member; slow."""
    purge: Callable[[Mapping[Link, Zxid]], None]
    """Removes the files that retention does not need, except those offered on these links."""
    answers: deque[Answer] = attrs.field(init=False)
    _observed: ServerId | None = None
    """The last server that was dialled as an observer."""
    _fetching: trio.CancelScope | None = None
    _file: trio.Lock = attrs.Factory(trio.Lock)
    """Held by the task that writes the fetched file: one that was stopped may have a write under way."""

    def __attrs_post_init__(self) -> None:
        self.answers = self.mailbox.items

    # --------------------------------------------------------------------------------------------------------- dialling

    def dial(self, sid: ServerId, *, as_observer: bool = False) -> None:
        self._observed = sid if as_observer else None
        self.spawn(self._dial, sid, self._address(sid))

    def _address(self, sid: ServerId) -> Address:
        return (self.observer_addresses if sid == self._observed else self.quorum_addresses)[sid]

    async def _dial(self, sid: ServerId, address: Address) -> None:
        await dial_link(self.links, self.greeting, sid, address, self.connect_timeout_ms / 1000)
        self.mailbox.wake()

    # ---------------------------------------------------------------------------------------------------------- reading

    def read_log(self, effect: fx.ReadLog) -> None:
        self.spawn(self._answer, self.storage.read_log, effect)

    def read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        self.spawn(self._answer, self.storage.read_for_changes, effect)

    def offer_snapshot(self, effect: fx.OfferSnapshot) -> None:
        self.spawn(self._answer, self.storage.offer_snapshot, effect)

    def choose_snapshot(self, effect: ChooseSnapshot) -> None:
        self.spawn(self._answer, self.storage.choose_snapshot, effect)

    def look_around(self) -> None:
        self.spawn(self._look_around)

    async def _look_around(self) -> None:
        self.mailbox.put(LookedAround(await trio.to_thread.run_sync(self.look)))

    async def _answer(self, read: Callable[[E], Answer], effect: E) -> None:
        self.mailbox.put(await trio.to_thread.run_sync(read, effect))

    # -------------------------------------------------------------------------------------------------------- snapshots

    def take_snapshot(self, effect: TakeSnapshot) -> None:
        self.snapshotter.take(effect)
        self.snapshotter.preallocate()

    def rebuild_tree(self, effect: RebuildTree) -> None:
        self.snapshotter.rebuild(effect)

    def keep_snapshot(self, effect: KeepSnapshot) -> None:
        self.snapshotter.keep(effect)

    def fetch(self, effect: fx.FetchSnapshot | FetchTree) -> None:
        assert self._fetching is None
        self._fetching = trio.CancelScope()
        self.spawn(self._fetch, effect, self._fetching)

    def stop_fetching(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None

    async def _fetch(self, effect: fx.FetchSnapshot | FetchTree, scope: trio.CancelScope) -> None:
        address = self._address(effect.sid)
        journal.info("snapshot is fetched", sid=effect.sid, zxid=f"{effect.zxid:#x}")
        answer: Answer = SnapshotFetched(effect)
        with scope:
            try:
                async with self._file:
                    await Fetcher(self.storage.disk, effect, self.greeting, address, self.stall_ms).run()
            except FetchError as error:
                answer = FetchFailed(effect, str(error))
            except OSError as error:
                if is_out_of_descriptors(error):
                    answer = FetchFailed(effect, str(error))
                else:
                    # Even if nothing waits for the file any longer, the disk has failed.
                    self.mailbox.put(StorageFailed(f"cannot write what is fetched: {error}"))
                    return
        if self._fetching is scope:
            self._fetching = None
            self.mailbox.put(answer)
