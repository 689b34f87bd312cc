"""Read-only mode: a member without a quorum serves who asks for no more than reads
(`zab.member.requests.read_only`)."""

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import WRITES, OpCode
from datatree.requests import Multi, NoBody, PathWatch, SetWatches
from session.identity import SessionId, local_key, password
from tests.member.requests.asking_read_only import LINES, asking, ensemble
from tests.rigs.direct.members import Ensemble, Server
from zab.member.state.waiting import WAITING_MS_MAX
from zab.protocol import events as ev
from zab.protocol.session_keys import keys_of
from zab.protocol.states import LOOKING

__all__ = ["ensemble"]


def said(ensemble: Ensemble, server: Server, word: bytes) -> str:
    client = ensemble.client(server)
    client.take = lambda output: setattr(client, "raw", client.raw + output)  # type: ignore[method-assign]
    client.say(word)
    ensemble.settle()
    return client.raw.decode()


def alone(ensemble: Ensemble, server: Server) -> None:
    """No other member is heard, for long enough."""
    ensemble.cut.update(other.sid for other in ensemble.others(server))
    ensemble.cut.add(server.sid)
    for _ in range(40):
        ensemble.advance(500)
        if server.member.read_only.is_on:
            return
    raise AssertionError(server.traces)


def together(ensemble: Ensemble) -> None:
    """All are heard again, and have a quorum."""
    ensemble.cut.clear()
    for _ in range(40):
        ensemble.advance(500)
        if all(server.member.serving for server in ensemble.servers.values()):
            return
    raise AssertionError


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_it_begins_when_a_member_has_looked_for_two_seconds_and_ends_with_the_election(
    ensemble: Ensemble, role: str
) -> None:
    server: Server = getattr(ensemble, role)
    ensemble.cut.update(ensemble.servers)
    while server.member.peer.state != LOOKING:
        ensemble.advance(100)
    began = ensemble.now
    early = asking(ensemble, server)
    assert early.is_closed
    assert early.response is None
    while not server.member.read_only.is_on:
        ensemble.advance(50)
        assert ensemble.now - began < 2_200
    assert ensemble.now - began >= 1_900
    client = asking(ensemble, server)
    assert client.response is not None
    assert client.response.read_only
    assert [error for _, error, _ in ensemble.do(client, client.get(b"/a"))] == [0]
    together(ensemble)
    assert client.is_closed
    assert not server.member.read_only.is_on
    assert server.member.sessions.local.timeouts == {}
    # Its session existed only at that time.
    again = ensemble.reattach(client, server)
    ensemble.settle()
    assert again.response is not None
    assert (again.response.session_id, again.response.timeout_ms) == (0, 0)


def test_a_tick_that_is_longer_than_two_seconds_is_waited_for() -> None:
    ensemble = Ensemble(3, **LINES, tickTime=5_000)
    ensemble.cut.update(ensemble.servers)
    server = ensemble.servers[1]
    while server.member.peer.state != LOOKING:
        ensemble.advance(100)
    ensemble.advance(4_800)
    assert not server.member.read_only.is_on
    ensemble.advance(300)
    assert server.member.read_only.is_on


def test_who_did_not_ask_for_it_and_who_has_seen_more_is_closed_without_an_answer(ensemble: Ensemble) -> None:
    server = ensemble.follower
    alone(ensemble, server)
    for client in (
        asking(ensemble, server, read_only=False),
        asking(ensemble, server, last_zxid=server.member.applied + 1),
    ):
        assert client.is_closed
        assert client.response is None
    assert not asking(ensemble, server, last_zxid=server.member.applied).is_closed


def test_reads_are_of_what_was_applied_and_all_that_is_none_is_refused_in_its_place(ensemble: Ensemble) -> None:
    server = ensemble.follower
    alone(ensemble, server)
    client = asking(ensemble, server)
    refused = [
        client.set(b"/a", b"new"),
        client.create(b"/b"),
        client.delete(b"/a"),
        client.sync(),
        client.request(OpCode.MULTI, Multi(()).encode()),
        client.request(OpCode.CHECK, b""),
        client.request(OpCode.RECONFIG, b""),
        client.request(OpCode.GET_CHANGES, b""),
    ]
    replies = ensemble.do(client, client.get(b"/a"), *refused, client.get(b"/a"))
    assert [xid for xid, _, _ in replies] == [9, *range(1, 9), 10]
    assert [error for _, error, _ in replies] == [0, *[ErrorCode.NOTREADONLY] * 8, 0]
    assert replies[0][2][0] == replies[-1][2][0] == b"kept"
    assert not client.is_closed


@pytest.mark.parametrize("opcode", sorted(WRITES))
def test_no_write_reaches_a_log(ensemble: Ensemble, opcode: OpCode) -> None:
    server = ensemble.follower
    alone(ensemble, server)
    end = server.storage.log.last
    client = asking(ensemble, server)
    replies = ensemble.do(client, client.request(opcode, b""))
    if opcode is OpCode.CLOSE_SESSION:
        assert (replies, client.is_closed) == ([(1, 0, None)], True)
        assert server.member.sessions.local.timeouts == {}
    else:
        assert replies == [(1, ErrorCode.NOTREADONLY, None)]
    assert server.storage.log.last == end
    assert not server.member.processor.intake


def test_watches_and_pings_are_served(ensemble: Ensemble) -> None:
    server = ensemble.follower
    alone(ensemble, server)
    client = asking(ensemble, server)
    assert [error for _, error, _ in ensemble.do(client, client.get(b"/a", watch=True), client.add_watch(b"/", 1))] == [
        0,
        0,
    ]
    assert server.member.state.watches.total_count == 2
    assert [xid for xid, _, _ in ensemble.do(client, client.request(OpCode.PING, NoBody().encode(), -2))] == [-2]
    together(ensemble)
    assert server.member.state.watches.total_count == 0


