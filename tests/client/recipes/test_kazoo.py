"""Locks that are shared with programs of kazoo, which wait for ours, and ours for theirs."""

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.rigs.in_process import members_here
from tests.rigs.kazoo_client import kazoo_client
from zab.client import sync
from zab.client.recipes import WaitOverError
from zab.client.sync.recipes import Lock, LockingQueue

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with members_here(1) as running:
        yield running.hosts


@pytest.fixture
def kazoo(hosts: str) -> Iterator[KazooClient]:
    with kazoo_client(hosts) as client:
        yield client


def test_a_lock_is_one_for_both(hosts: str, kazoo: KazooClient) -> None:
    with sync.connect(hosts) as zk:
        ours, theirs = Lock(zk, "/lock", name="ours"), kazoo.Lock("/lock", "theirs", extra_lock_patterns=["-lock-"])
        assert theirs.acquire()
        assert ours.try_acquire() is None
        assert ours.contenders() == theirs.contenders() == ["theirs"]
        with pytest.raises(WaitOverError):
            ours.acquire(wait_s=0.05)
        theirs.release()
        with ours:
            assert not theirs.acquire(blocking=False)
        assert theirs.acquire(blocking=False)
        theirs.release()


def test_who_waits_for_the_other_gets_it(hosts: str, kazoo: KazooClient) -> None:
    with sync.connect(hosts) as zk:
        ours, theirs = Lock(zk, "/turns"), kazoo.Lock("/turns", extra_lock_patterns=["-lock-"])
        waiting = kazoo.handler.spawn
        with ours:
            got = kazoo.handler.event_object()
            waiting(lambda: theirs.acquire() and got.set())
            while len(zk.get_children("/turns")) < 2:
                zk.sync("/")
            assert not got.is_set()
        assert got.wait(30)
        theirs.release()


def test_items_are_held_by_one_of_both(hosts: str, kazoo: KazooClient) -> None:
    with sync.connect(hosts) as zk:
        ours, theirs = LockingQueue(zk, "/queue"), kazoo.LockingQueue("/queue")
        theirs.put(b"low", priority=200)
        theirs.put(b"high", priority=1)
        with ours.take() as item:
            assert item.data == b"high"
            assert theirs.get(timeout=5) == b"low"
            assert ours.try_get() is None
            item.consume()
        assert theirs.consume()
        assert ours.count() == 0
