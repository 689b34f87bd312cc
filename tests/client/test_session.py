"""The session without sockets: what survives a connection, and what each ending means."""

from collections.abc import Iterable
from typing import Any

import pytest

from datatree.opcodes import OpCode
from datatree.request_decoding import decode
from datatree.requests import AddAuth, PathWatch, SetWatches
from tests.client.connection_frames import PASSWORD, STAT, frames, get, welcome
from zab.client.core.exceptions import (
    AuthFailedError,
    ConnectionLossError,
    LongReplyError,
    NoNodeError,
    PeerProtocolError,
    ReplyTooLongError,
)
from zab.client.core.records import EventType, State, WatchEvent
from zab.client.core.requests import Became, ClientRequest, Done, Effect, Registration, Tell
from zab.client.core.session import Session, auth_request
from zab.client.core.watches import Table
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.jute.replies import data_reply, notification, reply
from zab.wire.frames import frame


def session(**options: Any) -> Session:
    return Session(session_timeout_ms=9000, **options)


def dial(client: Session) -> ConnectRequest:
    """A server accepts; what the client greets it with."""
    connection = client.connect(now=0, answer_ms=1000, frame_bytes_max=100_000)
    return ConnectRequest.decode(connection.take(0)[4:])


def connected(client: Session, answer: bytes | None = None) -> list[Effect]:
    dial(client)
    return list(client.receive(answer or welcome(), 0))


def feed(client: Session, data: bytes) -> list[Effect]:
    return list(client.receive(data, 0))


def sent(client: Session) -> list[tuple[int, int, bytes]]:
    assert client.connection is not None
    return frames(client.connection.take(0))


def states(effects: Iterable[Effect]) -> list[State]:
    return [effect.state for effect in effects if isinstance(effect, Became)]


def watched_get(watcher: str, path: bytes = b"/a", missing: Table | None = None) -> ClientRequest[Any]:
    request = get(path)
    request.registration = Registration(path, watcher, Table.DATA, missing)
    return request


def test_a_new_client_asks_for_a_new_session() -> None:
    hello = dial(session())
    assert (hello.session_id, hello.password, hello.last_zxid, hello.timeout_ms) == (0, bytes(16), 0, 9000)


def test_the_server_decides_id_password_and_timeout() -> None:
    client = session()
    effects = connected(client, frame(ConnectResponse(4000, 0x99, PASSWORD).encode()))
    assert states(effects) == [State.CONNECTED]
    assert (client.session_id, client.password, client.session_timeout_ms) == (0x99, PASSWORD, 4000)


def test_a_reconnect_offers_the_session_and_what_was_seen() -> None:
    client = session()
    connected(client)
    client.submit(get())
    feed(client, data_reply(1, 42, b"", STAT))
    assert states(client.lost()) == [State.CONNECTING]
    hello = dial(client)
    assert (hello.session_id, hello.password, hello.last_zxid) == (0x77, PASSWORD, 42)
    # What was wanted, not what one server granted.
    assert hello.timeout_ms == 9000


def test_the_last_zxid_seen_never_falls() -> None:
    client = session()
    connected(client)
    for _ in range(4):
        client.submit(get())
    feed(client, reply(1, 10, -101) + reply(2, -1, -6) + reply(3, 0, -102) + reply(4, 7, -101))
    assert client.last_zxid == 10


def test_a_session_can_be_taken_over_from_another_client() -> None:
    hello = dial(session(resume=(0x55, b"q" * 16)))
    assert (hello.session_id, hello.password) == (0x55, b"q" * 16)


def test_the_session_of_a_read_only_server_is_not_offered_to_another() -> None:
    client = session(read_only=True)
    answer = frame(ConnectResponse(9000, 0x99, PASSWORD, read_only=True).encode())
    assert states(connected(client, answer)) == [State.CONNECTED_READ_ONLY]
    list(client.lost())
    hello = dial(client)
    assert (hello.session_id, hello.read_only) == (0, True)


