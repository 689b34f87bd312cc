"""The running client against scripted servers: reconnects, expiry, garbage, limits. All time is virtual."""

import socket
from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from datatree.opcodes import OpCode
from datatree.request_decoding import decode
from datatree.requests import PathWatch, SetWatches
from tests.client.resolving import SystemResolver
from tests.client.scripted import PASSWORD, SESSION, Peer, ScriptedServers
from tests.client.scripted_client import HOSTS, STAT, answer, client, well_behaved
from zab.client import (
    OPEN_ACL,
    AuthFailedError,
    BadArgumentsError,
    ClientClosedError,
    ConnectionLossError,
    EventType,
    NotConnectedError,
    SessionExpiredError,
    Settings,
    State,
    ThrottledError,
    WatchEvent,
    WatchOverflowError,
    connect,
    on_trio,
)
from zab.client.client import Client
from zab.client.core.hosts import Host
from zab.jute.replies import data_reply, notification, reply


async def test_the_block_opens_a_session_and_closes_it(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    seen = []

    async def script(peer: Peer) -> None:
        await peer.welcome()
        seen.append(await peer.request())

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        assert (zk.state, zk.session_id, zk.session_password) == (State.CONNECTED, SESSION, PASSWORD)
    assert [(xid, opcode) for xid, opcode, _ in seen] == [(1, OpCode.CLOSE_SESSION)]
    assert zk.state is State.CLOSED
    with pytest.raises(ClientClosedError):
        await zk.get("/a")


async def test_a_minority_that_never_answers_leaves_the_others_enough_of_the_time_that_connect_has(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    asked: list[str] = []

    async def script(peer: Peer) -> None:
        asked.append(peer.host.name)
        if len(asked) == 1:
            await trio.sleep_forever()
        await well_behaved(peer)

    start = trio.current_time()
    async with client(ScriptedServers(nursery, script), settings={"connect_wait_ms": 3000}):
        assert trio.current_time() - start == pytest.approx(1.5, abs=0.2)
    assert len(set(asked)) == len(asked) == 2
    nursery.cancel_scope.cancel()


async def test_the_addresses_of_one_name_share_the_session_timeout_like_servers_that_are_listed(
    autojump_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, and once the server is lost, when the name is resolved again."""
    asked: list[str] = []
    lost = trio.Event()

    async def script(peer: Peer) -> None:
        asked.append(peer.host.name)
        if len(asked) in (1, 3):
            await trio.sleep_forever()
        await peer.welcome()
        if len(asked) == 2:
            await lost.wait()
        else:
            await peer.serve(answer)

    servers = ScriptedServers(nursery, script)

    async def by_address(host: Host, address: str | None) -> trio.abc.Stream:
        assert address is not None
        return await servers.dial(Host(address, host.port))

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 2181)) for address in ("10.0.0.1", "10.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_asked, **_options: found)
    monkeypatch.setattr(on_trio, "tcp", lambda _context: by_address)
    trio.socket.set_custom_hostname_resolver(SystemResolver())
    start = trio.current_time()
    async with connect("one", settings=Settings(session_timeout_ms=9000), random=Random(1)) as zk:
        assert trio.current_time() - start == pytest.approx(4.5, abs=0.2)
        start = trio.current_time()
        lost.set()
        await zk.retrying().get("/a")
        assert trio.current_time() - start == pytest.approx(4.5, abs=1.2)
    assert len(asked) == 4
    assert asked[0] != asked[1]
    nursery.cancel_scope.cancel()


async def test_what_the_block_raises_is_not_wrapped(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with client(ScriptedServers(nursery, well_behaved)):
            raise ZeroDivisionError
    assert not isinstance(caught.value.__context__, BaseExceptionGroup)


async def test_cancelling_the_block_still_closes_the_session(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    closed = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.welcome()
        _, opcode, _ = await peer.request()
        assert opcode == OpCode.CLOSE_SESSION
        closed.set()

    with trio.move_on_after(1):
        async with client(ScriptedServers(nursery, script)):
            await trio.sleep_forever()
    assert closed.is_set()


async def test_a_server_that_does_not_answer_the_close_is_not_waited_for(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        await trio.sleep(100)

    start = trio.current_time()
    async with client(ScriptedServers(nursery, script), settings={"close_wait_ms": 700}):
        pass
    assert trio.current_time() - start == pytest.approx(0.7)
    nursery.cancel_scope.cancel()


async def test_the_next_host_is_tried_when_one_refuses(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    servers = ScriptedServers(nursery, well_behaved)
    servers.down = {"one", "two"}
    async with client(servers) as zk:
        assert zk.state is State.CONNECTED
        assert [peer.host.name for peer in servers.peers] == ["three"]


async def test_no_server_at_all_is_an_error_that_names_the_last_reason(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    servers = ScriptedServers(nursery, well_behaved)
    servers.down = {"one", "two", "three"}
    start = trio.current_time()
    with pytest.raises(NotConnectedError, match=r"within 9000 ms; last: .*: connection refused"):
        async with client(servers):
            raise AssertionError("entered")
    assert trio.current_time() - start == pytest.approx(9)
    # A round at a time, with a pause that grows to a second: no storm.
    assert 20 < len(servers.dialed) < 60


async def test_hosts_share_the_session_timeout_for_connecting(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    async def mute(peer: Peer) -> None:
        await trio.sleep(100)

    servers = ScriptedServers(nursery, mute)
    with pytest.raises(NotConnectedError, match=r"silent for 300\d ms"):
        async with client(servers):
            raise AssertionError("entered")
    assert [time - servers.dialed[0][0] for time, _ in servers.dialed[:3]] == pytest.approx([0, 3, 6], abs=0.01)
    nursery.cancel_scope.cancel()


async def test_a_lost_connection_keeps_the_session_and_fails_only_what_was_sent(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        if len(servers.peers) == 1:
            await peer.request()
            return
        await peer.serve(answer)

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        with pytest.raises(ConnectionLossError) as caught:
            await zk.get("/a")
        assert not caught.value.definite
        # Asked while there is no server: waits for the next one.
        assert await zk.get("/a") == (b"data", (0,) * 11)
        assert [peer.greeting.session_id for peer in servers.peers if peer.greeting] == [0, SESSION]
        assert servers.peers[0].host != servers.peers[1].host


async def test_requests_of_many_tasks_are_in_flight_together(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        waiting = [await peer.request() for _ in range(50)]
        for xid, opcode, body in waiting:
            sent = answer(xid, opcode, body)
            assert sent is not None
            await peer.send(sent)
        await peer.serve()

    async with client(ScriptedServers(nursery, script)) as zk, trio.open_nursery() as tasks:
        for _ in range(50):
            tasks.start_soon(zk.get, "/a")


async def test_a_cancelled_request_does_not_shift_the_answers_of_others(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        first = await peer.request()
        await trio.sleep(2)
        sent = answer(*first)
        assert sent is not None
        await peer.send(sent)
        await peer.serve(answer)

    async with client(ScriptedServers(nursery, script)) as zk:
        with trio.move_on_after(1) as scope:
            await zk.get("/a")
        assert scope.cancelled_caught
        assert await zk.create("/a") == "/a"


async def test_several_operations_are_sent_in_order_without_waiting_and_each_has_its_result(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    seen = []

    async def script(peer: Peer) -> None:
        await peer.welcome()
        requests = [await peer.request() for _ in range(3)]
        seen.extend(opcode for _, opcode, _ in requests)
        for request in requests[:2]:
            sent = answer(*request)
            assert sent is not None
            await peer.send(sent)
        # The third is not answered.

    async with client(ScriptedServers(nursery, script)) as zk:
        of = zk.operations
        asked = [of.create("/a", b"", OPEN_ACL), of.get("/a"), of.delete("/a", -1)]
        created, read, lost = await zk.perform_each(asked)
    assert seen == [OpCode.CREATE2, OpCode.GET_DATA, OpCode.DELETE]
    assert created[0] == "/a"
    assert read[0] is not None
    assert isinstance(lost, ConnectionLossError)


async def test_several_operations_that_are_cancelled_leave_nothing_that_waits(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        await peer.request()
        await trio.sleep_forever()

    async with client(ScriptedServers(nursery, script), settings={"in_flight_count_max": 1}) as zk:
        with trio.move_on_after(1) as scope:
            await zk.perform_each([zk.operations.get("/a"), zk.operations.get("/b"), zk.operations.get("/c")])
        assert scope.cancelled_caught
        assert not zk._runtime._waiting.until


GARBAGE = {
    "an impossible length": b"\xff\xff\xff\x00",
    "an answer that nobody asked for": reply(99, 1),
    "an event of unknown type": notification(9, b"/a", 1),
    "half a reply and the end": reply(1, 1)[:9],
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_costs_a_server_its_connection_and_no_session(
    autojump_clock: MockClock, nursery: trio.Nursery, garbage: bytes
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        if len(servers.peers) == 1:
            await peer.request()
            await peer.send(garbage)
            return
        await peer.serve(answer)

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        with pytest.raises(ConnectionLossError):
            await zk.get("/a")
        assert (await zk.get("/a"))[0] == b"data"
        assert zk.session_id == SESSION


async def test_the_garbage_is_the_cause_of_the_loss(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, _, _ = await peer.request()
        await peer.send(reply(xid + 1, 1))

    async with client(ScriptedServers(nursery, script)) as zk:
        with pytest.raises(ConnectionLossError) as caught:
            await zk.get("/a")
        assert "xid 2 instead of 1" in str(caught.value.__cause__)


async def test_a_server_that_drops_everybody_at_once_is_not_hammered(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()

    servers = ScriptedServers(nursery, script)
    async with client(servers, "one:1"):
        await trio.sleep(10)
    assert len(servers.dialed) < 30


async def test_silence_is_noticed_in_time_to_use_another_server(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        if len(servers.peers) == 1:
            await trio.sleep(100)
        await peer.serve(answer)

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        start = trio.current_time()
        with pytest.raises(ConnectionLossError):
            await zk.get("/a")
        assert trio.current_time() - start == pytest.approx(6, abs=0.1)
        await zk.get("/a")
        assert trio.current_time() - start < 9
    nursery.cancel_scope.cancel()


async def test_pings_keep_an_idle_session_from_its_first_moment_on(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """With one server, its greeting may take the whole session timeout, which is longer than it may be silent then."""
    servers = ScriptedServers(nursery, well_behaved)
    async with client(servers, "one:1") as zk:
        await trio.sleep(60)
        assert zk.state is State.CONNECTED
        assert len(servers.peers) == 1


async def test_pings_keep_an_idle_session(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    servers = ScriptedServers(nursery, well_behaved)
    async with client(servers) as zk:
        await trio.sleep(300)
        assert zk.state is State.CONNECTED
    assert len(servers.dialed) == 1


# The session's end.


async def test_an_expired_session_fails_everything_and_ends_the_watchers(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        if len(servers.peers) > 1:
            await peer.expire()
            return
        await peer.welcome()
        xid, _, _ = await peer.request()
        await peer.send(data_reply(xid, 5, b"", STAT))
        await peer.request()

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        watcher = zk.watcher()
        await zk.get("/a", watch=watcher)
        changes = zk.states()
        with pytest.raises(ConnectionLossError):
            await zk.get("/a")
        with pytest.raises(SessionExpiredError):
            await zk.get("/a")
        assert [state async for state in changes] == [State.CONNECTED, State.CONNECTING, State.EXPIRED]
        assert [(await watcher.receive()).state for _ in range(2)] == [State.CONNECTING, State.EXPIRED]
        with pytest.raises(SessionExpiredError):
            await watcher.receive()
        with pytest.raises(SessionExpiredError):
            zk.watcher()
    assert zk.state is State.CLOSED
    assert len(servers.dialed) == 2


async def test_resuming_a_session_that_is_over_fails_at_once(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    servers = ScriptedServers(nursery, Peer.expire)
    with pytest.raises(SessionExpiredError):
        async with client(servers, resume=(SESSION, PASSWORD)):
            raise AssertionError("entered")
    assert trio.current_time() == pytest.approx(servers.dialed[0][0])


async def test_a_refused_identity_at_the_start_fails_everything(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, opcode, _ = await peer.request()
        assert opcode == OpCode.AUTH
        await peer.send(reply(xid, 0, -115))

    async with client(ScriptedServers(nursery, script), auth=[("digest", "a:b")]) as zk:
        # The first is on its way when the refusal comes, the second finds it.
        with pytest.raises(AuthFailedError):
            await zk.get("/a")
        with pytest.raises(AuthFailedError):
            await zk.get("/a")


async def test_a_refused_new_identity_leaves_the_session_alone(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, opcode, _ = await peer.request()
        if opcode == OpCode.AUTH:
            await peer.send(reply(xid, 0, -115))
            return
        await peer.send(data_reply(xid, 5, b"data", STAT))
        await peer.serve()

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        with pytest.raises(AuthFailedError):
            await zk.add_auth("nonsense", "x")
        # The server closed the connection; a request may still be caught by that.
        with trio.fail_after(5):
            while True:
                try:
                    assert (await zk.get("/a"))[0] == b"data"
                    break
                except ConnectionLossError:
                    continue
        assert servers.peers[1].greeting is not None
        assert servers.peers[1].greeting.session_id == SESSION


# Watches.


async def test_watches_are_restored_on_the_next_server(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    restored = []

    async def script(peer: Peer) -> None:
        await peer.welcome()
        if len(servers.peers) == 1:
            xid, _, _ = await peer.request()
            await peer.send(data_reply(xid, 5, b"", STAT))
            return
        xid, opcode, body = await peer.request()
        restored.append((xid, decode(opcode, body)))
        await peer.send(notification(3, b"/app/a", -1) + reply(xid, 9))
        await peer.serve()

    servers = ScriptedServers(nursery, script)
    async with client(servers, HOSTS + "/app") as zk:
        watcher = zk.watcher()
        await zk.get("/a", watch=watcher)
        assert [await watcher.receive() for _ in range(3)] == [
            WatchEvent(EventType.SESSION, "", State.CONNECTING),
            WatchEvent(EventType.SESSION, "", State.CONNECTED),
            WatchEvent(EventType.DATA_CHANGED, "/a", State.CONNECTED),
        ]
    assert restored == [(-8, SetWatches(5, (b"/app/a",), (), ()))]


async def test_the_event_of_a_change_is_queued_before_its_effects_can_be_read(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, _, _ = await peer.request()
        await peer.send(data_reply(xid, 5, b"old", STAT))
        xid, _, _ = await peer.request()
        await peer.send(notification(3, b"/a", 6) + data_reply(xid, 6, b"new", STAT))
        await peer.serve()

    async with client(ScriptedServers(nursery, script)) as zk:
        watcher = zk.watcher()
        await zk.get("/a", watch=watcher)
        assert watcher.receive_nowait() is None
        assert (await zk.get("/a"))[0] == b"new"
        event = watcher.receive_nowait()
        assert event is not None
        assert event.zxid == 6


async def test_leaving_a_watch_removes_it_from_the_server(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    seen = []

    async def script(peer: Peer) -> None:
        await peer.welcome()

        def note(xid: int, opcode: int, body: bytes) -> bytes | None:
            seen.append(opcode)
            return reply(xid, 1, 0, bytes(4)) if opcode == OpCode.ADD_WATCH else None

        await peer.serve(note)

    async with client(ScriptedServers(nursery, script)) as zk:
        async with zk.watch("/a", recursive=True) as events:
            pass
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    assert seen == [OpCode.ADD_WATCH, OpCode.REMOVE_WATCHES, OpCode.CLOSE_SESSION]


async def test_a_watcher_that_is_not_read_overflows_and_keeps_what_it_has(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, _, _ = await peer.request()
        await peer.send(reply(xid, 1, 0, bytes(4)))
        for zxid in range(1, 6):
            await peer.send(notification(3, b"/a", zxid))
        await peer.serve(answer)

    servers = ScriptedServers(nursery, script)
    async with client(servers, settings={"event_count_max": 3}) as zk, zk.watch("/a") as events:
        await zk.get("/a")
        assert [(await events.receive()).zxid for _ in range(3)] == [1, 2, 3]
        with pytest.raises(WatchOverflowError, match="more than 3 events"):
            await events.receive()
        assert zk.state is State.CONNECTED


async def test_slow_listeners_to_the_state_miss_the_oldest_changes(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        await trio.sleep(2)

    servers = ScriptedServers(nursery, script)
    async with client(servers, settings={"state_count_max": 3}) as zk:
        changes = zk.states()
        await trio.sleep(30)
    seen = [state async for state in changes]
    assert len(seen) == 3
    assert seen[-1] is State.CLOSED


# Limits.


async def silent(peer: Peer) -> None:
    """Takes the session and answers nothing but pings."""
    await peer.welcome(90_000)
    while True:
        await peer.request()


async def outcomes(zk: Client, count: int) -> list[object]:
    results: list[object] = []

    async def one() -> None:
        try:
            results.append(await zk.get("/a"))
        except (ConnectionLossError, ThrottledError, ClientClosedError) as error:
            results.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(one)
    return results


async def test_requests_above_the_limit_in_flight_wait_for_room(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    most = 0

    async def script(peer: Peer) -> None:
        nonlocal most
        await peer.welcome()
        waiting: list[tuple[int, int, bytes]] = []
        for _ in range(20):
            waiting.append(await peer.request())
            await trio.testing.wait_all_tasks_blocked()
            most = max(most, len(waiting))
            if len(waiting) == 4:
                for request in waiting:
                    await peer.send(answer(*request) or b"")
                waiting.clear()
        await peer.serve(answer)

    async with client(ScriptedServers(nursery, script), settings={"in_flight_count_max": 4}) as zk:
        assert len(await outcomes(zk, 20)) == 20
    assert most == 4


async def test_a_request_waits_for_room_only_so_long(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    options = {"in_flight_count_max": 1, "request_wait_ms": 2000, "close_wait_ms": 1}
    async with client(ScriptedServers(nursery, silent), settings=options) as zk:
        nursery.start_soon(outcomes, zk, 1)
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        with pytest.raises(ThrottledError, match="no room in flight for 2000 ms"):
            await zk.get("/a")
        assert trio.current_time() - start == pytest.approx(2, abs=0.002)


async def test_more_waiting_requests_than_allowed_are_refused_at_once(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    options = {"in_flight_count_max": 1, "waiting_count_max": 2, "request_wait_ms": 2000, "close_wait_ms": 1}
    async with client(ScriptedServers(nursery, silent), settings=options) as zk:
        nursery.start_soon(outcomes, zk, 3)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ThrottledError, match="2 requests of this client wait already") as caught:
            await zk.get("/a")
        assert caught.value.definite


async def test_a_request_waits_for_a_server_only_so_long_and_was_never_sent(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        servers.down = {"one", "two", "three"}

    servers = ScriptedServers(nursery, script)
    async with client(servers, settings={"request_wait_ms": 1500}) as zk:
        await trio.sleep(1)
        start = trio.current_time()
        with pytest.raises(NotConnectedError, match="no server for 1500 ms") as caught:
            await zk.get("/a")
        assert trio.current_time() - start == pytest.approx(1.5, abs=0.002)
        assert caught.value.definite


async def test_a_request_that_no_server_would_read_is_not_sent(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async with client(ScriptedServers(nursery, well_behaved), settings={"request_bytes_max": 100}) as zk:
        with pytest.raises(BadArgumentsError, match=r"above jute\.maxbuffer, here 100 bytes"):
            await zk.set("/a", bytes(100))
        assert await zk.create("/a", bytes(10)) == "/a"


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a/../b", "/a\0", "/\ud800"])
async def test_a_malformed_path_is_not_sent(autojump_clock: MockClock, nursery: trio.Nursery, path: str) -> None:
    async with client(ScriptedServers(nursery, well_behaved)) as zk:
        with pytest.raises(BadArgumentsError, match="a path"):
            await zk.get(path)


async def test_those_who_wait_when_the_client_closes_get_an_error(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    results: list[object] = []

    async def waiter(zk: Client) -> None:
        results.extend(await outcomes(zk, 3))

    options = {"in_flight_count_max": 1, "close_wait_ms": 1}
    async with client(ScriptedServers(nursery, silent), settings=options) as zk:
        nursery.start_soon(waiter, zk)
        await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(type(result).__name__ for result in results) == [
        "ClientClosedError",
        "ClientClosedError",
        "ConnectionLossError",
    ]


# A server without a quorum.


async def test_a_read_only_session_moves_to_a_server_that_takes_writes(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        if len(servers.peers) == 1:
            await peer.welcome(read_only=True)
            await peer.serve(answer)
        elif await peer.stream.receive_some(4) == b"isro":
            await peer.send(b"rw" if len(servers.peers) > 3 else b"ro")
        else:
            raise AssertionError

    async def after(peer: Peer) -> None:
        if len(servers.peers) < 5:
            await script(peer)
        else:
            await well_behaved(peer)

    servers = ScriptedServers(nursery, after)
    async with client(servers, read_only=True) as zk:
        assert zk.state is State.CONNECTED_READ_ONLY
        with trio.fail_after(5):
            async for state in zk.states():
                if state is State.CONNECTED:
                    break
        assert servers.peers[3].host == servers.peers[4].host
        assert servers.peers[4].greeting is not None
        assert servers.peers[4].greeting.session_id == 0


def test_settings_refuse_numbers_that_mean_nothing() -> None:
    for name in ("session_timeout_ms", "in_flight_count_max", "event_count_max", "connect_wait_ms"):
        with pytest.raises(ValueError, match=name):
            Settings(**{name: 0})


async def test_reads_carry_the_watch_flag_only_with_a_watcher(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    seen = []

    def note(xid: int, opcode: int, body: bytes) -> bytes | None:
        if opcode == OpCode.GET_DATA:
            seen.append(decode(opcode, body))
        return answer(xid, opcode, body)

    async def script(peer: Peer) -> None:
        await peer.welcome()
        await peer.serve(note)

    async with client(ScriptedServers(nursery, script)) as zk:
        await zk.get("/a")
        await zk.get("/a", watch=zk.watcher())
    assert seen == [PathWatch(b"/a", False), PathWatch(b"/a", True)]
