"""What an election port believes of what somebody says who has proven who it is."""

from __future__ import annotations

import cbor2
import pytest

from zab.member.membership.election_receiver import ElectionReceiver
from zab.protocol.events import NotificationReceived
from zab.protocol.message import Ack, Notification, encode
from zab.protocol.states import NOTHING
from zab.quorum.ids import ServerId


def vote(round_number: int) -> Notification:
    return Notification(0, 1, 0, 0, round_number, b"", False, NOTHING, False, False, False)  # type: ignore[arg-type]


NONSENSE = [
    b"",
    b"\xff",
    b"\x81" * 4000,
    cbor2.dumps([1 << 20_000]),
    cbor2.dumps([0] * 12),
    cbor2.dumps({0: 1}),
    encode(Ack(1, 1)),  # type: ignore[arg-type]
    encode(vote(1))[:-1],
    encode(vote(1)) + b"\0",
]


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_what_is_no_vote_is_skipped(nonsense: bytes) -> None:
    skipped: list[str] = []
    receiver = ElectionReceiver(ServerId(7), skipped.append, is_proven=False)
    assert receiver.vote(encode(vote(1))) == NotificationReceived(ServerId(7), vote(1))
    assert receiver.vote(nonsense) is None
    assert len(skipped) == 1
    assert receiver.vote(encode(vote(2))) == NotificationReceived(ServerId(7), vote(2))


def test_of_many_that_are_no_votes_one_is_reported() -> None:
    skipped: list[str] = []
    receiver = ElectionReceiver(ServerId(7), skipped.append, is_proven=False)
    assert [receiver.vote(nonsense) for nonsense in NONSENSE] == [None] * len(NONSENSE)
    assert len(skipped) == 1
