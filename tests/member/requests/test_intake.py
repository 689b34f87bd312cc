"""Whose turn it is: sessions, by the work of what they ask for, in turns of a member and not in time."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from datatree.opcodes import OpCode
from datatree.record import decode_all
from datatree.requests import OPEN_ACL, Create, Multi, SetData
from datatree.slices import PARTS
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.member.requests.forwarding import Forwarded
from zab.member.requests.intake import Intake
from zab.member.requests.under_way import Write
from zab.member.state.work import BYTES_FOR_ONE
from zab.protocol import member_message as mmsg
from zab.quorum.ids import ServerId

LONG = 4 * PARTS


def write(session: int, cxid: int, size: int = 0, owner: int = 1) -> Write:
    return (session, cxid, int(OpCode.SET_DATA), bytes(size * BYTES_FOR_ONE), ()), None, ServerId(owner), 0


def left_over(*writes: Write, in_order: tuple[int, ...] = ()) -> Intake:
    """They have been there for two turns."""
    intake = Intake()
    intake.arrived.extend(writes)
    for _ in range(2):
        intake.stay(lambda: tuple(map(ServerId, in_order)))
    return intake


def came(intake: Intake, *writes: Write) -> None:
    """Others come, and a turn begins."""
    intake.arrived.extend(writes)
    intake.sort()


def taken(intake: Intake, work: int = 0) -> list[tuple[int, int]]:
    """Session and cxid of all of them, in the order in which they leave."""
    found = []
    while intake.queue:
        session, cxid, _, _, _ = intake.queue[0][0]
        found.append((session, cxid))
        intake.take(work)
    return found


# ------------------------------------------------------------------------------------------------------------ the core


def test_a_turn_that_takes_all_takes_them_in_the_order_in_which_they_came() -> None:
    intake = Intake()
    for _ in range(2):
        intake.arrived.extend([write(1, 1, 1_000), write(1, 2, 1_000), write(2, 1), write(1, 3)])
        intake.stay()
        assert taken(intake) == [(1, 1), (1, 2), (2, 1), (1, 3)]


def test_who_asks_for_little_comes_before_what_others_have_in_their_pipelines() -> None:
    greedy = [write(session, cxid, 1_000) for cxid in range(3) for session in range(40)]
    intake = left_over(*greedy)
    intake.take()
    came(intake, write(77, 1))
    assert taken(intake)[0] == (77, 1)


def test_sessions_that_ask_for_the_same_take_turns() -> None:
    intake = left_over(*(write(session, cxid, 10) for session in (1, 2, 3) for cxid in range(4)))
    order = taken(intake)
    assert [sorted(session for session, _ in order[at : at + 3]) for at in (0, 3, 6, 9)] == [[1, 2, 3]] * 4


def test_what_a_write_turns_out_to_be_counts_for_the_next_ones_of_its_session() -> None:
    """The end of a session, and what removes with all below it, has no bytes to speak of."""
    intake = left_over(*(write(session, cxid) for cxid in range(6) for session in (1, 2)))
    first = intake.queue[0][0][0]
    intake.take(1_000)
    other = 3 - first
    assert [session for session, _ in taken(intake)] == [other] * 6 + [first] * 5


def test_nobody_waits_for_ever() -> None:
    """A large one gets its part of the turns beside small ones of sessions that come and go."""
    intake = left_over(write(1, 1, 100), *(write(2 + number, 1) for number in range(3)))
    for number in range(3, 1_000):
        if intake.queue[0][0][0] == 1:
            break
        intake.take()
        came(intake, write(2 + number, 1))
    assert 100 < number < 600


def test_what_has_begun_stays_the_first_one() -> None:
    intake = Intake()
    intake.arrived.extend([write(1, 1, 1_000), write(2, 1)])
    intake.begin()
    for _ in range(2):
        intake.stay()
    came(intake, write(3, 1))
    assert intake.queue[0][0][0] == 1
    intake.take()
    came(intake, write(1, 2, 1_000))
    assert [session for session, _ in taken(intake)] == [2, 3, 1]


def test_what_begins_among_lanes_stays_the_first_one() -> None:
    intake = left_over(write(1, 1, 1_000))
    intake.begin()
    came(intake, write(2, 1))
    assert taken(intake) == [(1, 1), (2, 1)]


def test_servers_that_want_their_writes_back_in_order_have_them_so() -> None:
    asked = [write(session, 1, 1_000 * (session == 1), owner=2) for session in (1, 2, 3)]
    assert taken(left_over(*asked, write(9, 1), in_order=(2,))) == [(9, 1), (1, 1), (2, 1), (3, 1)]


def test_a_session_that_came_from_such_a_server_waits_for_what_it_left_there() -> None:
    asked = [write(5, 1, 1_000, owner=2), write(6, 1, owner=2), write(6, 2, owner=1)]
    assert taken(left_over(*asked, in_order=(2,))) == [(5, 1), (6, 1), (6, 2)]


def test_a_session_that_came_to_such_a_server_is_in_the_order_of_that() -> None:
    """What it has left at the other one is refused: it is not waited for. Else what server 2 forwarded would come back
    in another order."""
    asked = [write(6, 1, 1_000, owner=1), *(write(session, 2, session == 5, owner=2) for session in (5, 6, 7))]
    order = taken(left_over(*asked, in_order=(2,)))
    assert [session for session, cxid in order if cxid == 2] == [5, 6, 7]


@pytest.mark.parametrize("seed", range(10))
def test_sessions_that_come_and_go_leave_each_server_its_order_and_nothing_behind(seed: int) -> None:
    """Server 3 wants its writes in the order of all, the others in that of each session."""
    rng, intake, number = Random(seed), Intake(), 0
    came, gone = defaultdict[tuple[int, int], list[int]](list), defaultdict[tuple[int, int], list[int]](list)

    def leave() -> None:
        (session, cxid, _, _, _), _, sid, _ = intake.queue[0]
        assert sid is not None
        gone[sid, session * (sid < 3)].append(cxid)
        intake.take()

    for _ in range(200):
        for _ in range(rng.randint(0, 6)):
            session, owner = rng.randint(1, 4), rng.randint(1, 3)
            intake.arrived.append(write(session, number, rng.choice((0, 3, 50)), owner))
            came[owner, session * (owner < 3)].append(number)
            number += 1
        if intake.turns:
            intake.sort((ServerId(3),))
        for _ in range(min(len(intake), rng.randint(0, 7))):
            leave()
        intake.stay(lambda: (ServerId(3),))
    while intake:
        leave()
    assert gone == came
    assert (intake.sessions, intake.left_count) == (set(), number)


def test_of_a_role_that_is_over_nothing_is_left_and_numbers_go_on() -> None:
    intake = left_over(write(1, 1), write(2, 1), write(2, 2))
    intake.take()
    intake.clear()
    assert not intake
    assert list(intake) == []
    assert intake.sessions == set()
    assert intake.arrived_count == intake.left_count
    came(intake, write(3, 1))
    assert intake.arrived_count == intake.left_count + 1
    assert taken(intake) == [(3, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_order_and_numbers_are_those_of_a_plain_list(seed: int) -> None:
    """Whatever comes and goes: each session's in order, and as many of the first ones have left as a list says."""
    rng, intake, waiting, came = Random(seed), Intake(), list[tuple[int, int, int]](), 0
    gone: dict[int, list[int]] = defaultdict(list)
    for _ in range(200):
        for _ in range(rng.randint(0, 6)):
            session, owner = rng.randint(1, 6), rng.randint(1, 3)
            if any(session == other for _, other, _ in waiting):
                owner = min(owner, 2)  # a session comes to another server when its writes have left
            intake.arrived.append(write(session, came, rng.choice((0, 0, 3, 50)), owner))
            waiting.append((came, session, came))
            came += 1
        if intake.turns:
            intake.sort((ServerId(3),))
        if intake and rng.random() < 0.2:
            intake.begin()
        for _ in range(rng.randint(0, 7) if intake else 0):
            if not intake:
                break
            session, cxid, _, _, _ = intake.queue[0][0]
            intake.take(rng.choice((0, 1, 40)))
            gone[session].append(cxid)
            waiting = [each for each in waiting if each[2] != cxid]
        intake.stay(lambda: (ServerId(3),))
        assert intake.arrived_count == came
        assert intake.left_count == (waiting[0][0] if waiting else came)
        assert len(intake) == len(waiting)
        assert intake.sessions == {session for _, session, _ in waiting}
        assert sorted(asked[1] for asked, _, _, _ in intake) == [number for number, _, _ in waiting]
    assert all(cxids == sorted(cxids) for cxids in gone.values())


