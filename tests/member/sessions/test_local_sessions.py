"""Sessions that their server alone knows (`zab.member.sessions.local_sessions`,
`zab.member.requests.local_session_requests`)."""

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.record import Txn
from datatree.requests import OPEN_ACL, Create, Multi, NoBody, PathVersion, SetData
from session.identity import SessionId, local_key, password
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.member.clients.connection import Stage
from zab.member.requests.forwarding import writes_of
from zab.member.sessions.local_sessions import LocalSessions
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.features import ALL, LOCAL_SESSIONS
from zab.protocol.member_message import WRITE_HEAD
from zab.protocol.session_keys import keys_of

LOCAL = {"localSessionsEnabled": "true"}
UPGRADING = {**LOCAL, "localSessionsUpgradingEnabled": "true"}
MARK = 1 << 30


def ensemble_of(**lines: str) -> Ensemble:
    return Ensemble(3, **LOCAL, **lines)


def session_of(client: Client) -> int:
    assert client.response is not None
    return client.response.session_id


def known(ensemble: Ensemble) -> list[bool]:
    """For each member, whether its tree has any session."""
    return [bool(server.member.tree.sessions) for server in ensemble.servers.values()]


@pytest.fixture(params=["leader", "follower"])
def where(request: pytest.FixtureRequest) -> str:
    role: str = request.param
    return role


def test_a_session_begins_without_a_transaction_and_ends_without_one(where: str) -> None:
    ensemble = ensemble_of()
    server: Server = getattr(ensemble, where)
    before = server.member.applied
    client = ensemble.session(server)
    assert session_of(client) >> 56 == server.sid
    assert list(server.member.sessions.local.timeouts.items()) == [(session_of(client), 10_000)]
    assert ensemble.do(client, client.request(OpCode.CLOSE_SESSION, NoBody().encode())) == [(1, 0, None)]
    assert client.is_closed
    assert server.member.sessions.local.timeouts == {}
    assert server.member.applied == before
    assert known(ensemble) == [False] * 3


def test_it_writes_as_every_session_does_and_closes_behind_its_writes(where: str) -> None:
    ensemble = ensemble_of()
    client = ensemble.session(getattr(ensemble, where))
    multi = Multi(((OpCode.CHECK, PathVersion(b"/a", 1)), (OpCode.SET_DATA, SetData(b"/a", b"2", 1)))).encode()
    replies = ensemble.do(
        client,
        client.create(b"/a"),
        client.set(b"/a", b"1"),
        client.get(b"/a"),
        client.request(OpCode.MULTI, multi),
        client.get(b"/a"),
        client.sync(),
        client.request(OpCode.CLOSE_SESSION, NoBody().encode()),
    )
    assert [(xid, error) for xid, error, _ in replies] == [(xid, 0) for xid in range(1, 8)]
    assert (replies[2][2][0], replies[4][2][0]) == (b"1", b"2")
    assert client.is_closed
    assert known(ensemble) == [False] * 3


@pytest.mark.parametrize("flags", [1, 3])
@pytest.mark.parametrize("in_multi", [False, True])
def test_an_ephemeral_is_refused_and_the_session_goes_on(where: str, flags: int, in_multi: bool) -> None:
    ensemble = ensemble_of()
    client = ensemble.session(getattr(ensemble, where))
    asked = client.create(b"/e", flags=flags)
    if in_multi:
        parts = ((OpCode.CREATE, Create(b"/p", b"", OPEN_ACL, 0)), (OpCode.CREATE, Create(b"/e", b"", OPEN_ACL, flags)))
        asked = client.request(OpCode.MULTI, Multi(parts).encode())
    refused = client.last_xid
    replies = ensemble.do(client, client.create(b"/before"), asked, client.create(b"/after"))
    said = {xid: error if xid != refused or not in_multi else body[1].error for xid, error, body in replies}
    assert said == {refused: ErrorCode.EPHEMERALONLOCALSESSION, client.last_xid - 1: 0, client.last_xid: 0}
    assert client.server.value(b"/p") is None
    assert not client.is_closed


