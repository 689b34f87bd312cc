"""Work without bound is done in slices: nobody else has to wait for more than one, and nobody sees half of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.prepare import Prepare
from datatree.requests import OPEN_ACL, Create, Multi, PathOnly, PathVersion, PathWatch, SetData, SetWatches
from datatree.slices import PARTS, WATCHES
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import TICK_MS, Ensemble, Server
from zab.member.requests.applying import APPLIED_BYTES_MAX
from zab.member.requests.processor import Processor
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol import renewal
from zab.protocol.peer import _ON_EVENT, Peer

COUNT = 4 * PARTS + 100
MEGABYTE = 1_000_000


def creates(count: int = COUNT, flags: int = 0) -> tuple[tuple[int, Create], ...]:
    return tuple((1, Create(b"/m%05d" % number, b"", OPEN_ACL, flags)) for number in range(count))


def multi(client: Client, *parts: tuple[int, Any]) -> bytes:
    return client.request(OpCode.MULTI, Multi(parts).encode())


def watched(ensemble: Ensemble, look: Callable[[Server], int]) -> dict[int, list[int]]:
    """What `look` says of each server, after each of its turns."""
    seen: dict[int, list[int]] = {sid: [look(server)] for sid, server in ensemble.servers.items()}
    step = ensemble.step

    def noting(server: Server) -> None:
        step(server)
        seen[server.sid].append(look(server))

    ensemble.step = noting  # type: ignore[method-assign]
    return seen


def largest_step(counts: list[int]) -> int:
    return max(abs(after - before) for before, after in pairwise(counts))


def steps_of(counts: list[int]) -> int:
    return sum(before != after for before, after in pairwise(counts))


def count_of_changes(server: Server) -> int:
    prepare = server.member.processor.proposing.prepare
    return 0 if prepare is None else len(prepare.outstanding)


# ------------------------------------------------------------------------------------------------ a multi of many parts


def test_long_multi_is_applied_over_several_turns_of_each_member() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    seen = watched(ensemble, lambda server: server.member.tree.znode_count)
    [(_, error, results)] = ensemble.do(client, multi(client, *creates()))
    assert error == 0
    assert len(results) == COUNT
    for server in ensemble.servers.values():
        assert largest_step(seen[server.sid]) == PARTS
        assert server.member.tree.znode_count == 4 + COUNT
        assert server.member.tree.digest == server.member.tree.recompute_digest()


def test_long_multi_is_prepared_over_several_turns() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    seen = watched(ensemble, count_of_changes)[ensemble.leader.sid]
    ensemble.do(client, multi(client, *creates()))
    growth = [after - before for before, after in pairwise(seen)]
    assert max(growth) == 2 * PARTS, "a znode and its parent"
    assert sum(change > 0 for change in growth) == COUNT // PARTS + 1


def test_nobody_sees_half_of_it_and_what_members_say_goes_on() -> None:
    ensemble = Ensemble(3)
    client, other = ensemble.session(ensemble.leader), ensemble.session(ensemble.leader)
    leader, turns = ensemble.leader, []
    step = ensemble.step

    def asking(server: Server) -> None:
        if server is leader and leader.member.is_between_states and len(turns) < 3:
            turns.append(len(other.received))
            other.say(other.exists(b"/m00000") + other.exists(b"/m%05d" % (COUNT - 1)))
            [link, *_] = leader.member.peer.leading.handlers  # type: ignore[union-attr]
            leader.answers.append(ev.MessageReceived(link, msg.Ping(0, 0, 0, [], False)))
        step(server)

    ensemble.step = asking  # type: ignore[method-assign]
    other.replies()
    ensemble.do(client, multi(client, *creates()))
    assert turns == [0, 0, 0], "there was no answer until all of it was applied"
    assert [error for _, error, _ in other.replies()] == [0] * 6
    assert ensemble.leader is leader


def test_what_comes_behind_it_is_proposed_behind_it() -> None:
    ensemble = Ensemble(3)
    clients = [ensemble.session(server) for server in (ensemble.leader, ensemble.follower)]
    for client in clients:
        client.replies()
    clients[0].say(multi(clients[0], *creates()) + clients[0].create(b"/after"))
    clients[1].say(clients[1].create(b"/m00007"))
    ensemble.settle()
    assert [error for _, error, _ in clients[0].replies()] == [0, 0]
    [(_, error, _)] = clients[1].replies()
    assert error in (0, ErrorCode.NODEEXISTS)
    zxids = {server.member.tree.applied for server in ensemble.servers.values()}
    assert len(zxids) == 1


def test_part_that_is_refused_undoes_all_slices_before_it() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    parts = (*creates(), (2, PathVersion(b"/missing", -1)))
    [(_, _, results)] = ensemble.do(client, multi(client, *parts))
    assert results[-1].error == ErrorCode.NONODE
    assert ensemble.do(client, client.create(b"/m00000"))[0][1] == 0
    assert ensemble.leader.member.tree.znode_count == 4 + 1


def test_writes_that_are_committed_meanwhile_are_not_forgotten() -> None:
    """The leader's view of a znode that is changed again and again, while a long multi is being prepared."""
    ensemble = Ensemble(3, maxBatchCount=1)
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/a"))
    sets = [client.set(b"/a", b"%d" % number) for number in range(30)]
    checks = tuple((13, PathVersion(b"/a", 30)) for _ in range(COUNT))
    replies = ensemble.do(
        client, *sets, multi(client, *checks), multi(client, *creates(), (13, PathVersion(b"/a", 30)))
    )
    assert [error for _, error, _ in replies] == [0] * 32
    prepare = ensemble.leader.member.processor.proposing.prepare
    assert prepare is not None
    assert len(prepare.outstanding) == len(prepare.outstanding.changes) == 0


