"""Registered bookies, and a new root."""

import pytest

from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import Create, Delete, Exists, Get, Operation, Result, Set, ZooKeeperError
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.service_info import Endpoint, ServiceInfo, bookie_endpoint, encode_service_info
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.store import bookies
from zab.ledger.store.bookies import FREE_BYTES, RACK, format_root, node_of, read_bookies, read_instance

ROOT = "/ledgers"
INFO = ServiceInfo((bookie_endpoint("10.0.0.1", 3181),), {RACK: "r1", FREE_BYTES: "1000"})
ID = "1f5b2d5c-5cf8-4ab6-9c0c-3a3d2e8a7a55"


@pytest.fixture
def zk() -> Coordination:
    coordination = Coordination()
    assert coordination.run(format_root(ROOT, ID))
    coordination.asked.clear()
    return coordination


def register(zk: Coordination, path: str, info: ServiceInfo | bytes = INFO) -> None:
    data = info if isinstance(info, bytes) else encode_service_info(info)
    assert zk.apply(Create(f"{ROOT}/available/{path}", data, ephemeral=True)).ok


def test_bookies_are_available_or_read_only(zk: Coordination) -> None:
    register(zk, "b1")
    register(zk, "b2", ServiceInfo((bookie_endpoint("10.0.0.2", 3181),)))
    register(zk, "readonly/b3")
    register(zk, "10.0.0.4:3181", b"")
    found = zk.run(read_bookies(ROOT))
    assert found.available["b1"] == INFO  # type: ignore[index]
    assert found.known.available == (
        BookieNode(BookieId("10.0.0.4:3181")),
        BookieNode(BookieId("b1"), "r1", 1000),
        BookieNode(BookieId("b2")),
    )
    assert found.known.read_only == {"b3"}


def test_a_bookie_on_its_way_to_read_only_counts_as_that(zk: Coordination) -> None:
    """It is in both lists for a moment."""
    register(zk, "b1")
    register(zk, "readonly/b1")
    known = zk.run(read_bookies(ROOT)).known
    assert (known.available, known.read_only) == ((), {"b1"})


def test_what_cannot_be_used_is_left_out(zk: Coordination) -> None:
    register(zk, "no-port", b"")
    register(zk, "garbage", b"\xff\xff")
    register(zk, "other-port", ServiceInfo((Endpoint("http", 80, "h", "http"),)))
    register(zk, "wrong name")
    register(zk, "b1")
    assert list(zk.run(read_bookies(ROOT)).available) == ["b1"]


@pytest.mark.parametrize("free", ["", "-5", "many", "9" * 30, "²"])
def test_free_space_that_is_no_number_is_not_there(free: str) -> None:
    info = ServiceInfo((bookie_endpoint("h", 1),), {FREE_BYTES: free, RACK: ""})
    assert node_of(BookieId("b"), info) == BookieNode(BookieId("b"), "default", None)


@pytest.mark.parametrize(
    ("change", "fired"),
    [
        (Create(f"{ROOT}/available/b2"), f"{ROOT}/available"),
        (Create(f"{ROOT}/available/readonly/b2"), f"{ROOT}/available/readonly"),
        (Delete(f"{ROOT}/available/b1"), f"{ROOT}/available"),
        (Set(f"{ROOT}/available/b1", encode_service_info(INFO)), f"{ROOT}/available/b1"),
        (Set(f"{ROOT}/available/readonly/b3", b""), f"{ROOT}/available/readonly/b3"),
    ],
)
def test_every_change_fires_a_watch(zk: Coordination, change: Create | Delete | Set, fired: str) -> None:
    register(zk, "b1")
    register(zk, "readonly/b3")
    zk.run(read_bookies(ROOT))
    zk.tree.fired.clear()
    zk.apply(change)
    assert fired in [path for _, path in zk.tree.fired]


def test_bookies_can_be_read_without_watches(zk: Coordination) -> None:
    register(zk, "b1")
    zk.run(read_bookies(ROOT, watch=False))
    zk.apply(Delete(f"{ROOT}/available/b1"))
    assert zk.tree.fired == []


