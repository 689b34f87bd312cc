"""What goes wrong in a random run, and what is checked after it."""

from random import Random

from tests.rigs.direct.peers import Ensemble, histories
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol.roles import Stage
from zab.protocol.states import LEADING
from zab.quorum.quorums import Hierarchical, Quorum

QUORUMS: tuple[tuple[int, Quorum | None], ...] = (
    (3, None),
    (3, None),
    (5, None),
    (5, Hierarchical((frozenset({1, 2}), frozenset({3, 4}), frozenset({5})), {})),
    (5, Hierarchical((frozenset({1, 2, 3}), frozenset({4, 5})), {3: 0, 4: 2})),
)
"""How many servers, and which of them decide; server 3 of the last one never does."""


class Syncs:
    """A member that asked for `sync`, and what some client could have been told before: the answer must cover it."""

    def __init__(self) -> None:
        self.floors: list[int] = []

    def ask(self, ensemble: Ensemble, sid: int, told: int) -> None:
        self.floors.append(told)
        ensemble.step(sid, ev.SyncRequested(len(self.floors) - 1))

    def check(self, ensemble: Ensemble) -> None:
        for server in ensemble.servers.values():
            for token, mark in server.synced:
                assert mark >= self.floors[token], f"{server.sid} answers {mark:#x}, {self.floors[token]:#x} was told"
            server.synced.clear()


def check(ensemble: Ensemble, committed: dict[int, bytes]) -> None:
    """Agreement and total order: what any member delivers at a zxid is the same batch, and nothing is left out."""
    longest = max((server.applied for server in ensemble.servers.values()), key=len)
    for server in ensemble.servers.values():
        ends = [batch.zxid for batch in server.applied]
        assert ends == sorted(set(ends))
        assert not server.conflicts, "two batches of one zxid"
        for batch in server.applied:
            assert committed.setdefault(batch.zxid, batch.chain) == batch.chain, (
                f"{server.sid} differs at {batch.zxid:#x}"
            )
    ends = [batch.zxid for batch in longest]
    for server in ensemble.servers.values():
        mine = [batch.zxid for batch in server.applied]
        if mine:
            low, high = max(mine[0], ends[0]), min(mine[-1], ends[-1])
            within, mine = ([zxid for zxid in some if low <= zxid <= high] for some in (ends, mine))
            assert within == mine, f"{server.sid} left something out"


def disturb(ensemble: Ensemble, rng: Random) -> None:
    """One random thing happens."""
    sids = list(ensemble.servers)
    choice = rng.random()
    if choice < 0.45:
        for _ in range(rng.randrange(12)):
            ensemble.deliver_one()
    elif choice < 0.65:
        leader = ensemble.leader()
        if leader is not None and leader not in ensemble.paused and ensemble.peer(leader).next_zxid() is not None:
            ensemble.propose(leader, rng.randbytes(4), rng.randrange(1, 4))
    elif choice < 0.72:
        crash(ensemble, rng, rng.choice(sids))
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


def crash(ensemble: Ensemble, rng: Random, sid: int) -> None:
    """A server goes down, perhaps with its power: then what is not synced, as its mark, may be lost with it."""
    if sid in ensemble.up():
        ensemble.crash(sid)
        if rng.random() < 0.5:
            ensemble.servers[sid].disk.crash(rng)


def disturb_more(ensemble: Ensemble, rng: Random, syncs: Syncs, told: int) -> None:
    """One random thing happens that takes more than a crash: see the branches."""
    choice = rng.random()
    if choice < 0.4:
        leading = [sid for sid in ensemble.up() if ensemble.peer(sid).leading is not None]
        if leading:
            syncs.ask(ensemble, rng.choice(leading), told)
    elif choice < 0.55 and ensemble.up():
        ensemble.servers[rng.choice(ensemble.up())].take_snapshot()
    elif choice < 0.65 and len(ensemble.paused) < 2 and ensemble.up():
        ensemble.paused.add(rng.choice(ensemble.up()))
    elif choice < 0.75:
        ensemble.servers[rng.choice(list(ensemble.servers))].held ^= {fx.AppendBatches}  # a slow disk, or no more
    elif choice < 0.9 and ensemble.paused:
        ensemble.resume(rng.choice(sorted(ensemble.paused)))
    else:
        wipe(ensemble, rng)


def wipe(ensemble: Ensemble, rng: Random) -> None:
    """One server loses its disk while every other voter is known to hold the history; more is no fault we survive."""
    leader = max(
        (sid for sid in ensemble.up() if ensemble.peer(sid).serving and ensemble.peer(sid).state == LEADING),
        key=lambda sid: ensemble.peer(sid).epoch,
        default=None,
    )
    if leader is None or leader in ensemble.paused:
        return  # a leader that stands still does not know who is there
    leading = ensemble.peer(leader).leading
    assert leading is not None
    sound = {h.sid for h in leading.handlers.values() if h.stage == Stage.UP_TO_DATE and not h.amnesiac} | {leader}
    sid = rng.choice([sid for sid in ensemble.servers if sid != leader])
    others = ensemble.quorum.voters - {sid}
    if others <= sound and ensemble.quorum.contains(others):
        ensemble.crash(*[one for one in [sid] if one in ensemble.up()])
        ensemble.servers[sid].wipe()
        # One that is put in whenever a directory is empty lies; a quorum still knows better.
        if rng.random() < 0.3:
            ensemble.servers[sid].leave_marker()
        if rng.random() < 0.7:
            ensemble.start(sid)


