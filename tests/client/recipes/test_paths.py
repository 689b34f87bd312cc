"""A malformed path is refused where it is given: by an error for the caller, never by a client that ends."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio

from datatree.errors import ErrorCode
from datatree.opcodes import WRITES, OpCode
from tests.client.recipes.world import World, run
from tests.client.scripted import Peer, ScriptedServers
from zab.client import BadArgumentsError, Client, ConnectionLossError, NoAuthError, NoNodeError, connect
from zab.client.attempts import ATTEMPTS_MAX
from zab.client.core.records import Acl, Permission
from zab.client.recipes import (
    Barrier,
    Cache,
    Configuration,
    Counter,
    Discovery,
    DoubleBarrier,
    Election,
    Instance,
    Lease,
    Lock,
    LockingQueue,
    Party,
    Queue,
    ReadWriteLock,
    Semaphore,
    children_of,
    data_of,
    from_json,
)
from zab.jute.replies import reply

pytestmark = pytest.mark.slow


async def _enter(block: AbstractAsyncContextManager[object]) -> None:
    async with block:
        pass


USES: dict[str, Callable[[Client, str], Any]] = {
    "barrier": lambda zk, path: Barrier(zk, path).wait(),
    "cache": lambda zk, path: Cache(zk, path).start(),
    "children": lambda zk, path: anext(children_of(zk, path)),
    "configuration": lambda zk, path: Configuration(zk, path, from_json).start(),
    "counter": lambda zk, path: Counter(zk, path).add(),
    "data": lambda zk, path: anext(data_of(zk, path)),
    "discovery": lambda zk, path: _enter(Discovery(zk, path).register("web", Instance())),
    "double barrier": lambda zk, path: DoubleBarrier(zk, path, count=1).enter(),
    "election": lambda zk, path: _enter(Election(zk, path).lead()),
    "lease": lambda zk, path: Lease(zk, path, seconds=1).acquire(),
    "lock": lambda zk, path: Lock(zk, path).acquire(),
    "locking queue": lambda zk, path: LockingQueue(zk, path).put(b""),
    "party": lambda zk, path: Party(zk, path).join(),
    "queue": lambda zk, path: Queue(zk, path).put(b""),
    "read lock": lambda zk, path: ReadWriteLock(zk, path).read.acquire(),
    "semaphore": lambda zk, path: Semaphore(zk, path, permits=1).acquire(),
}


@pytest.mark.parametrize("path", ["", "a", "/a//b", "/a/../b", "/a\x00"])
@pytest.mark.parametrize("use", list(USES))
def test_a_malformed_path_is_refused_and_the_client_lives_on(use: str, path: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            with pytest.raises(BadArgumentsError):
                await USES[use](zk, path)
            await zk.sleep(1)
            assert await zk.exists("/") is not None

    run(scenario, World())


@pytest.mark.parametrize("use", list(USES))
def test_what_is_forbidden_is_an_error_and_the_client_lives_on(use: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk") as zk:
            await zk.create("/secret", acl=[Acl(Permission.ADMIN, "world", "anyone")])
            if use == "barrier":
                # It asks whether the znode exists, which nobody is forbidden.
                await Barrier(zk, "/secret/a").wait()
            else:
                with pytest.raises(NoAuthError):
                    await USES[use](zk, "/secret")
            await zk.sleep(1)
            assert await zk.exists("/") is not None

    run(scenario, World())


@pytest.mark.parametrize("use", [use for use in USES if use != "configuration"])
def test_a_chroot_that_does_not_exist_is_made_by_who_writes_there(use: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk", hosts="member:1/no/such") as zk:
            with pytest.raises(NoNodeError, match=r"the chroot does not exist; ensure_path\(\"/\"\) makes it"):
                await zk.create("/a")
            following = use in ("children", "data")
            assert (await USES[use](zk.with_chroot("/app/deep"), "/a") is None) or not following
        assert ("/no/such/app/deep" in world.znodes()) is (use not in ("barrier", "cache", "children", "data"))
        assert not [path for path in world.znodes() if not path.startswith("/no")]

    run(scenario, World())


def test_the_chroot_itself_is_made_and_the_root_is_there() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("zk", hosts="member:1/no/such") as zk, world.connect("other") as other:
            await zk.ensure_path("/")
            await other.ensure_path("/")
            assert world.znodes() == {"/no": b"", "/no/such": b""}
            deep = "/a" * 400
            await zk.ensure_path(deep)
            assert await zk.exists(deep) is not None

    run(scenario, World())


HOSTILE: dict[str, Callable[[int, bytes], int | None]] = {
    # Every znode is gone again at once.
    "nothing is there": lambda _opcode, _body: ErrorCode.NONODE,
    "parents go": lambda opcode, body: (
        ErrorCode.NODEEXISTS if opcode == OpCode.CREATE2 and body.endswith(b"\0" * 4) else ErrorCode.NONODE
    ),
    # None: the connection ends.
    "writes end the connection": lambda opcode, _body: None if opcode in WRITES else ErrorCode.NONODE,
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("use", list(USES))
async def test_no_answer_is_asked_for_without_end(
    use: str, hostile: str, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        while True:
            xid, opcode, body = await peer.request()
            asked.append(opcode)
            if opcode in (OpCode.CLOSE_SESSION, OpCode.SYNC):
                await peer.send(reply(xid, 1))
                continue
            error = HOSTILE[hostile](opcode, body)
            if error is None:
                return
            await peer.send(reply(xid, 1, error))

    asked: list[int] = []
    servers = ScriptedServers(nursery, script)
    async with connect("a:1", dial=servers.dial) as zk:
        with contextlib.suppress(NoNodeError, ConnectionLossError):
            await USES[use](zk, "/a/b")
    assert len(asked) < 12 * ATTEMPTS_MAX
