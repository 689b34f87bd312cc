"""Which links this broker has to the others: one dialled by it for each broker that it has something to say to.

    know(endpoints)         the brokers that live, and where they listen
    keep_up(now, wanted)    dials what is wanted and not there, breaks off what is not answered
    up, down, failed        what became of it
    said, heard             that an answer is owed, and that one came

A dial that fails is tried again after `AGAIN_MS`, later each time up to `AGAIN_MS_MAX`. A link whose other end owes an
answer for `timeout_ms` is broken off: its machine may be gone without a word. There is one dial to a broker at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from zab.partition.settings.listeners import Endpoint

AGAIN_MS: Final = 50
AGAIN_MS_MAX: Final = 1000
NEVER: Final = 1 << 62


@attrs.define
class _Dialled:
    """A link that is up."""

    broker_id: int
    owed_count: int = 0
    owed_since: int = NEVER
    """When the last answer came, or the first question of those without one left."""


@attrs.define
class _Pause:
    pause_ms: int
    until: int


class Dialling:
    """See the docstring of the module. Times are monotonic ms."""

    def __init__(self, timeout_ms: int) -> None:
        self.dials: list[tuple[int, Endpoint]] = []
        self.breaks: list[tuple[int, str]] = []
        """What is to be done; the caller empties both."""
        self._timeout_ms = timeout_ms
        self._endpoints: Mapping[int, Endpoint] = {}
        self._links: dict[int, int] = {}
        """The link to each broker that has one."""
        self._dialled: dict[int, _Dialled] = {}
        self._dialling: set[int] = set()
        self._pauses: dict[int, _Pause] = {}
        self._wanted: frozenset[int] = frozenset()

    def know(self, endpoints: Mapping[int, Endpoint]) -> None:
        """These brokers live. A pause to one that listens elsewhere now is over."""
        for broker_id in list(self._pauses):
            if endpoints.get(broker_id) != self._endpoints.get(broker_id):
                del self._pauses[broker_id]
        self._endpoints = dict(endpoints)

    def link_to(self, broker_id: int) -> int | None:
        """The link to this broker, if it is up."""
        return self._links.get(broker_id)

    def broker_of(self, link: int) -> int | None:
        """The broker at the other end of a link that this broker has dialled."""
        dialled = self._dialled.get(link)
        return None if dialled is None else dialled.broker_id

    # ----------------------------------------------------------------------------------------------- what happened

    def up(self, link: int, broker_id: int) -> bool:
        """A dialled link is up. False: there is one already, and this one is broken off."""
        self._dialling.discard(broker_id)
        self._pauses.pop(broker_id, None)
        if broker_id in self._links:
            self.breaks.append((link, "there is a link to that broker"))
            return False
        self._links[broker_id] = link
        self._dialled[link] = _Dialled(broker_id)
        return True

    def down(self, link: int, now: int) -> int | None:
        """A link is gone; the broker to which it was, if this broker has dialled it."""
        dialled = self._dialled.pop(link, None)
        if dialled is None:
            return None
        del self._links[dialled.broker_id]
        self._wait(dialled.broker_id, now)
        return dialled.broker_id

    def failed(self, broker_id: int, now: int) -> None:
        """A dial came to nothing."""
        self._dialling.discard(broker_id)
        self._wait(broker_id, now)

    def _wait(self, broker_id: int, now: int) -> None:
        known = self._pauses.get(broker_id)
        pause_ms = AGAIN_MS if known is None else min(2 * known.pause_ms, AGAIN_MS_MAX)
        self._pauses[broker_id] = _Pause(pause_ms, now + pause_ms)

    def said(self, link: int, now: int) -> None:
        """Something was sent that is to be answered within the timeout."""
        dialled = self._dialled[link]
        dialled.owed_count += 1
        if dialled.owed_since == NEVER:
            dialled.owed_since = now

    def heard(self, link: int, now: int) -> None:
        """Such an answer has come."""
        dialled = self._dialled.get(link)
        if dialled is not None:
            dialled.owed_count = max(0, dialled.owed_count - 1)
            dialled.owed_since = now if dialled.owed_count else NEVER

    # ---------------------------------------------------------------------------------------------------- what is due

    def keep_up(self, now: int, wanted: Iterable[int]) -> None:
        """Dial, and break off, what is due."""
        self._wanted = frozenset(wanted)
        for broker_id in sorted(self._missing()):
            pause = self._pauses.get(broker_id)
            if pause is None or pause.until <= now:
                self._dialling.add(broker_id)
                self.dials.append((broker_id, self._endpoints[broker_id]))
        for link, dialled in self._dialled.items():
            if dialled.owed_since + self._timeout_ms <= now:
                dialled.owed_since = NEVER
                self.breaks.append((link, f"broker {dialled.broker_id} does not answer"))

    def _missing(self) -> list[int]:
        """The brokers without a link that are to be dialled, at once or later."""
        return [
            each
            for each in self._wanted
            if each in self._endpoints and each not in self._links and each not in self._dialling
        ]

    def next_deadline(self) -> int:
        """When `keep_up` has something to do."""
        pauses = (self._pauses[each].until for each in self._missing() if each in self._pauses)
        owed = (each.owed_since + self._timeout_ms for each in self._dialled.values() if each.owed_since != NEVER)
        return min(min(pauses, default=NEVER), min(owed, default=NEVER))