def test_without_a_root_there_are_no_bookies_and_a_watch_waits_for_it() -> None:
    zk = Coordination()
    assert zk.run(read_bookies(ROOT)).known.available == ()
    zk.apply(Create(ROOT))
    assert zk.tree.fired == []
    zk.apply(Create(f"{ROOT}/available"))
    assert [path for _, path in zk.tree.fired] == [f"{ROOT}/available"]


def test_a_root_that_comes_between_two_looks() -> None:
    zk = Coordination()

    def make(operation: Operation) -> None:
        if isinstance(operation, Exists):
            zk.before = lambda _operation: None
            assert zk.run(format_root(ROOT, ID))
            register(zk, "b1")

    zk.before = make
    assert list(zk.run(read_bookies(ROOT)).available) == ["b1"]


def test_a_bookie_that_goes_while_they_are_read_is_left_out(zk: Coordination) -> None:
    register(zk, "b1")
    register(zk, "b2")

    def remove(operation: Operation) -> None:
        if operation == Get(f"{ROOT}/available/b1", watch=True):
            zk.tree.apply(zk.session, Delete(f"{ROOT}/available/b1"))

    zk.before = remove
    assert list(zk.run(read_bookies(ROOT)).available) == ["b2"]
    assert f"{ROOT}/available" in [path for _, path in zk.tree.fired]


def test_a_bookie_that_may_not_be_read_hides_no_other(zk: Coordination, monkeypatch: pytest.MonkeyPatch) -> None:
    register(zk, "b1")
    register(zk, "b2")
    apply = zk.apply

    def refuse(operation: Operation) -> Result:
        if isinstance(operation, Get) and operation.path.endswith("/b1"):
            return Result(ZooKeeperError.NOAUTH)
        return apply(operation)

    monkeypatch.setattr(zk, "apply", refuse)
    assert list(zk.run(read_bookies(ROOT)).available) == ["b2"]


def test_so_many_bookies_are_read_and_so_much_of_each(zk: Coordination, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookies, "BOOKIES_MAX", 3)
    for index in range(5):
        register(zk, f"b{index}")
        register(zk, f"readonly/r{index}")
    register(zk, "a", ServiceInfo(INFO.endpoints, {"much": "x" * bookies.INFO_BYTES_MAX}))
    found = zk.run(read_bookies(ROOT))
    assert list(found.available) == ["b0", "b1"]
    assert list(found.read_only) == ["r0", "r1", "r2"]


# ----------------------------------------------------------------------------------------------------------------- root


def test_a_new_root_has_what_bookkeepers_tools_put_there(zk: Coordination) -> None:
    assert zk.tree.children(ROOT) == ["INSTANCEID", "LAYOUT", "available"]
    assert zk.tree.children(f"{ROOT}/available") == ["readonly"]
    assert zk.tree.data(f"{ROOT}/LAYOUT") == b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
    assert zk.run(read_instance(ROOT)) == ID


def test_a_root_that_is_there_is_left_alone(zk: Coordination) -> None:
    assert not zk.run(format_root(ROOT, "another"))
    assert zk.run(read_instance(ROOT)) == ID


@pytest.mark.parametrize("fates", [["answered"] * at + [fate] for at in range(3) for fate in ("done", "not done")])
def test_a_root_whose_making_was_not_answered(fates: list[str]) -> None:
    """The id says whose it is."""
    zk = Coordination()
    zk.lost.extend(fates)
    assert zk.run(format_root(ROOT, ID))
    assert zk.tree.data(f"{ROOT}/INSTANCEID") == ID.encode()
    assert zk.tree.data(f"{ROOT}/LAYOUT") is not None


def test_a_root_with_another_layout_or_id_is_refused(zk: Coordination) -> None:
    assert zk.run(read_instance("/other")) is None
    zk.apply(Set(f"{ROOT}/INSTANCEID", b"\xff"))
    with pytest.raises(InvalidMetadataError, match="is no text"):
        zk.run(read_instance(ROOT))
    zk.apply(Set(f"{ROOT}/LAYOUT", b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"))
    with pytest.raises(InvalidMetadataError, match="in another way"):
        zk.run(read_instance(ROOT))
    zk.apply(Delete(f"{ROOT}/LAYOUT"))
    zk.apply(Set(f"{ROOT}/INSTANCEID", b"id"))
    assert zk.run(read_instance(ROOT)) == "id"
