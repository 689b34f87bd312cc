"""ClickHouse Keeper's operations asked by kazoo, in the shapes in which Keeper's own clients send them."""

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NotEmptyError,
    SessionExpiredError,
    UnimplementedError,
)
from kazoo.protocol.serialization import GetChildren, GetChildren2, int_struct, read_buffer, stat_struct, write_string
from kazoo.protocol.states import ZnodeStat

from tests.rigs.in_process import members_here
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import PATIENCE_SECONDS


@attrs.frozen
class FilteredList:
    path: str
    watcher: Any
    which: int
    type: ClassVar[int] = 500
    deserialize = GetChildren2.deserialize

    def serialize(self) -> bytes:
        return bytes(write_string(self.path) + bytes([self.watcher is not None, self.which]))


@attrs.frozen
class WithStatsAndData:
    path: str
    watcher: None
    which: int
    stats: bool
    data: bool
    type: ClassVar[int] = 506

    def serialize(self) -> bytes:
        return bytes(write_string(self.path) + bytes([0, self.which, self.stats, self.data]))

    @classmethod
    def deserialize(cls, payload: bytes, offset: int) -> Any:
        names, offset = GetChildren2.deserialize(payload, offset)[0], offset + 4
        for name in names:
            offset += 4 + len(name.encode())
        offset += stat_struct.size
        count, offset = int_struct.unpack_from(payload, offset)[0], offset + 4
        stats = [ZnodeStat._make(stat_struct.unpack_from(payload, offset + 68 * index)) for index in range(count)]
        offset += 68 * count
        count, offset = int_struct.unpack_from(payload, offset)[0], offset + 4
        data = []
        for _ in range(count):
            found, offset = read_buffer(payload, offset)
            data.append(found)
        assert offset == len(payload)
        return names, stats, data


@attrs.frozen
class TryRemove:
    path: str
    version: int
    type: ClassVar[int] = 505

    def serialize(self) -> bytes:
        return bytes(write_string(self.path) + int_struct.pack(self.version))

    @classmethod
    def deserialize(cls, _payload: bytes, _offset: int) -> bool:
        return True


@attrs.frozen
class RemoveRecursive(TryRemove):
    """Its `version` is the limit."""

    type: ClassVar[int] = 503


@attrs.frozen
class ListRecursive(TryRemove):
    """Its `version` is the limit."""

    type: ClassVar[int] = 507
    deserialize = GetChildren.deserialize


@attrs.frozen
class CheckStat(TryRemove):
    stat: ZnodeStat
    type: ClassVar[int] = 504

    def serialize(self) -> bytes:
        return TryRemove.serialize(self) + bytes(stat_struct.pack(*self.stat))


@attrs.frozen
class CheckNotExists(TryRemove):
    type: ClassVar[int] = 501


@pytest.fixture(scope="module")
def zk() -> Iterator[KazooClient]:
    with members_here(3, {"keeperExtensionsEnabled": "true"}) as ensemble, kazoo_client(ensemble.hosts) as client:
        yield client


def ask(zk: KazooClient, request: Any) -> Any:
    answer = zk.handler.async_result()
    zk._call(request, answer)
    return answer.get(timeout=PATIENCE_SECONDS)


def test_keepers_requests_as_its_clients_send_them(zk: KazooClient) -> None:
    zk.create("/d")
    zk.create("/d/p", b"one")
    zk.create("/d/e", b"two", ephemeral=True)
    seen: list[Any] = []
    names, stat = ask(zk, FilteredList("/d", seen.append, 2))
    assert (names, stat.numChildren) == (["e"], 2)
    names, stats, data = ask(zk, WithStatsAndData("/d", None, 1, True, True))
    assert (names, [found.dataLength for found in stats], data) == (["p"], [3], [b"one"])
    assert ask(zk, TryRemove("/d/p", 7))
    assert ask(zk, TryRemove("/none/x", -1))
    assert zk.exists("/d/p")
    assert ask(zk, TryRemove("/d/p", -1))
    assert not zk.exists("/d/p")
    transaction = zk.transaction()
    transaction._add(CheckNotExists("/d/p", -1))
    transaction.create("/d/p")
    assert transaction.commit() == [True, "/d/p"]
    again = zk.transaction()
    again._add(CheckNotExists("/d/p", -1))
    again.create("/d/q")
    assert isinstance(again.commit()[0], NodeExistsError)
    assert not zk.exists("/d/q")
    zk.create("/d/p/x")
    assert sorted(ask(zk, ListRecursive("/d", 2))) == ["/d/e", "/d/p"]
    assert ask(zk, ListRecursive("/d", 9))[2:] == ["/d/p/x"]
    with pytest.raises(NotEmptyError):
        ask(zk, RemoveRecursive("/d", 3))
    assert ask(zk, RemoveRecursive("/d", 4))
    assert ask(zk, RemoveRecursive("/d", 4))
    assert not zk.exists("/d")
    zk.create("/s", b"1")
    stat = zk.exists("/s")
    for is_same in (True, False):
        checked = zk.transaction()
        checked._add(CheckStat("/s", -1, stat))
        checked.set_data("/s", b"2")
        assert isinstance(checked.commit()[0], BadVersionError) != is_same
    both = zk.transaction()
    both.create("/d")
    both.create("/d/p")
    both._add(RemoveRecursive("/d", 2))
    both.create("/d")
    assert both.commit() == ["/d", "/d/p", True, "/d"]


def test_clickhouse_finds_the_features_as_it_looks_for_them(zk: KazooClient) -> None:
    flags, _ = zk.get("/keeper/feature_flags")

    def is_enabled(number: int) -> bool:
        return bool(flags[number // 8] & (1 << (7 - number % 8)))

    assert [number for number in range(16) if is_enabled(number)] == [0, 1, 2, 3, 4, 6, 9, 10]
    assert zk.get("/keeper/api_version")[0] == b"3"


def test_they_end_the_connection_where_they_are_off() -> None:
    with members_here(1) as ensemble, kazoo_client(ensemble.hosts) as client:
        with pytest.raises((UnimplementedError, ConnectionLoss, SessionExpiredError)):
            ask(client, TryRemove("/a", -1))
        assert client.retry(client.exists, "/keeper/feature_flags") is None
