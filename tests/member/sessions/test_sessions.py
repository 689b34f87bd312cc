"""Handshakes, re-attaching, owners, liveness and the end of sessions, on whole members."""

import gc
import sys
from itertools import pairwise

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.record import Txn, decode_all
from datatree.requests import SetData
from datatree.znode import stat_of
from session.identity import SessionId
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import TICK_MS, Ensemble, Server
from zab.jute.handshake import ConnectRequest
from zab.member.requests import forwarding
from zab.member.requests.forwarding import writes_of
from zab.member.sessions.touches import TOUCHED_COUNT_MAX
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.features import ALL, SESSION_SERVERS
from zab.protocol.member_message import WRITE_HEAD
from zab.protocol.states import LEADING
from zab.quorum.ids import Link
from zab.wire.frames import GREETING_BYTES_MAX, LENGTH, frame


def response_timeout(client: Client) -> int | None:
    return client.response.timeout_ms if client.response is not None else None


@pytest.mark.parametrize(("asked", "given"), [(0, 2000), (-5, 2000), (3999, 3999), (10**9, 20_000)])
def test_timeout_is_clamped_between_two_and_twenty_ticks(asked: int, given: int) -> None:
    ensemble = Ensemble(1)
    assert response_timeout(ensemble.session(timeout_ms=asked)) == given


def test_new_session_is_answered_when_it_is_applied_and_is_known_everywhere() -> None:
    ensemble = Ensemble(3)
    follower = ensemble.follower
    client = ensemble.client(follower)
    ensemble.leader.durable_held = True
    for other in ensemble.others(ensemble.leader):
        other.durable_held = True
    client.say(client.connect_request())
    ensemble.settle()
    assert client.response is None
    assert client.connection.paused
    for server in ensemble.servers.values():
        ensemble.release(server)
    ensemble.settle()
    assert client.response is not None
    assert not client.connection.paused
    session = client.response.session_id
    assert session >> 56 == follower.sid
    ensemble.advance(TICK_MS)
    assert [server.member.tree.sessions.get(session) for server in ensemble.servers.values()] == [10_000] * 3


def test_requests_that_come_with_the_handshake_are_answered_behind_it() -> None:
    ensemble = Ensemble(3)
    client = ensemble.client(ensemble.follower)
    client.say(client.connect_request() + client.create(b"/a") + client.get(b"/a"))
    client.say(client.set(b"/a", b"1"))
    ensemble.settle()
    assert client.response is not None
    assert [xid for xid, _, _ in client.replies()] == [1, 2, 3]


@pytest.mark.parametrize("has_byte", [True, False])
def test_read_only_byte_is_answered_only_to_who_sent_one(has_byte: bool) -> None:
    ensemble = Ensemble(1)
    client = ensemble.client()
    client.say(frame(ConnectRequest(0, 10_000, 0, bytes(16), has_read_only=has_byte).encode()))
    ensemble.settle()
    assert client.response is not None
    assert client.response.has_read_only is has_byte


def test_handshake_that_is_cut_short_is_closed_without_an_answer() -> None:
    ensemble = Ensemble(1)
    client = ensemble.client()
    client.say(frame(b"\x00\x00\x00\x00\x00"))
    ensemble.settle()
    assert client.is_closed
    assert client.raw == b""


def test_who_has_not_said_who_he_is_cannot_have_much_kept() -> None:
    """A connection without a session lasts for ten seconds: thousands of them, each with a megabyte that does not end,
    would be gigabytes."""
    ensemble = Ensemble(1)
    client, other = ensemble.client(), ensemble.client()
    client.say(LENGTH.pack(GREETING_BYTES_MAX + 1))
    other.say(LENGTH.pack(GREETING_BYTES_MAX))
    ensemble.settle()
    assert (client.is_closed, other.is_closed) == (True, False)
    assert ensemble.servers[1].member.metrics.large_requests_rejected == 1


@pytest.mark.parametrize("length", [1_000_000, 1_048_576])
def test_large_request_may_come_with_the_handshake_and_no_too_large_one(length: int) -> None:
    ensemble = Ensemble(1, oversizeRequestBytes=0)
    client = ensemble.client()
    said = client.connect_request() + client.create(b"/a") + client.set(b"/a", bytes(length))
    client.say(said[:-5])
    client.say(said[-5:])
    ensemble.settle()
    assert client.is_closed == (length > 1_048_575)
    assert [error for _, error, _ in client.replies()] == ([] if client.is_closed else [0, 0])