def test_epoch_that_is_renewed_meanwhile_has_it_prepared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(3, counterLimit=40)
    client = ensemble.session(ensemble.leader)
    leader = ensemble.leader.member
    while leader.peer.history.last[0] & 0xFFFFFFFF < 38:
        ensemble.do(client, client.create(b"/c", flags=2))
    seen = []
    prepare_in_slices = Prepare.prepare_in_slices

    def noting(prepare: Prepare, write: Any, zxid: int, time: int, **how: bool) -> Any:
        seen.append(zxid)
        if len(seen) == 1:
            ensemble.leader.answers.append(ev.SecretNamed(b""))
        return prepare_in_slices(prepare, write, zxid, time, **how)

    def renew(peer: Peer, now: int, _event: ev.SecretNamed) -> None:
        assert peer.leading is not None
        renewal.leader_want_renewal(peer, now, peer.leading, peer.accepted_epoch)

    monkeypatch.setattr(Prepare, "prepare_in_slices", noting)
    monkeypatch.setitem(_ON_EVENT, ev.SecretNamed, renew)
    before = leader.tree.znode_count
    [(_, error, _)] = ensemble.do(client, multi(client, *creates()))
    assert error == 0
    assert leader.tree.znode_count == before + COUNT
    assert [zxid & 0xFFFFFFFF for zxid in seen] == [39, 1]


@pytest.mark.parametrize("is_applying", [False, True], ids=["prepared", "applied"])
def test_leader_that_is_cut_off_meanwhile_leaves_nothing_half_done(is_applying: bool) -> None:
    ensemble = Ensemble(3)
    leader = ensemble.leader
    client = ensemble.session(leader)
    client.say(multi(client, *creates()))
    while not (leader.member.is_between_states if is_applying else count_of_changes(leader)):
        for server in ensemble.servers.values():
            ensemble.step(server)
        ensemble._deliver()
    ensemble.cut.add(leader.sid)
    ensemble.advance(20 * TICK_MS)
    assert ensemble.leader is not None
    ensemble.cut.clear()
    ensemble.advance(20 * TICK_MS)
    counts = {server.member.tree.znode_count for server in ensemble.servers.values()}
    assert counts == ({4 + COUNT} if is_applying else counts & {4, 4 + COUNT})
    assert len(counts) == 1
    for server in ensemble.servers.values():
        assert server.member.tree.digest == server.member.tree.recompute_digest()
    again = ensemble.session(ensemble.leader)
    assert ensemble.do(again, again.create(b"/later"))[0][1] == 0


