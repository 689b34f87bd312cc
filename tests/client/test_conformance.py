"""The client against running servers: the real ZooKeeper, and ours. Every test is the same for both.

Each test works below a path of its own, so that one ensemble serves them all.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
import trio

from tests.client.running import KINDS, running_processes
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.client import (
    CREATOR_ALL_ACL,
    OPEN_ACL,
    Acl,
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    Client,
    ConnectionLossError,
    EventType,
    Get,
    GetChildren,
    Identity,
    InvalidAclError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NoWatcherError,
    Permission,
    ReconfigDisabledError,
    SessionExpiredError,
    Settings,
    Stat,
    State,
    WatchKind,
    WatchMode,
    connect,
)
from zab.client.core.hosts import Host

CONFIGURATION = {"tickTime": 200, "minSessionTimeout": 400, "maxSessionTimeout": 60_000}
# Whose session is to be over when the block is left.
CLOSING = Settings(close_wait_ms=30_000)
SHORT_MS = 5_000


@pytest.fixture(scope="module", params=KINDS)
def ensemble(request: pytest.FixtureRequest) -> Iterator[ZooKeeperEnsemble]:
    """Three running servers."""
    with running_processes(request.param, 3, CONFIGURATION) as servers:
        yield servers


@pytest.fixture
async def zk(ensemble: ZooKeeperEnsemble, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client whose root belongs to the test alone."""
    name = "/" + request.node.name.partition("[")[0]
    async with connect(ensemble.hosts) as root:
        await root.create(name)
    async with connect(ensemble.hosts + name) as client:
        with trio.fail_after(120):
            yield client


async def collect(events: object, count: int) -> list[tuple[EventType, str]]:
    assert hasattr(events, "receive")
    return [(event.type, event.path) for event in [await events.receive() for _ in range(count)]]


# Znodes.


async def test_create_get_set_delete(zk: Client) -> None:
    assert await zk.create("/a", b"one") == "/a"
    data, stat = await zk.get("/a")
    assert (data, stat.version, stat.data_length, stat.czxid) == (b"one", 0, 3, stat.mzxid)
    changed = await zk.set("/a", b"three", 0)
    assert (changed.version, changed.data_length) == (1, 5)
    assert await zk.exists("/a") == changed
    await zk.delete("/a", 1)
    assert await zk.exists("/a") is None


async def test_null_data_is_kept_apart_from_empty(zk: Client) -> None:
    await zk.create("/null", None)
    await zk.create("/empty", b"")
    assert (await zk.get("/null"))[0] is None
    assert (await zk.get("/empty"))[0] == b""


async def test_create2_returns_the_stat(zk: Client) -> None:
    path, stat = await zk.create2("/a", b"x")
    assert path == "/a"
    assert (await zk.get("/a"))[1] == stat


async def test_sequential_names_count_up(zk: Client) -> None:
    assert await zk.create("/s-", sequence=True) == "/s-0000000000"
    assert await zk.create("/s-", sequence=True, ephemeral=True) == "/s-0000000001"
    assert await zk.create("/", sequence=True) == "/0000000002"


async def test_ephemerals_go_with_their_session(zk: Client, ensemble: ZooKeeperEnsemble) -> None:
    async with connect(ensemble.hosts + "/test_ephemerals_go_with_their_session", settings=CLOSING) as other:
        await other.create("/e", ephemeral=True)
        await other.create("/f", ephemeral=True)
        assert await other.get_ephemerals() == ["/e", "/f"]
        assert await other.get_ephemerals("/e") == ["/e"]
        assert (await other.get("/e"))[1].ephemeral_owner == other.session_id
        with pytest.raises(NoChildrenForEphemeralsError):
            await other.create("/e/child")
    await zk.sync()
    assert await zk.get_children("/") == []


async def test_containers_and_ttl_znodes(zk: Client) -> None:
    assert await zk.create("/container", container=True) == "/container"
    assert await zk.create("/ttl", ttl_ms=60_000) == "/ttl"
    assert await zk.create("/ttl-", ttl_ms=60_000, sequence=True) == "/ttl-0000000002"
    assert (await zk.get("/ttl"))[1].ephemeral_owner == 0


@pytest.mark.parametrize(
    "mode",
    [
        {"container": True, "ephemeral": True},
        {"container": True, "sequence": True},
        {"ttl_ms": 0},
        {"ttl_ms": 1 << 40},
        {"ttl_ms": 5, "ephemeral": True},
    ],
)
async def test_kinds_of_znode_that_do_not_exist(zk_shared: Client, mode: dict) -> None:
    with pytest.raises(BadArgumentsError):
        await zk_shared.create("/a", **mode)