def test_client_that_has_seen_more_is_closed_without_an_answer() -> None:
    ensemble = Ensemble(1)
    client = ensemble.client()
    client.say(client.connect_request(seen=ensemble.servers[1].member.tree.applied + 1))
    ensemble.settle()
    assert client.is_closed
    assert client.raw == b""


def test_nobody_is_served_before_the_member_serves() -> None:
    ensemble = Ensemble(3, start=False)
    client = ensemble.client(ensemble.servers[1])
    client.say(client.connect_request())
    ensemble.step(ensemble.servers[1])
    assert client.is_closed
    assert client.raw == b""
    assert ensemble.servers[1].member.metrics.cnxn_closed_without_zk_server_running == 1


@pytest.fixture(params=[(1, 1), (3, 1), (3, 2), (3, 3)], ids=lambda size: f"{size[0]}-{size[1]}")
def old(request: pytest.FixtureRequest) -> tuple[Ensemble, Client, Server]:
    """An ensemble, a client on its server 1, and a server to come back to."""
    size, sid = request.param
    ensemble = Ensemble(size)
    return ensemble, ensemble.session(ensemble.servers[1]), ensemble.servers[sid]


def test_session_comes_back_with_its_password(old: tuple[Ensemble, Client, Server]) -> None:
    ensemble, client, server = old
    ensemble.do(client, client.create(b"/e", b"", 1))
    ensemble.advance(TICK_MS)
    back = ensemble.reattach(client, server, timeout_ms=5_000)
    ensemble.settle()
    assert back.response is not None
    assert client.response is not None
    assert (back.response.session_id, back.response.timeout_ms) == (client.response.session_id, 5_000)
    assert client.is_closed == (client.server is server)
    assert ensemble.do(back, back.request(OpCode.GET_EPHEMERALS, b"\x00\x00\x00\x01/")) == [(1, 0, [b"/e"])]
    assert ensemble.do(back, back.delete(b"/e")) == [(2, 0, None)]


def test_wrong_password_is_the_invalid_answer_and_leaves_the_session_alone(
    old: tuple[Ensemble, Client, Server],
) -> None:
    ensemble, client, server = old
    thief = ensemble.reattach(client, server, password=b"0123456789abcdef")
    ensemble.settle()
    assert thief.response is not None
    assert (thief.response.timeout_ms, thief.response.session_id, thief.response.password) == (0, 0, bytes(16))
    assert thief.is_closed
    assert not client.is_closed
    assert ensemble.do(client, client.create(b"/a")) == [(1, 0, b"/a")]


def test_session_that_is_over_is_the_invalid_answer(old: tuple[Ensemble, Client, Server]) -> None:
    ensemble, client, server = old
    ensemble.do(client, client.request(OpCode.CLOSE_SESSION))
    late = ensemble.reattach(client, server)
    ensemble.settle()
    assert response_timeout(late) == 0
    assert late.is_closed


def test_write_through_a_connection_that_the_session_left_closes_it_without_a_reply() -> None:
    ensemble = Ensemble(3)
    first, second = ensemble.others(ensemble.leader)
    for old_server, new_server in [(first, second), (ensemble.leader, first), (first, ensemble.leader)]:
        client = ensemble.session(old_server)
        back = ensemble.reattach(client, new_server)
        ensemble.settle()
        assert len(ensemble.do(client, client.get(b"/"))) == 1
        assert ensemble.do(client, client.create(b"/never")) == []
        assert client.is_closed
        assert ensemble.leader.member.tree.get(b"/never") is None
        assert [error for _, error, _ in ensemble.do(back, back.set(b"/", b""))] == [0]
        assert not back.is_closed


def test_two_questions_for_one_session_leave_the_newest_connection() -> None:
    ensemble = Ensemble(3)
    follower = ensemble.follower
    client = ensemble.session(follower)
    second = ensemble.reattach(client, follower)
    third = ensemble.reattach(client, follower)
    ensemble.settle()
    assert (client.is_closed, second.is_closed, third.is_closed) == (True, True, False)
    assert response_timeout(third) == 10_000