def test_multi_of_too_many_parts_is_refused_and_nothing_of_it_is_done() -> None:
    ensemble = Ensemble(3, multiMaxParts=COUNT - 1)
    client = ensemble.session(ensemble.follower)
    replies = ensemble.do(client, multi(client, *creates()), multi(client, *creates(COUNT - 1)))
    assert [error for _, error, _ in replies] == [ErrorCode.BADARGUMENTS, 0]
    assert ensemble.leader.member.tree.znode_count == 4 + COUNT - 1


def test_long_multi_that_cannot_be_read_to_its_end_is_undone() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    whole = Multi(creates()).encode()
    replies = ensemble.do(client, client.request(OpCode.MULTI, whole[:-5]), client.create(b"/m00000"))
    assert [error for _, error, _ in replies] == [ErrorCode.MARSHALLINGERROR, 0]


# ------------------------------------------------------------------------------------------ many batches at a time


def test_many_committed_bytes_are_applied_over_several_turns() -> None:
    """A follower whose disk was slow finds a dozen committed sets of a megabyte, which all count as a transaction."""
    ensemble = Ensemble(3)
    follower, client = ensemble.follower, ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/a"))
    follower.durable_held = True
    ensemble.do(client, *(client.set(b"/a", bytes(MEGABYTE)) for _ in range(12)))
    applied = watched(ensemble, lambda server: server.member.tree.applied)[follower.sid]
    ensemble.release(follower)
    ensemble.settle()
    assert applied[-1] - applied[0] == 12
    assert (largest_step(applied) - 1) * MEGABYTE < APPLIED_BYTES_MAX


# ----------------------------------------------------------------------------------------- a session of many ephemerals


def test_session_with_many_ephemerals_is_closed_over_several_turns() -> None:
    ensemble = Ensemble(3)
    client, other = ensemble.session(ensemble.leader), ensemble.session(ensemble.leader)
    ensemble.do(client, *(client.create(b"/e%05d" % number, flags=1) for number in range(COUNT)))
    counts = watched(ensemble, lambda server: server.member.tree.znode_count)
    changes = watched(ensemble, count_of_changes)[ensemble.leader.sid]
    client.say(client.request(OpCode.CLOSE_SESSION))
    ensemble.settle()
    assert client.is_closed
    for server in ensemble.servers.values():
        assert largest_step(counts[server.sid]) == PARTS
        assert server.member.tree.znode_count == 4
    assert largest_step(changes[:-1]) <= 3 * PARTS + 100, "each is deleted, changes its parent, and is disowned"
    assert ensemble.do(other, other.create(b"/e00000"))[0][1] == 0


# ------------------------------------------------------------------------------------------------------- many watchers


def test_many_watchers_are_told_over_several_turns_before_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each watch ends with its event, so a watcher counts as four."""
    monkeypatch.setattr("zab.member.requests.watch_events.TOLD", 40)
    monkeypatch.setattr("datatree.watches.SLICE", 10)
    ensemble = Ensemble(1)
    writer, *watchers = [ensemble.session() for _ in range(36)]
    for watcher in watchers:
        ensemble.do(watcher, watcher.exists(b"/a", watch=True))
    watchers[7].close()
    told = watched(ensemble, lambda _: sum(bool(watcher.received) for watcher in watchers))[1]
    ensemble.do(writer, writer.create(b"/a"))
    assert largest_step(told) == 10
    assert steps_of(told) == 4
    assert [len(watcher.events()) for watcher in watchers] == [1] * 7 + [0] + [1] * 27
    assert not ensemble.servers[1].member.state.watches.any  # type: ignore[index]


def sets(client: Client, path: bytes, count: int) -> bytes:
    return multi(client, *((5, SetData(path, b"%d" % number, -1)) for number in range(count)))


def test_many_changes_that_the_same_watch_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of a multi concerns each of 30 connections. They are told of all changes at once, in order."""
    monkeypatch.setattr("zab.member.requests.watch_events.TOLD", 400)
    ensemble = Ensemble(1)
    writer, one_only, *watchers = [ensemble.session() for _ in range(32)]
    ensemble.do(writer, writer.create(b"/a"), writer.create(b"/a/b"), writer.create(b"/a/c"))
    ensemble.do(one_only, one_only.add_watch(b"/a/c", 0))
    for watcher in watchers:
        ensemble.do(watcher, watcher.add_watch(b"/a", 1))
    told = watched(ensemble, lambda _: sum(len(watcher.received) for watcher in watchers))[1]
    parts = [(5, SetData(path, b"x", -1)) for path in [b"/a/b"] * 40 + [b"/a/c", b"/a/b"] * 5 + [b"/a/b"] * 50]
    ensemble.do(writer, multi(writer, *parts))
    for watcher in watchers:
        assert [path for _, path in watcher.events()] == [body.path for _, body in parts]
    assert [path for _, path in one_only.events()] == [b"/a/c"] * 5
    assert steps_of(told) <= 4, "3,000 events, of which 300 are told one by one"


