"""A server that has links alone. One turn is one call of `turn`."""

import socket
import time

import attrs

from tests.host.loop.before_a_turn import tell_what_is_ready
from tests.host.loop.far_server import SECRET, Other
from zab.host.loop import links as links_module
from zab.host.loop.greeting import Greeting
from zab.host.loop.links import Links
from zab.host.loop.listener import open_listener
from zab.host.loop.loop import Loop
from zab.member.membership.greeting import PURPOSES, party
from zab.member.wire_protocols import QUORUM_PROTOCOL
from zab.wire.link_protocol import take_nothing


class Server:
    """Server 1 with its quorum port, and others that dial it, or that it dials."""

    take_at_once = staticmethod(take_nothing)

    def __init__(self):
        self.loop = Loop()
        self.handed_over = []
        self.party = party(1, [SECRET], is_open=False)
        greeting = Greeting(PURPOSES, lambda: [2, 3], lambda: self.party, lambda *what: self.handed_over.append(what))
        self.links = Links(self.loop, QUORUM_PROTOCOL, greeting)
        listening = open_listener("127.0.0.1", 0)
        self.address = listening.getsockname()
        self.links.listen(listening)
        self.opened = []

    def turn(self):
        tell_what_is_ready(self.loop)
        self.loop.call_due(links_module.now_ms())
        events = []
        self.links.receive(events, self.take_at_once)
        self.links.flush()
        self.links.accept(links_module.now_ms())
        self.loop._close_discarded()
        return events

    def turns(self, wanted=1):
        """Turns until this many events came; a few more show that no further one does."""
        events = []
        deadline = time.monotonic() + 60
        while len(events) < wanted and time.monotonic() < deadline:
            events += self.turn()
        for _ in range(3):
            time.sleep(0.001)
            events += self.turn()
        return events

    def dialled_by(self, sid, **changes):
        """A connection to this server, on which nothing was said yet."""
        return self._other(socket.create_connection(self.address), sid, **changes)

    def dials(self, sid, **changes):
        """A connection that this server opened, and on which it has said `Hello`."""
        ours, theirs = socket_pair()
        self.links.adopt(ours, sid)
        assert self.turns(0) == []
        return self._other(theirs, sid, **changes)

    def _other(self, sock, sid, as_sid=None, **changes):
        sock.settimeout(60)
        self.opened.append(sock)
        return Other(sock, attrs.evolve(party(as_sid or sid, [SECRET], is_open=False), **changes))

    def linked(self, sid=2, **changes):
        """An inbound link that is up: (the other end, its number)."""
        other = self.dialled_by(sid, **changes)
        other.begin()
        assert self.turns(0) == []
        other.prove()
        [up] = self.turns()
        return other, up.link


def socket_pair():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = socket.create_connection(listening.getsockname())
        other, _ = listening.accept()
    return one, other