def test_verdict_on_an_earlier_connection_of_the_same_session_does_not_let_a_later_one_in() -> None:
    """The client asks at one follower, is done with another one, and comes back: the first answer arrives then."""
    ensemble = Ensemble(3)
    slow, other = ensemble.others(ensemble.leader)
    before = ensemble.session(other)
    ensemble.do(before, before.create(b"/a", b"0"), before.create(b"/b", b"0"))
    ensemble.late.add(slow.sid)
    asked_first = ensemble.reattach(before, slow)
    ensemble.settle()
    assert asked_first.response is None
    asked_first.close()
    elsewhere = ensemble.reattach(before, other)
    ensemble.settle()
    elsewhere.say(elsewhere.set(b"/a", b"through the other"))
    ensemble.settle()
    elsewhere.close()
    back = ensemble.reattach(before, slow)
    ensemble.step(slow)
    ensemble.deliver_until(slow, mmsg.Revalidated)
    ensemble.step(slow)
    assert back.response is None, "the verdict is on the connection before"
    back.say(back.set(b"/b", b"through the slow one"))  # with the xid of the write to /a
    ensemble.late.clear()
    ensemble.settle()
    assert back.response is not None
    assert [server.value(b"/a") for server in ensemble.servers.values()] == [b"through the other"] * 3
    assert [server.value(b"/b") for server in ensemble.servers.values()] == [b"through the slow one"] * 3
    (reply,) = back.replies()
    b_stat = slow.member.tree.get(b"/b")
    assert b_stat is not None
    assert reply[2] == stat_of(b_stat), "it is answered with the result of its own write"


def test_write_of_an_earlier_connection_never_answers_a_later_one_with_the_same_xid() -> None:
    """Some clients begin with xid 1 on every connection."""
    for size in (1, 3):
        ensemble = Ensemble(size)
        server = ensemble.servers[1] if size == 1 else ensemble.follower
        client = ensemble.session(server)
        for other in ensemble.servers.values():
            other.durable_held = True
        ensemble.do(client, client.create(b"/old"))
        back = ensemble.reattach(client, server)
        ensemble.settle()
        back.say(back.create(b"/new"))
        ensemble.settle()
        assert back.received == []
        for other in ensemble.servers.values():
            ensemble.release(other)
        ensemble.settle()
        assert back.replies() == [(1, 0, b"/new")]


def test_write_that_another_server_forwarded_before_never_answers_the_new_connection() -> None:
    ensemble = Ensemble(3)
    first, second = ensemble.others(ensemble.leader)
    client = ensemble.session(first)
    for server in (first, second):
        server.durable_held = True
    ensemble.do(client, client.create(b"/old"))
    back = ensemble.reattach(client, second)
    ensemble.settle()
    back.say(back.create(b"/new"))
    ensemble.settle()
    for server in (first, second):
        ensemble.release(server)
    ensemble.settle()
    assert back.replies() == [(1, 0, b"/new")]


def test_write_that_was_proposed_in_a_renewal_never_answers_the_new_connection() -> None:
    """A learner is sent what the new epoch proposes only when it has accepted that epoch; the verdict on a session that
    comes to it overtakes that."""
    ensemble = Ensemble(3, counterLimit=8)
    leader = ensemble.leader
    first, second = ensemble.others(leader)
    client = ensemble.session(first)
    ensemble.do(client, client.create(b"/a"), client.create(b"/b"))
    ensemble.late.add(second.sid)
    while leader.member.peer.current_epoch == 1:
        ensemble.do(client, client.set(b"/a", b""))
    assert second.member.peer.current_epoch == 1
    leader.durable_held = first.durable_held = True
    ensemble.do(client, client.request(OpCode.SET_DATA, SetData(b"/a", b"through the first", -1).encode(), xid=1))
    back = ensemble.reattach(client, second)
    ensemble.settle()
    ensemble.deliver_until(second, mmsg.Revalidated)
    ensemble.step(second)
    assert back.response is not None
    back.say(back.set(b"/b", b"through the second"))
    ensemble.late.clear()
    ensemble.settle()
    for server in (leader, first):
        ensemble.release(server)
    ensemble.settle()
    assert [server.value(b"/a") for server in ensemble.servers.values()] == [b"through the first"] * 3
    assert [server.value(b"/b") for server in ensemble.servers.values()] == [b"through the second"] * 3
    (reply,) = back.replies()
    b_stat = second.member.tree.get(b"/b")
    assert b_stat is not None
    assert reply == (1, 0, stat_of(b_stat)), "it is answered with the result of its own write"