@pytest.mark.parametrize("part", [None, OpCode.CREATE, OpCode.CREATE_TTL])
def test_an_ephemeral_makes_it_one_of_the_ensemble_first(where: str, part: OpCode | None) -> None:
    ensemble = Ensemble(3, **UPGRADING)
    server: Server = getattr(ensemble, where)
    client = ensemble.session(server)
    session = session_of(client)
    asked = [client.create(b"/a"), client.get(b"/a")]
    if part is not None:
        parts = ((part, Create(b"/e", b"", OPEN_ACL, 1, 5000 if part is OpCode.CREATE_TTL else None)),)
        asked.append(client.request(OpCode.MULTI, Multi(parts).encode()))
    else:
        asked.append(client.create(b"/e", flags=1))
    asked += [client.exists(b"/e"), client.set(b"/a", b"1"), client.create(b"/e/no")]
    replies = ensemble.do(client, *asked)
    assert [(xid, error) for xid, error, _ in replies] == [
        *((xid, 0) for xid in range(1, 6)),
        (6, ErrorCode.NOCHILDRENFOREPHEMERALS),
    ]
    assert [list(each.member.tree.sessions.items()) for each in ensemble.servers.values()] == [[(session, 10_000)]] * 3
    assert [each.member.sessions.local.timeouts for each in ensemble.servers.values()] == [{}] * 3
    assert set(server.member.tree.ephemerals) == {session}
    # It moves now, with the password that it has, and it ends as every session of the ensemble.
    other = next(each for each in ensemble.servers.values() if each is not server)
    moved = ensemble.reattach(client, other)
    ensemble.settle()
    assert session_of(moved) == session
    moved.close()
    ensemble.advance(12_000)
    assert known(ensemble) == [False] * 3
    assert other.value(b"/e") is None


def test_who_comes_back_during_its_upgrade_has_it_when_the_leader_says_where_it_stands() -> None:
    ensemble = Ensemble(3, **UPGRADING)
    server = ensemble.follower
    client = ensemble.session(server)
    ensemble.late.add(server.sid)
    client.say(client.create(b"/e", flags=1))
    ensemble.settle()
    back = ensemble.reattach(client, server)
    ensemble.settle()
    ensemble.deliver_until(server, msg.Commit)
    ensemble.settle()
    assert session_of(client) in server.member.tree.sessions
    assert back.response is None
    ensemble.late.clear()
    ensemble.settle()
    assert session_of(back) == session_of(client)
    assert not back.connection.is_local
    assert [error for _, error, _ in ensemble.do(back, back.create(b"/e", flags=1))] == [0]
    assert server.member.sessions.local.timeouts == {}


def test_an_upgrade_that_is_refused_ends_the_connection_alone() -> None:
    ensemble = Ensemble(3, **UPGRADING)
    server = ensemble.follower
    client = ensemble.session(server)
    session = SessionId(session_of(client))
    leader = ensemble.leader.member
    assert leader.sessions.tracker is not None
    # As if the ensemble had begun another session with that id.
    leader.tree.sessions[session] = 10_000
    ensemble.do(client, client.create(b"/e", flags=1))
    assert client.is_closed
    del leader.tree.sessions[session]
    back = ensemble.reattach(client, server)
    ensemble.settle()
    assert session_of(back) == session
    assert [error for _, error, _ in ensemble.do(back, back.create(b"/e", flags=1))] == [0]


def test_its_own_server_ends_it_when_it_was_silent(where: str) -> None:
    ensemble = ensemble_of()
    server: Server = getattr(ensemble, where)
    silent, alive = ensemble.session(server, timeout_ms=4_000), ensemble.session(server, timeout_ms=4_000)
    for _ in range(8):
        ensemble.advance(1_000)
        ensemble.do(alive, alive.request(OpCode.PING, NoBody().encode(), -2))
    assert (silent.is_closed, alive.is_closed) == (True, False)
    assert list(server.member.sessions.local.timeouts) == [session_of(alive)]
    late = ensemble.reattach(silent, server)
    ensemble.settle()
    assert (session_of(late), late.is_closed) == (0, True)