def test_events_of_one_step_are_bounded_by_what_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.watch_events.TOLD", 20)
    ensemble = Ensemble(1)
    writer, *watchers = [ensemble.session() for _ in range(11)]
    ensemble.do(writer, writer.create(b"/a"), *(writer.create(b"/a/%d" % number) for number in range(10)))
    for number, watcher in enumerate(watchers):
        ensemble.do(watcher, *(watcher.add_watch(b"/a/%d" % (n % 10), 0) for n in range(number, number + 5)))
    told = watched(ensemble, lambda _: sum(len(watcher.received) for watcher in watchers))[1]
    ensemble.do(writer, multi(writer, *((5, SetData(b"/a/%d" % (n % 10), b"", -1)) for n in range(60))))
    assert told[-1] - told[0] == 300
    assert largest_step(told) <= 20 + 5


def backlog(ensemble: Ensemble, writes: list[bytes], client: Client) -> Server:
    """A follower that has all these to apply, one after the other."""
    follower = ensemble.follower
    follower.durable_held = True
    ensemble.do(client, *writes)
    return follower


def test_clients_are_served_between_any_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower lags by batches that take several turns each. Anyone who asks something meanwhile is answered
    after each of them, of the state at its end."""
    monkeypatch.setattr("zab.member.requests.watch_events.TOLD", 10)
    ensemble = Ensemble(3)
    writer, other, *watchers = (
        ensemble.session(ensemble.leader),
        *(ensemble.session(ensemble.follower) for _ in range(21)),
    )
    ensemble.do(writer, writer.create(b"/a"))
    for watcher in watchers:
        ensemble.do(watcher, watcher.add_watch(b"/a", 0))
    follower = backlog(ensemble, [sets(writer, b"/a", PARTS + 10) for _ in range(5)], writer)
    first, last = follower.member.tree.applied, ensemble.leader.member.tree.applied
    step = ensemble.step

    def asking(server: Server) -> None:
        if server is follower:
            other.say(other.exists(b"/"))
        step(server)

    other.received.clear()
    ensemble.step = asking  # type: ignore[method-assign]
    ensemble.release(follower)
    while follower.member.tree.applied < last:
        ensemble.step(follower)
    seen = {zxid for kind, _, zxid, *_ in other.received if kind == "reply"}
    assert set(range(first + 1, last)) <= seen


def test_who_is_gone_is_noticed_in_the_middle_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is kept for it; unless it said something before, which has its turn first."""
    monkeypatch.setattr("zab.member.requests.watch_events.TOLD", 10)
    ensemble = Ensemble(1)
    writer, goes, says, stays = [ensemble.session() for _ in range(4)]
    ensemble.do(writer, writer.create(b"/a"))
    for watcher in (goes, says, stays):
        ensemble.do(watcher, watcher.add_watch(b"/a", 0))
    server = ensemble.servers[1]  # type: ignore[index]
    writer.say(sets(writer, b"/a", 3 * PARTS))
    while not goes.events():
        ensemble.step(server)
    assert server.member.is_between_states
    goes.close()
    says.say(says.create(b"/last") + says.request(OpCode.CLOSE_SESSION))
    says.close()
    ensemble.step(server)
    assert server.member.is_between_states
    assert goes.connection.closing
    assert not says.connection.closing
    count = len(goes.events())
    ensemble.settle()
    assert len(goes.events()) == count < 3 * PARTS
    assert len(stays.events()) == 3 * PARTS
    assert server.member.tree.get(b"/last") is not None
    assert says.connection.session not in server.member.tree.sessions


