"""Kazoo, unmodified, against three of our members: what an application does with it, and its recipes.

Each test works below a root of its own (kazoo's chroot). The tests with a killed leader come last.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.counter import Counter
from kazoo.recipe.election import Election
from kazoo.recipe.lease import NonBlockingLease
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock
from kazoo.recipe.partitioner import SetPartitioner
from kazoo.recipe.party import Party, ShallowParty
from kazoo.recipe.queue import LockingQueue, Queue
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from tests.conformance.wire import (
    CLOSE_SESSION,
    ConnectionClosedError,
    View,
    Wire,
    add_watch,
    connect_request,
    create,
    frame,
)
from tests.rigs.kazoo_client import Recorder, kazoo_client
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember

CREATED, DELETED = 1, 2


@pytest.fixture
def root(ours: ZooKeeperEnsemble, request: pytest.FixtureRequest) -> str:
    """The connection string of a root that the test has for itself."""
    path = "/" + request.node.name.replace("[", "-").replace("]", "")
    with kazoo_client(ours.hosts) as kazoo:
        kazoo.create(path)
    return ours.hosts + path


@pytest.fixture
def zk(root: str) -> Iterator[KazooClient]:
    with kazoo_client(root) as kazoo:
        yield kazoo


@pytest.fixture
def other(root: str) -> Iterator[KazooClient]:
    with kazoo_client(root) as kazoo:
        yield kazoo


def test_the_version_of_the_server_is_zookeepers(zk: KazooClient) -> None:
    assert zk.server_version() == (3, 9, 5)


# Znodes.


def test_create_get_set_delete(zk: KazooClient) -> None:
    assert zk.create("/a", b"one") == "/a"
    data, stat = zk.get("/a")
    assert (data, stat.version, stat.data_length, stat.numChildren) == (b"one", 0, 3, 0)
    assert stat.czxid == stat.mzxid == stat.pzxid
    assert abs(stat.created - time.time()) < 60
    changed = zk.set("/a", b"three")
    assert (changed.version, changed.data_length) == (1, 5)
    assert zk.exists("/a") == changed
    zk.delete("/a")
    assert zk.exists("/a") is None
    with pytest.raises(NoNodeError):
        zk.get("/a")


def test_create_returns_data(zk: KazooClient) -> None:
    path, stat = zk.create("/a", b"x", include_data=True)
    assert (path, stat) == ("/a", zk.exists("/a"))


def test_versions(zk: KazooClient) -> None:
    zk.create("/a")
    assert zk.set("/a", b"1", version=0).version == 1
    with pytest.raises(BadVersionError):
        zk.set("/a", b"2", version=0)
    with pytest.raises(BadVersionError):
        zk.delete("/a", version=0)
    zk.delete("/a", version=1)


def test_refusals(zk: KazooClient) -> None:
    zk.create("/a/b", makepath=True)
    with pytest.raises(NodeExistsError):
        zk.create("/a")
    with pytest.raises(NotEmptyError):
        zk.delete("/a")
    with pytest.raises(NoNodeError):
        zk.create("/x/y")
    zk.create("/e", ephemeral=True)
    with pytest.raises(NoChildrenForEphemeralsError):
        zk.create("/e/child")
    with pytest.raises(BadArgumentsError):
        zk.create("/bad\x01name")
    zk.delete("/a", recursive=True)
    assert zk.get_children("/") == ["e"]


def test_sequences(zk: KazooClient) -> None:
    zk.create("/q")
    names = [zk.create("/q/n-", sequence=True, ephemeral=ephemeral) for ephemeral in (False, True, False)]
    assert names == ["/q/n-0000000000", "/q/n-0000000001", "/q/n-0000000002"]
    zk.delete(names[2])
    assert zk.create("/q/", sequence=True) == "/q/0000000003"


def test_children(zk: KazooClient) -> None:
    for name in ("b", "a", "ü", "c d"):
        zk.create(f"/{name}")
    names, stat = zk.get_children("/", include_data=True)
    assert (sorted(names), stat.numChildren, stat.children_version) == (["a", "b", "c d", "ü"], 4, 4)


def test_ephemerals_go_with_their_session(zk: KazooClient, root: str) -> None:
    seen = Recorder()
    with kazoo_client(root) as owner:
        owner.create("/e", ephemeral=True)
        zk.sync("/")
        stat = zk.exists("/e", watch=seen)
        assert stat.ephemeralOwner == owner.client_id[0]
    assert seen.wait() == [(EventType.DELETED, "/e")]
    assert zk.exists("/e") is None


def test_large_values(zk: KazooClient, other: KazooClient) -> None:
    """The longest that the frame of a create or set leaves room for."""
    for size in (100_000, 1_000_000, 1_048_400):
        value = bytes(range(256)) * (size // 256 + 1)
        zk.ensure_path("/big")
        assert zk.set("/big", value[:size]).data_length == size
        other.sync("/big")
        assert other.get("/big")[0] == value[:size]


def test_a_value_too_large_is_refused(zk: KazooClient) -> None:
    session = zk.client_id
    zk.create("/a")
    with pytest.raises(BadArgumentsError):
        zk.set("/a", bytes(1_048_576))
    assert zk.set("/a", b"smaller").version == 1
    with pytest.raises(ConnectionLoss):
        zk.set("/a", bytes(17 << 20))
    assert zk.retry(zk.set, "/a", b"smaller").version == 2
    assert zk.client_id == session


def test_many_requests_in_flight(zk: KazooClient) -> None:
    created = [zk.create_async(f"/n{number:04d}", str(number).encode()) for number in range(1000)]
    assert [result.get(PATIENCE_SECONDS) for result in created] == [f"/n{number:04d}" for number in range(1000)]
    read = [zk.get_async(f"/n{number:04d}") for number in range(1000)]
    assert [int(result.get(PATIENCE_SECONDS)[0]) for result in read] == list(range(1000))
    assert len(zk.get_children("/")) == 1000


def test_chroot_is_a_root(ours: ZooKeeperEnsemble, zk: KazooClient, root: str) -> None:
    zk.create("/a/b", b"x", makepath=True)
    chroot = zk.chroot
    with kazoo_client(ours.hosts) as whole:
        whole.sync("/")
        assert whole.get(f"{chroot}/a/b")[0] == b"x"
    seen = Recorder()
    zk.get("/a/b", watch=seen)
    zk.set("/a/b", b"y")
    assert seen.wait() == [(EventType.CHANGED, "/a/b")]
    assert zk.get_children("/") == ["a"]


# Transactions.


def test_transaction(zk: KazooClient) -> None:
    zk.create("/a", b"old")
    with zk.transaction() as transaction:
        transaction.create("/b", b"new")
        transaction.create("/s-", sequence=True, ephemeral=True)
        transaction.check("/a", 0)
        transaction.set_data("/a", b"changed")
        transaction.delete("/b")
    assert zk.get("/a")[0] == b"changed"
    assert sorted(zk.get_children("/")) == ["a", "s-0000000002"]


def test_a_transaction_is_all_or_nothing(zk: KazooClient) -> None:
    zk.create("/a")
    transaction = zk.transaction()
    transaction.create("/b")
    transaction.check("/a", 7)
    transaction.create("/c")
    first, failed, last = transaction.commit()
    assert (type(first), type(failed), type(last)) == (RolledBackError, BadVersionError, RuntimeInconsistency)
    assert zk.get_children("/") == ["a"]


# Watches.


def test_watches_fire_once(zk: KazooClient, other: KazooClient) -> None:
    data, children, created = Recorder(), Recorder(), Recorder()
    zk.create("/a")
    zk.get("/a", watch=data)
    zk.get_children("/a", watch=children)
    zk.exists("/a/b", watch=created)
    for change in (
        lambda: other.set("/a", b"1"),
        lambda: other.create("/a/b"),
        lambda: other.set("/a", b"2"),
        lambda: other.delete("/a/b"),
    ):
        change()
    zk.sync("/")
    assert data.wait() == [(EventType.CHANGED, "/a")]
    assert children.wait() == [(EventType.CHILD, "/a")]
    assert created.wait() == [(EventType.CREATED, "/a/b")]
    time.sleep(0.05)
    assert [len(each.events) for each in (data, children, created)] == [1, 1, 1]


def test_watch_on_a_deleted_znode(zk: KazooClient, other: KazooClient) -> None:
    zk.create("/a")
    data, children = Recorder(), Recorder()
    zk.get("/a", watch=data)
    zk.get_children("/a", watch=children)
    other.delete("/a")
    assert data.wait() == [(EventType.DELETED, "/a")]
    assert children.wait() == [(EventType.DELETED, "/a")]


def test_data_watch(zk: KazooClient, other: KazooClient) -> None:
    seen: list[bytes | None] = []
    DataWatch(zk, "/a", lambda data, stat: seen.append(data))
    other.create("/a", b"0")
    for number in (1, 2, 3):
        until(lambda: seen[-1:] == [str(number - 1).encode()])  # noqa: B023
        other.set("/a", str(number).encode())
    other.delete("/a")
    until(lambda: seen[-1:] == [None])
    assert next(value for value in seen if value is not None) == b"0"


def test_children_watch(zk: KazooClient, other: KazooClient) -> None:
    seen: list[list[str]] = []
    ChildrenWatch(zk, "/", lambda names: seen.append(sorted(names)))
    other.create("/a")
    until(lambda: seen[-1] == ["a"])
    other.create("/b")
    until(lambda: seen[-1] == ["a", "b"])
    other.delete("/a")
    until(lambda: seen[-1] == ["b"])


def test_tree_cache(zk: KazooClient, other: KazooClient) -> None:
    other.create("/tree/a/b", b"1", makepath=True)
    zk.sync("/")
    kinds: list[int] = []
    cache = TreeCache(zk, "/tree")
    cache.listen(lambda event: kinds.append(event.event_type))
    cache.start()
    until(lambda: TreeEvent.INITIALIZED in kinds)
    assert cache.get_data("/tree/a/b").data == b"1"
    other.set("/tree/a/b", b"2")
    until(lambda: cache.get_data("/tree/a/b").data == b"2")
    other.delete("/tree/a", recursive=True)
    until(lambda: cache.get_children("/tree") == set())
    cache.close()


# Access.


def test_digest_acl(zk: KazooClient, root: str) -> None:
    everything = make_digest_acl("bob", "pw", all=True)
    zk.create("/a", b"secret", acl=[everything])
    with pytest.raises(NoAuthError):
        zk.get("/a")
    with kazoo_client(root, auth_data=[("digest", "bob:pw")]) as bob:
        bob.sync("/a")
        assert bob.get("/a")[0] == b"secret"
        assert bob.get_acls("/a")[0] == [everything]
        bob.set_acls("/a", [make_acl("world", "anyone", read=True), everything])
    zk.sync("/a")
    assert zk.get("/a")[0] == b"secret"
    with pytest.raises(NoAuthError):
        zk.set("/a", b"mine")
    masked = zk.get_acls("/a")[0]
    assert [acl.id.id for acl in masked] == ["anyone", "bob:x"]


def test_acl_of_the_creator(zk: KazooClient) -> None:
    with pytest.raises(InvalidACLError):
        zk.create("/a", acl=CREATOR_ALL_ACL)
    zk.add_auth("digest", "eve:pw")
    zk.create("/a", acl=CREATOR_ALL_ACL)
    acls, stat = zk.get_acls("/a")
    assert [acl.id.id.partition(":")[0] for acl in acls] == ["eve"]
    assert zk.set_acls("/a", OPEN_ACL_UNSAFE, version=0).acl_version == stat.acl_version + 1
    with pytest.raises(BadVersionError):
        zk.set_acls("/a", OPEN_ACL_UNSAFE, version=0)


def test_unknown_scheme_fails(root: str) -> None:
    with kazoo_client(root) as kazoo, pytest.raises(AuthFailedError):
        kazoo.add_auth("nobody", "x")


# Recipes.


def test_lock(zk: KazooClient, other: KazooClient) -> None:
    mine, theirs = Lock(zk, "/lock", "first"), Lock(other, "/lock", "second")
    assert mine.acquire(timeout=PATIENCE_SECONDS)
    assert not theirs.acquire(blocking=False)
    # The first client's member may still have the contender that gave up.
    zk.sync("/")
    waiting = threading.Thread(target=theirs.acquire)
    waiting.start()
    until(lambda: len(mine.contenders()) == 2)
    assert mine.contenders() == ["first", "second"]
    mine.release()
    waiting.join(PATIENCE_SECONDS)
    assert theirs.is_acquired
    theirs.release()


def test_lock_of_a_lost_session_is_free(zk: KazooClient, root: str) -> None:
    with kazoo_client(root) as owner:
        assert Lock(owner, "/lock").acquire(timeout=PATIENCE_SECONDS)
    assert Lock(zk, "/lock").acquire(timeout=PATIENCE_SECONDS)


def test_lock_excludes(root: str) -> None:
    inside, worst, rounds = 0, 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, worst, rounds
        with kazoo_client(root) as kazoo:
            for _ in range(8):
                with Lock(kazoo, "/lock"):
                    with guard:
                        inside += 1
                        rounds += 1
                        worst = max(worst, inside)
                    with guard:
                        inside -= 1

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(3 * PATIENCE_SECONDS)
    assert (worst, rounds) == (1, 32)


def test_read_and_write_locks(zk: KazooClient, other: KazooClient) -> None:
    readers = [ReadLock(zk, "/lock"), ReadLock(other, "/lock")]
    for reader in readers:
        assert reader.acquire(timeout=PATIENCE_SECONDS)
    writer = WriteLock(other, "/lock")
    assert not writer.acquire(blocking=False)
    for reader in readers:
        reader.release()
    assert writer.acquire(timeout=PATIENCE_SECONDS)
    assert not ReadLock(zk, "/lock").acquire(blocking=False)


def test_semaphore(zk: KazooClient, other: KazooClient) -> None:
    leases = [Semaphore(kazoo, "/semaphore", max_leases=2) for kazoo in (zk, other, other)]
    assert leases[0].acquire(timeout=PATIENCE_SECONDS)
    assert leases[1].acquire(timeout=PATIENCE_SECONDS)
    assert not leases[2].acquire(blocking=False)
    leases[0].release()
    assert leases[2].acquire(timeout=PATIENCE_SECONDS)


def test_election(root: str) -> None:
    elected: list[int] = []

    def stand(number: int) -> None:
        with kazoo_client(root) as kazoo:
            Election(kazoo, "/election", str(number)).run(elected.append, number)

    candidates = [threading.Thread(target=stand, args=(number,)) for number in range(3)]
    for candidate in candidates:
        candidate.start()
    for candidate in candidates:
        candidate.join(PATIENCE_SECONDS)
    assert sorted(elected) == [0, 1, 2]


def test_barrier(zk: KazooClient, other: KazooClient) -> None:
    barrier = Barrier(zk, "/barrier")
    barrier.create()
    # The other client's member may not have applied that yet: then there is nothing to wait for.
    other.sync("/")
    passed = threading.Event()
    waiting = threading.Thread(target=lambda: Barrier(other, "/barrier").wait(PATIENCE_SECONDS) and passed.set())
    waiting.start()
    assert not passed.wait(0.05)
    barrier.remove()
    waiting.join(PATIENCE_SECONDS)
    assert passed.is_set()


def test_double_barrier(root: str) -> None:
    inside: list[int] = []
    # Who leaves takes its znode away: nobody before all have looked.
    have_looked = threading.Barrier(3)

    def enter() -> None:
        with kazoo_client(root) as kazoo:
            barrier = DoubleBarrier(kazoo, "/double", 3)
            barrier.enter()
            inside.append(len(kazoo.get_children("/double")))
            have_looked.wait(PATIENCE_SECONDS)
            barrier.leave()

    workers = [threading.Thread(target=enter) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_SECONDS)
    assert len(inside) == 3
    assert min(inside) >= 3


def test_queue(zk: KazooClient, other: KazooClient) -> None:
    queue = Queue(zk, "/queue")
    for item in (b"1", b"2", b"3"):
        queue.put(item)
    queue.put(b"first", priority=1)
    taking = Queue(other, "/queue")
    other.sync("/")
    assert [taking.get() for _ in range(4)] == [b"first", b"1", b"2", b"3"]
    assert len(taking) == 0


def test_locking_queue(zk: KazooClient, other: KazooClient) -> None:
    queue, taking = LockingQueue(zk, "/queue"), LockingQueue(other, "/queue")
    queue.put_all([b"1", b"2"])
    assert taking.get(PATIENCE_SECONDS) == b"1"
    assert queue.get(PATIENCE_SECONDS) == b"2"
    assert taking.consume()
    assert queue.consume()
    assert len(queue) == 0


def test_counter(root: str) -> None:
    def count() -> None:
        with kazoo_client(root) as kazoo:
            counter = Counter(kazoo, "/counter")
            for _ in range(10):
                counter += 1

    workers = [threading.Thread(target=count) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(2 * PATIENCE_SECONDS)
    with kazoo_client(root) as kazoo:
        kazoo.sync("/counter")
        assert Counter(kazoo, "/counter").value == 30


@pytest.mark.parametrize("kind", [Party, ShallowParty])
def test_party(kind: type[Party], zk: KazooClient, other: KazooClient) -> None:
    mine, theirs = kind(zk, "/party", "me"), kind(other, "/party", "you")
    mine.join()
    theirs.join()
    zk.sync("/")
    assert sorted(mine) == ["me", "you"]
    theirs.leave()
    zk.sync("/")
    assert list(mine) == ["me"]


def test_lease(zk: KazooClient, other: KazooClient) -> None:
    assert NonBlockingLease(zk, "/lease", timedelta(seconds=30), identifier="me")
    assert not NonBlockingLease(other, "/lease", timedelta(seconds=30), identifier="you")


def test_partitioner(zk: KazooClient, other: KazooClient) -> None:
    parts = [
        SetPartitioner(each, "/parts", {1, 2, 3, 4}, identifier=name, time_boundary=0.1)
        for each, name in ((zk, "a"), (other, "b"))
    ]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all(part.acquired and len([*part]) == 2 for part in parts) and time.monotonic() < deadline:
        for part in parts:
            if part.release:
                part.release_set()
            elif part.allocating:
                part.wait_for_acquire(0.2)
    assert sorted([*parts[0], *parts[1]]) == [1, 2, 3, 4]
    for part in parts:
        part.finish()


# Members, sessions, and their ends.


def test_read_after_write_elsewhere(ours: ZooKeeperEnsemble, root: str) -> None:
    chroot = "/" + root.rpartition("/")[2]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(kazoo_client(member.host + chroot)) for member in ours.members]
        clients[0].create("/a")
        for number in range(1, 60):
            writer, reader = clients[number % 3], clients[(number + 1) % 3]
            writer.set("/a", str(number).encode())
            reader.sync("/a")
            data, stat = reader.get("/a")
            assert (data, stat.version) == (str(number).encode(), number)


def close_behind_the_back(kazoo: KazooClient, port: int) -> None:
    """Take the client's session over on another connection and close it, in one segment.

    The client notices and comes back; where it is faster than the close, the session is its own again: once more.
    """
    session, password = kazoo.client_id
    handshake = frame(connect_request(session=session, password=password))
    for _ in range(20):
        with Wire(port, greet=False) as thief, contextlib.suppress(ConnectionClosedError):
            thief.socket.sendall(handshake + thief.encode(*CLOSE_SESSION))
            timeout_ms = int.from_bytes(thief.receive_frame()[4:8], "big")
            if not timeout_ms or thief.receive_reply().error == 0:
                return
    raise AssertionError("the client was faster every time")


def test_lost_session_is_replaced(zk: KazooClient, root: str, ours: ZooKeeperEnsemble) -> None:
    gone = Recorder()
    with kazoo_client(root) as victim:
        states: list[str] = []
        victim.add_listener(states.append)
        victim.create("/e", ephemeral=True)
        zk.sync("/")
        assert zk.exists("/e", watch=gone)
        session = victim.client_id
        close_behind_the_back(victim, ours.members[0].client_port)
        assert gone.wait() == [(EventType.DELETED, "/e")]
        until(lambda: KazooState.LOST in states)
        until(lambda: victim.connected)
        assert victim.client_id[0] != session[0]


def test_silent_session_expires(zk: KazooClient, ours: ZooKeeperEnsemble) -> None:
    """Not before its timeout, and at most a tick (500 ms), a ping and a moment later; its ephemerals go with it."""
    port = ours.followers()[0].client_port
    lived: list[float] = []
    # The machine may make one late, but not one after the other.
    while not lived or (min(lived) >= 4.0 and len(lived) < 5):
        lived.append(seconds_of_a_silent_session(port, f"{zk.chroot}/e"))
    assert 0.95 <= min(lived) < 4.0


def seconds_of_a_silent_session(port: int, path: str) -> float:
    """From its only request to the end of its znode."""
    with Wire(port, timeout_ms=40_000) as watcher, Wire(port, timeout_ms=1000) as silent:
        # The watch is there before: the session may be over by the time that one could ask for its znode.
        assert watcher.ask(*add_watch(path, 0)).error == 0
        silent_since = time.monotonic()
        assert silent.ask(*create(path, flags=1)).error == 0
        for kind in (CREATED, DELETED):
            assert View(0).reply(watcher.receive())[3:] == (kind, 3, path)
        lived = time.monotonic() - silent_since
        watcher.close_session()
    return lived


def test_unknown_session_is_replaced(root: str) -> None:
    with kazoo_client(root, client_id=(123456789, b"x" * 16)) as kazoo:
        assert kazoo.client_id[0] not in (0, 123456789)


def wait_for_members(ensemble: ZooKeeperEnsemble, killed: ZooKeeperMember) -> None:
    killed.start()
    ensemble.wait()


def test_session_survives_the_leader(zk: KazooClient, root: str, ours: ZooKeeperEnsemble) -> None:
    """kill -9 of the leader: the same session goes on, with its ephemerals and watches."""
    seen: list[bytes | None] = []
    states: list[str] = []
    leader = ours.leader()
    chroot = zk.chroot
    with kazoo_client(leader.host + "," + ours.hosts + chroot, randomize_hosts=False) as kazoo:
        kazoo.add_listener(states.append)
        session = kazoo.client_id
        kazoo.create("/e", b"1", ephemeral=True)
        kazoo.create("/a", b"1")
        DataWatch(kazoo, "/a", lambda data, stat: seen.append(data))
        leader.kill()
        try:
            until(lambda: KazooState.SUSPENDED in states)
            kazoo.retry(kazoo.set, "/e", b"2")
            assert kazoo.client_id == session
            assert KazooState.LOST not in states
            assert kazoo.get("/e")[1].ephemeralOwner == session[0]
            zk.retry(zk.set, "/a", b"2")
            until(lambda: seen[-1] == b"2")
        finally:
            wait_for_members(ours, leader)
    zk.retry(zk.sync, "/")
    assert zk.exists("/e") is None


def create_in_any_case(kazoo: KazooClient, path: str) -> str:
    """A create whose connection ended may have been done: then the next try finds its znode."""
    try:
        return str(kazoo.retry(kazoo.create, path))
    except NodeExistsError:
        return path


def test_recipes_survive_the_leader(root: str, ours: ZooKeeperEnsemble) -> None:
    """A lock that is held stays held, one that is waited for comes, and nothing acknowledged is lost."""
    with kazoo_client(root) as holder, kazoo_client(root) as waiter:
        lock = Lock(holder, "/lock")
        assert lock.acquire(timeout=PATIENCE_SECONDS)
        got = threading.Event()
        waiting = threading.Thread(target=lambda: Lock(waiter, "/lock").acquire() and got.set())
        waiting.start()
        written = [holder.retry(holder.create, f"/n{number}") for number in range(20)]
        leader = ours.leader()
        leader.kill()
        try:
            written += [create_in_any_case(holder, f"/m{number}") for number in range(20)]
            assert not got.is_set()
            holder.retry(lock.release)
            assert got.wait(PATIENCE_SECONDS)
        finally:
            wait_for_members(ours, leader)
            waiting.join(PATIENCE_SECONDS)
        holder.retry(holder.sync, "/")
        assert {f"/{name}" for name in holder.retry(holder.get_children, "/")} == {*written, "/lock"}


def test_session_lives_through_two_leaders_and_ends(root: str, ours: ZooKeeperEnsemble) -> None:
    with kazoo_client(root) as kazoo:
        session = kazoo.client_id
        leader = ours.leader()
        leader.kill()
        wait_for_members(ours, leader)
        until(lambda: kazoo.connected)
        assert kazoo.client_id == session
        close_behind_the_back(kazoo, ours.leader().client_port)
        until(lambda: kazoo.connected and kazoo.client_id[0] != session[0])
