"""One connection to a bookie: requests in, frames out; bytes in, answers to those who asked. Without I/O.

    send(request, asker)       the asker is given one `Answered` for it, whatever happens
    flush()                    what was sent since leaves together
    opened, failed, received, broke     what its transport tells

It is dialled by its first request, and again by the first one after it broke. What waits for an answer when it ends is
answered UNREACHABLE, or TIMED_OUT if the bookie owed an answer for too long: nobody knows whether it was done. After a
failed attempt, requests are answered UNREACHABLE at once for `redial_ms`. Those who wait when an attempt fails, and the
connection has not been there for `WriterSettings.reconnect_ms`, are told BookieLost: an acknowledged entry may lack a
copy, and no answer tells its writer so.

With TLS, an open transport is only the beginning: the connection is there when TLS is (`secured`), and an attempt in
which it fails has failed. A bookie may refuse the certificate of this client after that, which is the same.

Not here: which of a bookie's connections a request takes (`bookie_link`), sockets (`on_trio`, `aio`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from zab.client.tls import fault
from zab.ledger.entries.ids import BookieId
from zab.ledger.store.events import Answered, BookieLost
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.frames import ProtocolError
from zab.ledger.wire.messages import AddEntry, ReadEntry, Request, answer_without
from zab.ledger.wire.status import Status
from zab.ledgers.settings import StoreSettings

if TYPE_CHECKING:
    from zab.ledgers.secured import SecuredBytes


class Asker(Protocol):
    """Gets the answers to what it asked."""

    def give(self, told: Answered | BookieLost, /) -> None: ...

    def give_all(self, told: list[Answered | BookieLost], /) -> None:
        """Several, in order."""


class Transport(Protocol):
    """A connection that is open."""

    @property
    def unsent_bytes(self) -> int:
        """What `write` was given and the system has not taken."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """It tells nothing more."""


class Dialler(Protocol):
    """Opens connections: calls `opened` or `failed` of the connection, later."""

    def dial(self, connection: BookieConnection, host: str, port: int) -> Transport:
        """A transport that is not open yet; `close` ends the attempt."""


class Phase(Enum):
    IDLE = 1
    DIALLING = 2
    OPEN = 3


class BookieConnection:
    """`name`: what it is for, in messages."""

    def __init__(
        self, bookie: BookieId, name: str, is_v2: bool, settings: StoreSettings, dialler: Dialler, address: Address
    ) -> None:
        self.bookie = bookie
        self.name = name
        self.is_v2 = is_v2
        self.phase = Phase.IDLE
        self.failures = 0
        """How often in a row it could not be opened."""
        self._settings = settings
        self._dialler = dialler
        self._address = address
        self._channel = ClientChannel(is_v2, settings.frame_bytes_max)
        self._transport: Transport | None = None
        self._host = ""
        self._tls: SecuredBytes | None = None
        """There once a transport is open that begins TLS."""
        self._out: list[bytes] = []
        self._asked: dict[int, tuple[Asker, Request, int]] = {}
        """By the identity of the request: who asked, and when. The oldest are first."""
        self._again: dict[int, int] = {}
        """How often a request is under way that was sent again before it was answered."""
        self._dial_until = 0
        self._no_dial_before = 0
        self._broke_ms: int | None = None
        """When it was last there; None: never."""

    @property
    def is_waiting(self) -> bool:
        """Whether it is dialled, or an answer is under way."""
        return bool(self._asked) or self.phase is Phase.DIALLING

    @property
    def has_output(self) -> bool:
        return bool(self._out)

    def can_send(self, request: Request) -> bool:
        return self._channel.can_send(request)

    def send(self, request: Request, asker: Asker, now_ms: int) -> None:
        """Send it with the next `flush`. The request is one that `can_send` allows."""
        if self._transport is not None or self._is_dialled(request, asker, now_ms):
            self._out.append(self._channel.encode(request))
            self._await(request, asker, now_ms)

    def send_add(self, request: AddEntry, frame: bytes, asker: Asker, now_ms: int) -> bool:
        """As `send`, for an add in v2 with this frame. False: it cannot be sent here now."""
        if self._transport is None and not self._is_dialled(request, asker, now_ms):
            return True
        if not self._channel.await_add(request):
            return False
        self._out.append(frame)
        key = id(request)
        if key in self._asked:
            self._await(request, asker, now_ms)
        else:
            self._asked[key] = (asker, request, now_ms)
        return True

    def _is_dialled(self, request: Request, asker: Asker, now_ms: int) -> bool:
        """Whether it can wait for a connection; otherwise it is answered."""
        if self._dial(now_ms):
            return True
        asker.give(Answered(self.bookie, request, answer_without(request, Status.UNREACHABLE)))
        return False

    def _await(self, request: Request, asker: Asker, now_ms: int) -> None:
        key = id(request)
        if key in self._asked:
            self._again[key] = self._again.get(key, 0) + 1
        else:
            self._asked[key] = (asker, request, now_ms)

    def _dial(self, now_ms: int) -> bool:
        address = self._address()
        if address is None or now_ms < self._no_dial_before:
            return False
        self.phase = Phase.DIALLING
        self._dial_until = now_ms + self._settings.dial_timeout_ms
        self._host = address[0]
        self._transport = self._dialler.dial(self, *address)
        return True

    def flush(self) -> None:
        transport = self._transport
        if self.phase is not Phase.OPEN or transport is None or not self._out:
            return
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        if self._tls is not None:
            try:
                data = self._tls.seal(data)
            except ConnectionError as error:
                self._tls_failed(error)
                return
        transport.write(data)
        if transport.unsent_bytes > self._settings.unsent_bytes_max:
            self.end(Status.UNREACHABLE)

    # ------------------------------------------------------------------------------------------------- the transport

    def opened(self) -> None:
        if self.phase is not Phase.DIALLING or self._transport is None:
            return
        if self._settings.tls is None:
            self._is_there()
        else:
            self._tls = secured_bytes(self._settings, self._host)
            self._transport.write(self._tls.request)

    def _is_there(self) -> None:
        self.phase, self.failures = Phase.OPEN, 0
        self.flush()

    def _within_tls(self, tls: SecuredBytes, data: bytes) -> bytes:
        """What the bytes contain. TLS begins with them, or ends."""
        try:
            plain, out = tls.take(data)
        except (ConnectionError, ProtocolError) as error:
            self._tls_failed(error)
            return b""
        if out and self._transport is not None:
            self._transport.write(out)
        if tls.is_ready and self.phase is Phase.DIALLING:
            self._is_there()
        return plain

    def _tls_failed(self, error: Exception) -> None:
        if self._settings.tls_failed is not None:
            self._settings.tls_failed(self.bookie, fault(error) or str(error))
        farewell = getattr(error, "farewell", b"")
        if farewell and self._transport is not None:
            self._transport.write(farewell)
        # The time at which it was dialled is the latest one known.
        self._not_opened(Status.UNREACHABLE, self._dial_until - self._settings.dial_timeout_ms)

    def failed(self, now_ms: int) -> None:
        """The attempt failed."""
        if self.phase is Phase.DIALLING:
            self._not_opened(Status.UNREACHABLE, now_ms)

    def _not_opened(self, status: Status, now_ms: int) -> None:
        self.failures += 1
        self._no_dial_before = now_ms + self._settings.redial_ms
        is_lost = self._broke_ms is None or now_ms >= self._broke_ms + self._settings.writer.reconnect_ms
        askers = dict.fromkeys(asker for asker, _, _ in self._asked.values()) if is_lost else {}
        self.end(status)
        for asker in askers:
            asker.give(BookieLost(self.bookie))

    def received(self, data: bytes) -> None:
        if self._tls is not None:
            data = self._within_tls(self._tls, data)
        if self.phase is not Phase.OPEN:
            return
        found, error = self._channel.feed(data)
        bookie, asked, again = self.bookie, self._asked, self._again
        last: Asker | None = None
        run: list[Answered | BookieLost] = []
        for request, answer in found:
            key = id(request)
            if again and key in again:
                entry = asked[key]
                again[key] -= 1
                if not again[key]:
                    del again[key]
            else:
                entry = asked.pop(key)
            asker = entry[0]
            if asker is not last:
                if last is not None:
                    last.give_all(run)
                last, run = asker, []
            run.append(Answered(bookie, request, answer))
        if last is not None:
            last.give_all(run)
        if error is not None:
            self.end(Status.UNREACHABLE)

    def broke(self, now_ms: int) -> None:
        """The other end closed it, or it broke."""
        if self.phase is Phase.OPEN:
            self._broke_ms = now_ms
            self.end(Status.UNREACHABLE)
        elif self.phase is Phase.DIALLING:
            self._not_opened(Status.UNREACHABLE, now_ms)

    # ----------------------------------------------------------------------------------------------------------- end

    def check(self, now_ms: int) -> None:
        """Hang up if the bookie owes an answer for too long."""
        if self.phase is Phase.DIALLING:
            if now_ms >= self._dial_until:
                self._not_opened(Status.TIMED_OUT, now_ms)
            return
        limit_ms = self._settings.request_timeout_ms
        for _, request, sent_ms in self._asked.values():
            if now_ms >= sent_ms + limit_ms + _patience_ms(request):
                self.end(Status.TIMED_OUT)
                return
            if type(request) is AddEntry:
                return  # Adds have a connection of their own, and the first is the oldest.

    def end(self, status: Status) -> None:
        """Hang up. Everything that waits is answered so."""
        transport, self._transport = self._transport, None
        self.phase = Phase.IDLE
        self._tls = None
        self._out.clear()
        if transport is not None:
            transport.close()
        left, self._asked = self._asked, {}
        again, self._again = self._again, {}
        self._channel = ClientChannel(self.is_v2, self._settings.frame_bytes_max)
        for key, (asker, request, _) in left.items():
            for _ in range(1 + again.get(key, 0)):
                asker.give(Answered(self.bookie, request, answer_without(request, status)))


def secured_bytes(settings: StoreSettings, host: str) -> SecuredBytes:
    """TLS for a new connection to this host."""
    # The libraries of certificates are loaded by those alone who need them.
    from zab.ledgers.secured import SecuredBytes

    assert callable(settings.tls), "a store that is open has contexts"
    return SecuredBytes(settings.tls(), host)


class Address(Protocol):
    """Where a bookie is reached now: host and port, None if nobody knows."""

    def __call__(self) -> tuple[str, int] | None: ...


def _patience_ms(request: Request) -> int:
    """How long a bookie may wait before it answers."""
    return request.wait_ms or 0 if type(request) is ReadEntry else 0