def test_an_unknown_session_is_expired_and_its_watchers_hear_of_it() -> None:
    client = session()
    connected(client)
    client.submit(watched_get("w"))
    feed(client, data_reply(1, 5, b"", STAT))
    list(client.lost())
    effects = connected(client, frame(ConnectResponse.invalid().encode()))
    assert states(effects) == [State.EXPIRED]
    assert Tell("w", WatchEvent(EventType.SESSION, "", State.EXPIRED)) in effects
    assert len(client.watches) == 0


def test_requests_without_an_answer_fail_with_connection_loss_and_its_cause() -> None:
    client = session()
    connected(client)
    requests = [get(), get()]
    for request in requests:
        request.path = "/a"
        client.submit(request)
    cause = PeerProtocolError("nonsense")
    failed = [effect for effect in client.lost(cause) if isinstance(effect, Done)]
    assert [effect.request for effect in failed] == requests
    for effect in failed:
        assert isinstance(effect.error, ConnectionLossError)
        assert (effect.error.path, effect.error.definite, effect.error.__cause__) == ("/a", False, cause)


def test_of_requests_without_an_answer_the_one_whose_answer_was_too_long_is_told_so() -> None:
    client = session()
    connected(client)
    requests = [get(), get()]
    for request in requests:
        client.submit(request)
    failed = [effect.error for effect in client.lost(LongReplyError("so long")) if isinstance(effect, Done)]
    assert [type(error) for error in failed] == [ReplyTooLongError, ConnectionLossError]
    assert str(failed[0]).endswith(": so long")


def test_an_error_code_becomes_its_exception() -> None:
    client = session()
    connected(client)
    request = get()
    request.path = "/a"
    client.submit(request)
    (done,) = feed(client, reply(1, 3, -101))
    assert isinstance(done, Done)
    assert isinstance(done.error, NoNodeError)
    assert done.error.path == "/a"


# Watches.


def test_a_watch_counts_from_its_reply_on() -> None:
    client = session()
    connected(client)
    client.submit(watched_get("w"))
    early = feed(client, notification(3, b"/a", 4))
    assert early == []
    effects = feed(client, data_reply(1, 5, b"", STAT) + notification(3, b"/a", 6) + notification(3, b"/a", 7))
    assert effects[1:] == [Tell("w", WatchEvent(EventType.DATA_CHANGED, "/a", State.CONNECTED, 6))]


def test_a_refused_read_registers_no_watch() -> None:
    client = session()
    connected(client)
    client.submit(watched_get("w"))
    feed(client, reply(1, 5, -102))
    assert len(client.watches) == 0


def test_exists_of_a_missing_znode_waits_for_its_creation() -> None:
    client = session()
    connected(client)
    client.submit(watched_get("w", missing=Table.EXIST))
    feed(client, reply(1, 5, -101))
    assert feed(client, notification(1, b"/a", 6)) == [
        Tell("w", WatchEvent(EventType.CREATED, "/a", State.CONNECTED, 6)),
    ]


def test_watchers_hear_that_the_server_is_gone_and_back() -> None:
    client = session()
    connected(client)
    client.submit(watched_get("w"))
    feed(client, data_reply(1, 5, b"", STAT))
    gone = [effect for effect in client.lost() if isinstance(effect, Tell)]
    assert gone == [Tell("w", WatchEvent(EventType.SESSION, "", State.CONNECTING))]
    back = [effect for effect in connected(client) if isinstance(effect, Tell)]
    assert back == [Tell("w", WatchEvent(EventType.SESSION, "", State.CONNECTED))]


