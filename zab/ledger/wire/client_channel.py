"""A client's end of a connection to a bookie: requests become frames, answers find their requests.

    encode(request)     one frame; the channel waits for the answer
    feed(data)          the requests that the bytes answer, each with its answer
    lost()              every request that waits, when the connection ends

An answer in v3 names the transaction of its request. One in v2 names only its kind and its ids, and may come in any
order: equal requests are answered one for the other, and a request that differs from a waiting one of the same kind and
ids cannot be sent (`can_send`). Otherwise the answer to a plain read could be taken for the answer to a read that
fences. An answer that no request waits for is ignored.

BookKeeper's bookies read a connection as v2 for ever once it has had a v2 frame, so a channel has one version: v2 for
adds and reads of every kind but the long poll, v3 for everything except batches. StartTls is sent in v3 on both.

The host bounds how many requests wait, and ends a connection whose answers do not come; until then a request waits here
even if its sender has given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

from zab.ledger.wire import v2, v3
from zab.ledger.wire.frames import FRAME_BYTES_MAX, FrameCutter, ProtocolError, is_v3
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    Answer,
    Authenticate,
    Authenticated,
    BatchRead,
    EntryRead,
    ReadBatch,
    ReadEntry,
    Request,
    StartTls,
)
from zab.ledger.wire.status import Status
from zab.ledger.wire.v3 import V3Reply

R = TypeVar("R", bound=Request)

_TRANSACTIONS: Final = 1 << 63


def needs_v3(request: Request) -> bool:
    """Whether v2 cannot say this."""
    match request:
        case AddEntry():
            return request.is_deferred
        case ReadEntry():
            return request.previous_lac is not None or request.wants_piggyback
        case ReadBatch() | Authenticate():
            return False
    return True


def needs_v2(request: Request) -> bool:
    """Whether v3 cannot say this."""
    return isinstance(request, ReadBatch)


class _Waiting(Generic[R]):
    """Requests that wait, by what their answers name. Those with one key are equal to each other."""

    __slots__ = ("_first", "_more")

    def __init__(self) -> None:
        self._first: dict[Hashable, R] = {}
        self._more: dict[Hashable, deque[R]] = {}

    def __len__(self) -> int:
        return len(self._first) + sum(map(len, self._more.values()))

    def __iter__(self) -> Iterator[R]:
        yield from self._first.values()
        for more in self._more.values():
            yield from more

    def get(self, key: Hashable) -> R | None:
        return self._first.get(key)

    def add(self, key: Hashable, request: R) -> None:
        if key in self._first:
            self._more.setdefault(key, deque()).append(request)
        else:
            self._first[key] = request

    def take(self, key: Hashable) -> R | None:
        found = self._first.pop(key, None)
        if self._more and key in self._more:
            more = self._more[key]
            self._first[key] = more.popleft()
            if not more:
                del self._more[key]
        return found

    def clear(self) -> None:
        self._first.clear()
        self._more.clear()


class ClientChannel:
    """One connection to one bookie, in v2 or in v3."""

    def __init__(self, is_v2: bool, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.is_v2 = is_v2
        self._cutter = FrameCutter(frame_bytes_max)
        self._adds: _Waiting[AddEntry] = _Waiting()
        self._reads: _Waiting[ReadEntry] = _Waiting()
        self._batches: _Waiting[ReadBatch] = _Waiting()
        self._logins: _Waiting[Authenticate] = _Waiting()
        self._by_transaction: dict[V3Reply, Request] = {}
        self._last_number = 0
        """The number of the last transaction, or of the last batch read in v2."""

    def __len__(self) -> int:
        """How many requests wait for an answer."""
        return len(self._adds) + len(self._reads) + len(self._batches) + len(self._logins) + len(self._by_transaction)

    def can_send(self, request: Request) -> bool:
        """Whether `encode` takes this request now. If not, it must wait for the answers, or go over a channel of the
        other version."""
        if not self.is_v2:
            return not needs_v2(request)
        if isinstance(request, AddEntry):
            waiting: Request | None = self._adds.get((request.ledger, request.entry))
        elif isinstance(request, ReadEntry):
            waiting = self._reads.get((request.ledger, request.entry))
        elif isinstance(request, Authenticate):
            return not len(self._logins)
        else:
            return isinstance(request, ReadBatch | StartTls)
        return not needs_v3(request) and (waiting is None or waiting == request)

    def encode(self, request: Request) -> bytes:
        """The request as a whole frame. Its answer is awaited from now on."""
        assert self.can_send(request), request
        if not self.is_v2 or isinstance(request, StartTls):
            number = self._next_number()
            frame, operation = v3.request_frame(request, number)
            self._by_transaction[V3Reply(operation, number)] = request
            return frame
        match request:
            case AddEntry():
                self._adds.add((request.ledger, request.entry), request)
                return v2.add_request_frame(request)
            case ReadEntry():
                self._reads.add((request.ledger, request.entry), request)
                return v2.read_request_frame(request)
            case ReadBatch():
                number = self._next_number()
                self._batches.add(number, request)
                return v2.batch_request_frame(request, number)
        assert isinstance(request, Authenticate), request
        self._logins.add(None, request)
        return v2.auth_frame(v2.reply_to(v2.VERSION, v2.AUTH), v3.auth_message(request.plugin, request.payload))

    def await_add(self, request: AddEntry) -> bool:
        """As `encode`, for an add in v2 whose frame the caller has (`v2.add_request_frame`): all bookies of a write set
        are sent the same one. False: it cannot be sent now."""
        key = (request.ledger, request.entry)
        waiting = self._adds.get(key)
        if request.is_deferred or not (waiting is None or waiting == request):
            return False
        self._adds.add(key, request)
        return True

    def _next_number(self) -> int:
        self._last_number = (self._last_number + 1) % _TRANSACTIONS
        return self._last_number

    def feed(self, data: bytes) -> tuple[list[tuple[Request, Answer]], ProtocolError | None]:
        """The requests that these bytes answer, in the order of the answers, and what ended the connection after
        them. Then feed nothing more."""
        found: list[tuple[Request, Answer]] = []
        if self.is_v2 and not self._cutter.kept_bytes:
            data = self._feed_added(data, found)
        bodies, error = self._cutter.feed(data)
        try:
            for body in bodies:
                if (answered := self.on_frame(body)) is not None:
                    found.append(answered)
        except ProtocolError as broken:
            error = broken
        return found, error

    def _feed_added(self, data: bytes, found: list[tuple[Request, Answer]]) -> bytes:
        """Take the answers to adds that `data` begins with; return the rest."""
        answers, end = v2.add_answers(data)
        take = self._adds.take
        for code, ledger, entry in answers:
            request = take((ledger, entry))
            if request is not None:
                found.append((request, Added(v2.STATUS_OF.get(code, Status.IO_ERROR), ledger, entry)))
        return data[end:] if end else data

    def on_frame(self, body: bytes) -> tuple[Request, Answer] | None:
        """The request that the body of a frame answers, and the answer; None if none waits for it. Raises
        ProtocolError."""
        if is_v3(body):
            reply, response = v3.read_response(body)
            request = self._by_transaction.pop(reply, None)
            return None if request is None else (request, v3.answer_of(request, response))
        version, opcode, _ = v2.split_header(body)
        if not self.is_v2 or version != v2.VERSION:
            raise ProtocolError(f"an answer of version {version}")
        if opcode == v2.ADD:
            status, ledger, entry, _ = v2.read_answer(body)
            add = self._adds.take((ledger, entry))
            return None if add is None else (add, Added(status, ledger, entry))
        if opcode == v2.READ:
            status, ledger, entry, envelope = v2.read_answer(body)
            read = self._reads.take((ledger, entry))
            return None if read is None else (read, EntryRead(status, ledger, entry, envelope))
        if opcode == v2.BATCH_READ:
            number, status, envelopes = v2.read_batch_answer(body)
            batch = self._batches.take(number)
            return None if batch is None else (batch, BatchRead(status, batch.ledger, batch.first, envelopes))
        if opcode == v2.AUTH:
            message = v3.read_auth_message(body[v2.HEADER_BYTES :])
            login = self._logins.take(None)
            return None if login is None else (login, Authenticated(Status.OK, message.plugin, message.payload))
        raise ProtocolError(f"an answer with the opcode {opcode}")

    def lost(self) -> list[Request]:
        """The requests that wait, when the connection has ended. No more answers are awaited."""
        left: list[Request] = [*self._adds, *self._reads, *self._batches, *self._logins, *self._by_transaction.values()]
        for waiting in (self._adds, self._reads, self._batches, self._logins, self._by_transaction):
            waiting.clear()
        return left