def test_verdict_on_a_session_waits_for_what_its_earlier_connection_wrote() -> None:
    ensemble = Ensemble(3, maxBatchesInFlight=1)
    follower = ensemble.follower
    client, busy = ensemble.session(follower), ensemble.session(ensemble.leader)
    for server in ensemble.servers.values():
        server.durable_held = True
    ensemble.do(busy, busy.create(b"/busy"))
    ensemble.do(client, client.create(b"/old"))
    back = ensemble.reattach(client, follower)
    ensemble.settle()
    assert back.response is None
    for server in ensemble.servers.values():
        ensemble.release(server)
    ensemble.settle()
    assert ensemble.do(back, back.create(b"/new")) == [(1, 0, b"/new")]


def test_session_whose_end_is_proposed_is_over_for_who_comes_back() -> None:
    for size in (1, 3):
        ensemble = Ensemble(size)
        client = ensemble.session(ensemble.servers[1])
        for server in ensemble.servers.values():
            server.durable_held = True
        ensemble.do(client, client.request(OpCode.CLOSE_SESSION))
        back = ensemble.reattach(client, ensemble.servers[size])
        ensemble.settle()
        assert response_timeout(back) == 0


def test_end_of_a_session_closes_the_connections_that_it_left() -> None:
    ensemble = Ensemble(3)
    first, second = ensemble.others(ensemble.leader)
    client = ensemble.session(first)
    back = ensemble.reattach(client, second)
    ensemble.settle()
    assert not client.is_closed
    ensemble.do(back, back.request(OpCode.CLOSE_SESSION))
    ensemble.advance(TICK_MS)
    assert client.is_closed


def test_g3_id_that_exists_is_refused_and_another_is_taken() -> None:
    for size in (1, 3):
        ensemble = Ensemble(size)
        server = ensemble.servers[1]
        first = ensemble.session(server)
        assert first.response is not None
        taken = first.response.session_id
        ids = server.member.sessions._ids
        drawn = iter([taken, taken + 5, taken + 6])
        ids.next = lambda drawn=drawn: next(drawn)  # type: ignore[method-assign]
        # An id that this member does not know yet is drawn: only the leader can tell.
        elsewhere = ensemble.leader if size > 1 else server
        elsewhere.member.processor.submit(taken + 5, 99, OpCode.CREATE_SESSION, b"\x00\x00\x0f\xa0", None)
        client = ensemble.client(server)
        client.say(client.connect_request())
        ensemble.settle()
        assert client.response is not None
        assert client.response.session_id == taken + 6
        assert not first.is_closed


def test_a_learner_begins_no_session_of_another_server() -> None:
    ensemble = Ensemble(3)
    first, second = ensemble.others(ensemble.leader)
    begin = WRITE_HEAD.pack(first.sid << 56 | 7, 0, OpCode.CREATE_SESSION) + b"\0\0\x0f\xa0"
    refusal = ensemble.leader.member.sessions.refusal
    assert writes_of(mmsg.Request([[[], [begin]]]), first.sid, refusal) is not None
    assert writes_of(mmsg.Request([[[], [begin]]]), second.sid, refusal) is None


def created(server: Server, session: int) -> Txn:
    """The createSession of a session in the log of this server."""
    [found] = [
        txn
        for batch in server.logged
        for txn in decode_all(batch.body, batch.first, batch.count)
        if (txn.type, txn.session) == (OpCode.CREATE_SESSION, session)
    ]
    return found


@pytest.mark.parametrize("features", [ALL, ALL & ~SESSION_SERVERS])
def test_a_create_session_has_the_cxid_0_but_for_leaders_that_want_to_know_its_server(features: int) -> None:
    ensemble = Ensemble(3)
    for server in ensemble.servers.values():
        if server is not ensemble.leader:
            server.member.processor.forwards_to(features)
        client = ensemble.session(server)
        assert client.response is not None
        is_old = features != ALL and server is not ensemble.leader
        assert created(ensemble.leader, client.response.session_id).cxid == (server.sid if is_old else 0)


