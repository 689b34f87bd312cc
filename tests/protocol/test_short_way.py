"""Both ways of a message of the steady state lead to the same: `zab.protocol.short_way` against `Peer.step`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, TypeAlias

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datatree.log import batch as codec
from datatree.log.batch import Batch
from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid, make_zxid
from tests.rigs.direct.members import Ensemble
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol import roles, short_way
from zab.protocol.peer import Peer
from zab.quorum.ids import Link
from zab.wire.records import MessageError

NOW = 2_000_000


def state_of(thing: Any) -> Any:
    """All that a peer knows, to be compared."""
    if isinstance(thing, dict):
        return {key: state_of(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple) or type(thing).__name__ == "deque":
        return [state_of(value) for value in thing]
    if attrs.has(type(thing)):
        return {field.name: state_of(getattr(thing, field.name)) for field in attrs.fields(type(thing))}
    if type(thing).__module__.startswith("zab.protocol.") and hasattr(thing, "__dict__"):
        return {key: state_of(value) for key, value in vars(thing).items() if not key.startswith("_on")}
    return thing if isinstance(thing, int | bytes | str | frozenset | set | None) else repr(type(thing))


def taken(peer: Peer) -> list[fx.Effect]:
    """What the peer wants since it was looked at last."""
    effects, peer.effects = peer.effects, []
    return effects


class Steady:
    """A leader and a follower that serve, with a batch that is proposed and one that the leader alone knows."""

    def __init__(self) -> None:
        ensemble = Ensemble(3)
        client = ensemble.session(ensemble.leader)
        for number in range(3):
            ensemble.do(client, client.create(b"/%d" % number))
        leader, follower = ensemble.leader, ensemble.follower
        self.leader, self.follower = leader.member.peer, follower.member.peer
        self.to_leader = self.follower.link_to_leader
        assert self.to_leader is not None
        assert self.leader.history.last == self.follower.history.last

    def batch(self, **changes: Any) -> Batch:
        """The batch that the leader proposes next."""
        last, epoch = self.follower.history.last, self.follower.epoch
        fields: dict[str, Any] = {
            "epoch": epoch,
            "first": last[0] + 1,
            "count": 1,
            "time": 0,
            "flags": 0,
            "mark": self.follower.committed,
            "applied": self.follower.committed,
            "digest": 0,
            "body": b"x" * 20,
        }
        return codec.build(last[1], **fields | changes)


@pytest.fixture(scope="module")
def steady() -> Steady:
    return Steady()


def both(peer: Peer, link: Link, payload: bytes) -> tuple[bool, Peer, list[fx.Effect], Peer, list[fx.Effect]]:
    """A copy of the peer that takes the message the short way if it can, and one that never does."""
    short, general = deepcopy(peer), deepcopy(peer)
    is_taken = short.take_message(NOW, link, payload)
    effects = taken(short)
    if not is_taken:
        assert (state_of(short), effects) == (state_of(peer), []), "what is not taken changes nothing"
    try:
        message = msg.decode(payload)
    except MessageError:
        assert not is_taken, "what is no message is not taken"
        return is_taken, short, effects, general, []
    return is_taken, short, effects, general, general.step(NOW, ev.MessageReceived(link, message))


def check(peer: Peer, link: Link, payload: bytes) -> bool:
    is_taken, short, effects, general, expected = both(peer, link, payload)
    if is_taken:
        assert effects == expected
        assert state_of(short) == state_of(general)
        short.invariants()
    return is_taken


def proposal(*batches: Batch) -> bytes:
    return msg.encode(msg.Proposal([batch.raw for batch in batches]))


# ------------------------------------------------------------------------------------------------ what is taken at once


@pytest.mark.parametrize("size", [1, 100, 171, 172, 173, 65_451, 65_452, 200_000], ids=lambda size: f"{size} bytes")
def test_a_proposal_of_any_size_is_taken(steady: Steady, size: int) -> None:
    batch = steady.batch(body=b"x" * size)
    assert check(steady.follower, steady.to_leader, proposal(batch))


def test_a_proposal_raises_the_mark_to_what_it_says(steady: Steady) -> None:
    first = steady.batch()
    follower = deepcopy(steady.follower)
    assert follower.take_message(NOW, steady.to_leader, proposal(first))
    second = codec.build(
        first.chain,
        epoch=first.epoch,
        first=first.zxid + 1,
        count=2,
        time=0,
        flags=0,
        mark=first.zxid,
        applied=first.zxid,
        digest=7,
        body=b"y",
    )
    assert check(follower, steady.to_leader, proposal(second))
    assert follower.take_message(NOW, steady.to_leader, proposal(second))
    assert follower.committed == first.zxid


def proposed(steady: Steady) -> tuple[Peer, Peer, Zxid]:
    """The leader and a follower, once there is a batch that is logged nowhere."""
    leader, follower = deepcopy(steady.leader), deepcopy(steady.follower)
    first = leader.next_zxid()
    assert first is not None
    leader.step(NOW, ev.Propose(first, b"x", 1, 0, 0, leader.committed, 0, 1))
    last = leader.history.last[0]
    assert follower.take_message(NOW, steady.to_leader, proposal(leader.history.batches[last]))
    taken(follower)
    return leader, follower, last


def ack(peer: Peer, zxid: Zxid) -> bytes:
    return msg.encode(msg.Ack(peer.epoch, zxid))


def durable(peer: Peer, zxid: Zxid) -> ev.Durable:
    return ev.Durable(peer.generation, zxid)


@pytest.mark.parametrize("flags", [0, codec.SNAPSHOT])
def test_transactions_of_the_member_are_proposed_both_ways_alike(steady: Steady, flags: int) -> None:
    short, general = deepcopy(steady.leader), deepcopy(steady.leader)
    first = short.next_zxid()
    assert first is not None
    event = ev.Propose(first, b"x" * 20, 2, 0, flags, short.committed, 0, 1)
    assert short.take_proposal(NOW, event)
    assert taken(short) == general.step(NOW, event)
    assert state_of(short) == state_of(general)
    assert short.next_zxid() == first + 2


def test_a_reconfiguration_is_proposed_the_general_way(steady: Steady) -> None:
    leader = deepcopy(steady.leader)
    first = leader.next_zxid()
    assert first is not None
    assert not leader.take_proposal(NOW, ev.Propose(first, b"x", 1, 0, codec.RECONFIG, leader.committed, 0, 1))
    leader.halted = True
    assert not leader.take_proposal(NOW, ev.Propose(first, b"x", 1, 0, 0, leader.committed, 0, 1))
    assert state_of(leader) | {"halted": False} == state_of(steady.leader)


def test_acknowledgements_are_taken_and_the_second_one_changes_nothing_but_what_it_says(steady: Steady) -> None:
    leader, _, last = proposed(steady)
    assert leader.take_durable(NOW, durable(leader, last))
    one, other = leader.learners
    assert check(leader, one, ack(leader, last))
    assert leader.take_message(NOW, one, ack(leader, last))
    assert [type(effect) for effect in taken(leader)] == [fx.MarkMoved, fx.Send, fx.Deliver]
    assert check(leader, other, ack(leader, last))
    assert leader.take_message(NOW, other, ack(leader, last))
    assert taken(leader) == []
    assert leader.committed == last


def test_a_commit_is_taken_before_and_after_the_log_is_durable(steady: Steady) -> None:
    _, follower, last = proposed(steady)
    commit = msg.encode(msg.Commit(last))
    assert check(follower, steady.to_leader, commit)
    before, after = deepcopy(follower), follower
    assert before.take_durable(NOW, durable(before, last))
    assert before.take_message(NOW, steady.to_leader, commit)
    assert after.take_message(NOW, steady.to_leader, commit)
    assert [type(effect) for effect in after.effects] == [fx.MarkMoved]
    assert after.take_durable(NOW, durable(after, last))
    assert taken(after) == taken(before)
    assert after.delivered == before.delivered == last


@pytest.mark.parametrize("epoch", [1, 23, 24, 255, 256, 65_535, 65_536, 0x7FFFFFFF])
def test_the_head_of_an_acknowledgement_is_that_of_its_epoch(epoch: int) -> None:
    zxid = make_zxid(epoch, 0xFFFFFFFF)
    encoded = msg.encode(msg.Ack(Epoch(epoch), zxid))
    assert encoded == short_way._ack_head(Epoch(epoch)) + zxid.to_bytes(8, "big")


# ------------------------------------------------------------------------------------------- what goes the general way

Change: TypeAlias = Callable[[Peer], object]


def _awaits_heir(peer: Peer) -> None:
    assert peer.leading is not None
    peer.leading.heir = peer.settings.sid


def _wants_renewal(peer: Peer) -> None:
    assert peer.leading is not None
    peer.leading.renewal_wanted = True


def _is_synchronized_anew(peer: Peer) -> None:
    assert peer.leading is not None
    for handler in peer.leading.handlers.values():
        handler.stage = roles.SYNCHRONIZED


@pytest.mark.parametrize("change", [_awaits_heir, _wants_renewal, _is_synchronized_anew])
def test_a_leader_about_to_change_takes_nothing_at_once(steady: Steady, change: Change) -> None:
    leader, _, last = proposed(steady)
    link = next(iter(leader.learners))
    assert check(leader, link, ack(leader, last))
    change(leader)
    assert not leader.take_message(NOW, link, ack(leader, last))


def _is_outdated(peer: Peer) -> None:
    assert peer.following is not None
    peer.following.up_to_date = False


def _fetches(peer: Peer) -> None:
    assert peer.following is not None
    peer.following.fetching = True


def _is_halted(peer: Peer) -> None:
    peer.halted = True


def _has_a_configuration_outstanding(peer: Peer) -> None:
    peer.memberships.outstanding = peer.memberships.in_force


def _serves_observers(peer: Peer) -> None:
    peer.settings = attrs.evolve(peer.settings, has_observer_masters=True)


@pytest.mark.parametrize(
    "change", [_is_outdated, _fetches, _is_halted, _has_a_configuration_outstanding, _serves_observers]
)
def test_a_follower_that_is_not_steady_takes_nothing_at_once(steady: Steady, change: Change) -> None:
    follower = deepcopy(steady.follower)
    change(follower)
    assert not follower.take_message(NOW, steady.to_leader, proposal(steady.batch()))


def test_an_answer_of_an_older_generation_goes_the_general_way(steady: Steady) -> None:
    _, follower, last = proposed(steady)
    follower.generation += 1
    durable_before = follower.durable
    follower.take_durable(NOW, ev.Durable(follower.generation - 1, last))
    assert (follower.durable, follower.effects) == (durable_before, [])


def test_an_acknowledgement_that_falls_goes_the_general_way(steady: Steady) -> None:
    """It breaks the protocol, and the learner is dropped there."""
    leader, _, last = proposed(steady)
    link = next(iter(leader.learners))
    assert leader.take_message(NOW, link, ack(leader, last))
    assert not check(leader, link, ack(leader, Zxid(last - 1)))


def test_an_acknowledgement_of_what_was_not_sent_goes_the_general_way(steady: Steady) -> None:
    leader, _, last = proposed(steady)
    link = next(iter(leader.learners))
    assert leader.leading is not None
    leader.leading.handlers[link].cursor = Zxid(last - 1)
    assert not check(leader, link, ack(leader, last))


def test_a_commit_of_what_is_no_end_of_a_batch_goes_the_general_way(steady: Steady) -> None:
    follower = deepcopy(steady.follower)
    assert follower.take_message(NOW, steady.to_leader, proposal(steady.batch(count=3)))
    taken(follower)
    last = follower.history.last[0]
    for zxid in (last - 1, last + 1):
        assert not check(follower, steady.to_leader, msg.encode(msg.Commit(Zxid(zxid))))
    assert check(follower, steady.to_leader, msg.encode(msg.Commit(last)))


def test_an_acknowledgement_of_another_epoch_goes_the_general_way(steady: Steady) -> None:
    leader, _, last = proposed(steady)
    link = next(iter(leader.learners))
    assert not check(leader, link, msg.encode(msg.Ack(Epoch(leader.epoch + 1), last)))
    assert not check(leader, link, msg.encode(msg.Ack(leader.epoch, make_zxid(leader.epoch, 0))))


def wrong_batches(steady: Steady) -> Iterator[Batch]:
    """Batches that a follower does not append, or not like this."""
    last, epoch = steady.follower.history.last[0], steady.follower.epoch
    yield steady.batch(flags=codec.RECONFIG)
    yield steady.batch(epoch=epoch + 1, first=make_zxid(epoch + 1, 1))
    yield steady.batch(first=last + 2)
    yield attrs.evolve(steady.batch(), raw=steady.batch().raw[:-1] + b"y")
    yield codec.build(b"?" * codec.CHAIN_BYTES, **fields_of(steady.batch()))
    yield steady.batch(mark=last - 1 if last - 1 not in steady.follower.history.batches else last, applied=BEFORE_ALL)
    yield steady.follower.history.batches[last]


def fields_of(batch: Batch) -> dict[str, Any]:
    names = ("epoch", "first", "count", "time", "flags", "mark", "applied", "digest", "body")
    return {name: getattr(batch, name) for name in names}


def test_each_wrong_batch_goes_the_general_way_or_leads_to_the_same(steady: Steady) -> None:
    taken = [check(steady.follower, steady.to_leader, proposal(batch)) for batch in wrong_batches(steady)]
    assert taken == [False, False, False, False, False, True, False]


def test_several_batches_or_none_go_the_general_way(steady: Steady) -> None:
    first = steady.batch()
    second = codec.build(first.chain, **fields_of(first) | {"first": first.zxid + 1})
    for batches in ((), (first, second)):
        assert not check(steady.follower, steady.to_leader, proposal(*batches))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_bytes_lead_to_the_same_both_ways(steady: Steady, data: st.DataObject) -> None:
    """Messages that would be taken, with bytes changed, cut off or added, on any link."""
    leader, follower, last = proposed(steady)
    to_leader = data.draw(st.booleans())
    peer = leader if to_leader else follower
    epochs = st.sampled_from([peer.epoch - 1, peer.epoch, peer.epoch + 1])
    zxids = st.sampled_from([*peer.history.batches, 0, last - 1, last + 1, make_zxid(peer.epoch, 0), last + (1 << 32)])
    kinds = st.one_of(
        st.builds(msg.Ack, epochs, zxids),
        st.builds(msg.Commit, zxids),
        st.just(msg.Proposal([_next(follower).raw])),
        st.just(msg.Proposal([follower.history.batches[last].raw])),
    )
    payload = bytearray(msg.encode(data.draw(kinds)))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        if not payload:
            return
    links = [*leader.learners, Link(99)] if to_leader else [steady.to_leader, Link(99)]
    check(peer, data.draw(st.sampled_from(links)), bytes(payload))


def _next(follower: Peer) -> Batch:
    last, chain = follower.history.last
    others = {"count": 1, "time": 0, "flags": 0, "mark": follower.committed, "applied": 0, "digest": 0, "body": b"z"}
    return codec.build(chain, epoch=follower.epoch, first=Zxid(last + 1), **others)
