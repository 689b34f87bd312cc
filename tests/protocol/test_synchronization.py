"""Synchronization, what only a peer alone shows: what a learner lacks, and what either side may not say."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.batch import genesis
from datatree.log.zxid import Epoch, Zxid, make_zxid
from tests.protocol.alone import FIRST, HISTORY, LAST, LINEAGE, Follower, Leader, batch_after, history, restored
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.roles import Stage
from zab.quorum.ids import Link, ServerId

BEGINNING = (Zxid(0), genesis(LINEAGE))
OTHER_BYTES = bytes(16)

# --------------------------------------------------------------------------------------------------------- the leader


def meeting(zxid: Zxid, chain: bytes, *, in_memory: int = 2) -> Leader:
    """A leader with its quorum, which has so many batches in memory, and learner 1 comes with this position."""
    kept = HISTORY[2 - in_memory :]
    base = (FIRST, HISTORY[0].chain) if in_memory == 1 else BEGINNING
    leader = Leader(attrs.evolve(restored(kept, mark=LAST), base=base))
    leader.establish(2)
    leader.dial(1)
    leader.hear(10, msg.AckEpoch(Epoch(1), zxid, chain))
    return leader


def read_from(leader: Leader) -> list[int]:
    return [effect.zxid for effect in leader.did(fx.ReadLog)]


def test_other_bytes_are_cut_to_the_batch_before_which_memory_has() -> None:
    leader = meeting(LAST, OTHER_BYTES)
    assert leader.sent(msg.Trunc, 10) == [msg.Trunc(FIRST, HISTORY[0].chain, True)]
    assert read_from(leader) == []


def test_other_bytes_where_memory_begins_have_the_files_asked_for_the_batch_before() -> None:
    leader = meeting(FIRST, OTHER_BYTES, in_memory=1)
    assert read_from(leader) == [FIRST - 1]
    leader.tell(ev.LogRead(Link(10), BEGINNING, []))
    assert leader.sent(msg.Trunc, 10) == [msg.Trunc(*BEGINNING, True)]


def test_another_beginning_needs_a_snapshot() -> None:
    leader = meeting(Zxid(0), OTHER_BYTES)
    assert leader.did(fx.OfferSnapshot)
    assert read_from(leader) == []


def test_what_memory_has_no_more_is_read_on_from_the_files() -> None:
    leader = meeting(*BEGINNING, in_memory=1)
    leader.tell(ev.LogRead(Link(10), BEGINNING, []))
    assert leader.sent(msg.Diff, 10) == [msg.Diff(Zxid(0))]
    assert read_from(leader) == [0, 0]
    leader.tell(ev.LogRead(Link(10), BEGINNING, [HISTORY[0]]))
    sent = [raw for proposal in leader.sent(msg.Proposal, 10) for raw in proposal.batches]
    assert sent == [batch.raw for batch in HISTORY]
    assert leader.stage(1) is Stage.NEWLEADER_SENT


def fetching() -> Leader:
    """Learner 1 fetches the snapshot of the leader's end."""
    leader = meeting(Zxid(1), OTHER_BYTES, in_memory=1)
    leader.tell(ev.LogRead(Link(10), None, []))
    leader.tell(ev.SnapshotOffered(Link(10), LAST, HISTORY[1].chain))
    assert leader.sent(msg.Snap, 10)
    return leader


def test_a_snapshot_has_to_be_above_where_the_learner_is() -> None:
    leader = meeting(Zxid(1), OTHER_BYTES, in_memory=1)
    leader.tell(ev.LogRead(Link(10), None, []))
    assert leader.did(fx.OfferSnapshot) == [fx.OfferSnapshot(Link(10), Zxid(1))]


@pytest.mark.parametrize("zxid", [FIRST, Zxid(LAST + 1)])
def test_installed_of_another_snapshot_ends_its_link(zxid: Zxid) -> None:
    leader = fetching()
    leader.hear(10, msg.Installed(zxid))
    assert leader.stage(1) is None


def test_a_second_installed_ends_its_link() -> None:
    leader = fetching()
    leader.hear(10, msg.Installed(LAST))
    assert leader.stage(1) is Stage.NEWLEADER_SENT
    leader.hear(10, msg.Installed(LAST))
    assert leader.stage(1) is None