def test_session_expires_after_its_timeout_and_not_before() -> None:
    for size in (1, 3):
        ensemble = Ensemble(size)
        client = ensemble.session(ensemble.servers[1], timeout_ms=4_000)
        watcher = ensemble.session(ensemble.servers[1], timeout_ms=20_000)
        ensemble.do(client, client.create(b"/e", b"", 1))
        ensemble.do(watcher, watcher.exists(b"/e", True))
        ensemble.advance(4_000)
        assert watcher.received == []
        ensemble.advance(3 * TICK_MS)
        assert watcher.events() == [(2, b"/e")]
        assert client.is_closed


def test_pings_keep_a_session_alive_on_every_member() -> None:
    ensemble = Ensemble(3)
    clients = [ensemble.session(server, timeout_ms=4_000) for server in ensemble.servers.values()]
    for _ in range(15):
        ensemble.advance(1_500)
        for client in clients:
            assert ensemble.do(client, client.request(OpCode.PING, b"", -2)) == [(-2, 0, None)]
    assert not any(client.is_closed for client in clients)


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("between_ms", [1, 130, 999, 1_000, 1_001, 2_345])
def test_g1_no_session_expires_before_its_timeout_after_any_of_its_requests(role: str, between_ms: int) -> None:
    """Most of them touch it no more, since it is touched already."""
    for count in range(1, 12):
        ensemble = Ensemble(3)
        client = ensemble.session(getattr(ensemble, role), timeout_ms=4_000)
        for _ in range(count):
            ensemble.advance(between_ms)
            ensemble.do(client, client.get(b"/"))
        ensemble.advance(3_999)
        assert not client.is_closed
        ensemble.advance(3 * TICK_MS)
        assert client.is_closed


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_session_that_is_touched_is_not_touched_again_for_each_request(role: str) -> None:
    ensemble = Ensemble(3)
    server = getattr(ensemble, role)
    client = ensemble.session(server)
    sessions, touched = server.member.sessions, []
    touch = sessions.touches.touch
    sessions.touches.touch = lambda connection, now: (touched.append(now), touch(connection, now))
    for _ in range(50):
        ensemble.advance(100)
        ensemble.do(client, client.get(b"/"), client.get(b"/"))
    assert 5 <= len(touched) <= 11


def _said_of(ensemble: Ensemble, role: str, client: Client) -> None:
    """A report that was late: the client had a shorter timeout on the connection that it left."""
    member, row = getattr(ensemble, role).member, [client.connection.session, 4_000]
    if role == "leader":
        member.sessions.touches.learner_touched([row], ensemble.now)
    else:
        member.sessions.touches.touched_elsewhere([row])


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_g1_a_late_report_of_a_shorter_timeout_does_not_outlast_the_next_request(role: str) -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(getattr(ensemble, role), timeout_ms=20_000)
    ensemble.do(client, client.get(b"/"))
    _said_of(ensemble, role, client)
    ensemble.do(client, client.get(b"/"))
    ensemble.advance(19_999)
    assert not client.is_closed


def test_g1_pause_of_the_leader_expires_nobody() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session(timeout_ms=4_000)
    ensemble.now += 60_000
    ensemble.settle()
    assert len(ensemble.do(client, client.get(b"/"))) == 1
    ensemble.advance(3_000)
    assert not client.is_closed


def test_touch_that_came_in_time_is_counted_before_expiry_in_the_same_turn() -> None:
    ensemble = Ensemble(1)
    server = ensemble.servers[1]
    client = ensemble.session(timeout_ms=4_000)
    while True:
        due = server.member.next_deadline()
        ensemble.now = due
        client.say(client.request(OpCode.PING, b"", -2))
        ensemble.settle()
        if ensemble.now > 1_030_000:
            break
    assert not client.is_closed