def test_batch_of_many_transactions_is_applied_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is short; together, with their parts and whom they tell, they are not."""
    monkeypatch.setattr("zab.member.requests.processor.DELIVERED", 100)
    ensemble = Ensemble(3)
    writer, watcher = ensemble.session(ensemble.leader), ensemble.session(ensemble.follower)
    ensemble.do(writer, writer.create(b"/a"))
    seen = watched(ensemble, lambda server: server.member.metrics.proposal_count)
    steps = watched(ensemble, lambda server: server.member.tree.applied)
    ensemble.do(writer, *(sets(writer, b"/a", 20) for _ in range(30)))
    assert max(seen[ensemble.leader.sid]) - seen[ensemble.leader.sid][0] < 10
    for server in ensemble.servers.values():
        assert largest_step(steps[server.sid]) <= 100 // 20
    assert ensemble.do(watcher, watcher.exists(b"/a"))[0][1] == 0


def test_long_lists_of_permissions_count_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the leader puts into a batch: it counts them, too."""
    monkeypatch.setattr("zab.member.requests.processor.DELIVERED", 100)
    monkeypatch.setattr("zab.member.requests.proposing.PREPARED_WORK_MAX", 1_000_000)
    ensemble = Ensemble(3)
    writer = ensemble.session(ensemble.leader)
    ensemble.do(writer, writer.create(b"/a"))
    steps = watched(ensemble, lambda server: server.member.tree.applied)
    listed = (*((31, b"ip", b"10.0.0.%d" % number) for number in range(200)), (31, b"world", b"anyone"))
    ensemble.do(writer, *(writer.create(b"/a/%d" % number, acl=listed) for number in range(40)))
    for server in ensemble.servers.values():
        assert largest_step(steps[server.sid]) <= 100 // (1 + 201 // 16) + 1


# ----------------------------------------------------------------------------------------------------- who waits for it


