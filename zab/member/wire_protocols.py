"""The protocols that a member speaks, for the links and sockets of the server and of the simulator.

QUORUM_PROTOCOL      on quorum links, to other members
client_protocol      to clients
"""

from __future__ import annotations

from itertools import count

from zab.member.clients.authentication import identities_of_subject
from zab.member.clients.connection import ClientConnection, Closing
from zab.member.clients.long_requests import LongRequests
from zab.member.events import Input
from zab.member.settings.config import Config
from zab.protocol.events import DialFailed, MessageReceived, QuorumLinkDown, QuorumLinkUp
from zab.protocol.frame_limits import DATA_FRAME_BYTES_MAX, FRAME_BYTES_MAX, JOINING_BYTES_MAX
from zab.protocol.message import SECRET, URGENT, Message, Proposal, UpToDate, decode, encode
from zab.wire.client_protocol import ClientProtocol
from zab.wire.frames import FrameReader
from zab.wire.link_protocol import LinkProtocol


def cut(proposal: Proposal) -> list[Proposal]:
    """Split a proposal into messages of at most `DATA_FRAME_BYTES_MAX`; a larger batch has a message of its own."""
    pieces: list[list[bytes]] = [[]]
    size_bytes = 0
    for batch in proposal.batches:
        size_bytes += len(batch)
        if size_bytes > DATA_FRAME_BYTES_MAX and pieces[-1]:
            pieces.append([])
            size_bytes = len(batch)
        pieces[-1].append(batch)
    return [Proposal(batches) for batches in pieces]


QUORUM_PROTOCOL: LinkProtocol[Message, Input] = LinkProtocol(
    encode=encode,
    decode=decode,
    frame_bytes_max=FRAME_BYTES_MAX,
    joining_bytes_max=JOINING_BYTES_MAX,
    admitting=frozenset({UpToDate}),
    urgent=URGENT,
    secret=SECRET,
    # Requests are kept small by the code that makes them.
    cut={Proposal: cut},
    uncut_bytes_max=DATA_FRAME_BYTES_MAX,
    up=QuorumLinkUp,
    received=MessageReceived,
    down=QuorumLinkDown,
    refused=DialFailed,
)


def client_protocol(config: Config) -> ClientProtocol[ClientConnection]:
    """The client protocol of one member. The numbers of its connections begin with 1."""
    numbers = count(1)

    def connect(host: str, port: int, subject: str) -> ClientConnection:
        longs = LongRequests(config.requests.jute_max_buffer_bytes, config.requests.oversize_request_bytes)
        frames = FrameReader(config.requests.jute_max_buffer_bytes, longs)
        connection = ClientConnection(next(numbers), host, port, frames)
        if subject:
            connection.identify(*identities_of_subject(config, subject))
        return connection

    return ClientProtocol(connect, Closing.AT_ONCE)