def test_g1_touch_of_a_learner_that_is_dropped_in_the_same_turn_is_counted_before_expiry() -> None:
    """What it said waited on its link, in time, when the leader found that it has a newer link."""

    def last_turn(*, dropped: bool) -> bool:
        """Whether a session at a silent learner is alive after the turn in which it is due."""
        ensemble = Ensemble(3)
        leader, learner = ensemble.leader, ensemble.follower
        client = ensemble.session(learner, timeout_ms=4_000)
        assert client.response is not None
        session = client.response.session_id
        tracker = leader.member.sessions.tracker
        assert tracker is not None
        link = next(link for link, sid in leader.member.peer.learners.items() if sid == learner.sid)
        ensemble.cut |= {server.sid for server in ensemble.others(leader)}
        while dict(tracker.sets()).get(tracker.next_deadline) != [session]:
            ensemble.now = leader.member.next_deadline()
            ensemble.step(leader)
        ensemble.now = tracker.next_deadline
        if dropped:
            touched = msg.Ping(leader.member.applied, 0, 0, [[session, 4_000]], False)
            leader.answers += [ev.QuorumLinkUp(Link(77), learner.sid, True), ev.MessageReceived(link, touched)]
        ensemble.step(leader)
        assert (link in leader.member.peer.learners) is not dropped
        return tracker.is_alive(session)

    assert not last_turn(dropped=False)
    assert last_turn(dropped=True)


def test_all_sessions_are_touched_with_the_same_calls_however_many_there_are() -> None:
    """A learner that applies a long batch does so at each ping."""
    ensemble = Ensemble(3)
    member = ensemble.follower.member

    def calls() -> int:
        found: list[bool] = []
        gc.disable()  # What is collected may be of another test, and call its finalizers.
        sys.setprofile(lambda _frame, event, _arg: found.append(event == "call"))
        try:
            member.sessions.touches.touch_all(ensemble.now)
        finally:
            sys.setprofile(None)
            gc.enable()
        return sum(found)

    clients = [ensemble.session(ensemble.follower) for _ in range(2)]
    before = calls()
    clients += [ensemble.session(ensemble.follower) for _ in range(50)]
    assert calls() == before
    assert set(member.sessions.touches._table.drain(100)) == {client.connection.session for client in clients}


@pytest.mark.parametrize("more", [0, 1, 30_000])
def test_learner_tells_of_any_number_of_touched_sessions_over_as_many_turns(more: int) -> None:
    """At once: what waited for the next ping could come too late."""
    ensemble = Ensemble(3)
    leader, learner = ensemble.leader, ensemble.follower
    touches = learner.member.sessions.touches._table
    touches.drain(1)
    touched = {SessionId(number): 4_000 + number for number in range(TOUCHED_COUNT_MAX + more)}
    for session, timeout_ms in touched.items():
        touches.touch(session, timeout_ms)
    ensemble.sent.clear()
    heard: dict[int, int] = {}
    leader.member.sessions.touches.learner_touched = lambda rows, _now: heard.update(rows)  # type: ignore[method-assign]
    link = next(link for link, sid in leader.member.peer.learners.items() if sid == learner.sid)
    learner.answers.append(ev.MessageReceived(link, msg.Ping(0, 0, 0, [], False)))
    counts = [len(touches)]
    while counts[-1]:
        ensemble.step(learner)
        counts.append(len(touches))
        assert learner.member.has_more is bool(touches)
    assert max(before - after for before, after in pairwise(counts)) == TOUCHED_COUNT_MAX
    ensemble.settle()
    assert heard == touched
    told = [message for sid, message in ensemble.sent if sid == learner.sid and isinstance(message, msg.Ping)]
    assert len(told) == -(-len(touched) // TOUCHED_COUNT_MAX)
    assert all(msg.decode(msg.encode(message)) == message for message in told)


def test_new_leader_gives_every_session_its_full_timeout_and_keeps_ephemerals() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower, timeout_ms=4_000)
    ensemble.do(client, client.create(b"/e", b"", 1))
    ensemble.advance(3_000)
    old_leader = ensemble.leader
    for link in list(ensemble.links):
        ensemble.break_link(link)
    ensemble.settle()
    ensemble.start()
    assert client.is_closed
    back = ensemble.reattach(client, ensemble.others(old_leader)[0])
    ensemble.settle()
    assert response_timeout(back) == 4_000 or response_timeout(back) == 10_000
    assert ensemble.do(back, back.exists(b"/e"))[0][1] == 0