@pytest.fixture
async def zk_shared(ensemble: ZooKeeperEnsemble) -> AsyncIterator[Client]:
    async with connect(ensemble.hosts) as client:
        yield client


async def test_children_and_their_number(zk: Client) -> None:
    for path in ("/b", "/a", "/a/x", "/a/y", "/\u00fc"):
        await zk.create(path)
    assert await zk.get_children("/") == ["a", "b", "\u00fc"]
    names, stat = await zk.get_children2("/a")
    assert (names, stat.num_children, stat.cversion) == (["x", "y"], 2, 2)
    assert await zk.get_all_children_number("/") == 5


async def test_refusals(zk: Client) -> None:
    await zk.create("/a")
    await zk.create("/a/b")
    with pytest.raises(NodeExistsError):
        await zk.create("/a")
    with pytest.raises(NoNodeError) as caught:
        await zk.create("/none/b")
    assert caught.value.path == "/none/b"
    with pytest.raises(NotEmptyError):
        await zk.delete("/a")
    with pytest.raises(BadVersionError):
        await zk.set("/a", b"", 7)
    with pytest.raises(NoNodeError):
        await zk.get_children("/none")
    with pytest.raises(InvalidAclError):
        await zk.create("/c", acl=())
    with pytest.raises(ReconfigDisabledError):
        await zk.reconfig(leaving="3")


async def test_configuration_is_outside_of_the_chroot(zk: Client) -> None:
    data, _ = await zk.get_config()
    assert data is not None
    assert data.count(b"server.") == 3


# Several at once.


async def test_transaction_does_all(zk: Client) -> None:
    await zk.create("/a")
    async with zk.transaction() as t:
        t.check("/a", 0)
        t.create("/a/b", b"x")
        t.create("/a/s-", sequence=True, ephemeral=True)
        t.create("/a/c", container=True)
        t.set("/a/b", b"y")
        t.delete("/a/c")
    assert t.results is not None
    assert t.results[:4] == [None, "/a/b", "/a/s-0000000001", "/a/c"]
    assert isinstance(t.results[4], Stat)
    assert await zk.get_children("/a") == ["b", "s-0000000001"]


async def test_refused_transaction_does_nothing_and_says_which_operation(zk: Client) -> None:
    t = zk.transaction()
    t.create("/a")
    t.check("/none")
    t.create("/b")
    with pytest.raises(NoNodeError) as caught:
        await t.commit()
    assert (caught.value.index, caught.value.path) == (1, "/none")
    assert t.results is None
    assert await zk.get_children("/") == []


async def test_a_transaction_left_with_an_exception_is_not_sent(zk: Client) -> None:
    with suppress(ZeroDivisionError):
        async with zk.transaction() as t:
            t.create("/a")
            raise ZeroDivisionError
    assert t.results is None
    assert await zk.get_children("/") == []


async def test_empty_transaction(zk: Client) -> None:
    assert await zk.transaction().commit() == []


async def test_multi_read_answers_each_alone(zk: Client) -> None:
    await zk.create("/a", b"x")
    data, names, missing = await zk.multi_read([Get("/a"), GetChildren("/"), Get("/none")])
    assert (data[0], names) == (b"x", ["a"])
    assert isinstance(missing, NoNodeError)
    assert (missing.index, missing.path) == (2, "/none")


async def test_requests_of_many_tasks(zk: Client) -> None:
    async def count(name: str) -> None:
        await zk.create(f"/{name}", b"0")
        for version in range(20):
            stat = await zk.set(f"/{name}", b"%d" % version, version)
            assert stat.version == version + 1
            assert (await zk.get(f"/{name}"))[0] == b"%d" % version

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(count, f"t{number}")
    assert await zk.get_all_children_number("/") == 20


# Identities and ACLs.