def test_identities_go_first_then_watches_on_every_new_connection() -> None:
    client = session(identities=[("digest", b"a:b")])
    connected(client)
    assert [xid for xid, _, _ in sent(client)] == [-4]
    client.submit(watched_get("w"))
    sent(client)
    feed(client, reply(-4, 0) + data_reply(1, 5, b"", STAT))
    client.keep_identity("digest", b"c:d")
    client.keep_identity("digest", b"a:b")
    list(client.lost())
    connected(client)
    client.submit(get(b"/later"))
    first, second, watches, request = sent(client)
    assert decode(OpCode.AUTH, first[2]) == AddAuth(b"digest", b"a:b")
    assert decode(OpCode.AUTH, second[2]) == AddAuth(b"digest", b"c:d")
    assert decode(OpCode.SET_WATCHES, watches[2]) == SetWatches(5, (b"/a",), (), ())
    assert decode(OpCode.GET_DATA, request[2]) == PathWatch(b"/later", False)


# Identities.


def test_an_identity_that_was_taken_before_and_is_refused_now_ends_the_session() -> None:
    client = session(identities=[("digest", b"a:b")])
    connected(client)
    assert states(feed(client, reply(-4, 0, -115))) == [State.AUTH_FAILED]


def test_a_refused_new_identity_fails_only_its_request() -> None:
    client = session()
    connected(client)
    request = auth_request("nonsense", b"")
    client.submit(request)
    (done,) = feed(client, reply(-4, 0, -115))
    assert isinstance(done, Done)
    assert isinstance(done.error, AuthFailedError)
    assert client.state is State.CONNECTED


# The chroot.


@pytest.mark.parametrize(
    ("chroot", "outer", "inner"),
    [
        (b"", "/a", b"/a"),
        (b"/app", "/a", b"/app/a"),
        (b"/app", "/", b"/app"),
        (b"/app", "/\u00e9", b"/app/\xc3\xa9"),
    ],
)
def test_the_chroot_is_put_on_and_taken_off(chroot: bytes, outer: str, inner: bytes) -> None:
    client = session(chroot=chroot)
    assert client.inner_path(outer) == inner
    assert client.outer_path(inner) == outer


def test_a_path_outside_of_the_chroot_keeps_its_name() -> None:
    client = session(chroot=b"/app")
    assert client.outer_path(b"/zookeeper/config") == "/zookeeper/config"
    assert client.outer_path(b"/apple") == "/apple"


# Releasing watchers.


def persistent(watcher: str, table: Table = Table.RECURSIVE) -> ClientRequest[Any]:
    nothing: ClientRequest[Any] = ClientRequest(OpCode.ADD_WATCH, b"", lambda _payload, _offset: None)
    nothing.registration = Registration(b"/a", watcher, table)
    return nothing


def test_releasing_the_last_watcher_of_a_persistent_watch_tells_the_server() -> None:
    client = session()
    connected(client)
    client.submit(persistent("v"))
    client.submit(persistent("w"))
    feed(client, reply(1, 1) + reply(2, 1))
    assert client.release("v") == []
    (request,) = client.release("w")
    assert request.opcode == OpCode.REMOVE_WATCHES


def test_a_watch_that_somebody_else_is_registering_is_not_removed() -> None:
    client = session()
    connected(client)
    client.submit(persistent("v"))
    feed(client, reply(1, 1))
    client.submit(persistent("w"))
    assert client.release("v") == []


def test_releasing_while_no_server_is_there_only_forgets() -> None:
    client = session()
    connected(client)
    client.submit(persistent("v"))
    feed(client, reply(1, 1))
    list(client.lost())
    assert client.release("v") == []
    connected(client)
    assert sent(client) == []


def test_a_session_surely_lives_for_its_timeout_after_what_a_server_answered() -> None:
    client = session()
    assert client.lives_until is None
    connection = client.connect(now=100, answer_ms=1000, frame_bytes_max=100_000)
    connection.take(100)
    list(client.receive(welcome(6000), 500))
    assert client.lives_until == 100 + 6000
    client.submit(get())
    connection.take(700)
    list(client.lost())
    assert client.lives_until == 6100, "nobody answered what was sent last"
    client.connect(now=2000, answer_ms=1000, frame_bytes_max=100_000)
    assert client.lives_until == 6100
    list(client.receive(welcome(6000), 2500))
    assert client.lives_until == 8000
    list(client.close())
    assert client.lives_until is None
