"""When a snapshot may be installed without the member record going first (B1 member record): who holds all that it ever
acknowledged, and has it in the snapshot, counts wherever it crashes on the way.

`tests/member/storage/test_installation.py` cuts the installation off; the script `crash_after_a_snapshot.txt` shows
both sides.
"""

import pytest

from datatree.log.zxid import make_zxid
from tests.protocol.histories import rejoining_with_held_storage
from tests.protocol.learners import two_histories, until
from tests.rigs.direct.peers import Ensemble
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import learner_synchronization
from zab.protocol import message as msg
from zab.protocol.peer import Peer


def offered(ensemble: Ensemble, sid: int, *, zxid: int, conflict: bool = False) -> fx.FetchSnapshot:
    """What a member begins to fetch when its leader, to which it has told its position, sends it this snapshot."""
    peer = ensemble.peer(sid)
    until(ensemble, lambda: peer.following and peer.following.epoch_saved)
    assert peer.link_to_leader is not None
    ensemble.servers[sid].held.add(fx.FetchSnapshot)
    ensemble.step(sid, ev.MessageReceived(peer.link_to_leader, msg.Snap(zxid, bytes(16), conflict)))
    fetch = ensemble.servers[sid].tasks[-1]
    assert isinstance(fetch, fx.FetchSnapshot)
    return fetch


def rejoining() -> tuple[Ensemble, int]:
    """A follower that was down for a batch, and has not told anything yet."""
    ensemble, _, follower = rejoining_with_held_storage(fx.AppendBatches)
    ensemble.crash(follower)
    return ensemble, follower


def synchronized_member() -> bool:
    ensemble, follower = rejoining()
    ensemble.start(follower)
    return offered(ensemble, follower, zxid=make_zxid(1, 9)).keeps_record


def with_other_bytes_than_its_leader() -> bool:
    ensemble, follower = rejoining()
    ensemble.start(follower)
    return offered(ensemble, follower, zxid=make_zxid(1, 9), conflict=True).keeps_record


def amnesiac() -> bool:
    ensemble, follower = rejoining()
    ensemble.servers[follower].wipe()
    ensemble.start(follower)
    return offered(ensemble, follower, zxid=make_zxid(1, 9)).keeps_record


def with_more_than_the_snapshot() -> bool:
    """A leader did not know its tail, so it reports less than it has; the snapshot is between the two."""
    ensemble = two_histories()
    ensemble.start()
    until(ensemble, lambda: ensemble.peer(1).doubted_above is not None)
    return offered(ensemble, 1, zxid=make_zxid(2, 9)).keeps_record


SITUATIONS = {
    synchronized_member: True,
    with_other_bytes_than_its_leader: False,
    amnesiac: False,
    with_more_than_the_snapshot: False,
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_the_record_stays_where_the_snapshot_holds_all_that_was_acknowledged(situation) -> None:
    assert situation() is SITUATIONS[situation]


@pytest.mark.parametrize("broken", [True, False])
def test_a_rule_that_does_not_look_is_found(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def always(peer: Peer, zxid: int) -> bool:
        return broken

    monkeypatch.setattr(learner_synchronization, "_holds_all_acknowledged", always)
    assert [situation for situation, keeps in SITUATIONS.items() if situation() is not keeps]
