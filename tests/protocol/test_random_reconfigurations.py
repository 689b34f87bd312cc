"""Peers whose configuration changes again and again, under random crashes, partitions and half-done work.

Any set of the five servers may become the next one that decides, with one server or with none in common with the one
before. Whatever is committed stays, and in the end all agree.
"""

from random import Random

import pytest

from tests.protocol.random_faults import check, disturb, recover
from tests.protocol.reconfigurations import propose_configuration
from tests.rigs.direct.peers import Ensemble
from tests.rigs.known_seed import check_known
from zab.member.membership.reconfiguring import READER
from zab.protocol import reconfiguration
from zab.protocol.membership import Memberships
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority, Quorum

SERVERS = [ServerId(sid) for sid in (1, 2, 3, 4, 5)]


def reconfigure(ensemble: Ensemble, leader: ServerId, rng: Random) -> bool:
    """Let this leader propose another configuration, if it may; whether it did."""
    peer = ensemble.peer(leader)
    if peer.next_zxid() is None or reconfiguration.is_outstanding(peer):
        return False
    voters = set(rng.sample(SERVERS, rng.randint(1, 5)))
    observers = {sid for sid in SERVERS if sid not in voters and rng.random() < 0.5}
    return bool(propose_configuration(ensemble, leader, voters, observers))


def run(seed: int) -> int:
    """How many reconfigurations were proposed."""
    rng = Random(seed)
    ensemble = Ensemble(
        5,
        Majority(frozenset(rng.sample(SERVERS, 3))),
        reader=READER,
        takes_unlisted=True,
        counter_limit=rng.choice((6, 0xFFF00000)),
        recent_bytes_max=rng.choice((1, 8 << 20)),
    )
    ensemble.rng = rng
    ensemble.start()
    ensemble.elect()
    committed: dict[int, bytes] = {}
    count = 0
    for _ in range(rng.randrange(60, 300)):
        leaders = [sid for sid in ensemble.up() if ensemble.peer(sid).leading and sid not in ensemble.paused]
        if leaders and rng.random() < 0.2:
            count += reconfigure(ensemble, rng.choice(leaders), rng)
        else:
            disturb(ensemble, rng)
        check(ensemble, committed)
        assert not [server.halted for server in ensemble.servers.values() if server.halted]
    recover(ensemble)
    check(ensemble, committed)
    in_force = {ensemble.peer(sid).memberships.in_force.text for sid in SERVERS}
    assert len(in_force) == 1, "all know the same configuration"
    return count


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.longest) for block in range(1, 4))])
def test_whatever_is_committed_stays_and_progress_returns(block: int) -> None:
    assert sum(run(seed) for seed in range(block * 20, block * 20 + 20)) > 20


def new_alone(memberships: Memberships) -> Quorum:
    return (memberships.outstanding or memberships.newest).quorum


def old_alone(memberships: Memberships) -> Quorum:
    return memberships.newest.quorum


def finds(seed: int) -> bool:
    try:
        run(seed)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(("broken", "known"), [(new_alone, 6), (old_alone, 7)])
def test_runs_find_out_that_one_quorum_is_not_enough(
    broken: object, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Memberships, "_quorum", broken)
    check_known(finds, known, 200)