def test_it_comes_back_to_its_own_server_and_to_no_other(where: str) -> None:
    ensemble = ensemble_of()
    server: Server = getattr(ensemble, where)
    client = ensemble.session(server)
    back = ensemble.reattach(client, server)
    ensemble.settle()
    assert client.is_closed
    assert session_of(back) == session_of(client)
    assert [error for _, error, _ in ensemble.do(back, back.create(b"/a"))] == [0]
    for other in ensemble.others(server):
        moved = ensemble.reattach(client, other)
        ensemble.settle()
        assert (session_of(moved), moved.is_closed) == (0, True)


@pytest.mark.parametrize("flags", [0, 1])
def test_nothing_is_done_for_one_whose_client_was_told_elsewhere_that_it_is_over(where: str, flags: int) -> None:
    ensemble = Ensemble(3, **UPGRADING)
    server: Server = getattr(ensemble, where)
    other = next(each for each in ensemble.servers.values() if each is not server)
    client = ensemble.session(server)
    told = ensemble.reattach(client, other)
    ensemble.settle()
    assert session_of(told) == 0
    assert not client.is_closed, "what it asked for may still be on its way"
    assert ensemble.do(client, client.create(b"/a", flags=flags)) == []
    assert client.is_closed
    assert [server.value(b"/a") for server in ensemble.servers.values()] == [None] * 3
    assert known(ensemble) == [False] * 3
    back = ensemble.reattach(client, server)
    ensemble.settle()
    assert session_of(back) == 0


def test_an_end_that_is_under_way_is_done_whoever_asks_meanwhile() -> None:
    ensemble = Ensemble(3, **UPGRADING)
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/e", flags=1))
    leader = ensemble.leader.member
    assert leader.sessions.tracker is not None
    session = SessionId(session_of(client))
    leader.sessions.tracker.close(session)
    told = ensemble.reattach(client, ensemble.leader)
    ensemble.settle()
    assert session_of(told) == 0
    leader.processor.submit(session, 0, int(OpCode.CLOSE_SESSION), b"", None)
    ensemble.step(ensemble.leader)
    ensemble.settle()
    assert known(ensemble) == [False] * 3


def test_the_leader_remembers_so_many_that_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.sessions.sessions.SAID_OVER_COUNT_MAX", 2)
    ensemble = Ensemble(3, **UPGRADING)
    clients = [ensemble.session(ensemble.follower) for _ in range(3)]
    for client in clients:
        ensemble.reattach(client, ensemble.leader)
        ensemble.settle()
    assert list(ensemble.leader.member.sessions.said_over) == [session_of(client) for client in clients[1:]]


def test_who_is_silent_while_its_session_becomes_one_of_the_ensemble_keeps_it() -> None:
    ensemble = Ensemble(3, **UPGRADING)
    server = ensemble.follower
    client = ensemble.session(server, timeout_ms=4_000)
    other = ensemble.session(server, timeout_ms=4_000)
    client.say(client.create(b"/e", flags=1))
    ensemble.late.add(ensemble.leader.sid)
    ensemble.settle()
    sessions, now = server.member.sessions, server.member.now
    over = [session for later in range(0, 10_000, 500) for session in sessions.expire_local(now + later)]
    assert over == [session_of(other)]
    ensemble.late.clear()
    ensemble.settle()
    assert session_of(client) in server.member.tree.sessions
    assert not client.is_closed


def test_nobody_takes_it_over_without_its_password(where: str) -> None:
    ensemble = ensemble_of()
    server: Server = getattr(ensemble, where)
    client = ensemble.session(server)
    stranger = ensemble.session(server)
    assert stranger.response is not None
    for wrong in (bytes(16), stranger.response.password):
        refused = ensemble.reattach(client, server, password=wrong)
        ensemble.settle()
        assert (session_of(refused), refused.is_closed) == (0, True)
    assert not client.is_closed
    key = keys_of(server.member.peer)[0]
    assert client.response is not None
    assert client.response.password == password(local_key(key), SessionId(session_of(client)))
    assert client.response.password != password(key, SessionId(session_of(client)))


