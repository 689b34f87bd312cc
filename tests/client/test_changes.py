"""The feed of changes against scripted servers: pages, reconnects, refusals, limits. All time is virtual."""

from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.request_decoding import decode
from datatree.requests import GetChanges
from datatree.txn_changes import WHOLE
from tests.client.connection_frames import frames, get, opened
from tests.client.scripted import ConnectionEndedError, Peer, ScriptedServers
from zab.client import (
    BadArgumentsError,
    Change,
    ChangeKind,
    ChangesLostError,
    ClientClosedError,
    DataInconsistencyError,
    Place,
    SessionExpiredError,
    Settings,
    ThrottledError,
    UnimplementedError,
    connect,
)
from zab.client.core.connection import XID_MIN
from zab.client.core.requests import Answered, ClientRequest
from zab.jute.change_pages import PageStatus, change_bytes, page_body
from zab.jute.handshake import ConnectResponse
from zab.jute.replies import data_reply, decode_body, path_body, reply
from zab.wire.frames import frame

LINEAGE = bytes(range(16))
STAT = bytes(68)
SINCE = 0x100000005

Asked = tuple[int, GetChanges]


def client(servers: ScriptedServers, hosts: str = "one:1,two:1", **settings: int):
    return connect(hosts, settings=Settings(session_timeout_ms=9000, **settings), dial=servers.dial, random=Random(1))


def created(zxid: int, path: bytes, part: int = 0) -> bytes:
    return change_bytes(zxid, 1000 + zxid, 0x77, (1, part, path, b"data", 0, 0))


def given(xid: int, zxid: int, changes: list[bytes], part: int = WHOLE, applied: int | None = None) -> bytes:
    body = page_body(PageStatus.GIVEN, 0, zxid, part, LINEAGE, changes)
    return reply(xid, zxid if applied is None else applied, 0, body)


async def asked(peer: Peer) -> Asked:
    """The next request, which asks for changes."""
    xid, opcode, body = await peer.request()
    if opcode == OpCode.CLOSE_SESSION:
        raise ConnectionEndedError
    assert opcode == OpCode.GET_CHANGES
    decoded = decode(opcode, body)
    assert isinstance(decoded, GetChanges)
    return xid, decoded


def serving(*pages: Callable[[int], bytes], log: list[Asked] | None = None) -> Callable[[Peer], Awaitable[None]]:
    """Answers the requests for changes with these pages, in order; then none, but everything else."""

    async def script(peer: Peer) -> None:
        await peer.welcome()
        waiting = list(pages)

        def answer(xid: int, opcode: int, body: bytes) -> bytes | None:
            if opcode == OpCode.GET_CHANGES:
                decoded = decode(opcode, body)
                assert isinstance(decoded, GetChanges)
                if log is not None:
                    log.append((xid, decoded))
                return waiting.pop(0)(xid) if waiting else b""
            if opcode == OpCode.SYNC:
                return reply(xid, SINCE + 50, 0, path_body(b"/"))
            return data_reply(xid, 9, b"data", STAT) if opcode == OpCode.GET_DATA else None

        await peer.serve(answer)

    return script


