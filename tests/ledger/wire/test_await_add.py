"""An add whose frame the caller has: the answer finds it, and another add of the entry has to wait."""

from __future__ import annotations

from attrs import evolve

from zab.ledger.wire import v2
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.codec import encode_answer
from zab.ledger.wire.messages import Added, AddEntry
from zab.ledger.wire.status import Status

ADD = AddEntry(1, 5, b"k" * 20, b"\0" * 40)


def test_the_answer_finds_it() -> None:
    channel = ClientChannel(is_v2=True)
    assert channel.await_add(ADD)
    assert len(channel) == 1
    answer = encode_answer(v2.reply_to(v2.VERSION, v2.ADD), Added(Status.OK, 1, 5))
    assert channel.feed(answer) == ([(ADD, Added(Status.OK, 1, 5))], None)


def test_another_add_of_the_entry_has_to_wait() -> None:
    channel = ClientChannel(is_v2=True)
    assert channel.await_add(ADD)
    assert channel.await_add(evolve(ADD))
    assert not channel.await_add(evolve(ADD, is_recovery=True))
    assert not channel.await_add(evolve(ADD, entry=6, is_deferred=True))
    assert channel.await_add(evolve(ADD, entry=6))
    assert len(channel.lost()) == 3
