"""An echo service with a log: what a service on the kernel looks like. This is its pure part.

A client logs in where there are users, and sends frames. Each is an entry of the log of its server, and is answered
with its number and its bytes once the log has it durably. Entries of one turn are one append. Numbers begin with 1 and
go on after a restart. Servers tell each other over links how many entries they have, for metrics.

    Echo            step(now, inputs) -> effects

Limits: an entry of `ENTRY_BYTES_MAX`; a connection with `WAITING_MAX` entries on their way to the log is not read from;
one with `UNSENT_BYTES_MAX` bytes of answers that it does not take is closed, and so is one that is silent for
`IDLE_MS`.

Not here: the log (`echo_log`), what a turn does (`turn`), the real host (`service`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from struct import Struct
from typing import TypeAlias

import attrs

from zab.service.audit import Record, Refusal
from zab.service.figure import Figure, Kind
from zab.service.summary import Summary
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected, ClientProtocol
from zab.wire.frames import FrameError, FrameReader, frame
from zab.wire.handshake import Purposes
from zab.wire.link_protocol import LinkProtocol
from zab.wire.login.digest_md5 import DigestMd5Error, challenge, check
from zab.wire.records import MessageError

ENTRY_BYTES_MAX = 1 << 20
WAITING_MAX = 1000
UNSENT_BYTES_MAX = 1 << 20
IDLE_MS = 30_000
DIAL_AGAIN_MS = 1000
NEVER = 1 << 62
REALM, URI = "echo", b"echo/echo"

GOES_ON, CLOSED_WHEN_SENT, CLOSED_AT_ONCE = range(3)
_NUMBER = Struct(">Q")


@attrs.define(eq=False)
class Connection:
    """One client; what a socket needs of it (`zab.wire.client_protocol.Connection`), and its place in the log."""

    host: str
    frames: FrameReader = attrs.Factory(lambda: FrameReader(ENTRY_BYTES_MAX))
    nonce: bytes = b""
    """The one of its challenge; empty once it has logged in, or needs not to."""
    out: list[bytes] = attrs.Factory(list)
    out_bytes: int = 0
    unsent_bytes: int = 0
    paused: bool = False
    closing: int = GOES_ON
    waiting_count: int = 0
    """Entries that are on their way to the log."""

    def take_output(self) -> list[bytes]:
        pieces, self.out, self.out_bytes = self.out, [], 0
        return pieces


# --------------------------------------------------------------------------------------------------- inputs and effects


@attrs.frozen
class Durable:
    """The log has so many entries."""

    count: int


@attrs.frozen
class LinkUp:
    link: int
    sid: int


@attrs.frozen
class Told:
    """The server at the other end has so many entries."""

    link: int
    count: int


@attrs.frozen
class LinkDown:
    link: int


@attrs.frozen
class DialFailed:
    sid: int


@attrs.define
class Effects:
    """What a step asks for."""

    append: list[bytes] = attrs.Factory(list)
    """Append these entries to the log; answer with `Durable`."""
    dials: list[int] = attrs.Factory(list)
    """Open links to these servers."""
    tells: dict[int, int] = attrs.Factory(dict)
    """Links, and how many entries to tell the server at the other end."""
    refusals: list[Record] = attrs.Factory(list)
    """Records for the audit log."""
    dirty: dict[Connection, None] = attrs.Factory(dict)
    """Connections to be flushed or closed."""


FromClient: TypeAlias = ClientConnected[Connection] | ClientBytes[Connection] | ClientClosed[Connection]
Input: TypeAlias = FromClient | Durable | LinkUp | Told | LinkDown | DialFailed


def _count_in(payload: bytes) -> int:
    if len(payload) != _NUMBER.size:
        raise MessageError("a count has 8 bytes")
    return int.from_bytes(payload, "big")


CLIENT_PROTOCOL = ClientProtocol(lambda host, _port, _subject: Connection(host), CLOSED_AT_ONCE)
LINK_PROTOCOL: LinkProtocol[int, Input] = LinkProtocol(
    encode=_NUMBER.pack,
    decode=_count_in,
    frame_bytes_max=_NUMBER.size,
    joining_bytes_max=_NUMBER.size,
    admitting=frozenset({int}),
    uncut_bytes_max=_NUMBER.size,
    up=lambda link, sid, *_agreed: LinkUp(link, sid),
    received=Told,
    down=LinkDown,
    refused=DialFailed,
)
PURPOSES = Purposes(link=1, at_link_port=frozenset({1}), life_bytes=0)


# ---------------------------------------------------------------------------------------------------------- the service


class Echo:
    """One server without its surroundings. It dials the servers of `dials`; the others dial it."""

    def __init__(self, logged_count: int, rng: Random, users: Mapping[str, bytes], dials: Iterable[int] = ()) -> None:
        """`logged_count` entries were recovered. `users`: the keys of those who may log in; empty: everybody may."""
        self.durable_count = logged_count
        self.users = users
        self.counts: dict[int, int] = {}
        """How many entries the others have, as far as they told."""
        self._waited_ms = Summary()
        self._rng = rng
        self._waiting: deque[tuple[Connection, bytes, int]] = deque()
        """What is on its way to the log, in its order, and since when."""
        self._heard_at: dict[Connection, int] = {}
        """The connections, and when something came; longest silence first."""
        self._links: dict[int, int] = {}
        """The server at the other end of each link."""
        self._dial_at = dict.fromkeys(dials, 0)
        """When to dial each server next; never while there is a link to it."""
        self._effects = Effects()

    def step(self, now: int, inputs: Iterable[Input]) -> Effects:
        """One turn; `now` is monotonic ms."""
        effects = self._effects = Effects()
        for given in inputs:
            match given:
                case ClientConnected(connection):
                    self._connected(connection, now)
                case ClientBytes(connection, data) if connection in self._heard_at:
                    self._take(connection, data, now)
                case ClientClosed(connection):
                    self._close(connection, CLOSED_AT_ONCE)
                case Durable(count):
                    self._answer(count, now)
                case LinkUp(link, sid):
                    self._links[link] = sid
                    effects.tells[link] = self.durable_count
                case Told(link, count):
                    self.counts[self._links[link]] = count
                case LinkDown(link):
                    self._dial_again(self._links.pop(link), now)
                case DialFailed(sid):
                    self._dial_again(sid, now)
        self._close_silent(now)
        effects.dials += [sid for sid, due in self._dial_at.items() if due <= now]
        for sid in effects.dials:
            self._dial_at[sid] = NEVER
        return effects

    def next_deadline(self) -> int:
        """When the next step is due although nothing happens."""
        silent_at = [heard_at + IDLE_MS for heard_at in self._heard_at.values()][:1]
        return min([*silent_at, *self._dial_at.values()], default=NEVER)

    def figures(self) -> Iterator[Figure]:
        """What metrics show."""
        yield Figure(Kind.GAUGE, "entries", self.durable_count)
        yield Figure(Kind.ADVANCED, "append_ms", self._waited_ms)
        for sid, count in self.counts.items():
            yield Figure(Kind.GAUGE, "entries_of", count, str(sid))

    def _dial_again(self, sid: int, now: int) -> None:
        if sid in self._dial_at:
            self._dial_at[sid] = now + DIAL_AGAIN_MS

    def _connected(self, connection: Connection, now: int) -> None:
        self._heard_at[connection] = now
        if self.users:
            connection.nonce = self._rng.randbytes(16).hex().encode()
            self._say(connection, challenge(REALM, connection.nonce))

    def _take(self, connection: Connection, data: bytes, now: int) -> None:
        del self._heard_at[connection]
        self._heard_at[connection] = now
        try:
            entries = connection.frames.feed(data)
        except FrameError as error:
            entries = error.frames
            self._close(connection, CLOSED_WHEN_SENT)
        if connection.nonce and entries and not self._log_in(connection, entries.pop(0)):
            return
        self._effects.append += entries
        self._waiting += [(connection, entry, now) for entry in entries]
        connection.waiting_count += len(entries)
        if connection.waiting_count > WAITING_MAX:
            connection.paused = True
            self._effects.dirty[connection] = None

    def _log_in(self, connection: Connection, response: bytes) -> bool:
        nonce, connection.nonce = connection.nonce, b""
        try:
            _, proof = check(response, realm=REALM, nonce=nonce, uri=URI, key_of_user=self.users.get)
        except DigestMd5Error as error:
            self._effects.refusals.append(Refusal("login", connection.host, reason=str(error)))
            self._close(connection, CLOSED_AT_ONCE)
            return False
        self._say(connection, proof)
        return True

    def _answer(self, count: int, now: int) -> None:
        """What is durable now is answered; never anything else."""
        while self.durable_count < count:
            self.durable_count += 1
            connection, entry, since = self._waiting.popleft()
            self._waited_ms.add(now - since)
            connection.waiting_count -= 1
            connection.paused = connection.waiting_count > WAITING_MAX
            self._say(connection, _NUMBER.pack(self.durable_count) + entry)
            if connection.out_bytes + connection.unsent_bytes > UNSENT_BYTES_MAX:
                self._close(connection, CLOSED_AT_ONCE)
        self._effects.tells |= dict.fromkeys(self._links, count)

    def _say(self, connection: Connection, payload: bytes) -> None:
        connection.out.append(frame(payload))
        connection.out_bytes += len(connection.out[-1])
        self._effects.dirty[connection] = None

    def _close_silent(self, now: int) -> None:
        for connection, heard_at in list(self._heard_at.items()):
            if heard_at + IDLE_MS > now:
                return
            self._close(connection, CLOSED_AT_ONCE)

    def _close(self, connection: Connection, how: int) -> None:
        self._heard_at.pop(connection, None)
        connection.closing = max(connection.closing, how)
        self._effects.dirty[connection] = None