@pytest.mark.parametrize("epoch", [1, 3])
def test_an_ack_of_the_newleader_of_another_epoch_ends_its_link(epoch: int) -> None:
    leader = Leader()
    leader.synchronize(1, 2)
    leader.hear(10, msg.Ack(Epoch(2), make_zxid(epoch, 0)))
    assert leader.stage(1) is None
    assert not leader.leading.established


def test_an_ack_of_a_later_epoch_ends_the_link_of_a_learner_that_serves() -> None:
    leader = Leader()
    leader.establish(1, 2)
    leader.hear(10, msg.Ack(Epoch(3), make_zxid(3, 0)))
    assert leader.stage(1) is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_ack_of_newleader_out_of_place_ends_its_link(when: str) -> None:
    leader = Leader()
    leader.establish(2)
    leader.dial(1)
    if when == "after":
        leader.accept(1)
        leader.acknowledge(1)
        assert leader.stage(1) is Stage.UP_TO_DATE
    leader.acknowledge(1)
    assert leader.stage(1) is None


@pytest.mark.parametrize("offset", [-1, 1])
def test_readmitted_of_another_round_ends_its_link(offset: int) -> None:
    leader = Leader()
    leader.establish(1)
    readmit = leader.readmit(2)
    leader.hear(20, msg.Readmitted(readmit.round + offset))
    assert leader.leading.handler_of(ServerId(2)) is None


# -------------------------------------------------------------------------------------------------------- the learner


@pytest.mark.parametrize(
    "message",
    [
        msg.Diff(FIRST),
        msg.Diff(Zxid(LAST + 1)),
        msg.NewLeader(Epoch(1), LAST, False),
        msg.NewLeader(Epoch(2), Zxid(LAST + 1), False),
    ],
)
def test_a_position_or_an_epoch_that_is_not_this_members_ends_the_link(message: msg.Message) -> None:
    follower = Follower()
    follower.accept()
    if isinstance(message, msg.NewLeader):
        follower.from_leader(msg.Diff(LAST))
    assert not follower.has_left
    follower.from_leader(message)
    assert follower.has_left


def test_a_snapshot_of_what_is_committed_here_ends_the_link_and_not_the_member() -> None:
    follower = Follower(restored(mark=LAST))
    follower.accept()
    follower.from_leader(msg.Snap(LAST, HISTORY[1].chain, False))
    assert follower.has_left
    assert not follower.did(fx.Halt)


def test_b1_a_snapshot_of_the_number_where_a_doubted_history_ends_does_not_prove_it() -> None:
    """The leader does not know what is above the second batch; its snapshot has the number of the third."""
    batches = history((1, 1), (1, 2), (2, 1))
    follower = Follower(restored(batches, accepted=2))
    follower.accept(3)
    follower.from_leader(msg.Trunc(make_zxid(1, 3), OTHER_BYTES, False))
    assert follower.peer.position()[0] == batches[1].zxid
    follower.drained()
    follower.elect()
    follower.accept(4)
    follower.from_leader(msg.Snap(batches[2].zxid, OTHER_BYTES, False))
    assert [fetch.keeps_record for fetch in follower.did(fx.FetchSnapshot)] == [False]


def test_batches_before_one_that_ends_the_link_are_on_the_disk_that_is_drained() -> None:
    """Else the learner would say that it has what no file of its has, and be counted with it."""
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Diff(LAST))
    good = batch_after((LAST, HISTORY[1].chain), 2, 1)
    follower.from_leader(msg.Proposal([good.raw, b"damaged"]))
    assert follower.has_left
    assert follower.peer.history.last == (good.zxid, good.chain)
    kinds = [type(effect) for effect in follower.effects if isinstance(effect, fx.AppendBatches | fx.DrainLog)]
    assert kinds[-2:] == [fx.AppendBatches, fx.DrainLog]


def test_current_epoch_is_saved_once_whatever_becomes_durable_meanwhile() -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(2), LAST, False))
    following = batch_after((LAST, HISTORY[1].chain), 2, 1)
    follower.from_leader(msg.Proposal([following.raw]))
    follower.forget()
    follower.durable(following.zxid)
    assert not follower.did(fx.SaveEpochs)


def test_a_learner_is_readmitted_before_uptodate_too() -> None:
    follower = Follower()
    follower.synchronize()
    follower.from_leader(msg.Readmit(1))
    assert follower.sent(msg.Readmitted) == [msg.Readmitted(1)]