def test_a_write_of_an_earlier_connection_answers_no_later_one() -> None:
    ensemble = ensemble_of()
    server = ensemble.follower
    client = ensemble.session(server)
    ensemble.do(client, client.create(b"/a"))
    ensemble.late.add(ensemble.leader.sid)
    client.say(client.request(OpCode.SET_DATA, SetData(b"/a", b"old", -1).encode(), xid=5))
    ensemble.settle()
    back = ensemble.reattach(client, server)
    ensemble.settle()
    assert back.response is None
    ensemble.late.clear()
    ensemble.settle()
    assert session_of(back) == session_of(client)
    replies = ensemble.do(
        back,
        back.request(OpCode.SET_DATA, SetData(b"/missing", b"", -1).encode(), xid=5),
        back.request(OpCode.SET_DATA, SetData(b"/a", b"new", -1).encode(), xid=6),
    )
    assert [(xid, error) for xid, error, _ in replies] == [(5, ErrorCode.NONODE), (6, 0)]


def test_it_outlives_an_election_and_has_its_whole_timeout_then() -> None:
    ensemble = ensemble_of()
    server = ensemble.follower
    client = ensemble.session(server, timeout_ms=4_000)
    ensemble.cut.update(ensemble.servers)
    ensemble.advance(12_000)
    assert client.is_closed
    ensemble.cut.clear()
    while not server.member.serving:
        ensemble.advance(50)
    ensemble.advance(3_500)
    back = ensemble.reattach(client, server)
    ensemble.settle()
    assert session_of(back) == session_of(client)
    ensemble.restart(server.sid)
    ensemble.start()
    gone = ensemble.reattach(client, ensemble.servers[server.sid])
    ensemble.settle()
    assert session_of(gone) == 0


@pytest.mark.parametrize("size", [1, 3])
def test_without_the_key_and_without_an_ensemble_every_session_is_one_of_all(size: int) -> None:
    ensemble = Ensemble(size, **(LOCAL if size == 1 else {}))
    client = ensemble.session()
    assert list(ensemble.servers[1].member.tree.sessions) == [session_of(client)]
    assert [error for _, error, _ in ensemble.do(client, client.create(b"/e", flags=1))] == [0]


@pytest.mark.parametrize("lines", [LOCAL, UPGRADING])
def test_a_leader_that_knows_no_local_sessions_gets_none(lines: dict[str, str]) -> None:
    ensemble = Ensemble(3, **lines)
    server = ensemble.follower
    client = ensemble.session(server)
    server.member.processor.forwards_to(ALL & ~LOCAL_SESSIONS)
    assert [error for _, error, _ in ensemble.do(client, client.get(b"/"))] == [0]
    assert known(ensemble) == [False] * 3
    replies = ensemble.do(client, client.create(b"/a"), client.get(b"/a"))
    assert [error for _, error, _ in replies] == [0, 0]
    assert list(ensemble.leader.member.tree.sessions) == [session_of(client)]
    later = ensemble.session(server)
    assert set(ensemble.leader.member.tree.sessions) == {session_of(client), session_of(later)}


def test_g3_session_that_another_server_begins_lets_nobody_in_here() -> None:
    """Its client left the server that had it, which makes it one of the ensemble at this moment."""
    ensemble = Ensemble(3, **UPGRADING)
    session = session_of(client := ensemble.session(ensemble.follower))
    sessions = ensemble.leader.member.sessions
    moved = ensemble.reattach(client, ensemble.leader)
    ensemble.step(ensemble.leader)
    assert (moved.response, moved.connection.stage) == (None, Stage.CONNECTING)
    sessions.created(Txn(9, 0, session, 0, OpCode.CREATE_SESSION, 10_000, b"", None, ()), False, {})
    assert moved.connection.stage is Stage.CONNECTING


