"""The way to one bookie: its connections, each opened when something needs it.

| connection | in v2 | in v3 |
|---|---|---|
| adds | adds | adds |
| reads | reads, fences, batches | |
| others | what only v3 can say: long polls, LACs, lists | everything but adds |

Adds have a connection of their own, so that large answers to reads delay no acknowledgement. A connection has one
version, since BookKeeper's bookies read one as v2 for ever after its first frame of v2.

A batch read cannot be said in v3: it is answered BAD_REQUEST, after which a reader asks for single entries.
"""

from __future__ import annotations

from typing import Final

from zab.ledger.entries.ids import BookieId
from zab.ledger.store.events import Answered
from zab.ledger.wire import v2
from zab.ledger.wire.client_channel import needs_v2, needs_v3
from zab.ledger.wire.messages import AddEntry, Request, answer_without
from zab.ledger.wire.status import Status
from zab.ledgers.connection import Address, Asker, BookieConnection, Dialler
from zab.ledgers.settings import Protocol, StoreSettings

CHECK_MS: Final = 500
"""So often it is looked whether bookies owe answers for too long."""


class AddFrames:
    """The frame of the last add. A write set of bookies is sent the same one."""

    def __init__(self) -> None:
        self._request: AddEntry | None = None
        self._frame = b""

    def of(self, request: AddEntry) -> bytes:
        if request is not self._request:
            self._request, self._frame = request, v2.add_request_frame(request)
        return self._frame


class BookieLink:
    """See the docstring of the module."""

    def __init__(
        self, bookie: BookieId, settings: StoreSettings, dialler: Dialler, address: Address, frames: AddFrames
    ) -> None:
        self.bookie = bookie
        self._frames = frames
        self._is_v2 = settings.protocol is Protocol.V2
        is_v2 = settings.protocol is Protocol.V2
        self._adds = BookieConnection(bookie, "adds", is_v2, settings, dialler, address)
        self._others = BookieConnection(bookie, "others", False, settings, dialler, address)
        self._reads = BookieConnection(bookie, "reads", True, settings, dialler, address) if is_v2 else self._others
        self.connections = tuple(dict.fromkeys((self._adds, self._reads, self._others)))

    @property
    def is_waiting(self) -> bool:
        return any(each.is_waiting for each in self.connections)

    @property
    def has_failed(self) -> bool:
        """Whether the last attempt to reach it failed."""
        return any(each.failures for each in self.connections)

    def send(self, request: Request, asker: Asker, now_ms: int) -> None:
        """Send it with the next flush. The asker is given one answer."""
        if type(request) is AddEntry:
            # Another add of this entry may be under way, of another kind.
            if self._is_v2 and self._adds.send_add(request, self._frames.of(request), asker, now_ms):
                return
            connection = self._others if self._is_v2 else self._adds
        elif needs_v3(request) or not self._reads.can_send(request):
            connection = self._others
        else:
            connection = self._reads
        if needs_v2(request) and not connection.is_v2:
            asker.give(Answered(self.bookie, request, answer_without(request, Status.BAD_REQUEST)))
        else:
            connection.send(request, asker, now_ms)

    def flush(self) -> None:
        for each in self.connections:
            if each.has_output:
                each.flush()

    def check(self, now_ms: int) -> None:
        """Hang up where an answer is owed for too long."""
        for each in self.connections:
            each.check(now_ms)

    def hang_up(self, status: Status) -> None:
        """End every connection; the next request opens another one."""
        for each in self.connections:
            each.end(status)
