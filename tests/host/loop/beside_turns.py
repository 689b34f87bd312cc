"""Two threads that send on one link at once: one acknowledgements, the other one in its turns."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.host.loop.far_server import Other
from tests.host.loop.link_server import Server
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.protocol.member_message import Request
from zab.protocol.message import Ack, Commit

ACKS_COUNT = 2_000


def acks_arrive_beside_turns(server: Server, other: Other, link: int, send: Callable[[Ack], None]) -> None:
    """What each of both sends arrives, whole and in its order, and the link stays up."""
    count = ACKS_COUNT
    sender = threading.Thread(target=lambda: [send(Ack(1, number)) for number in range(count)])
    heard = []
    hearer = threading.Thread(target=lambda: heard.extend(other.hear() for _ in range(2 * count)))
    hearer.start()
    sender.start()
    for number in range(count):
        server.links.send((link,), Commit(number) if number % 10 else Request([[[], [bytes(9_000)]]]))
        assert server.turn() == []
    sender.join(PATIENCE_SECONDS)
    while hearer.is_alive():
        assert server.turn() == []
        hearer.join(0.001)
    assert [message.zxid for message in heard if isinstance(message, Ack)] == list(range(count))
    assert [message.zxid for message in heard if isinstance(message, Commit)] == [n for n in range(count) if n % 10]
    assert len(heard) == 2 * count