def recover(ensemble: Ensemble) -> None:
    """Faults stop; everybody must agree soon."""
    for server in ensemble.servers.values():
        server.held.clear()
    for sid in list(ensemble.paused):
        ensemble.resume(sid)
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
    assert not any(server.offered for server in ensemble.servers.values()), "nobody fetches a snapshot any more"


def found_with_markers(ensemble: Ensemble, rng: Random) -> None:
    """A quorum of voters never had data, and their operators say so; the others come later."""
    voters = list(ensemble.quorum.voters)
    rng.shuffle(voters)
    count = next(n for n in range(1, len(voters) + 1) if ensemble.quorum.contains(set(voters[:n])))
    for sid in voters[:count]:
        ensemble.servers[sid].leave_marker()
    ensemble.start(*voters[:count])
    ensemble.elect()


def run_with_markers_that_lie(seed: int) -> None:
    """So many lose their data that the rest is no quorum, and all that lost it are marked. As long as one with a
    history can be reached, be it only an observer, nobody leads: what it has may be all that is left."""
    rng = Random(seed)
    observers = frozenset({9}) if seed % 3 == 0 else frozenset()
    ensemble = Ensemble(*rng.choice(QUORUMS), observers)
    ensemble.start()
    leader = ensemble.elect()
    ensemble.propose(leader)
    ensemble.run(500)
    ensemble.crash(*ensemble.up())
    voters = sorted(ensemble.quorum.voters)
    rng.shuffle(voters)
    count = next(n for n in range(1, len(voters) + 1) if not ensemble.quorum.contains(set(voters[n:])))
    wiped = voters[: rng.randint(count, len(voters) - 1)]
    others = [sid for sid in ensemble.servers if sid not in wiped]
    for sid in wiped:
        ensemble.servers[sid].wipe()
        ensemble.servers[sid].leave_marker()
    ensemble.rng = rng
    if rng.random() < 0.5:
        come_first(ensemble, rng, others, wiped)
    else:
        come_in_between(ensemble, rng, others, wiped)
    ensemble.run(5000)
    assert ensemble.leader() is None, "\n".join(ensemble.trace[-30:])
    for sid in others:
        assert ensemble.servers[sid].logged


def come_first(ensemble: Ensemble, rng: Random, others: list[int], wiped: list[int]) -> None:
    """The members with a history are up, though perhaps paused for a while."""
    ensemble.start(*others)
    if rng.random() < 0.5:
        ensemble.paused.update(sid for sid in others if sid in ensemble.quorum.voters)
    ensemble.start(*wiped)
    ensemble.run(rng.choice((10, 300, 3000)))
    assert ensemble.leader() is None, "\n".join(ensemble.trace[-30:])
    for sid in sorted(ensemble.paused):
        ensemble.resume(sid)


def come_in_between(ensemble: Ensemble, rng: Random, others: list[int], wiped: list[int]) -> None:
    """One with a history comes while an epoch is being founded, before any member writes that it belongs to it."""
    for sid in wiped:
        ensemble.servers[sid].held.add(fx.SaveEpochs)
    ensemble.start(*wiped)
    ensemble.run(rng.choice((10, 300)))
    ensemble.start(rng.choice(others))
    ensemble.settle()
    for sid in wiped:
        ensemble.servers[sid].held.clear()


def run(seed: int) -> None:
    rng = Random(seed)
    observers = frozenset({9}) if seed % 5 == 0 else frozenset()
    size, quorum = rng.choice(QUORUMS)
    ensemble = Ensemble(
        size,
        quorum,
        observers,
        counter_limit=rng.choice((6, 0xFFF00000)),
        recent_bytes_max=rng.choice((1, 8 << 20)),
    )
    ensemble.rng = rng
    syncs = Syncs()
    committed: dict[int, bytes] = {}
    if seed % 4 == 0:
        found_with_markers(ensemble, rng)
    elif seed % 4 == 1:
        founder = ensemble.servers[rng.choice(sorted(ensemble.quorum.voters))]
        founder.recover_by_force()
        ensemble.start()
    else:
        ensemble.start()
    if seed % 3:
        ensemble.elect()
    for _ in range(rng.randrange(60, 300)):
        if rng.random() < 0.8:
            disturb(ensemble, rng)
        else:
            disturb_more(ensemble, rng, syncs, max(committed, default=0))
        check(ensemble, committed)
        syncs.check(ensemble)
        assert not [server.halted for server in ensemble.servers.values() if server.halted]
    recover(ensemble)
    check(ensemble, committed)
    syncs.check(ensemble)
    assert committed
