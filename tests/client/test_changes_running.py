"""The feed of changes on running ensembles: members that are killed, logs that are purged, consumers that are slow."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from tests.rigs.in_process import members_here
from tests.rigs.waiting import until_async
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember, zookeeper
from zab.client import (
    OPEN_ACL,
    Acl,
    Change,
    ChangeKind,
    Changes,
    ChangesLostError,
    Client,
    ConnectionLossError,
    NodeExistsError,
    Permission,
    Place,
    Settings,
    UnimplementedError,
    connect,
)
from zab.client.core.hosts import Host
from zab.client.on_trio import tcp
from zab.testing.ensemble import Ensemble

pytestmark = pytest.mark.slow

# Little is kept in memory, and for a short time on disk: what is followed here comes from the files too.
CONFIGURATION = {
    "tickTime": 200,
    "minSessionTimeout": 400,
    "maxSessionTimeout": 40_000,
    "maxBatchBytes": 20_000,
    "maxRecentBytes": 20_000,
    "preAllocSize": 256,
}
BOB = (Acl(Permission.ALL, "auth", ""),)


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with members_here(3, CONFIGURATION) as servers:
        yield servers


@pytest.fixture
async def zk(ensemble: Ensemble) -> AsyncIterator[Client]:
    async with connect(ensemble.hosts) as client:
        with trio.fail_after(120):
            yield client


async def collect(changes: Changes, count: int) -> list[Change]:
    return [await changes.receive() for _ in range(count)]


async def everything(changes: Changes, zk: Client, last: str) -> list[Change]:
    """All that is told before a znode which `zk` creates last: what should not be told would come before it."""
    await zk.create(last)
    found = []
    while (change := await changes.receive()).zxid < zk.last_zxid:
        found.append(change)
    assert change.path.endswith(last)
    return found


async def test_changes_are_told_as_they_happen(zk: Client, ensemble: Ensemble) -> None:
    await zk.create("/live")
    changes = zk.changes(zk.last_zxid, "/live")
    async with connect(ensemble.hosts) as writer:
        created = await writer.create("/live/a", b"1", ephemeral=True)
        await writer.set("/live/a", b"2")
        async with writer.transaction() as together:
            together.check("/live/a", 1)
            together.create("/live/b", None)
            together.set("/live/b", b"3")
        session = writer.session_id
    told = await collect(changes, 5)
    assert [(change.kind, change.path, change.data, change.version) for change in told] == [
        (ChangeKind.CREATED, created, b"1", 0),
        (ChangeKind.DATA_CHANGED, "/live/a", b"2", 1),
        (ChangeKind.CREATED, "/live/b", None, 0),
        (ChangeKind.DATA_CHANGED, "/live/b", b"3", 1),
        (ChangeKind.DELETED, "/live/a", None, -1),
    ]
    assert [change.part for change in told] == [0, 0, 1, 2, 0]
    assert told[2].zxid == told[3].zxid
    assert (told[0].ephemeral_owner, {change.session for change in told}) == (session, {session})
    assert abs(told[0].time / 1000 - time.time()) < 60


async def test_every_server_tells_the_same(zk: Client, ensemble: Ensemble) -> None:
    await zk.create("/same")
    for number in range(300):
        await zk.create(f"/same/{number}", bytes(100))
    told = []
    for member in ensemble.members.values():
        async with connect(member.hosts) as each:
            await each.sync()
            told.append(await collect(each.changes(0, "/same"), 301))
    assert told[0] == told[1] == told[2]
    assert [change.path for change in told[0]] == ["/same", *(f"/same/{number}" for number in range(300))]


async def test_a_chroot_is_the_root_of_the_feed(zk: Client, ensemble: Ensemble) -> None:
    await zk.create("/jail")
    await zk.create("/jailed")
    async with connect(ensemble.hosts + "/jail") as inside:
        await inside.create("/a")
        await inside.create("/a/b")
        assert [change.path for change in await everything(inside.changes(0), inside, "/last")] == ["/", "/a", "/a/b"]
        told = await everything(inside.changes(0, "/a/b"), inside, "/a/b/last")
        assert [change.path for change in told] == ["/a/b"]


async def test_restricted_znodes_are_told_to_whoever_may_read_them(zk: Client, ensemble: Ensemble) -> None:
    async with connect(ensemble.hosts, auth=[("digest", "bob:pw")]) as bob:
        await bob.create("/acl")
        await bob.create("/acl/secret", b"1", BOB)
        await bob.set("/acl/secret", b"2")
        await bob.delete("/acl/secret")
        told = await everything(bob.changes(0, "/acl"), bob, "/acl/last")
        assert [change.path for change in told] == ["/acl"] + ["/acl/secret"] * 3
    told = await everything(zk.changes(0, "/acl"), zk, "/acl/very-last")
    assert [change.path for change in told] == ["/acl", "/acl/last"]


async def test_a_place_is_resumed_exactly_by_another_client(zk: Client, ensemble: Ensemble) -> None:
    await zk.create("/place")
    async with zk.transaction() as together:
        for number in range(5):
            together.create(f"/place/{number}")
    first = zk.changes(0, "/place")
    told = await collect(first, 4)
    assert first.place is not None
    stored = tuple(first.place)
    async with connect(ensemble.hosts) as other:
        told += await everything(other.changes(Place(*stored), "/place"), other, "/place/last")
    assert [change.path for change in told] == ["/place", *(f"/place/{number}" for number in range(5))]


async def test_a_zxid_from_the_future_is_refused(zk: Client) -> None:
    await zk.create("/future")
    for since in (zk.last_zxid + 1_000_000, zk.last_zxid + (5 << 32)):
        with pytest.raises(ChangesLostError, match="the history ends at"):
            await zk.changes(since).receive()
    with pytest.raises(ChangesLostError, match="does not have it"):
        await zk.changes(Place(zk.last_zxid, 0, "00" * 16)).receive()


class Served:
    """Knows which member a client is connected to."""

    def __init__(self, ensemble: ZooKeeperEnsemble) -> None:
        self._ensemble = ensemble
        self._dial = tcp(None)
        self.port = 0

    async def dial(self, host: Host) -> trio.abc.Stream:
        stream = await self._dial(host)
        self.port = host.port
        return stream

    @property
    def member(self) -> ZooKeeperMember:
        return next(member for member in self._ensemble.members if member.client_port == self.port)


async def kill(member: ZooKeeperMember) -> None:
    """And start it again, a little later."""
    await trio.to_thread.run_sync(member.kill)
    await trio.sleep(0.3)
    member.start()


async def create(zk: Client, path: str) -> None:
    """Until it is certain, whatever happens to the members."""
    while True:
        with suppress(ConnectionLossError, NodeExistsError):
            await zk.create(path)
            return
        with suppress(ConnectionLossError):
            if await zk.exists(path) is not None:
                return


async def write(ensemble: ZooKeeperEnsemble, acknowledged: list[str], enough: trio.Event, done: trio.Event) -> None:
    """Creates znodes of ever new names until it is enough."""
    async with connect(ensemble.hosts, settings=Settings(session_timeout_ms=40_000)) as zk:
        while not enough.is_set():
            path = f"/kill/{len(acknowledged)}"
            await create(zk, path)
            acknowledged.append(path)
    done.set()


@pytest.mark.long
async def test_nothing_is_lost_and_nothing_told_twice_while_members_are_killed() -> None:
    enough, done = trio.Event(), trio.Event()
    acknowledged: list[str] = []
    told: list[Change] = []
    with zab_servers(3, configuration=CONFIGURATION) as ensemble:
        served = Served(ensemble)
        settings = Settings(session_timeout_ms=40_000, changes_bytes_max=2_000)
        with trio.fail_after(300):
            async with connect(ensemble.hosts, settings=settings, dial=served.dial) as zk, trio.open_nursery() as tasks:
                await zk.create("/kill")
                changes = zk.changes(zk.last_zxid, "/kill")

                async def follow() -> None:
                    async for change in changes:
                        told.append(change)

                tasks.start_soon(follow)
                tasks.start_soon(write, ensemble, acknowledged, enough, done)
                for number in range(5):
                    reached = len(told) + 200
                    await until_async(lambda reached=reached: len(told) >= reached)
                    await kill(served.member if number % 2 == 0 else await trio.to_thread.run_sync(ensemble.leader))
                enough.set()
                await done.wait()
                await create(zk, "/kill/last")
                await until_async(lambda: told[-1].path == "/kill/last")
                present = await zk.get_children("/kill")
                tasks.cancel_scope.cancel()
    paths = [change.path for change in told]
    assert len(paths) == len(set(paths))
    assert set(paths) == {*acknowledged, "/kill/last"}
    assert set(paths) == {f"/kill/{name}" for name in present}
    zxids = [change.zxid for change in told]
    assert zxids == sorted(set(zxids))
    assert len({zxid >> 32 for zxid in zxids}) > 1


@asynccontextmanager
async def purged(directory: Path) -> AsyncIterator[tuple[Client, ZooKeeperEnsemble]]:
    """A server whose log begins after its beginning, since retention has removed the rest."""
    configuration = {**CONFIGURATION, "snapCount": 100}
    with zab_servers(1, directory=directory, configuration=configuration) as ensemble:
        async with connect(ensemble.hosts) as zk:
            with trio.fail_after(120):
                await zk.create("/old")
                number = 0
                while (directory / "server1/data/version-1/log.100000001").exists():
                    await zk.create(f"/old/{number}", b"x")
                    await zk.delete(f"/old/{number - 50}") if number >= 50 else None
                    number += 1
                yield zk, ensemble


@pytest.mark.long
async def test_older_than_what_is_kept_then_the_tree_and_on_from_there(tmp_path: Path) -> None:
    async with purged(tmp_path) as (zk, _):
        with pytest.raises(ChangesLostError, match="read the tree, and follow from there") as caught:
            await zk.changes(0).receive()
        oldest = caught.value.oldest
        assert oldest is not None
        assert 0 < oldest < zk.last_zxid
        assert (await zk.changes(oldest).receive()).zxid == oldest + 1
        with pytest.raises(ChangesLostError):
            await zk.changes(oldest - 1).receive()
        # What to do then: note the zxid, read the tree, follow from the zxid; what is older than what was read is in it
        await zk.sync()
        since = zk.last_zxid
        await zk.create("/old/between")
        mirror = {}
        for name in await zk.get_children("/old"):
            data, stat = await zk.get(f"/old/{name}")
            mirror[f"/old/{name}"] = (stat.mzxid, data)
        await zk.set("/old/between", b"later")
        await zk.create("/old/after", b"new")
        await zk.delete("/old/after")
        for change in await collect(zk.changes(since, "/old"), 4):
            if change.kind is ChangeKind.DELETED:
                mirror.pop(change.path, None)
            elif change.zxid > mirror.get(change.path, (0, b""))[0]:
                mirror[change.path] = change.zxid, change.data
        present = {f"/old/{name}": (await zk.get(f"/old/{name}"))[0] for name in await zk.get_children("/old")}
        assert {path: data for path, (_, data) in mirror.items()} == present
        assert mirror["/old/between"][1] == b"later"


@pytest.mark.long
async def test_a_restarted_server_tells_everything_that_it_still_has(tmp_path: Path) -> None:
    # Retention keeps all: how many snapshots there are by then depends on how long each took.
    configuration = {**CONFIGURATION, "snapCount": 100, "autopurge.snapRetainCount": 10}
    with zab_servers(1, directory=tmp_path, configuration=configuration) as ensemble:
        member = ensemble.members[0]
        async with connect(ensemble.hosts, auth=[("digest", "bob:pw")]) as zk:
            with trio.fail_after(120):
                await zk.create("/back")
                for number in range(220):
                    await zk.create(f"/back/{number}", acl=BOB if number % 10 == 0 else OPEN_ACL)
                    await zk.delete(f"/back/{number}")
                await until_async(lambda: len(list(tmp_path.rglob("version-1/snapshot.*"))) > 1)
        await trio.to_thread.run_sync(member.kill)
        member.start()
        ensemble.wait()
        async with connect(ensemble.hosts) as nobody, connect(ensemble.hosts, auth=[("digest", "bob:pw")]) as bob:
            with trio.fail_after(120):
                told = await everything(nobody.changes(0, "/back"), nobody, "/back/last")
                assert [change.path for change in told] == ["/back"] + [
                    f"/back/{number}" for number in range(220) for _ in range(2) if number % 10
                ]
                assert len(await everything(bob.changes(0, "/back"), bob, "/back/very-last")) == 442


@pytest.mark.long
async def test_a_consumer_that_is_slow_costs_the_server_no_memory(tmp_path: Path) -> None:
    with zab_servers(1, directory=tmp_path, configuration=CONFIGURATION) as ensemble:
        member = ensemble.members[0]
        async with connect(ensemble.hosts) as zk, connect(ensemble.hosts) as slow:
            with trio.fail_after(120):
                await zk.create("/big", b"")
                changes = [slow.changes(0, "/big") for _ in range(20)]
                for each in changes:
                    assert (await each.receive()).path == "/big"
                before = resident_bytes(member.pid)
                for number in range(400):
                    await zk.set("/big", bytes(100_000) + b"%d" % number)
                assert resident_bytes(member.pid) - before < 20 << 20
                for number in range(400):
                    change = await changes[0].receive()
                    assert change.version == number + 1
                assert resident_bytes(member.pid) - before < 30 << 20


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(pid)


@pytest.mark.java
async def test_zookeeper_has_no_such_feed_and_the_client_says_so() -> None:
    with zookeeper(1, configuration={"tickTime": 500}) as servers:
        async with connect(servers.hosts) as zk:
            with trio.fail_after(120):
                await zk.create("/a", ephemeral=True)
                with pytest.raises(UnimplementedError, match="no feed of changes"):
                    await zk.changes(0).receive()
                # It has closed the connection; the session goes on on the next.
                while True:
                    with suppress(ConnectionLossError):
                        assert await zk.exists("/a") is not None
                        break
