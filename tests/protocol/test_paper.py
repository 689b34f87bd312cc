"""The paper, sentence by sentence: Junqueira, Reed, Serafini, *Zab: High-performance broadcast for primary-backup
systems*, DSN 2011. Properties of section III, steps of the algorithm of section IV (phases 1 to 3).
"""

from random import Random

import pytest

from datatree.log.batch import Batch
from datatree.log.zxid import counter_of, epoch_of, make_zxid
from tests.protocol.random_faults import disturb
from tests.rigs.direct.lone_peer import transactions
from tests.rigs.direct.peers import Ensemble, histories
from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.states import LEADING


class Recorder(Ensemble):
    """An ensemble that remembers who proposed what, and what each process delivered while it lived."""

    def __init__(self, seed: int) -> None:
        super().__init__(3)
        self.rng = Random(seed)
        self.broadcasts: dict[int, tuple[int, bytes]] = {}
        """zxid -> (primary, chain)"""
        self.delivered_at_broadcast: dict[int, list[int]] = {}
        """zxid -> what its primary had delivered before it broadcast"""

    def propose(self, sid: int, data: bytes = b"x", count: int = 1) -> int:
        before = [batch.zxid for batch in self.servers[sid].applied]
        zxid = super().propose(sid, data, count)
        batch = self.peer(sid).history.last if sid in self.up() else (zxid, b"")
        self.broadcasts[zxid] = sid, batch[1]
        self.delivered_at_broadcast[zxid] = before
        return zxid


@pytest.fixture(scope="module", params=range(20))
def run(request: pytest.FixtureRequest) -> Recorder:
    """A history with crashes and partitions in it, and its end in peace."""
    ensemble = Recorder(request.param)
    rng = Random(request.param)
    ensemble.start()
    ensemble.elect()
    for _ in range(150):
        disturb(ensemble, rng)
    for pair in list(ensemble.cut):
        ensemble.heal(*pair)
    for sid in set(ensemble.servers) - set(ensemble.up()):
        ensemble.start(sid)
    ensemble.run(4000)
    ensemble.propose(ensemble.elect(6000))
    ensemble.run(1000)
    return ensemble


def delivered(ensemble: Ensemble) -> dict[int, list[Batch]]:
    return {sid: server.applied for sid, server in ensemble.servers.items()}


def test_integrity(run: Recorder) -> None:
    """ "If some process delivers <v, z>, then some process has broadcast <v, z>." """
    for batches in delivered(run).values():
        for batch in batches:
            assert run.broadcasts[batch.zxid][1] == batch.chain


def test_total_order(run: Recorder) -> None:
    """ "If some process delivers <v, z> before <v', z'>, any process that delivers <v', z'> delivers <v, z>
    before." """
    orders = [[batch.zxid for batch in batches] for batches in delivered(run).values()]
    for one in orders:
        for other in orders:
            common = set(one) & set(other)
            assert [z for z in one if z in common] == [z for z in other if z in common]


def test_agreement(run: Recorder) -> None:
    """ "If p delivers <v, z> and q delivers <v', z'>, then either p delivers <v', z'> or q delivers <v, z>." """
    orders = [{batch.zxid for batch in batches} for batches in delivered(run).values()]
    for one in orders:
        for other in orders:
            assert one <= other or other <= one


def test_local_primary_order(run: Recorder) -> None:
    """ "If a primary broadcasts <v, z> before <v', z'>, a process that delivers <v', z'> delivers <v, z> before." """
    for batches in delivered(run).values():
        for epoch in {batch.epoch for batch in batches}:
            mine = [batch.zxid for batch in batches if batch.epoch == epoch]
            broadcast = [zxid for zxid in run.broadcasts if epoch_of(zxid) == epoch and zxid <= mine[-1]]
            assert mine == sorted(broadcast)


def test_global_primary_order(run: Recorder) -> None:
    """ "If p_i broadcasts <v, z>, p_j broadcasts <v', z'> and i < j, a process that delivers both delivers <v, z>
    first." """
    for batches in delivered(run).values():
        epochs = [batch.epoch for batch in batches]
        assert epochs == sorted(epochs)


