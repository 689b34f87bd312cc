"""Exchanges: the same requests to two servers, and what came back, as lists that can be compared line by line.

An exchange is a list of steps; a step says which connection does what:

    ("a", create("/wire/x"))            a request; its reply, then whatever else was sent to any connection
    ("a", Frames(b"...", 2))            bytes as they are, after which two replies are due
    ("a", Again())                      the socket is dropped and the session comes back on a new connection
    ("b", Rewatch(7, (("/x",), (), ())))    setWatches by one who has seen what the first seven zxids did
    ("b", Ends())                       the session is closed

Connections are opened when they are first named: "a" to "f" are sessions.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.conformance.conftest import SUPER
from tests.conformance.wire import (
    CLOSE_SESSION,
    PING,
    PING_XID,
    ConnectionClosedError,
    Request,
    SilentError,
    View,
    Wire,
    auth,
    children,
    create,
    delete,
    exists,
    get,
    get_acl,
    set_watches,
    sync,
)

UNIMPLEMENTED = -6
NOAUTH = -102
CLOSING_SECONDS = 30.0


@dataclass(frozen=True)
class Frames:
    """Raw bytes, and how many replies they cause. `opcodes`: of those replies, in order, for taking them apart."""

    data: bytes
    replies_count: int = 1
    opcodes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Again:
    """The connection is lost and the session comes back, on the member with this index (modulo their number)."""

    member: int = 0


@dataclass(frozen=True)
class Rewatch:
    """setWatches, or setWatches2 with five lists, as by a client that has seen `seen_count` of the zxids since the
    beginning."""

    seen_count: int
    lists: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Ends:
    """The session is closed by its client; the name then stands for a new one."""


Action = Request | Frames | Again | Rewatch | Ends
Step = tuple[str, Action]
Line = tuple[str, object]
"""The receiver, and what it received: a reply or event as `View` says it, "closed" or "silent"."""


class Exchange:
    """One run of steps against one ensemble, below a `root` that is made first.

    ports: of its members. places: the index of the member (modulo their number) for each connection; those that are not
    named go to the first member, and so does anyone who tidies up.
    """

    def __init__(self, ports: Sequence[int], root: str, places: dict[str, int] | None = None) -> None:
        self._ports = ports
        self._root = root
        self._places = dict(places or {})
        self._wires: dict[str, Wire] = {}
        self._dead: dict[str, Wire] = {}
        self._generations: dict[str, int] = {}
        self._ending: set[str] = set()
        with Wire(ports[0]) as admin:
            admin.ask(*sync("/"))
            self._clean(admin)
            assert admin.ask(*create(root)).error == 0
            self.view = View(admin.last_zxid)
            admin.close_session()

    def port(self, who: str) -> int:
        return self._ports[self._places.get(who, 0) % len(self._ports)]

    def wire(self, who: str) -> Wire:
        wire = self._wires.get(who)
        if wire is None:
            wire = self._wires[who] = Wire(self.port(who))
            self._generations[who] = self._generations.get(who, 0) + 1
            self.view.sessions[wire.session] = f"{who}{self._generations[who]}"
        return wire

    def perform(self, step: Step) -> list[Line]:
        """What the step caused on all connections."""
        who, action = step
        lines: list[Line] = []
        wire = self.wire(who)
        if isinstance(action, Again):
            self._come_back(who, wire, action)
        elif isinstance(action, Ends):
            lines += self._request(who, wire, CLOSE_SESSION)
            self._wires.pop(who, wire).drop()
        elif isinstance(action, Rewatch):
            lists = self._readable(wire, action.lists)
            lines += self._request(who, wire, set_watches(self.view.base + action.seen_count, *lists))
        elif isinstance(action, Frames):
            lines += self._frames(who, wire, action)
        else:
            lines += self._request(who, wire, action)
        is_spread = len({self.port(each) for each in (who, *self._wires)}) > 1
        for other in sorted(self._wires):
            lines += self._drain(other, is_spread)
        return lines

    def _readable(self, wire: Wire, lists: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
        """The lists without what they would differ in: of data and children, znodes that one may not read (D127)."""
        found = list(lists)
        for at in (0, 2):
            found[at] = tuple(path for path in lists[at] if wire.ask(*exists(path)).error != NOAUTH)
        return found

    def _request(self, who: str, wire: Wire, request: Request) -> list[Line]:
        wire.send(*request)
        return self._receive(who, wire, 1)

    def _frames(self, who: str, wire: Wire, action: Frames) -> list[Line]:
        for xid, opcode in action.opcodes:
            wire.encode(opcode, b"", xid)
        wire.socket.sendall(action.data)
        return self._receive(who, wire, action.replies_count)

    def _receive(self, who: str, wire: Wire, replies_count: int) -> list[Line]:
        """Everything up to and with the last of the expected replies."""
        lines: list[Line] = []
        try:
            while replies_count:
                reply = wire.receive()
                lines.append((who, self.view.reply(reply)))
                replies_count -= reply.xid != -1
                if reply.error == UNIMPLEMENTED:
                    self._ending.add(who)
        except ConnectionClosedError:
            lines.append((who, "closed"))
            self._wires.pop(who, None)
            self._dead[who + str(len(self._dead))] = wire
        except SilentError:
            lines.append((who, "silent"))
        return lines

    def _drain(self, who: str, is_spread: bool) -> list[Line]:
        """What else was sent to a connection; where it may lag behind another member, after what it missed."""
        wire = self._wires[who]
        lines: list[Line] = []
        try:
            if is_spread:
                wire.send(*sync("/"), xid=1 << 30)
                wire.receive_until(1 << 30)
            wire.send(PING, b"")
            wire.receive_until(PING_XID)
            # ZooKeeper closes a connection a moment after it has answered so, and answers what comes before that.
            deadline = time.monotonic() + CLOSING_SECONDS * (who in self._ending)
            while time.monotonic() < deadline:
                wire.send(PING, b"")
                wire.receive_until(PING_XID)
        except ConnectionClosedError:
            lines.append((who, "closed"))
            self._wires.pop(who).drop()
            self._dead[who + str(len(self._dead))] = wire
        self._ending.discard(who)
        events, wire.events = wire.events, []
        return [(who, self.view.reply(event)) for event in events] + lines

    def _come_back(self, who: str, wire: Wire, action: Again) -> None:
        wire.drop()
        self._places[who] = action.member
        while True:
            # A member that has not applied what the client has seen sends it away.
            with contextlib.suppress(ConnectionClosedError):
                again = Wire(self.port(who), session=wire.session, password=wire.password, last_zxid=wire.last_zxid)
                break
        self._wires[who] = again
        again.xid = wire.xid

    def finish(self) -> None:
        """Close every session, those whose connection the server has closed too, and delete everything."""
        for wire in self._wires.values():
            wire.close_session()
        for wire in self._dead.values():
            wire.drop()
            with Wire(self._ports[0], session=wire.session, password=wire.password) as again:
                if again.session:
                    again.close_session()
        with Wire(self._ports[0]) as admin:
            assert admin.ask(*auth("digest", SUPER.encode())).error == 0
            admin.ask(*sync("/"))
            self._clean(admin)
            admin.close_session()

    def _clean(self, admin: Wire) -> None:
        names = View(0).reply(admin.ask(*children("/")))[3]
        assert isinstance(names, list)
        for name in names:
            # Sequential ones too, with the root as their beginning.
            if f"/{name}".startswith(self._root):
                remove(admin, f"/{name}")
        remove(admin, f"/zookeeper/quota{self._root}")

    def tree(self) -> list[Line]:
        """Everything that is below the root now: data, stat, children and ACL of each znode."""
        with Wire(self._ports[0]) as admin:
            admin.ask(*auth("digest", SUPER.encode()))
            admin.ask(*sync("/"))
            self.view.sessions[admin.session] = "tree"
            lines = list(self._subtree(admin, self._root))
            admin.close_session()
        return lines

    def _subtree(self, admin: Wire, path: str) -> Iterator[Line]:
        for request in (get(path), get_acl(path)):
            yield path, self.view.reply(admin.ask(*request))
        listed = self.view.reply(admin.ask(*children(path)))
        # The root may have been deleted.
        names = listed[3] if listed[2] == 0 else []
        assert isinstance(names, list)
        for name in names:
            yield from self._subtree(admin, f"{path}/{name}")


def remove(admin: Wire, path: str) -> None:
    """Delete a path with all below it, if it is there."""
    listed = admin.ask(*children(path))
    if listed.error == 0:
        names = View(0).reply(listed)[3]
        assert isinstance(names, list)
        for name in names:
            remove(admin, f"{path}/{name}")
        assert admin.ask(*delete(path)).error == 0


def run(ports: Sequence[int], steps: Sequence[Step], root: str, places: dict[str, int] | None = None) -> list[Line]:
    """The lines of all steps."""
    exchange = Exchange(ports, root, places)
    try:
        return [line for step in steps for line in exchange.perform(step)]
    finally:
        exchange.finish()
