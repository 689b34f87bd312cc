"""Peers under random crashes, partitions and half-done work; the paper's properties hold, and then they make progress.

The simulator does this with whole members and real logs; here a broken rule of the protocol shows in milliseconds.
"""

from random import Random

import pytest

from tests.zab.ensemble import Ensemble, histories


def check(ensemble: Ensemble, committed: dict[int, bytes]) -> None:
    """Agreement and total order: what any member delivers at a zxid is the same batch, and nothing is left out."""
    longest = max((server.applied for server in ensemble.servers.values()), key=len)
    for server in ensemble.servers.values():
        ends = [batch.zxid for batch in server.applied]
        assert ends == sorted(set(ends))
        for batch in server.applied:
            assert committed.setdefault(batch.zxid, batch.chain) == batch.chain, (
                f"{server.sid} differs at {batch.zxid:#x}"
            )
    ends = [batch.zxid for batch in longest]
    for server in ensemble.servers.values():
        mine = [batch.zxid for batch in server.applied]
        if mine:
            within = [zxid for zxid in ends if mine[0] <= zxid <= mine[-1]]
            assert mine[-1] > ends[-1] or within == mine, f"{server.sid} left something out"


def disturb(ensemble: Ensemble, rng: Random) -> None:
    """One random thing happens."""
    sids = list(ensemble.servers)
    choice = rng.random()
    if choice < 0.45:
        for _ in range(rng.randrange(12)):
            ensemble.deliver_one()
    elif choice < 0.65:
        leader = ensemble.leader()
        if leader is not None and ensemble.peer(leader).next_zxid() is not None:
            ensemble.propose(leader, rng.randbytes(4), rng.randrange(1, 4))
    elif choice < 0.72:
        ensemble.crash(*[sid for sid in [rng.choice(sids)] if sid in ensemble.up()])
    elif choice < 0.82:
        down = [sid for sid in sids if sid not in ensemble.up()]
        if down:
            ensemble.start(rng.choice(down))
    elif choice < 0.87:
        ensemble.partition(*rng.sample(sids, 2))
    elif choice < 0.93 and ensemble.cut:
        ensemble.heal(*rng.choice(sorted(map(sorted, ensemble.cut))))
    else:
        ensemble.run(rng.choice((10, 60, 300, 1500)))


def recover(ensemble: Ensemble) -> None:
    """Faults stop; everybody must agree soon."""
    for pair in list(ensemble.cut):
        ensemble.heal(*pair)
    for sid in ensemble.servers.keys() - set(ensemble.up()):
        ensemble.start(sid)
    ensemble.run(4000)
    leader = ensemble.elect(6000)
    ensemble.propose(leader)
    ensemble.run(2000)
    assert len(histories(ensemble)) == 1, "\n".join(ensemble.trace[-40:])
    assert all(server.applied for server in ensemble.servers.values())


@pytest.mark.parametrize("block", range(6))
def test_properties_hold_under_random_faults_and_progress_returns(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        run(seed)


def run(seed: int) -> None:
    rng = Random(seed)
    observers = frozenset({9}) if seed % 5 == 0 else frozenset()
    ensemble = Ensemble(rng.choice((3, 3, 5)), observers=observers, counter_limit=rng.choice((6, 0xFFF00000)))
    ensemble.rng = rng
    committed: dict[int, bytes] = {}
    ensemble.start()
    if seed % 3:
        ensemble.elect()
    for _ in range(rng.randrange(60, 300)):
        disturb(ensemble, rng)
        check(ensemble, committed)
        assert not [server.halted for server in ensemble.servers.values() if server.halted]
    recover(ensemble)
    check(ensemble, committed)
    assert committed