def test_primary_integrity(run: Recorder) -> None:
    """ "If p_e broadcasts <v, z> and some process delivers <v', z'> of p_e', e' < e, then p_e has delivered <v', z'>
    before it broadcasts <v, z>." """
    everything = max((server.applied for server in run.servers.values()), key=len)
    for zxid, before in run.delivered_at_broadcast.items():
        older = [batch.zxid for batch in everything if batch.epoch < epoch_of(zxid)]
        assert before[: len(older)] == older


def test_one_primary_an_epoch(run: Recorder) -> None:
    """ "p_e is the primary of epoch e": nobody else broadcasts in it."""
    primaries: dict[int, set[int]] = {}
    for zxid, (sid, _) in run.broadcasts.items():
        primaries.setdefault(epoch_of(zxid), set()).add(sid)
    assert all(len(sids) == 1 for sids in primaries.values())


# ---------------------------------------------------------------------------------------------- steps of the algorithm


def messages(ensemble: Ensemble) -> list[tuple[int, int, msg.Message]]:
    """What is on its way: sender, receiver, message."""
    found = []
    for (link, receiver), wire in ensemble.wires.items():
        one, two = ensemble.links[link]
        found += [(two if receiver == one else one, receiver, message) for message in wire]
    return found


def until(ensemble: Ensemble, kind: type[msg.Message]) -> list[tuple[int, int, msg.Message]]:
    """Deliver until a message of this kind is on its way."""
    for _ in range(2000):
        found = [entry for entry in messages(ensemble) if isinstance(entry[2], kind)]
        if found:
            return found
        if not ensemble.deliver_one():
            ensemble.run(10)
    raise AssertionError(f"no {kind.__name__}")


def test_f_1_1_a_follower_sends_its_last_promise_to_the_prospective_leader() -> None:
    """ "Step f.1.1: Follower f sends to the prospective leader l its last promise in a CEPOCH(f.p) message." """
    ensemble = Ensemble(3)
    ensemble.start()
    ensemble.elect()
    follower = next(sid for sid in ensemble.up() if ensemble.peer(sid).state != LEADING)
    ensemble.crash(follower)
    ensemble.start(follower)
    _, receiver, info = until(ensemble, msg.FollowerInfo)[0]
    assert isinstance(info, msg.FollowerInfo)
    assert receiver == ensemble.leader()
    assert info.accepted_epoch == 1


def test_l_1_1_the_new_epoch_is_later_than_any_promise_of_a_quorum() -> None:
    """ "Step l.1.1: Upon receiving CEPOCH(e) messages from a quorum Q of followers, l proposes NEWEPOCH(e') to the
    followers in Q; the epoch number e' is such that it is later than any e received in a CEPOCH message." """
    ensemble = Ensemble(3)
    ensemble.servers[1].accept(7)
    ensemble.start()
    ensemble.elect()
    assert ensemble.peer(ensemble.leader() or 0).epoch == 8


def test_f_1_2_the_promise_is_made_before_the_acknowledgement() -> None:
    """ "Step f.1.2: if f.p < e', then f.p <- e' ; the acknowledgement ACK-E(f.a, h_f) contains the current epoch and
    the history of the follower." """
    ensemble = Ensemble(3)
    ensemble.start()
    for sender, _, acknowledgement in until(ensemble, msg.AckEpoch):
        assert isinstance(acknowledgement, msg.AckEpoch)
        assert ensemble.servers[sender].epochs[0] == 1
        assert acknowledgement.epoch == ensemble.peer(sender).current_epoch
        assert acknowledgement.zxid == ensemble.peer(sender).history.last[0]


def test_l_1_2_the_initial_history_is_the_newest_of_the_quorum() -> None:
    """ "Step l.1.2: it selects the history of one follower f in Q to be the initial history I_e', such that for every
    f' in Q: f'.a < f.a, or f'.a = f.a and f'.z <= f.z." Here the leader gives up unless it has that history itself."""
    ensemble = Ensemble(3)
    ensemble.start()
    leader = ensemble.elect()
    ensemble.crash(1)
    ensemble.propose(leader)
    ensemble.run(50)
    ensemble.crash(2, 3)
    ensemble.start(1, 2)
    assert ensemble.elect() == 2
    assert ensemble.servers[1].applied[-1].body == transactions(make_zxid(1, 1), 1, b"x")


