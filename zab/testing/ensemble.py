"""A real ensemble for a test: its members run in this process, each in a thread of its own.

    with Ensemble(3) as e:                  plain code
        kazoo = KazooClient(e.hosts)

    async with Ensemble(3) as e:            trio or asyncio
        async with e.connect() as zk: ...

Members are the same as those of `zab server`: the same code, sockets, disks and secrets. They listen on free loopback
ports, their data is in a temporary directory, and both are removed at the end of the block. So are the threads, except
those of trio's pool, which end by themselves after ten seconds.

A member that ends by itself fails the test: the next call to the ensemble raises MemberFailedError, at the latest the
end of the block.

Methods block only briefly, and may be called from any thread and from asynchronous code. A slow method has two forms:
`wait_until_serving` blocks, `until_serving` is awaited.

Partitions are between members (`wires`): clients still reach all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import trio

from session.identity import SessionId
from zab.host.files.secret_file import make_secret_file
from zab.host.loop.dial import Address, Dial, dial
from zab.host.process.refusal import refusal
from zab.server.server import Server
from zab.testing.clearing import clear, left_of
from zab.testing.connecting import Connecting
from zab.testing.errors import EnsembleError
from zab.testing.expiry import Expiry, end_local_session, end_session, session_of
from zab.testing.kit.groups import cut_between
from zab.testing.kit.in_thread import elsewhere
from zab.testing.kit.journals import kept
from zab.testing.kit.listeners import listeners
from zab.testing.kit.ports import free_ports
from zab.testing.kit.wires import Wires
from zab.testing.member import Member
from zab.testing.settings import Place, Value, check_size, configuration, refuse_own

PATIENCE_SECONDS: Final = 60.0
"""How long an ensemble may take to start before it is given up."""
_PROBE_SECONDS: Final = 0.002
_AGAIN_SECONDS: Final = 1.0
"""The time after which an unfinished request is repeated, since leaders may change."""
_TAIL_LINES: Final = 5


class Ensemble:
    """An ensemble for tests. It is opened once."""

    def __init__(
        self,
        size: int = 1,
        configuration: Mapping[str, Value] = MappingProxyType({}),
        *,
        observers: int = 0,
        **keys: Value,
    ) -> None:
        """`size` voters, and observers. Keys of `zoo.cfg` are given as keywords, or in a mapping if their names have
        dots. Raises ValueError for an impossible ensemble."""
        check_size(size, observers)
        self._keys = {**configuration, **keys}
        refuse_own(self._keys)
        reason = refusal()
        if reason is not None:
            raise EnsembleError(reason)
        self._size, self._observers = size, observers
        self._members: dict[int, Member] = {}
        self._wires: Wires | None = None
        self._undo: contextlib.ExitStack | None = None
        self._is_closed = False
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        return f"<ensemble of {', '.join(f'{sid}: {member.state}' for sid, member in self._members.items())}>"

    # ------------------------------------------------------------------------------------------------------ the block

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()
        self._tell_failures(error)

    async def __aenter__(self) -> Self:
        try:
            await elsewhere(self._open)
        except asyncio.CancelledError:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await elsewhere(self._close)
        self._tell_failures(error)

    def _open(self) -> None:
        """Start all members, and return when they serve."""
        if self._undo is not None:
            raise EnsembleError("an ensemble is opened once: make another one")
        self._undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.callback(self._close)
            self._undo.enter_context(kept())
            directory = Path(self._undo.enter_context(tempfile.TemporaryDirectory(prefix="zab-testing-")))
            self._make_members(directory)
            for tell in listeners:
                tell(self)
            for member in self._members.values():
                self._undo.callback(member.close)
                member.begin()
            self.wait_until_serving()
            undo.pop_all()

    def _make_members(self, directory: Path) -> None:
        count = self._size + self._observers
        ports = free_ports(3 * count)
        places = [
            Place(sid, client_port, quorum_port, election_port, directory / str(sid), sid > self._size)
            for sid, (client_port, quorum_port, election_port) in enumerate(zip(*[iter(ports)] * 3, strict=True), 1)
        ]
        secret_path = directory / "secret"
        if count > 1:
            make_secret_file(str(secret_path))
            self._wires = Wires(
                {port: place.sid for place in places for port in (place.quorum_port, place.election_port)}
            )
            self._wires.start()
            assert self._undo is not None
            self._undo.callback(self._wires.close)
        for place in places:
            config = configuration(place, places, secret_path, self._keys)
            self._members[place.sid] = Member(place, config, self._dial(place.sid), self._notify)

    def _dial(self, own: int) -> Dial:
        wires = self._wires
        if wires is None:
            return dial

        async def through_wires(address: Address, *, is_local_only: bool) -> trio.SocketStream:
            return await wires.dial(own, address)

        return through_wires

    def _close(self) -> None:
        """End everything, in reverse order. No-op the second time."""
        self._is_closed = True
        undo, self._undo = self._undo, contextlib.ExitStack()
        for member in self._members.values():
            if member.life is not None:
                member.life.let_go(drops=True)
        if undo is not None:
            undo.close()
        self._notify()

    def _tell_failures(self, error: BaseException | None) -> None:
        """Raise the failure of a member, or add it to the current exception."""
        failures = [failed for member in self._members.values() if (failed := member.failure) is not None]
        if error is not None:
            for failed in failures:
                error.add_note(str(failed))
        elif failures:
            raise failures[0]

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # --------------------------------------------------------------------------------------------------- what there is

    @property
    def members(self) -> Mapping[int, Member]:
        """The members by id, from 1; observers come last."""
        return MappingProxyType(self._members)

    @property
    def hosts(self) -> str:
        """The connection string of all members, for any client of ZooKeeper."""
        return ",".join(member.hosts for member in self._members.values())

    @property
    def leader(self) -> Member | None:
        """The member that leads; None while there is none. A member that is cut off from a majority, or paused, may
        believe that it leads: of two such members, the one elected later is returned."""
        leading = [member for member in self._members.values() if member.is_leading and self._has_majority(member)]
        return max(leading, key=_epoch, default=None)

    def _has_majority(self, member: Member) -> bool:
        """Whether a majority of the voters can answer this one."""
        voters = range(1, self._size + 1)
        answering = [sid for sid in voters if self._reaches(member, self._members[sid])]
        return 2 * len(answering) > self._size

    def _reaches(self, one: Member, two: Member) -> bool:
        is_cut = self._wires is not None and self._wires.is_cut(one.sid, two.sid)
        return not is_cut and all(member.is_running and not member.is_paused for member in (one, two))

    def _serves(self, member: Member) -> bool:
        """Whether a member really serves: it can reach its leader."""
        leader = self.leader
        return member.is_serving and leader is not None and member.follows(leader) and self._reaches(member, leader)

    @property
    def journal(self) -> str:
        """The journals of all members, each under its name."""
        return "\n".join(f"member {sid}:\n{member.journal}" for sid, member in self._members.items())

    def connect(self, **options: Any) -> Connecting:
        """A client of this ensemble: `with e.connect() as zk` in plain code, `async with e.connect() as zk` in trio and
        asyncio. The options are those of `zab.client.connect`; `hosts` may name a chroot, or fewer members."""
        return Connecting(options.pop("hosts", self.hosts), options)

    # ---------------------------------------------------------------------------------------------------- what is done

    def wait_until_serving(self, *sids: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until these members serve; without ids, all that run and are not paused. Raises EnsembleError after
        `seconds`."""
        for sid in sids:
            self._member(sid)
        deadline = time.monotonic() + seconds
        with self._changed:
            while not self._are_serving(sids):
                left = deadline - time.monotonic()
                if self._is_closed:
                    raise EnsembleError("the ensemble is closed")
                if left <= 0:
                    raise EnsembleError(f"not serving after {seconds:g} s: {self!r}\n{self._tails()}")
                self._changed.wait(left)

    async def until_serving(self, *sids: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait like `wait_until_serving`, without blocking the event loop."""
        await elsewhere(lambda: self.wait_until_serving(*sids, seconds=seconds))

    def _are_serving(self, sids: Collection[int]) -> bool:
        for member in self._members.values():
            member.raise_failure()
        wanted = [member for member in self._members.values() if member.is_running and not member.is_paused]
        return bool(wanted) and all(map(self._serves, [self._members[sid] for sid in sids] or wanted))

    def partition(self, *groups: Collection[int]) -> None:
        """Cut the links between members of different groups; members that no group names are one more group. Replaces
        an earlier partition."""
        cut = cut_between(groups, self._members)
        self._check()
        if self._wires is not None:
            self._wires.set_cut(cut)

    def heal(self) -> None:
        """Mend all links; messages on the way arrive."""
        self._check()
        if self._wires is not None:
            self._wires.set_cut(())

    def expire(self, session: Any, *, seconds: float = PATIENCE_SECONDS) -> None:
        """End a session, given by id or by a client of zab or kazoo, as if its client had been silent for too long.
        Returns when its ephemerals are gone on all members that serve. Raises ValueError if there is no such session,
        EnsembleError if no leader of a quorum can end it in time."""
        self._check()
        wanted = session_of(session)
        deadline = time.monotonic() + seconds
        is_known = False
        for member in self._members.values():
            life = None if member.is_paused else member.life
            if life is not None and life.ask(lambda server: _end_local(server, wanted)):
                return
        while time.monotonic() < deadline:
            leader = self.leader
            life = None if leader is None else leader.life
            found = None if life is None else life.ask(lambda server: _end(server, wanted))
            if found is Expiry.UNKNOWN:
                if not is_known:
                    raise ValueError(f"there is no session {wanted:#x}")
                if not any(self._still_has(member, wanted) for member in self._members.values()):
                    return
            is_known = is_known or found is Expiry.UNDER_WAY
            time.sleep(_PROBE_SECONDS)
        raise EnsembleError(f"nobody could end session {wanted:#x} in {seconds:g} s: {self!r}")

    def _still_has(self, member: Member, session: int) -> bool:
        """Whether a member serves a session of which it has not heard yet that it is over."""
        life = member.life
        if life is None or member.is_paused or not member.is_serving:
            return False
        return bool(life.ask(lambda server: session in server.member.tree.sessions))

    def disconnect(self, session: Any) -> None:
        """Break the connection of a session, given by id or by a client of zab or kazoo. No-op if it has none."""
        self._check()
        wanted = session_of(session)
        for member in self._members.values():
            if member.life is not None and not member.is_paused:
                member.life.ask(lambda server: _disconnect(server, wanted))

    def restore(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Restore the initial state: all members run and reach each other, there are no sessions and no znodes. Raises
        EnsembleError if that takes longer than `seconds`."""
        self.heal()
        for member in self._members.values():
            member.resume()
            member.start()
        self.wait_until_serving(seconds=seconds)
        deadline = time.monotonic() + seconds
        again = 0.0
        while (now := time.monotonic()) < deadline:
            leader = self.leader
            life = None if leader is None else leader.life
            if life is not None and life.ask(lambda server: left_of(server.member)) == 0:
                return
            if life is not None and now >= again:
                again = now + _AGAIN_SECONDS
                life.ask(_clear)
            time.sleep(_PROBE_SECONDS)
        raise EnsembleError(f"the tree is not empty after {seconds:g} s: {self!r}")

    def _member(self, sid: int) -> Member:
        if sid not in self._members:
            raise ValueError(f"there is no member {sid}: there are {', '.join(map(str, self._members))}")
        return self._members[sid]

    def _check(self) -> None:
        if self._is_closed or self._undo is None:
            raise EnsembleError("the ensemble is not open")
        for member in self._members.values():
            member.raise_failure()

    def _tails(self) -> str:
        tails = []
        for sid, member in self._members.items():
            tails += [f"member {sid}: {line}" for line in member.journal.splitlines()[-_TAIL_LINES:]]
        return "\n".join(tails)


def _epoch(member: Member) -> int:
    """The epoch in which it was elected, as seen from outside its thread."""
    life = member.life
    server = None if life is None else life.service
    return -1 if server is None else server.member.peer.epoch


def _end(server: Server, session: int) -> Expiry:
    found = end_session(server.member, session)
    server.loop.wake()
    return found


def _end_local(server: Server, session: int) -> bool:
    is_ended = end_local_session(server.member, session)
    if is_ended:
        _disconnect(server, session)
    return is_ended


def _disconnect(server: Server, session: int) -> None:
    connection = server.member.clients.by_session.get(SessionId(session))
    if connection is not None:
        server.clients.break_off(connection)


def _clear(server: Server) -> None:
    clear(server.member)
    server.loop.wake()