@pytest.mark.parametrize("is_leader", [True, False], ids=["leader", "follower"])
def test_no_session_expires_because_its_member_was_busy(is_leader: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is read from while a batch is applied in part: silence means nothing then."""
    ensemble = Ensemble(3)
    leader = ensemble.leader
    busy = leader if is_leader else ensemble.follower
    writer = ensemble.session(next(server for server in ensemble.others(busy) if server is not leader))
    session = ensemble.session(busy, timeout_ms=2 * TICK_MS)
    deliver = Processor.deliver

    def slow(processor: Processor, batch: Any) -> Any:
        for _ in range(60 if processor is busy.member.processor else 0):
            yield
        yield from deliver(processor, batch)

    monkeypatch.setattr(Processor, "deliver", slow)
    step = ensemble.step

    def passing(server: Server) -> None:
        if server is busy and busy.member.is_between_states:
            ensemble.now += TICK_MS // 10
        step(server)

    ensemble.step = passing  # type: ignore[method-assign]
    before = ensemble.now
    ensemble.do(writer, writer.create(b"/a"))
    assert ensemble.now - before >= 3 * TICK_MS
    assert ensemble.leader is leader
    assert session.connection.session in leader.member.tree.sessions
    monkeypatch.undo()
    ensemble.step = step  # type: ignore[method-assign]
    ensemble.advance(10 * TICK_MS)
    assert session.connection.session not in leader.member.tree.sessions, "who is silent afterwards expires"


# ------------------------------------------------------------------------------------------------------- long answers


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """How much a slice of a listing is, in these tests."""
    for place in (
        "zab.member.requests.reads.NAMES",
        "zab.member.requests.child_lists.NAMES",
        "zab.member.requests.listings.NAMES",
        "zab.member.words.four_letter.NAMES",
        "zab.member.requests.multi_reads.PATHS",
    ):
        monkeypatch.setattr(place, 10)
    monkeypatch.setattr("zab.member.requests.connection_requests.PATHS", 10)
    return 10


def crowded() -> tuple[Ensemble, Client, Client]:
    """/p with 95 children, which a first client owns; and another client."""
    ensemble = Ensemble(1)
    client, other = ensemble.session(), ensemble.session()
    ensemble.do(client, client.create(b"/p"), *(client.create(b"/p/%02d" % number, flags=1) for number in range(95)))
    return ensemble, client, other


NAMES_OF_CHILDREN = sorted(b"%02d" % number for number in range(95))


@pytest.mark.parametrize(
    ("opcode", "body", "expected"),
    [
        (OpCode.GET_CHILDREN, PathWatch(b"/p", False), NAMES_OF_CHILDREN),
        (OpCode.GET_EPHEMERALS, PathOnly(b"/p/"), [b"/p/" + name for name in NAMES_OF_CHILDREN]),
        (OpCode.GET_EPHEMERALS, PathOnly(b"/p/3"), [b"/p/3%d" % number for number in range(10)]),
        (OpCode.GET_ALL_CHILDREN_NUMBER, PathOnly(b"/p"), 95),
        (OpCode.MULTI_READ, Multi(tuple((4, PathWatch(b"/p/%02d" % n, False)) for n in range(95))), None),
        (OpCode.SET_WATCHES, SetWatches(1 << 40, tuple(b"/p/%02d" % n for n in range(95)), (), ()), None),
    ],
    ids=["getChildren", "getEphemerals", "few ephemerals", "getAllChildrenNumber", "multiRead", "setWatches"],
)
def test_long_answer_comes_in_slices_and_only_its_own_connection_waits(
    small: int, opcode: OpCode, body: Any, expected: object
) -> None:
    ensemble, client, other = crowded()
    server = ensemble.servers[client.server.sid]
    client.replies()
    other.replies()
    client.say(client.request(opcode, body.encode()) + client.get(b"/p"))
    other.say(other.get(b"/p"))
    turns = 0
    while not client.received:
        ensemble.step(server)
        turns += 1
        assert len(other.received) == 1, "it is answered in the first turn"
        assert turns < 50
    assert turns >= 4
    assert server.member.has_more is False
    ensemble.settle()
    (_, error, found), (_, second, _) = client.replies()
    assert (error, second) == (0, 0)
    if isinstance(expected, list):
        assert sorted(found if isinstance(found, list) else found[0]) == expected
    elif expected is not None:
        assert found == expected
    if opcode == OpCode.SET_WATCHES:
        assert server.member.state.watches.count(client.connection) == 95
    assert server.member.processor.waiting.outstanding_count == 0


def test_listing_is_of_the_moment_it_began_and_writes_of_others_go_on(small: int) -> None:
    ensemble, client, other = crowded()
    server = ensemble.servers[client.server.sid]
    client.replies()
    client.say(client.children(b"/p"))
    ensemble.step(server)
    assert ensemble.do(other, other.delete(b"/p/94"), other.create(b"/p/new"))[0][1] == 0
    [(_, _, names)] = client.replies()
    assert sorted(names) == NAMES_OF_CHILDREN


def test_write_of_the_same_connection_is_answered_behind_the_long_answer(small: int) -> None:
    ensemble, client, _ = crowded()
    replies = ensemble.do(
        client, client.set(b"/p", b"1"), client.children(b"/p"), client.set(b"/p", b"2"), client.children(b"/p")
    )
    assert [xid for xid, _, _ in replies] == sorted(xid for xid, _, _ in replies)
    assert [error for _, error, _ in replies] == [0] * 4
    assert sorted(replies[1][2]) == sorted(replies[3][2]) == NAMES_OF_CHILDREN


def test_long_answers_take_turns_and_one_that_nobody_wants_any_more_is_dropped(small: int) -> None:
    ensemble, client, other = crowded()
    server = ensemble.servers[client.server.sid]
    third = ensemble.session()
    for each in (client, other, third):
        each.replies()
        each.say(each.children(b"/p"))
    ensemble.step(server)
    assert len(server.member.processor.waiting.answering) == 3
    other.close()
    ensemble.step(server)
    assert len(server.member.processor.waiting.answering) == 2
    ensemble.settle()
    assert [len(each.replies()) for each in (client, other, third)] == [1, 0, 1]
    assert server.member.processor.waiting.answering == {}


def test_setwatches_that_cannot_be_read_to_its_end_watches_nothing(small: int) -> None:
    ensemble, client, _ = crowded()
    body = SetWatches(1 << 40, tuple(b"/p/%02d" % n for n in range(95)), (), ()).encode()
    replies = ensemble.do(client, client.request(OpCode.SET_WATCHES, body[:-9]), client.get(b"/p"))
    assert [error for _, error, _ in replies] == [ErrorCode.MARSHALLINGERROR, 0]
    assert not client.server.member.state.watches.any


@pytest.mark.parametrize(
    ("word", "what", "count"),
    [
        *((b"wchp", b"/e", 60), (b"wchc", b"/e", 60), (b"wchs", b"60 paths", 1), (b"dump", b"/e", 60)),
        *((b"cons", b"/127.0.0.1", 62), (b"stat", b"/127.0.0.1", 62), (b"mntr", b"zk_", 40)),
    ],
)
def test_four_letter_word_is_answered_in_slices(small: int, word: bytes, what: bytes, count: int) -> None:
    ensemble = Ensemble(1, maxClientCnxns=0, **{"4lw__commands__whitelist": "*"})
    client = ensemble.session()
    for number in range(60):
        ensemble.do(client, client.create(b"/e%02d" % number, flags=1), client.exists(b"/e%02d" % number, watch=True))
        ensemble.client()
    asker = ensemble.client()
    server, said = asker.server, list[bytes]()
    asker.take = said.append  # type: ignore[method-assign]
    asker.say(word)
    ensemble.step(server)
    assert not asker.is_closed
    asker.say(b"and more of it")
    turns = 1
    while not asker.is_closed:
        ensemble.step(server)
        turns += 1
        assert turns < 50
    assert turns >= 5
    assert b"".join(said).count(what) >= count


def test_large_answers_come_over_several_turns_and_others_are_answered_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred bytes ask for a megabyte: many of them from many clients at once are no turn of a second."""
    for module in ("processor", "waiting_requests"):
        monkeypatch.setattr(f"zab.member.requests.{module}.ANSWERED_BYTES", 5000)
    ensemble = Ensemble(1)
    clients = [ensemble.session() for _ in range(4)]
    ensemble.do(clients[0], clients[0].create(b"/big", b"x" * 1000))
    [server] = ensemble.servers.values()
    for client in clients:
        client.replies()
        client.say(b"".join(client.get(b"/big") for _ in range(30)))
    counts = [0]
    while counts[-1] < 120:
        ensemble.step(server)
        counts.append(sum(len(client.received) for client in clients))
        assert len(counts) < 100
        assert server.member.has_more or counts[-1] == 120
    assert largest_step(counts) <= 12, "twice the limit: those who waited, and those who came"
    assert all([error for _, error, _ in client.replies()] == [0] * 30 for client in clients)
    assert server.member.processor.waiting.outstanding_count == 0
    assert not server.member.has_more


# ------------------------------------------------------------------------------------------------------ many of a kind


def test_many_sessions_that_end_at_once_are_closed_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("session.tracker.EXPIRED_COUNT_MAX", 7)
    ensemble = Ensemble(1)
    server = ensemble.servers[ensemble.session().server.sid]
    for _ in range(39):
        ensemble.session()
    seen: list[int] = []
    submit = Processor.submit

    def noting(processor: Processor, session: Any, cxid: int, opcode: int, *rest: Any) -> None:
        if opcode == OpCode.CLOSE_SESSION:
            seen.append(ensemble.turns)  # type: ignore[attr-defined]
        submit(processor, session, cxid, opcode, *rest)

    monkeypatch.setattr(Processor, "submit", noting)
    step = ensemble.step
    ensemble.turns = 0  # type: ignore[attr-defined]

    def counting(server: Server) -> None:
        ensemble.turns += 1  # type: ignore[attr-defined]
        step(server)

    ensemble.step = counting  # type: ignore[method-assign]
    ensemble.advance(30 * TICK_MS)
    assert len(seen) == 40
    assert max(seen.count(turn) for turn in seen) == 7
    assert server.member.tree.sessions == {}


def test_so_many_writes_are_prepared_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.proposing.PREPARED_WORK_MAX", 10)
    ensemble = Ensemble(3, maxBatchCount=5)
    client = ensemble.session(ensemble.leader)
    seen = watched(ensemble, lambda server: server.member.peer.history.last[0])[ensemble.leader.sid]
    replies = ensemble.do(client, *(client.create(b"/s%02d" % number) for number in range(100)))
    assert [error for _, error, _ in replies] == [0] * 100
    assert largest_step(seen) == 10


def test_so_many_bytes_of_writes_are_prepared_a_turn() -> None:
    """What the others send is read whatever there is to do: several of them bring megabytes in one turn."""
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/large"))
    seen = watched(ensemble, lambda server: server.member.peer.history.last[0])[ensemble.leader.sid]
    replies = ensemble.do(client, *(client.set(b"/large", bytes(900_000)) for _ in range(4)))
    assert [error for _, error, _ in replies] == [0] * 4
    assert largest_step(seen) == 1


# ------------------------------------------------------------------------------------------- watches of who is gone


def test_watches_of_connections_that_are_gone_are_forgotten_over_several_turns() -> None:
    ensemble = Ensemble(3)
    server = ensemble.follower
    gone = [ensemble.session(server) for _ in range(2)]
    other = ensemble.session(server)
    count = WATCHES + WATCHES // 2
    paths = tuple(b"/%d" % number for number in range(count))
    for client in gone:
        client.say(client.request(OpCode.SET_WATCHES, SetWatches(1 << 62, (), paths, ()).encode(), xid=-8))
    ensemble.settle()
    ensemble.do(other, other.exists(b"/0", watch=True))
    watches = server.member.state.watches
    assert watches.total_count == 2 * count + 1
    seen = watched(ensemble, lambda server: server.member.state.watches.total_count)
    for client in gone:
        client.close()
    ensemble.settle()
    assert watches.total_count == 1
    assert largest_step(seen[server.sid]) == WATCHES
    assert steps_of(seen[server.sid]) == 3
    assert not server.member.may_have_more
    assert [error for _, error, _ in ensemble.do(other, other.create(b"/0"))] == [0]
    assert watches.total_count == 0


# ------------------------------------------------------------------------------------------------------ sums of quotas


def test_quotas_made_and_removed_over_many_znodes_cost_nothing_to_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """A multi of a few kilobytes sets a quota over and over, and leaves it there: no step looks at more znodes than a
    slice may, and everybody counts the same in the end."""
    monkeypatch.setattr("datatree.quota_sums.NAMES", 50)
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/many"), client.create(b"/zookeeper/quota/many"))
    ensemble.do(client, multi(client, *((1, Create(b"/many/%d" % n, b"", OPEN_ACL, 0)) for n in range(600))))
    limits = b"/zookeeper/quota/many/zookeeper_limits"
    stats = b"/zookeeper/quota/many/zookeeper_stats"
    set_again = ((1, Create(limits, b"count=5", OPEN_ACL, 0)), (2, PathVersion(limits, -1)))
    seen = watched(ensemble, lambda server: server.member.tree.quota_sums.visited_count)
    [(_, error, _)] = ensemble.do(client, multi(client, *set_again * 120, (1, Create(stats, b"", OPEN_ACL, 0))))
    assert error == 0
    for server in ensemble.servers.values():
        while server.member.tree.quota_sums.is_due:
            ensemble.step(server)
        assert largest_step(seen[server.sid]) == 50
        assert seen[server.sid][-1] == server.member.tree.znode_count
        assert server.member.tree.quotas[b"/many"].text() == b"count=601,bytes=0"


@pytest.mark.parametrize("how", ["silence", "role"])
def test_connections_that_end_at_once_are_closed_and_forgotten_over_several_turns(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """They say nothing, and have no session; or their member no longer serves."""
    monkeypatch.setattr("zab.member.requests.limits.ENDED", 7)
    monkeypatch.setattr("zab.member.requests.limits.NAMES", 20)
    monkeypatch.setattr("zab.member.clients.connection.ENDED", 7)
    ensemble = Ensemble(3)
    server = ensemble.follower
    if how == "silence":
        strangers = [Client(server, 1000 + number) for number in range(40)]
        ensemble.clients |= {stranger.connection: stranger for stranger in strangers}
    else:
        strangers = [ensemble.session(server) for _ in range(40)]
    ensemble.settle()
    assert len(server.member.clients.all) == 40
    closing = watched(ensemble, lambda server: sum(bool(each.connection.closing) for each in strangers))[server.sid]
    known = watched(ensemble, lambda server: len(server.member.clients.all))[server.sid]
    if how == "role":
        ensemble.cut.add(server.sid)
    ensemble.advance(40 * TICK_MS)
    assert closing[-1] == 40
    assert known[-1] == 0
    assert largest_step(known) == 7
    assert how == "role" or largest_step(closing) == 7
    assert not server.member.has_more