def test_f_2_1_the_epoch_becomes_current_with_the_history_in_place() -> None:
    """ "Step f.2.1: if f.p = e', then atomically f.a <- e' and accepts each <v, z> in I_e'." """
    ensemble = Ensemble(3)
    ensemble.start()
    leader = ensemble.elect()
    ensemble.crash(1)
    ensemble.propose(leader)
    ensemble.run(50)
    ensemble.start(1)
    for sender, _, acknowledgement in until(ensemble, msg.Ack):
        assert isinstance(acknowledgement, msg.Ack)
        assert counter_of(acknowledgement.zxid) == 0
        assert ensemble.servers[sender].epochs[1] == 1
        assert ensemble.servers[sender].logged[-1].zxid == ensemble.peer(leader).history.last[0]


def test_l_2_2_commit_is_sent_when_a_quorum_has_acknowledged_newleader() -> None:
    """ "Step l.2.2: Upon receiving acknowledgements to NEWLEADER from a quorum of followers, the leader sends a commit
    message to all followers." """
    ensemble = Ensemble(3)
    for sid in (1, 2):
        ensemble.servers[sid].held.add(fx.SaveMember)
    ensemble.start()
    ensemble.run(200)
    assert ensemble.leader() is None
    assert not [entry for entry in messages(ensemble) if isinstance(entry[2], msg.UpToDate)]
    ensemble.servers[1].held.clear()
    assert until(ensemble, msg.UpToDate)


def test_l_3_1_proposals_are_sent_in_zxid_order() -> None:
    """ "Step l.3.1: Leader l proposes to all followers in Q in increasing order of zxid, such that for every proposal
    <v, z>, epoch(z) = e'." """
    ensemble = Ensemble(3)
    ensemble.start()
    leader = ensemble.elect()
    zxids = [ensemble.propose(leader) for _ in range(4)]
    assert zxids == [(1 << 32) + n for n in (1, 2, 3, 4)]
    ensemble.run(50)
    assert len(histories(ensemble)) == 1


def test_l_3_2_a_quorum_of_acknowledgements_commits() -> None:
    """ "Step l.3.2: Upon receiving acknowledgements from a quorum of followers to a given proposal <v, z>, the leader
    sends a commit COMMIT(e', <v, z>) to all followers." """
    ensemble = Ensemble(5)
    ensemble.start()
    leader = ensemble.elect()
    slow = [sid for sid in ensemble.servers if sid != leader][:3]
    for sid in slow:
        ensemble.servers[sid].held.add(fx.AppendBatches)
    zxid = ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(leader).committed < zxid
    ensemble.servers[slow[0]].held.clear()
    ensemble.settle()
    assert ensemble.peer(leader).committed == zxid


def test_f_3_2_a_follower_acknowledges_what_is_on_disk() -> None:
    """ "Step f.3.2: Each proposal <v, z> is appended to f's history in stable storage, then acknowledged." """
    ensemble = Ensemble(3)
    ensemble.start()
    leader = ensemble.elect()
    for sid in (1, 2):
        ensemble.servers[sid].held.add(fx.AppendBatches)
    ensemble.propose(leader)
    ensemble.settle()
    assert not [entry for entry in messages(ensemble) if isinstance(entry[2], msg.Ack)]
    assert ensemble.peer(leader).committed == 0


def test_f_3_3_a_follower_delivers_when_it_has_delivered_everything_before() -> None:
    """ "Step f.3.3: Upon receiving a commit for <v, z>, it delivers once all <v', z'> with z' < z are delivered." """
    ensemble = Ensemble(3)
    ensemble.start()
    leader = ensemble.elect()
    ensemble.servers[1].held.add(fx.AppendBatches)
    for _ in range(3):
        ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(1).committed == ensemble.peer(leader).committed
    assert not ensemble.servers[1].applied
    ensemble.servers[1].held.clear()
    ensemble.settle()
    assert [counter_of(batch.zxid) for batch in ensemble.servers[1].applied] == [1, 2, 3]


def test_l_3_3_a_late_follower_is_brought_in() -> None:
    """ "Step l.3.3: Upon receiving CEPOCH(e) while in phase 3, leader l proposes NEWEPOCH(e') and NEWLEADER." """
    ensemble = Ensemble(3)
    ensemble.start()
    leader = ensemble.elect()
    ensemble.crash(1)
    for _ in range(3):
        ensemble.propose(leader)
        ensemble.run(20)
    ensemble.start(1)
    ensemble.run(300)
    assert ensemble.servers[1].applied == ensemble.servers[leader].applied
    assert ensemble.leader() == leader