def test_its_sessions_end_by_silence_and_are_taken_up_again_with_the_password_alone(ensemble: Ensemble) -> None:
    server = ensemble.follower
    alone(ensemble, server)
    client = asking(ensemble, server, timeout_ms=4_000)
    assert client.response is not None
    session, right = client.response.session_id, client.response.password
    for _ in range(10):
        ensemble.advance(1_000)
        ensemble.do(client, client.request(OpCode.PING, NoBody().encode(), -2))
    assert not client.is_closed
    wrong = asking(ensemble, server, session_id=session, password=bytes(16))
    assert wrong.is_closed
    assert wrong.response is None
    assert not client.is_closed
    back = asking(ensemble, server, session_id=session, password=right, timeout_ms=4_000)
    assert client.is_closed
    assert back.response is not None
    assert (back.response.session_id, back.response.read_only) == (session, True)
    ensemble.advance(7_000)
    assert back.is_closed
    late = asking(ensemble, server, session_id=session, password=right)
    assert late.response is not None
    assert (late.response.session_id, late.response.timeout_ms, late.response.read_only) == (0, 0, True)


def test_a_session_of_the_ensemble_is_never_said_to_be_over_and_lives_on_under_the_next_leader(
    ensemble: Ensemble,
) -> None:
    server = ensemble.follower
    owner = ensemble.session(server, timeout_ms=20_000)
    ensemble.do(owner, owner.create(b"/e", flags=1))
    alone(ensemble, server)
    assert owner.response is not None
    session, right = owner.response.session_id, owner.response.password
    refused = asking(ensemble, server, session_id=session, password=right)
    # One that this member does not know of may live all the same: its tree may lag.
    key = keys_of(server.member.peer)[0]
    unknown = asking(ensemble, server, session_id=session + 7, password=password(key, SessionId(session + 7)))
    pretended = asking(ensemble, server, session_id=session, password=password(local_key(key), SessionId(session)))
    for client in (refused, unknown, pretended):
        assert client.is_closed
        assert client.response is None
    together(ensemble)
    back = ensemble.reattach(owner, server)
    ensemble.settle()
    assert back.response is not None
    assert (back.response.session_id, back.response.read_only) == (session, False)
    assert [error for _, error, _ in ensemble.do(back, back.get(b"/e"))] == [0]


def test_members_that_may_not_show_their_tree_serve_nobody(ensemble: Ensemble) -> None:
    server = ensemble.follower
    empty = Ensemble(3, start=False, **LINES)
    empty.cut.update(empty.servers)
    empty.advance(10_000)
    assert not any(each.member.read_only.is_on for each in empty.servers.values())
    server.member.peer.doubted = True
    ensemble.cut.update(ensemble.servers)
    ensemble.advance(20_000)
    assert server.member.peer.state == LOOKING
    assert not server.member.read_only.is_on


@pytest.mark.parametrize("lines", [{}, {"readonlymode__enabled": "false"}])
def test_it_is_off_unless_it_is_asked_for(lines: dict[str, str]) -> None:
    ensemble = Ensemble(3, **lines)
    ensemble.cut.update(ensemble.servers)
    ensemble.advance(20_000)
    server = ensemble.servers[1]
    assert server.member.peer.state == LOOKING
    assert asking(ensemble, server).is_closed


def test_words_say_so() -> None:
    ensemble = Ensemble(3, readonlymode__enabled="true", **{"4lw__commands__whitelist": "srvr,stat,mntr"})
    server = ensemble.follower
    assert said(ensemble, server, b"isro") == "rw"
    alone(ensemble, server)
    assert said(ensemble, server, b"isro") == "ro"
    version, mode, rest = said(ensemble, server, b"srvr").split("\n", 2)
    assert version.startswith("Zookeeper version: ")
    assert mode == "READ-ONLY mode; serving only read-only clients"
    assert "\nMode: read-only\n" in rest
    assert said(ensemble, server, b"stat").split("\n")[1:3] == [mode, "Clients:"]
    others = [each.sid for each in ensemble.others(server)]
    reason = f"there is no quorum; servers {', '.join(map(str, others))} were not heard"
    server.answers += [ev.ElectionLinkDown(sid) for sid in others]
    ensemble.settle()
    rest = said(ensemble, server, b"srvr")
    assert rest.endswith(f"\nno service but to readers: {reason}\n")
    assert (
        f"zk_server_state\tread-only\nzk_peer_state\tlooking\nzk_server_id\t{server.sid}\nzk_waits_for\t{reason}\n"
        in said(ensemble, server, b"mntr")
    )


def test_the_journal_says_that_readers_are_served() -> None:
    ensemble = Ensemble(3, readonlymode__enabled="true")
    server = ensemble.follower
    alone(ensemble, server)
    ensemble.advance(2 * WAITING_MS_MAX)
    last = [text for text in server.traces if text.startswith("no service")][-1]
    assert last.startswith("no service but to readers: there is no quorum; ")


def test_watches_of_an_earlier_connection_are_set_again(ensemble: Ensemble) -> None:
    server = ensemble.follower
    alone(ensemble, server)
    client = asking(ensemble, server)
    body = SetWatches(server.member.applied, (b"/a",), (), ()).encode()
    assert ensemble.do(client, client.request(OpCode.SET_WATCHES, body, -8)) == [(-8, 0, None)]
    assert ensemble.do(client, client.request(OpCode.EXISTS, PathWatch(b"/a", False).encode()))[0][1] == 0