async def test_changes_come_page_by_page_each_from_the_place_of_the_one_before(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    log: list[Asked] = []
    servers = ScriptedServers(
        nursery,
        serving(
            lambda xid: given(xid, SINCE + 2, [created(SINCE + 1, b"/a"), created(SINCE + 2, b"/b", 3)], part=3),
            lambda xid: given(xid, SINCE + 7, []),
            lambda xid: given(xid, SINCE + 9, [created(SINCE + 8, b"/c")]),
            log=log,
        ),
    )
    async with client(servers, changes_bytes_max=5000, changes_wait_ms=700) as zk:
        changes = zk.changes(SINCE, "/app")
        assert changes.place == Place(SINCE, WHOLE, "")
        first = await changes.receive()
        assert first == Change(
            SINCE + 1, 0, 1000 + SINCE + 1, 0x77, ChangeKind.CREATED, "/a", b"data", version=0, ephemeral_owner=0
        )
        assert changes.place == Place(SINCE + 1, 0, LINEAGE.hex())
        assert (await changes.receive()).path == "/b"
        assert changes.place == Place(SINCE + 2, 3, LINEAGE.hex())
        assert (await changes.receive()).path == "/c"
        assert changes.place == Place(SINCE + 9, WHOLE, LINEAGE.hex())
        assert zk.last_zxid == SINCE + 9
    assert [xid for xid, _ in log] == [-16, -17, -18]
    places = [(body.zxid, body.part, body.history_id) for _, body in log]
    assert places == [(SINCE, WHOLE, b""), (SINCE + 2, 3, LINEAGE), (SINCE + 7, WHOLE, LINEAGE)]
    assert {(body.prefix, body.bytes_max, body.wait_ms) for _, body in log} == {(b"/app", 5000, 700)}


async def test_the_place_moves_on_while_nothing_changes_below_the_prefix(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    log: list[Asked] = []
    servers = ScriptedServers(nursery, serving(lambda xid: given(xid, SINCE + 7, []), log=log))
    async with client(servers) as zk:
        changes = zk.changes(SINCE)
        with trio.move_on_after(5):
            await changes.receive()
        assert changes.place == Place(SINCE + 7, WHOLE, LINEAGE.hex())
        assert len(log) == 2


async def test_a_reader_that_is_slow_keeps_one_page_and_asks_for_no_other(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    log: list[Asked] = []
    pages = [
        lambda xid, n=n: given(xid, SINCE + 10 * n + 9, [created(SINCE + 10 * n + each, b"/a") for each in range(10)])
        for n in range(1, 4)
    ]
    servers = ScriptedServers(nursery, serving(*pages, log=log))
    async with client(servers) as zk:
        changes = zk.changes(SINCE)
        for number in range(30):
            assert (await changes.receive()).zxid == SINCE + 10 + number
            await trio.sleep(20)
            assert len(log) == 1 + number // 10


async def test_what_waits_is_in_nobodys_way(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    servers = ScriptedServers(nursery, serving())
    async with client(servers, in_flight_count_max=1) as zk:
        changes = zk.changes(SINCE)
        nursery.start_soon(changes.receive)
        await trio.testing.wait_all_tasks_blocked()
        assert (await zk.get("/a"))[0] == b"data"
        with pytest.raises(RuntimeError, match="another task waits"):
            await changes.receive()
        nursery.cancel_scope.cancel()


async def test_a_cancelled_wait_loses_nothing_and_asks_nothing_again(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    xids: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, _ = await asked(peer)
        xids.append(xid)
        await trio.sleep(3)
        await peer.send(given(xid, SINCE + 1, [created(SINCE + 1, b"/a")]))
        xids.append((await asked(peer))[0])
        await peer.serve()

    async with client(ScriptedServers(nursery, script)) as zk:
        changes = zk.changes(SINCE)
        for _ in range(20):
            with trio.move_on_after(0.1):
                await changes.receive()
        await trio.sleep(2)
        assert xids == [-16]
        with trio.fail_after(0.1):
            assert (await changes.receive()).path == "/a"


async def test_a_lost_connection_is_followed_by_the_next_server_from_the_same_place(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    log: list[tuple[str, Asked]] = []

    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, body = await asked(peer)
        log.append((peer.host.name, (xid, body)))
        place = body.zxid
        await peer.send(given(xid, place + 1, [created(place + 1, b"/%d" % (place + 1 - SINCE))]))
        xid, body = await asked(peer)
        log.append((peer.host.name, (xid, body)))
        # The answer is cut off.
        await peer.send(given(xid, place + 2, [created(place + 2, b"/%d" % (place + 2 - SINCE))])[:-3])

    async with client(ScriptedServers(nursery, script)) as zk:
        changes = zk.changes(SINCE)
        told = [(await changes.receive()).path for _ in range(4)]
    assert told == ["/1", "/2", "/3", "/4"]
    assert len({host for host, _ in log}) == 2
    assert [body.zxid - SINCE for _, (_, body) in log][:7] == [0, 1, 1, 2, 2, 3, 3]
    assert [body.history_id for _, (_, body) in log] == [b""] + [LINEAGE] * (len(log) - 1)


async def test_no_server_for_a_long_time_is_waited_for(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    script = serving(lambda xid: given(xid, SINCE + 1, [created(SINCE + 1, b"/a")]))

    async def first(peer: Peer) -> None:
        if len(servers.peers) > 1:
            await script(peer)
        else:
            await peer.welcome()
            await asked(peer)
            servers.down = {"one", "two"}

    servers = ScriptedServers(nursery, first)
    async with client(servers) as zk:
        changes = zk.changes(SINCE)
        with trio.move_on_after(100) as scope:
            await changes.receive()
        assert scope.cancelled_caught
        servers.down = set()
        assert (await changes.receive()).path == "/a"


async def test_nothing_to_start_from_means_from_now_on(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    log: list[Asked] = []
    page = lambda xid: given(xid, SINCE + 51, [created(SINCE + 51, b"/a")])  # noqa: E731
    async with client(ScriptedServers(nursery, serving(page, log=log))) as zk:
        changes = zk.changes()
        assert changes.place is None
        assert (await changes.receive()).path == "/a"
    assert [body.zxid for _, body in log][:1] == [SINCE + 50]


def refused(status: PageStatus, zxid: int, oldest: int = 0) -> Callable[[int], bytes]:
    return lambda xid: reply(xid, zxid, 0, page_body(status, oldest, zxid, WHOLE, LINEAGE))


async def test_older_than_what_is_kept_is_an_error_that_says_from_where_on(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    pages = [refused(PageStatus.OLDER, SINCE + 90, SINCE + 30)] * 2
    async with client(ScriptedServers(nursery, serving(*pages))) as zk:
        changes = zk.changes(SINCE)
        for _ in range(2):
            with pytest.raises(ChangesLostError, match=f"can tell those from {SINCE + 30:#x} on") as caught:
                await changes.receive()
            assert (caught.value.since, caught.value.oldest) == (SINCE, SINCE + 30)


async def test_a_zxid_beyond_the_end_is_asked_for_again_behind_a_sync(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    log: list[Asked] = []
    late = refused(PageStatus.BEYOND, SINCE - 1)
    page = lambda xid: given(xid, SINCE + 1, [created(SINCE + 1, b"/a")])  # noqa: E731
    async with client(ScriptedServers(nursery, serving(late, page, log=log))) as zk:
        assert (await zk.changes(SINCE).receive()).path == "/a"
    assert [body.zxid for _, body in log] == [SINCE, SINCE]


async def test_a_zxid_from_the_future_is_an_error(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    end = refused(PageStatus.BEYOND, SINCE - 1)
    async with client(ScriptedServers(nursery, serving(end, end))) as zk:
        with pytest.raises(ChangesLostError, match=f"the history ends at {SINCE - 1:#x}") as caught:
            await zk.changes(SINCE).receive()
        assert caught.value.oldest is None


async def test_another_history_is_an_error(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    log: list[Asked] = []
    other = refused(PageStatus.ELSEWHERE, SINCE)
    async with client(ScriptedServers(nursery, serving(other, log=log))) as zk:
        with pytest.raises(ChangesLostError, match="does not have it"):
            await zk.changes(Place(SINCE, 2, "ab" * 16)).receive()
    assert [(body.zxid, body.part, body.history_id) for _, body in log] == [(SINCE, 2, b"\xab" * 16)]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.UNIMPLEMENTED, UnimplementedError),
        (ErrorCode.THROTTLEDOP, ThrottledError),
        (ErrorCode.DATAINCONSISTENCY, DataInconsistencyError),
    ],
)
async def test_an_error_is_raised_and_the_iterator_may_be_asked_again(
    autojump_clock: MockClock, nursery: trio.Nursery, code: ErrorCode, error: type[Exception]
) -> None:
    servers = ScriptedServers(
        nursery,
        serving(lambda xid: reply(xid, -1, code), lambda xid: given(xid, SINCE + 1, [created(SINCE + 1, b"/a")])),
    )
    async with client(servers) as zk:
        changes = zk.changes(SINCE)
        with pytest.raises(error) as caught:
            await changes.receive()
        if error is UnimplementedError:
            assert "ZooKeeper" in str(caught.value)
        assert (await changes.receive()).path == "/a"


async def test_iteration_ends_quietly_with_the_client(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    told = []
    page = lambda xid: given(xid, SINCE + 1, [created(SINCE + 1, b"/a")])  # noqa: E731
    ended = trio.Event()
    async with client(ScriptedServers(nursery, serving(page))) as zk:
        changes = zk.changes(SINCE)

        async def follow() -> None:
            async for change in changes:
                told.append(change.path)
            ended.set()

        nursery.start_soon(follow)
        await trio.testing.wait_all_tasks_blocked()
    with trio.fail_after(1):
        await ended.wait()
    assert told == ["/a"]
    with pytest.raises(ClientClosedError):
        await changes.receive()


async def test_the_end_of_the_session_is_raised(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        if len(servers.peers) == 1:
            await peer.welcome()
            await asked(peer)
        else:
            await peer.frame()
            await peer.send(frame(ConnectResponse.invalid().encode()))

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        with pytest.raises(SessionExpiredError):
            await zk.changes(SINCE).receive()


async def test_a_page_that_means_nothing_ends_the_connection_and_is_asked_for_elsewhere(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    good = serving(lambda xid: given(xid, SINCE + 1, [created(SINCE + 1, b"/a")]))

    async def script(peer: Peer) -> None:
        if len(servers.peers) > 1:
            await good(peer)
            return
        await peer.welcome()
        xid, _ = await asked(peer)
        await peer.send(reply(xid, 1, 0, b"\x00\x00\x00\x09" + bytes(60)))
        await trio.sleep_forever()

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        assert (await zk.changes(SINCE).receive()).path == "/a"
    assert len(servers.peers) == 2
    nursery.cancel_scope.cancel()


async def test_below_a_chroot_paths_are_those_below_it(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    log: list[Asked] = []
    page = lambda xid: given(xid, SINCE + 2, [created(SINCE + 1, b"/app"), created(SINCE + 2, b"/app/a/b")])  # noqa: E731
    servers = ScriptedServers(nursery, serving(page, log=log))
    async with client(servers, "one:1/app") as zk:
        changes = zk.changes(SINCE)
        assert [(await changes.receive()).path for _ in range(2)] == ["/", "/a/b"]
        with trio.move_on_after(1):
            await zk.changes(SINCE, "/a").receive()
    assert [body.prefix for _, body in log] == [b"/app", b"/app/a"]


@pytest.mark.parametrize(
    ("since", "prefix"),
    [(0, "app"), (0, "/app/"), (0, ""), (-1, "/"), (1 << 63, "/"), (Place(-1, 0, ""), "/"), (Place(1, 0, "xy"), "/")],
)
async def test_what_is_no_place_or_no_prefix_is_refused_at_once(
    autojump_clock: MockClock, nursery: trio.Nursery, since: int | Place, prefix: str
) -> None:
    async with client(ScriptedServers(nursery, serving())) as zk:
        with pytest.raises(BadArgumentsError):
            zk.changes(since, prefix)


# ------------------------------------------------------------------------------------------ their xids, on a connection


def ask() -> ClientRequest[object]:
    def read(payload: bytes, offset: int) -> object:
        return decode_body(OpCode.GET_CHANGES, payload, offset)

    return ClientRequest(OpCode.GET_CHANGES, GetChanges(1, WHOLE, b"", b"/", 1, 1).encode(), read)


def test_changes_are_answered_out_of_order_by_their_xids() -> None:
    connection = opened()
    first, second, between = ask(), ask(), get()
    connection.send_changes(first)
    connection.send(between)
    connection.send_changes(second)
    assert [xid for xid, _, _ in frames(connection.take(0))] == [-16, 1, -17]
    assert connection.in_flight_count == 1
    received = connection.receive(given(-17, 9, []) + data_reply(1, 9, b"", STAT) + given(-16, 9, []), 0)
    answers = [event.request for event in received if isinstance(event, Answered)]
    assert answers == [second, between, first]


def test_their_xids_begin_again_behind_the_least() -> None:
    connection = opened()
    connection._next_changes_xid = XID_MIN
    for _ in range(2):
        connection.send_changes(ask())
    assert [xid for xid, _, _ in frames(connection.take(0))] == [XID_MIN, -16]


def test_a_connection_that_ends_gives_them_back() -> None:
    connection = opened()
    waiting = ask()
    connection.send_changes(waiting)
    assert connection.end() == [waiting]
    assert connection.end() == []
