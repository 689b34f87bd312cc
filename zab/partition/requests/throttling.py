"""What quotas do to the answers of clients, and to their connections.

An answer is sent at once, and says how long its client has to wait (`throttle_time_ms`). For that time nothing more is
read from the connection, and what has come is not looked at, so that a client waits that does not know the field
(KIP-219).

    produce     the bytes of the request count, whatever becomes of it
    fetch       the bytes of batches in the answer count. Above the quota it is sent without them, and they do not
                count. If nothing counted before, they are sent: one that is larger than the quota never would be
    topics      partitions that are created and deleted (`mutation_quotas`)
    any         the time of the loop that the request took until it was answered, except for a produce with acks=0

Brokers that ask over links, and logins, have no quotas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from zab.kafka.api_key import ApiKey
from zab.partition.access.principals import USER
from zab.partition.controller.znodes import quoted
from zab.partition.quotas.client_quotas import ClientQuotas
from zab.partition.quotas.limits import FETCHED, MUTATED, PRODUCED, WORKED
from zab.partition.requests.connection import ClientConnection

_EXEMPT: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_PERCENT_OF_NS: Final = 100 / 1_000_000_000
"""One nanosecond of each second, in percent."""


class Request(Protocol):
    """What is looked at of a request (`zab.partition.requests.request`)."""

    connection: ClientConnection
    header: Any
    size_bytes: int
    began_ns: int
    spent_ns: int | None


class Throttling:
    """See the docstring of the module."""

    def __init__(
        self, quotas: ClientQuotas, clock_ns: Callable[[], int], mute: Callable[[ClientConnection, int], None]
    ) -> None:
        """`clock_ns`: the time that goes on within a turn. `mute` is given a connection that has to wait, and for how
        many ms."""
        self.quotas = quotas
        self._counts = quotas.limits.counts
        self._clock_ns = clock_ns
        self._mute = mute

    def clock_ns(self) -> int:
        """The time, if anybody has a quota of it; else 0."""
        return self._clock_ns() if self._counts[WORKED] else 0

    def answered(self, request: Request) -> int:
        """A request is answered: how long its client waits because of the time that it took."""
        if request.header.api_key in _EXEMPT or not self._counts[WORKED]:
            return 0
        spent_ns = self.clock_ns() - request.began_ns if request.spent_ns is None else request.spent_ns
        return self._wait(request, self.quotas.used(WORKED, *_who(request), spent_ns * _PERCENT_OF_NS))

    def produced(self, request: Request) -> int:
        """A produce has come: how long its client waits because of its bytes."""
        if not self._counts[PRODUCED]:
            return 0
        return self._wait(request, self.quotas.used(PRODUCED, *_who(request), request.size_bytes))

    @property
    def limits_fetches(self) -> bool:
        """Whether anybody has a quota of bytes that are fetched."""
        return self._counts[FETCHED] > 0

    def fetched(self, request: Request, size_bytes: int) -> tuple[int, bool]:
        """So many bytes are there for a consumer: how long it waits because of them, and whether it gets them."""
        quotas = self.quotas
        who = _who(request)
        is_first = quotas.is_unused(FETCHED, *who)
        wait_ms = quotas.used(FETCHED, *who, size_bytes)
        is_given = not wait_ms or is_first
        if not is_given:
            quotas.taken_back(FETCHED, *who, size_bytes)
        return self._wait(request, wait_ms), is_given

    @property
    def limits_mutations(self) -> bool:
        """Whether anybody has a quota of partitions that are created and deleted."""
        return self._counts[MUTATED] > 0

    def mutated(self, request: Request, count: int, *, is_strict: bool) -> tuple[int, bool]:
        """So many partitions are to be created or deleted: how long its client waits, and whether they are."""
        wait_ms, is_done = self.quotas.mutated(*_who(request), count, is_strict=is_strict)
        return self._wait(request, wait_ms), is_done

    def fetch_bytes_max(self, request: Request) -> int | None:
        """The most that a fetch may get; None: there is no quota."""
        if not self._counts[FETCHED]:
            return None
        most = self.quotas.most(FETCHED, *_who(request))
        return None if most is None else int(min(most, (1 << 31) - 1))

    def _wait(self, request: Request, wait_ms: int) -> int:
        if wait_ms:
            self._mute(request.connection, wait_ms)
        return wait_ms


def _who(request: Request) -> tuple[str, str]:
    return quoted(request.connection.principal.removeprefix(USER)), quoted(request.header.client_id or "")