# ----------------------------------------------------------------------------------------------------------- a member


def multi(client: Client, path: bytes, count: int = LONG) -> bytes:
    part = (int(OpCode.SET_DATA), SetData(path, b"", -1))
    return client.request(OpCode.MULTI, Multi((part,) * count).encode())


def turns_until(ensemble: Ensemble, server: Server, client: Client) -> int:
    """How many turns of this server it takes until a client is answered."""
    turns, step = [0], ensemble.step

    def counting(other: Server) -> None:
        turns[0] += other is server and not client.received
        step(other)

    ensemble.step = counting  # type: ignore[method-assign]
    ensemble.settle()
    ensemble.step = step  # type: ignore[method-assign]
    assert len(client.replies()) == 1
    return turns[0]


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_write_waits_for_no_pipelines_of_multis(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four clients have ten multis of a thousand parts each under way: 40,000 parts. Anyone who asks for one waits for
    those that have begun."""
    monkeypatch.setattr("zab.member.requests.forwarding.FORWARDED_BYTES_MAX", 100_000)
    ensemble = Ensemble(3)
    server = getattr(ensemble, role)
    greedy, other = [ensemble.session(server) for _ in range(4)], ensemble.session(server)
    ensemble.do(other, other.create(b"/m"), other.create(b"/own"))
    for client in (*greedy, other):
        client.replies()
    for client in greedy:
        client.say(b"".join(multi(client, b"/m") for _ in range(10)))
    for _ in range(8):
        ensemble.step(server)
    other.say(other.set(b"/own", b"x"))
    waited = turns_until(ensemble, server, other)
    assert waited <= {"leader": 20, "follower": 60}[role], "of those that had begun, or had gone to the leader"
    for client in greedy:
        assert [(xid, error) for xid, error, _ in client.replies()] == [(xid, 0) for xid in range(1, 11)]
    digests = {each.member.tree.digest for each in ensemble.servers.values()}
    assert digests == {server.member.tree.recompute_digest()}


@pytest.mark.parametrize("watcher_count", [0, 20])
def test_a_write_waits_as_many_turns_where_others_are_told_of_everything(
    watcher_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve multis are always under way at the leader. Telling many of the same changes takes little of a turn, so a
    follower with recursive watchers applies as much in each as one without: none of them waits to be applied."""
    for module, name in (("requests.applying", "APPLIED_COUNT_MAX"), ("requests.processor", "DELIVERED")):
        monkeypatch.setattr(f"zab.member.{module}.{name}", 220)
    ensemble = Ensemble(3)
    leader, follower = ensemble.leader, ensemble.follower
    greedy, other = ensemble.session(leader), ensemble.session(follower)
    ensemble.do(greedy, greedy.create(b"/m"), greedy.create(b"/own"))
    watchers = [ensemble.session(follower) for _ in range(watcher_count)]
    for watcher in watchers:
        ensemble.do(watcher, watcher.add_watch(b"/m", 1))
    for client in (greedy, other):
        client.replies()
    free, asked, waited = 12, 0, list[int]()
    other.say(other.set(b"/own", b"x"))
    for turn in range(60):
        for _ in range(free):
            greedy.say(multi(greedy, b"/m", 60))
        for server in ensemble.servers.values():
            ensemble.step(server)
        ensemble._deliver()
        free = len(greedy.replies())
        if other.replies():
            waited.append(turn + 1 - asked)
            asked = turn + 1
            other.say(other.set(b"/own", b"x"))
        assert len(follower.member.applier.committed) <= 2
    assert max(waited) <= 7, waited
    assert all(len(watcher.events()) > 1_000 for watcher in watchers)


def test_multis_that_are_no_long_ones_count_with_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.proposing.PREPARED_WORK_MAX", 100)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    client = ensemble.session()
    ensemble.do(client, client.create(b"/m"))
    before = server.member.peer.history.last[0]
    client.say(b"".join(multi(client, b"/m", 49) for _ in range(10)))
    ensemble.step(server)
    assert server.member.peer.history.last[0] - before == 2


def test_lists_of_permissions_count_with_their_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those that are refused."""
    monkeypatch.setattr("zab.member.requests.proposing.PREPARED_WORK_MAX", 100)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    client = ensemble.session()
    before = server.member.peer.history.last[0]
    for last in ((31, b"ip", b"::1"), (31, b"ip", b"no address")):
        acl = (*((31, b"ip", b"::%x" % number) for number in range(2, 50)), last)
        client.say(b"".join(client.create(b"/%d" % number, acl=acl) for number in range(10)))
        ensemble.step(server)
        assert server.member.peer.history.last[0] - before == 2
        ensemble.settle()
        before = server.member.peer.history.last[0]


def test_writes_that_are_done_do_not_count_as_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.proposing.PREPARED_BYTES_MAX", 100_000)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    client = ensemble.session()
    ensemble.do(client, client.create(b"/m"))
    before = server.member.peer.history.last[0]
    client.say(b"".join(client.set(b"/m", bytes(10_000)) for _ in range(6)))
    ensemble.step(server)
    assert server.member.peer.history.last[0] - before == 6


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_sync_waits_for_all_that_came_before_it_whoever_asked(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose connection broke sees after a sync what becomes of its writes, also if it is greedy."""
    monkeypatch.setattr("zab.member.requests.forwarding.FORWARDED_BYTES_MAX", 50_000)
    ensemble = Ensemble(3)
    server = getattr(ensemble, role)
    greedy, other = ensemble.session(server), ensemble.session(server)
    ensemble.do(other, other.create(b"/m"))
    greedy.say(b"".join([*(multi(greedy, b"/m") for _ in range(6)), greedy.create(b"/last")]))
    for _ in range(3):
        ensemble.step(server)
    other.replies()
    other.say(other.set(b"/m", b"x") + other.sync() + other.exists(b"/last"))
    ensemble.settle()
    assert [error for _, error, _ in other.replies()] == [0, 0, 0]


def sessions_logged(server: Server) -> list[int]:
    return [
        txn.session
        for batch in server.logged
        for txn in decode_all(batch.body, batch.first, batch.count)
        if txn.type in (OpCode.SET_DATA, OpCode.MULTI)
    ]


@pytest.mark.parametrize("is_old", [True, False])
def test_learners_of_the_version_before_get_theirs_in_the_order_in_which_they_forwarded_them(is_old: bool) -> None:
    """They look at the first of what they have forwarded alone: what came back before it would count for ever."""
    ensemble = Ensemble(3, start=False)
    if is_old:
        ensemble.old |= {2, 3}
    ensemble.start()
    learner, leader = ensemble.follower, ensemble.leader
    greedy, other = ensemble.session(learner), ensemble.session(learner)
    ensemble.do(other, other.create(b"/m"))
    greedy.say(b"".join(multi(greedy, b"/m") for _ in range(3)))
    for _ in range(2):
        ensemble.step(learner)
    while not leader.member.processor.intake:
        assert ensemble._deliver()
        ensemble.step(leader)
    other.say(other.set(b"/m", b"x"))
    ensemble.settle()
    assert other.replies()[-1][1] == 0
    found = sessions_logged(leader)
    assert found.index(other.connection.session) == (3 if is_old else 1)
    assert learner.member.processor.forwarded.bytes == 0


def test_a_learner_forwards_for_sessions_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.forwarding.FORWARDED_BYTES_MAX", 10_000)
    intake, forwarded = Intake(), Forwarded()
    intake.arrived.extend(write(1, cxid, 100) for cxid in range(10))
    for _ in range(2):
        assert [sum(len(rows) for _, rows in message.rows) for message in forwarded.take(intake)] == [2]
        forwarded.bytes = 0
    intake.arrived.append(write(2, 1))
    [message] = forwarded.take(intake)
    sessions = [mmsg.WRITE_HEAD.unpack_from(row)[0] for _, rows in message.rows for row in rows]
    assert sessions == [2, 1, 1]


def test_a_session_is_revalidated_when_its_own_writes_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an older connection asked for goes to the leader before the question whose the session is."""
    monkeypatch.setattr("zab.member.requests.forwarding.FORWARDED_BYTES_MAX", 20_000)
    ensemble = Ensemble(3)
    learner = ensemble.follower
    client = ensemble.session(learner)
    ensemble.do(client, client.create(b"/m"))
    client.say(b"".join(multi(client, b"/m") for _ in range(4)) + client.set(b"/m", b"last"))
    ensemble.step(learner)
    ensemble.step(learner)
    assert learner.member.processor.intake
    back = ensemble.reattach(client, learner)
    ensemble.settle()
    assert ensemble.do(back, back.get(b"/m"))[0][2][0] == b"last"


def test_creates_of_many_sessions_are_all_done_whatever_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.proposing.PREPARED_WORK_MAX", 3)
    ensemble = Ensemble(3)
    clients = [ensemble.session(server) for server in ensemble.servers.values() for _ in range(3)]
    for number, client in enumerate(clients):
        parts = tuple((1, Create(b"/c%d-%d" % (number, part), b"", OPEN_ACL, 0)) for part in range(number + 1))
        client.say(b"".join(client.create(b"/%d-%d" % (number, at)) for at in range(5)))
        client.say(client.request(OpCode.MULTI, Multi(parts).encode()))
    ensemble.settle()
    assert [[error for _, error, _ in client.replies()] for client in clients] == [[0] * 6] * 9


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_small_writes_find_few_of_the_megabytes_of_others_before_them(role: str) -> None:
    """Twenty clients of a server write a megabyte each. Those that are under way are 1 MiB and what goes beyond it with
    the last one; the others wait, and small ones do not wait for them."""
    ensemble = Ensemble(3)
    server, leader = getattr(ensemble, role), ensemble.leader
    others, small = [ensemble.session(server) for _ in range(20)], ensemble.session(server)
    ensemble.do(small, small.create(b"/large"), small.create(b"/small"))
    small.replies()
    for each in ensemble.servers.values():
        each.durable_held = True
    for client in others:
        client.say(client.set(b"/large", bytes(1_000_000)))
    ensemble.settle()
    for _ in range(3):
        small.say(small.set(b"/small", b"x"))
        ensemble.settle()
        assert not small.connection.paused
    asked = [txn[2] for batch in leader.member.processor.proposing.proposed for txn in batch.txns]
    assert asked[2:] == [small.connection.session] * 3
    others[-1].say(others[-1].set(b"/large", bytes(10_000)))
    ensemble.settle()
    assert others[-1].connection.paused
    for each in ensemble.servers.values():
        ensemble.release(each)
    ensemble.settle()
    assert [error for _, error, _ in small.replies()] == [0, 0, 0]
    assert [len(client.replies()) for client in others] == [1] * 19 + [2]
    assert not any(client.connection.paused for client in others)
