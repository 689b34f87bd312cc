"""An echo service with a log: a small process that is not a member. Pure: for the real kernel and the simulated one.

A client sends frames. Each is an entry of the log, and is answered with its number in the log and its bytes once the
log has it durably. Entries of one turn are one append. Numbers begin with 1 and go on after a restart.

    Echo            step(now, inputs) -> effects, and `dirty`: connections to be flushed or closed after a step
    EchoLog         the log over a `Disk`, for the log thread
    EchoTurn        what a turn does, in which order, over ports

Limits: an entry of `ENTRY_BYTES_MAX`; a connection with `WAITING_MAX` entries on their way to the log is not read from;
one with `UNSENT_BYTES_MAX` bytes of answers that it does not take is closed, and so is one that is silent for
`IDLE_MS`.

The log's file: an entry is a frame (`zab.wire.frames`) of a CRC-32, 4 bytes, big-endian, and the entry. What follows
the last entry that checks was being written when the process ended: nobody was answered, and it is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Protocol, TypeAlias
from zlib import crc32

import attrs

from datatree.log.disk import Disk, File
from zab.wire.client_protocol import ClientProtocol
from zab.wire.frames import FrameError, FrameReader, frame

ENTRY_BYTES_MAX = 1 << 20
WAITING_MAX = 1000
UNSENT_BYTES_MAX = 1 << 20
IDLE_MS = 30_000
TURN_NS = 4_000_000

GOES_ON, CLOSED_WHEN_SENT, CLOSED_AT_ONCE = range(3)

LOG_FILE = "version-1/log.echo"

_NUMBER = Struct(">Q")
_CHECKSUM = Struct(">I")


@attrs.define(eq=False)
class Connection:
    """One client; what a socket needs of it (`zab.wire.client_protocol.Connection`), and its place in the log."""

    host: str
    port: int
    frames: FrameReader = attrs.Factory(lambda: FrameReader(ENTRY_BYTES_MAX))
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
class Connected:
    connection: Connection


@attrs.frozen
class Received:
    connection: Connection
    data: bytes


@attrs.frozen
class Closed:
    connection: Connection


@attrs.frozen
class Durable:
    """The log has so many entries."""

    count: int


@attrs.frozen
class StorageFailed:
    reason: str


@attrs.frozen
class Append:
    """Append these to the log; answer with `Durable`."""

    entries: tuple[bytes, ...]


@attrs.frozen
class Halt:
    """The process ends."""

    reason: str


Answer: TypeAlias = Durable | StorageFailed
Input: TypeAlias = Connected | Received | Closed | Answer
Effect: TypeAlias = Append | Halt


def connect(host: str, port: int, _subject: str) -> Connection:
    return Connection(host, port)


CLIENT_PROTOCOL: ClientProtocol[Connection, Input] = ClientProtocol(
    connect, Connected, Received, Closed, CLOSED_AT_ONCE
)


# ---------------------------------------------------------------------------------------------------------- the service


class Echo:
    """The service without its surroundings."""

    def __init__(self, logged_count: int) -> None:
        """`logged_count` entries were recovered."""
        self.durable_count = logged_count
        self.dirty: dict[Connection, None] = {}
        self._waiting: deque[tuple[Connection, bytes]] = deque()
        """What is on its way to the log, in its order."""
        self._heard_at: dict[Connection, int] = {}
        """The connections, and when something came; longest silence first."""

    def step(self, now: int, inputs: Iterable[Input]) -> list[Effect]:
        """One turn; `now` is monotonic ms."""
        self.dirty.clear()
        entries: list[bytes] = []
        for given in inputs:
            match given:
                case Connected(connection):
                    self._heard_at[connection] = now
                case Received(connection, data):
                    if connection in self._heard_at:
                        entries += self._take(connection, data, now)
                case Closed(connection):
                    self._close(connection, CLOSED_AT_ONCE)
                case Durable(count):
                    self._answer(count)
                case StorageFailed(reason):
                    return [Halt(reason)]
        self._close_silent(now)
        return [Append(tuple(entries))] if entries else []

    def next_deadline(self) -> int | None:
        """When the next step is due although nothing happens."""
        for heard_at in self._heard_at.values():
            return heard_at + IDLE_MS
        return None

    def _take(self, connection: Connection, data: bytes, now: int) -> list[bytes]:
        del self._heard_at[connection]
        self._heard_at[connection] = now
        try:
            entries = connection.frames.feed(data)
        except FrameError as error:
            entries = error.frames
            self._close(connection, CLOSED_WHEN_SENT)
        self._waiting += [(connection, entry) for entry in entries]
        connection.waiting_count += len(entries)
        if connection.waiting_count > WAITING_MAX:
            connection.paused = True
            self.dirty[connection] = None
        return entries

    def _answer(self, count: int) -> None:
        """What is durable now is answered; never anything else."""
        while self.durable_count < count:
            self.durable_count += 1
            connection, entry = self._waiting.popleft()
            connection.waiting_count -= 1
            connection.paused = connection.waiting_count > WAITING_MAX
            self.dirty[connection] = None
            reply = frame(_NUMBER.pack(self.durable_count) + entry)
            connection.out.append(reply)
            connection.out_bytes += len(reply)
            if connection.out_bytes + connection.unsent_bytes > UNSENT_BYTES_MAX:
                self._close(connection, CLOSED_AT_ONCE)

    def _close_silent(self, now: int) -> None:
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            self._close(next(iter(self._heard_at)), CLOSED_AT_ONCE)

    def _close(self, connection: Connection, how: int) -> None:
        self._heard_at.pop(connection, None)
        connection.closing = max(connection.closing, how)
        self.dirty[connection] = None


# -------------------------------------------------------------------------------------------------------------- its log


class EchoLog:
    """See `zab.host.storage.log_thread.Performer`. Raises OSError: final."""

    def __init__(self, disk: Disk) -> None:
        """Recover what is there. What counts was written again and synced, whatever became of it before."""
        self.entries = _entries(disk.read(LOG_FILE)) if disk.exists(LOG_FILE) else []
        data = b"".join(map(_record, self.entries))
        disk.replace(LOG_FILE, data)
        self.count = len(self.entries)
        self._file: File = disk.open_append(LOG_FILE, create=False, offset=len(data))

    def perform(self, effects: Sequence[Append]) -> list[Durable]:
        """All of them in one write."""
        entries = [entry for effect in effects for entry in effect.entries]
        self._file.write_durable(b"".join(map(_record, entries)))
        self.count += len(entries)
        return [Durable(self.count)]

    def is_awaited(self, answer: Durable) -> bool:
        """Clients wait for it."""
        return True

    def idle(self) -> None:
        """Everything is written down already."""

    def close(self) -> None:
        self._file.close()


def _record(entry: bytes) -> bytes:
    return frame(_CHECKSUM.pack(crc32(entry)) + entry)


def _entries(data: bytes) -> list[bytes]:
    try:
        payloads = FrameReader(ENTRY_BYTES_MAX + _CHECKSUM.size).feed(data)
    except FrameError as error:
        payloads = error.frames
    entries = []
    for payload in payloads:
        entry = payload[_CHECKSUM.size :]
        if payload[: _CHECKSUM.size] != _CHECKSUM.pack(crc32(entry)):
            break
        entries.append(entry)
    return entries


# ---------------------------------------------------------------------------------------------------------------- turns


class Clients(Protocol):
    """The sockets, real or simulated."""

    has_news: bool

    def receive(self, inputs: list[Input], until_ns: int) -> None: ...

    def flush(self, dirty: Iterable[Connection], now: int) -> None: ...

    def accept(self, now: int) -> None: ...

    def adapt_budget(self, turn_ns: int) -> None: ...


class HaltedError(Exception):
    """The process must not go on."""


class EchoTurn:
    """What a loop drives, real or simulated."""

    def __init__(
        self,
        echo: Echo,
        clients: Clients,
        *,
        monotonic_ns: Callable[[], int],
        append: Callable[[Append], None],
        answers: deque[Answer],
    ) -> None:
        self.echo = echo
        self._clients = clients
        self._monotonic_ns = monotonic_ns
        self._append = append
        self._answers = answers

    def take(self) -> bool:
        """One turn. True: there is more to do at once."""
        started_ns = self._monotonic_ns()
        now = started_ns // 1_000_000
        inputs: list[Input] = [self._answers.popleft() for _ in range(len(self._answers))]
        self._clients.receive(inputs, started_ns + TURN_NS)
        for effect in self.echo.step(now, inputs):
            match effect:
                case Append():
                    self._append(effect)
                case Halt(reason):
                    raise HaltedError(reason)
        self._clients.flush(self.echo.dirty, now)
        self._clients.accept(now)
        self._clients.adapt_budget(self._monotonic_ns() - started_ns)
        return self._clients.has_news

    def next_deadline(self) -> int:
        """When the next turn is due although nothing happens."""
        latest = self._monotonic_ns() // 1_000_000 + IDLE_MS
        deadlines = (latest, self.echo.next_deadline())
        return min(deadline for deadline in deadlines if deadline is not None)