async def test_identities_open_what_an_acl_closes(zk: Client, ensemble: ZooKeeperEnsemble) -> None:
    await zk.add_auth("digest", "bob:pw")
    assert Identity("digest", "bob") in await zk.who_am_i()
    await zk.create("/mine", b"secret", CREATOR_ALL_ACL)
    acl, stat = await zk.get_acl("/mine")
    assert acl == (Acl(Permission.ALL, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="),)
    assert stat.aversion == 0
    chroot = "/test_identities_open_what_an_acl_closes"
    async with connect(ensemble.hosts + chroot) as stranger:
        with pytest.raises(NoAuthError):
            await stranger.get("/mine")
    async with connect(ensemble.hosts + chroot, auth=[("digest", "bob:pw")]) as bob:
        assert (await bob.get("/mine"))[0] == b"secret"
        assert (await bob.set_acl("/mine", OPEN_ACL, 0)).aversion == 1
        with pytest.raises(BadVersionError):
            await bob.set_acl("/mine", OPEN_ACL, 0)


async def test_unknown_scheme_is_refused_and_the_session_goes_on(zk: Client) -> None:
    session_id = zk.session_id
    await zk.create("/e", ephemeral=True)
    with pytest.raises(AuthFailedError):
        await zk.add_auth("nonsense", "x")
    while True:
        try:
            assert await zk.get_ephemerals() == ["/e"]
            break
        except ConnectionLossError:
            continue
    assert zk.session_id == session_id


# Watches.


async def test_one_shot_watches(zk: Client) -> None:
    watcher = zk.watcher()
    assert await zk.exists("/a", watch=watcher) is None
    await zk.create("/a")
    await zk.get("/a", watch=watcher)
    await zk.get_children("/a", watch=watcher)
    await zk.create("/a/b")
    await zk.set("/a", b"1")
    await zk.set("/a", b"2")
    await zk.exists("/a", watch=watcher)
    await zk.delete("/a/b")
    await zk.delete("/a")
    assert await collect(watcher, 4) == [
        (EventType.CREATED, "/a"),
        (EventType.CHILDREN_CHANGED, "/a"),
        (EventType.DATA_CHANGED, "/a"),
        (EventType.DELETED, "/a"),
    ]
    assert watcher.receive_nowait() is None


async def test_persistent_watch(zk: Client) -> None:
    async with zk.watch("/a") as events:
        await zk.create("/a")
        await zk.set("/a", b"1")
        await zk.create("/a/b")
        await zk.set("/a/b", b"1")
        await zk.delete("/a/b")
        await zk.delete("/a")
        assert await collect(events, 5) == [
            (EventType.CREATED, "/a"),
            (EventType.DATA_CHANGED, "/a"),
            (EventType.CHILDREN_CHANGED, "/a"),
            (EventType.CHILDREN_CHANGED, "/a"),
            (EventType.DELETED, "/a"),
        ]
        assert await zk.check_watches("/a", WatchKind.PERSISTENT)
    assert not await zk.check_watches("/a", WatchKind.PERSISTENT)


async def test_recursive_watch(zk: Client) -> None:
    async with zk.watch("/", recursive=True) as events:
        await zk.create("/a")
        await zk.create("/a/b")
        await zk.set("/a/b", b"1")
        await zk.delete("/a/b")
        assert await collect(events, 4) == [
            (EventType.CREATED, "/a"),
            (EventType.CREATED, "/a/b"),
            (EventType.DATA_CHANGED, "/a/b"),
            (EventType.DELETED, "/a/b"),
        ]


async def test_removing_watches(zk: Client) -> None:
    watcher = zk.watcher()
    await zk.create("/a")
    with pytest.raises(NoWatcherError):
        await zk.remove_watches("/a")
    await zk.get("/a", watch=watcher)
    await zk.get_children("/a", watch=watcher)
    await zk.add_watch("/a", watcher, WatchMode.PERSISTENT)
    await zk.remove_watches("/a", WatchKind.CHILDREN)
    await zk.remove_watches("/a", WatchKind.DATA)
    await zk.remove_watches("/a", WatchKind.PERSISTENT)
    await zk.set("/a", b"1")
    assert await collect(watcher, 3) == [
        (EventType.CHILD_WATCH_REMOVED, "/a"),
        (EventType.DATA_WATCH_REMOVED, "/a"),
        (EventType.PERSISTENT_WATCH_REMOVED, "/a"),
    ]
    assert watcher.receive_nowait() is None


async def test_two_watchers_of_one_path_are_independent(zk: Client) -> None:
    async with zk.watch("/a") as first:
        async with zk.watch("/a") as second:
            await zk.create("/a")
            assert await collect(second, 1) == [(EventType.CREATED, "/a")]
        await zk.delete("/a")
        assert await collect(first, 2) == [(EventType.CREATED, "/a"), (EventType.DELETED, "/a")]


# The session.


class Wire:
    """`dial` over TCP that a test can cut: what is open breaks, and nothing new opens until `mend`."""

    def __init__(self) -> None:
        self._streams: list[trio.SocketStream] = []
        self._is_cut = False

    async def dial(self, host: Host) -> trio.SocketStream:
        if self._is_cut:
            raise ConnectionRefusedError("cut")
        stream = await trio.open_tcp_stream(host.name, host.port)
        self._streams.append(stream)
        return stream

    async def cut(self) -> None:
        self._is_cut = True
        for stream in self._streams:
            await trio.aclose_forcefully(stream)

    def mend(self) -> None:
        self._is_cut = False


async def test_a_session_moves_to_another_server_with_ephemerals_and_watches(
    zk: Client, ensemble: ZooKeeperEnsemble
) -> None:
    chroot = "/test_a_session_moves_to_another_server_with_ephemerals_and_watches"
    await zk.create("/a")
    wire = Wire()
    identities = [("digest", "bob:pw")]
    async with connect(ensemble.hosts + chroot, settings=CLOSING, auth=identities, dial=wire.dial) as moving:
        once, always = moving.watcher(), moving.watcher()
        await moving.create("/e", ephemeral=True)
        await moving.get("/a", watch=once)
        await moving.add_watch("/", always)
        session_id = moving.session_id
        changes = moving.states()
        await wire.cut()
        await zk.set("/a", b"missed by the persistent watch")
        wire.mend()
        assert await moving.get_ephemerals() == ["/e"]
        assert moving.session_id == session_id
        assert Identity("digest", "bob") in await moving.who_am_i()
        await moving.set("/a", b"seen")
        assert [await anext(changes) for _ in range(3)] == [State.CONNECTED, State.CONNECTING, State.CONNECTED]
        session_events = [(EventType.SESSION, "")] * 2
        assert await collect(once, 3) == [*session_events, (EventType.DATA_CHANGED, "/a")]
        assert await collect(always, 3) == [*session_events, (EventType.DATA_CHANGED, "/a")]
    await zk.sync("/")
    assert await zk.get_children("/") == ["a"]


async def until_connected(client: Client) -> None:
    """Between two attempts to connect there is no server."""
    while True:
        with suppress(ConnectionLossError):
            await client.get("/")
            return


async def test_a_session_that_no_server_knows_any_more_is_expired(zk: Client, ensemble: ZooKeeperEnsemble) -> None:
    chroot = "/test_a_session_that_no_server_knows_any_more_is_expired"
    wire = Wire()
    async with connect(ensemble.hosts + chroot, session_timeout_ms=SHORT_MS, dial=wire.dial) as short:
        watcher = short.watcher()
        await short.get("/", watch=watcher)
        async with zk.watch("/e") as events:
            await short.create("/e", ephemeral=True)
            await wire.cut()
            assert await collect(events, 2) == [(EventType.CREATED, "/e"), (EventType.DELETED, "/e")]
        wire.mend()
        with pytest.raises(SessionExpiredError):
            await until_connected(short)
        with pytest.raises(SessionExpiredError):
            await short.get("/")
        with pytest.raises(SessionExpiredError):
            [event async for event in watcher]
        assert short.state is State.EXPIRED


async def test_a_session_without_a_client_expires(zk: Client, ensemble: ZooKeeperEnsemble) -> None:
    async with connect(ensemble.hosts, settings=CLOSING, session_timeout_ms=SHORT_MS) as short:
        assert short.session_timeout_ms == SHORT_MS
        resume = (short.session_id, short.session_password)
        await trio.sleep(SHORT_MS / 1000 + 1)
        # Pings kept it alive.
        await until_connected(short)
    with pytest.raises(SessionExpiredError):
        async with connect(ensemble.hosts, resume=resume):
            raise AssertionError("entered")


async def test_a_wrong_password_takes_no_session(zk: Client, ensemble: ZooKeeperEnsemble) -> None:
    with pytest.raises(SessionExpiredError):
        async with connect(ensemble.hosts, resume=(zk.session_id, b"x" * 16)):
            raise AssertionError("entered")
    assert await zk.get_children("/") == []


async def test_the_client_outlives_its_server(zk: Client, ensemble: ZooKeeperEnsemble) -> None:
    """The last test: it kills a server, and starts it again."""
    chroot = "/test_the_client_outlives_its_server"
    victim = ensemble.followers()[0]
    others = ",".join(member.host for member in ensemble.members if member is not victim)
    async with connect(victim.host + chroot, session_timeout_ms=60_000) as probe:
        resume = (probe.session_id, probe.session_password)
        await probe.create("/e", ephemeral=True)
        async with connect(others + chroot) as witness, witness.watch("/e") as events:
            victim.kill()
            victim.start()
            while True:
                try:
                    await probe.set("/e", b"back")
                    break
                except ConnectionLossError:
                    continue
            assert (probe.session_id, probe.session_password) == resume
            assert (await events.receive())[:2] == (EventType.DATA_CHANGED, "/e")
