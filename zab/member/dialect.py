"""What the members of an ensemble say on quorum links, for the links of the server and of the simulator."""

from __future__ import annotations

from zab.events import MessageReceived, QuorumLinkDown, QuorumLinkUp
from zab.member.inputs import Input
from zab.message import (
    DATA_FRAME_BYTES_MAX,
    FRAME_BYTES_MAX,
    URGENT,
    Message,
    Proposal,
    decode,
    encode,
)
from zab.wire.dialect import Dialect


def cut(proposal: Proposal) -> list[Proposal]:
    """The same batches in messages of at most `DATA_FRAME_BYTES_MAX`, or of one batch that is larger."""
    pieces: list[list[bytes]] = [[]]
    size_bytes = 0
    for batch in proposal.batches:
        size_bytes += len(batch)
        if size_bytes > DATA_FRAME_BYTES_MAX and pieces[-1]:
            pieces.append([])
            size_bytes = len(batch)
        pieces[-1].append(batch)
    return [Proposal(batches) for batches in pieces]


def _refused(_sid: int) -> QuorumLinkDown:
    return QuorumLinkDown(0)


QUORUM_DIALECT: Dialect[Message, Input] = Dialect(
    encode=encode,
    decode=decode,
    frame_bytes_max=FRAME_BYTES_MAX,
    urgent=URGENT,
    # Requests are made small where they are made.
    cut={Proposal: cut},
    up=QuorumLinkUp,
    received=MessageReceived,
    down=QuorumLinkDown,
    refused=_refused,
)