class TestWhatTheLeaderTakes:
    """Writes that a learner forwards for sessions that the leader does not know."""

    @pytest.fixture
    def ensemble(self) -> Ensemble:
        return ensemble_of()

    def refused(self, ensemble: Ensemble, session: int, opcode: int, owner: Server) -> int | None:
        request = mmsg.Request([[[], [WRITE_HEAD.pack(session, 1, opcode)]]])
        writes = writes_of(request, owner.sid, ensemble.leader.member.sessions.refusal)
        return None if writes is None else writes[0][3]

    def test_local_ones_of_the_server_that_gives_out_such_ids(self, ensemble: Ensemble) -> None:
        first, second = ensemble.others(ensemble.leader)
        session = (first.sid << 56) | 99
        set_data = int(OpCode.SET_DATA)
        assert self.refused(ensemble, session, MARK + set_data, first) == 0
        assert self.refused(ensemble, session, MARK + set_data, second) == ErrorCode.SESSIONEXPIRED
        assert self.refused(ensemble, session, set_data, first) == ErrorCode.SESSIONEXPIRED

    def test_none_of_a_session_that_the_ensemble_has_or_is_about_to_end(self) -> None:
        ensemble = Ensemble(3, **UPGRADING)
        first, second = ensemble.others(ensemble.leader)
        client = ensemble.session(first)
        ensemble.do(client, client.create(b"/e", flags=1))
        session, set_data = SessionId(session_of(client)), int(OpCode.SET_DATA)
        assert self.refused(ensemble, session, MARK + set_data, second) == ErrorCode.SESSIONMOVED
        tracker = ensemble.leader.member.sessions.tracker
        assert tracker is not None
        tracker.close(session)
        assert self.refused(ensemble, session, MARK + set_data, first) == ErrorCode.SESSIONEXPIRED

    def test_none_where_there_are_no_local_sessions(self) -> None:
        ensemble = Ensemble(3)
        [first, _] = ensemble.others(ensemble.leader)
        session = (first.sid << 56) | 99
        assert self.refused(ensemble, session, MARK + int(OpCode.SET_DATA), first) == ErrorCode.SESSIONEXPIRED

    @pytest.mark.parametrize("opcode", [MARK + 101, MARK * 2 - 1, MARK])
    def test_no_operation_that_may_not_be_forwarded(self, ensemble: Ensemble, opcode: int) -> None:
        assert self.refused(ensemble, 99, opcode, ensemble.follower) is None


class TestLocalSessions:
    def test_each_has_its_own_timeout_and_a_new_one_when_clients_are_served_again(self) -> None:
        local = LocalSessions(1_000)
        local.begin(SessionId(1), 2_000, 0)
        local.begin(SessionId(2), 6_000, 0)
        ended = {session: now for now in range(0, 5_000, 500) for session in local.expired(now)}
        assert ended.keys() == {1}
        assert 2_000 < ended[1] <= 3_000
        local.resume(100_000)
        ended = {session: now for now in range(100_000, 110_000, 500) for session in local.expired(now)}
        assert ended.keys() == {2}
        assert 106_000 < ended[2] <= 107_000
        assert not local.touch(SessionId(2), 6_000, 110_000)

    def test_what_has_ended_is_touched_by_nobody(self) -> None:
        local = LocalSessions(1_000)
        local.begin(SessionId(1), 2_000, 0)
        local.end(SessionId(1))
        local.end(SessionId(1))
        assert not local.touch(SessionId(1), 2_000, 0)
        assert local.timeouts == {}


@pytest.mark.parametrize("started_ms", range(1_000, 2_000, 100))
def test_g1_a_session_that_became_global_is_touched_by_its_next_request(where: str, started_ms: int) -> None:
    """That it was touched as a local one, a moment ago, keeps no global session alive."""
    ensemble = ensemble_of(localSessionsUpgradingEnabled="true")
    ensemble.advance(started_ms)
    client = ensemble.session(getattr(ensemble, where), timeout_ms=4_000)
    ensemble.advance(1)
    ensemble.do(client, client.create(b"/e", b"", 1))
    assert known(ensemble) == [True] * 3
    ensemble.advance(900)
    ensemble.do(client, client.get(b"/"))
    ensemble.advance(3_999)
    assert not client.is_closed
