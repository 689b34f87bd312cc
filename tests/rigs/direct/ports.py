"""Ports of a turn (`zab.member.ports`) whose other side is in the same memory: nothing waits in them, nothing is due.

What both rigs need; each adds where its messages and answers go.
"""

from collections.abc import Iterable

from zab.member.clients.connection import ClientConnection
from zab.member.events import Input
from zab.quorum.ids import Link
from zab.wire.link_protocol import TakeAtOnce


class DirectLinks:
    """Quorum links. What comes over them is among the answers, in the order in which all of it came."""

    has_news = has_knocks = False
    has_unsent = True

    def receive(self, inputs: list[Input], take_at_once: TakeAtOnce) -> None:
        pass

    def unsent_bytes(self, link: Link) -> int:
        return 0

    def flush(self) -> None:
        pass

    def accept(self, now: int) -> None:
        pass


class DirectClients:
    """Connections of clients. What they send is among the answers, as with `DirectLinks`."""

    has_news = has_knocks = False
    has_unsent = True

    def receive(self, inputs: list[Input], until_ns: int) -> None:
        pass

    def notice_ends(self, inputs: list[Input]) -> None:
        pass

    def flush(self, dirty: Iterable[ClientConnection], now: int) -> None:
        pass

    def accept(self, now: int) -> None:
        pass

    def adapt_budget(self, turn_ns: int) -> None:
        pass