def test_g2_nothing_of_a_former_role_is_sent_to_the_next_leader() -> None:
    ensemble = Ensemble(3)
    follower = ensemble.follower
    client = ensemble.session(follower)
    ensemble.cut = {follower.sid}
    ensemble.do(client, client.create(b"/a"))
    for link in [link for link, ends in ensemble.links.items() if follower.sid in ends]:
        ensemble.break_link(link)
    ensemble.settle()
    assert client.is_closed
    ensemble.cut = set()
    ensemble.sent.clear()
    ensemble.start()
    assert not any(isinstance(message, mmsg.Request) for _, message in ensemble.sent)
    assert follower.member.processor.waiting.outstanding_count == 0
    assert follower.value(b"/a") is None


def test_g2_what_a_leader_could_not_propose_or_commit_is_gone_when_it_leads_again() -> None:
    ensemble = Ensemble(3, maxBatchesInFlight=1)
    leader = ensemble.leader
    client = ensemble.session(leader)
    ensemble.cut = {leader.sid}
    ensemble.do(client, client.create(b"/proposed"))
    ensemble.do(client, client.create(b"/waiting"))
    assert len(leader.member.processor.intake) == 1
    for link in list(ensemble.links):
        ensemble.break_link(link)
    ensemble.advance(3 * TICK_MS)
    assert client.is_closed
    ensemble.cut = set()
    for server in ensemble.others(leader):
        server.answers.append(ev.ElectionLinkUp(leader.sid, 1))
        leader.answers.append(ev.ElectionLinkUp(server.sid, 1))
    ensemble.start()
    again = ensemble.session(leader)
    assert ensemble.do(again, again.create(b"/after")) == [(1, 0, b"/after")]
    ensemble.advance(TICK_MS)
    assert [server.value(b"/waiting") for server in ensemble.servers.values()] == [None] * 3
    assert len({server.member.tree.digest for server in ensemble.servers.values()}) == 1


def test_forwarded_operation_that_no_learner_may_send_costs_it_its_link() -> None:
    ensemble = Ensemble(3)
    follower = ensemble.follower
    link = follower.member.peer.link_to_leader
    assert link is not None
    write = mmsg.WRITE_HEAD.pack(0, 0, int(OpCode.DELETE_CONTAINER)) + b"\x00\x00\x00\x02/a"
    ensemble.on_wire[link].append((follower.sid, mmsg.Request([[[], [write]]])))
    ensemble.settle()
    assert link not in ensemble.links


def test_connection_without_a_session_is_closed_after_a_while() -> None:
    ensemble = Ensemble(1, nio__sessionlessCnxnTimeout=3_000)
    client = ensemble.client()
    ensemble.settle()
    ensemble.advance(2_900)
    assert not client.is_closed
    ensemble.advance(3 * TICK_MS)
    assert client.is_closed


def test_silent_connection_of_a_follower_is_closed() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower, timeout_ms=4_000)
    ensemble.advance(8_000)
    assert client.is_closed


def test_silent_connection_is_closed_although_its_session_lives_on_elsewhere() -> None:
    ensemble = Ensemble(3)
    first, second = ensemble.others(ensemble.leader)
    left = ensemble.session(first, timeout_ms=4_000)
    back = ensemble.reattach(left, second, timeout_ms=4_000)
    ensemble.settle()
    for _ in range(8):
        ensemble.advance(1_000)
        ensemble.do(back, back.get(b"/"))
    assert left.is_closed
    assert not back.is_closed


@pytest.mark.parametrize(("key", "limit"), [("maxClientCnxns", 3), ("maxCnxns", 3)])
def test_connections_beyond_the_limit_are_closed_at_once(key: str, limit: int) -> None:
    ensemble = Ensemble(1, **{key: limit})
    clients = [ensemble.client() for _ in range(limit + 2)]
    ensemble.settle()
    assert [client.is_closed for client in clients] == [False] * limit + [True, True]
    clients[0].close()
    ensemble.settle()
    newcomer = ensemble.client()
    ensemble.settle()
    assert not newcomer.is_closed


def test_leader_that_takes_no_clients_refuses_them() -> None:
    ensemble = Ensemble(3, leaderServes="no")
    refused, served = ensemble.client(ensemble.leader), ensemble.session(ensemble.follower)
    refused.say(refused.connect_request())
    ensemble.settle()
    assert refused.is_closed
    assert ensemble.do(served, served.create(b"/a")) == [(1, 0, b"/a")]


@pytest.mark.parametrize("lines", [{}, {"localSessionsEnabled": "true"}])
def test_write_that_was_not_forwarded_yet_never_answers_the_new_connection(
    monkeypatch: pytest.MonkeyPatch, lines: dict[str, str]
) -> None:
    monkeypatch.setattr(forwarding, "FORWARDED_BYTES_MAX", 1)
    ensemble = Ensemble(3, **lines)
    server = ensemble.follower
    client = ensemble.session(server)
    ensemble.do(client, client.create(b"/a"))
    ensemble.late.add(ensemble.leader.sid)
    for xid in (4, 5):
        client.say(client.request(OpCode.SET_DATA, SetData(b"/a", b"old", -1).encode(), xid=xid))
    ensemble.settle()
    assert server.member.processor.intake
    back = ensemble.reattach(client, server)
    back.say(back.request(OpCode.SET_DATA, SetData(b"/missing", b"", -1).encode(), xid=5))
    ensemble.settle()
    ensemble.late.clear()
    ensemble.settle()
    assert [(xid, error) for xid, error, _ in back.replies()] == [(5, ErrorCode.NONODE)]


@pytest.mark.parametrize("size", [1, 3])
def test_leader_serves_says_nothing_to_who_has_no_leader_and_to_learners(size: int) -> None:
    ensemble = Ensemble(size, leaderServes="no")
    served = ensemble.session(ensemble.leader if size == 1 else ensemble.follower)
    assert ensemble.do(served, served.create(b"/a")) == [(1, 0, b"/a")]


def test_a_follower_that_comes_to_lead_ends_its_clients_and_takes_none() -> None:
    ensemble = Ensemble(3, leaderServes="no")
    before = ensemble.leader
    others = ensemble.others(before)
    clients = [ensemble.session(server, timeout_ms=20_000) for server in others]
    ensemble.cut.add(before.sid)
    ensemble.advance(12_000)
    [leader] = [server for server in others if server.member.peer.state == LEADING]
    [follower] = [server for server in others if server is not leader]
    assert leader.member.serving
    assert all(client.is_closed for client in clients)
    [back] = [client for client in clients if client.server is follower]
    refused, again = ensemble.reattach(back, leader), ensemble.reattach(back, follower)
    ensemble.settle()
    assert (refused.response, refused.is_closed) == (None, True)
    assert again.response is not None
    assert again.response.session_id == back.connection.session


def test_frame_longer_than_the_limit_ends_the_connection_behind_the_good_ones() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=1000, oversizeRequestBytes=0)
    client = ensemble.session()
    client.take_received()
    client.say(client.get(b"/") + client.create(b"/a", bytes(1000))[:12])
    ensemble.settle()
    assert [xid for xid, _, _ in client.replies()] == [1]
    assert client.is_closed


def test_identities_beyond_what_a_forwarded_write_may_carry_are_refused() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    for number in range(63):
        assert ensemble.do(client, client.request(OpCode.AUTH, auth(b"digest", b"u%d:p" % number), -4)) == [
            (-4, 0, None)
        ]
    assert [error for _, error, _ in ensemble.do(client, client.create(b"/a"))] == [0]
    refused = ensemble.do(client, client.request(OpCode.AUTH, auth(b"digest", b"one:more"), -4))
    assert refused == [(-4, ErrorCode.AUTHFAILED, None)]
    assert client.is_closed
    other = ensemble.session(ensemble.follower)
    refused = ensemble.do(other, other.request(OpCode.AUTH, auth(b"digest", b"u" * 5_000 + b":p"), -4))
    assert refused == [(-4, ErrorCode.AUTHFAILED, None)]


def auth(scheme: bytes, secret: bytes) -> bytes:
    return b"".join((bytes(4), len(scheme).to_bytes(4, "big"), scheme, len(secret).to_bytes(4, "big"), secret))
