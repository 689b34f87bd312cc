"""The paths of ledgers and of records of under-replication, and the layout of the root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.ledger.entries.ids import ID_MAX
from zab.ledger.metadata.layout import HIERARCHICAL, Layout, decode_layout, encode_layout
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.paths import inner_names, ledger_of, ledger_path, ledgers_in, parents_of, top_names
from zab.ledger.metadata.underreplication import ledger_of_leaf, lock_path, record_path

EDGES = (0, 1, 9999, 10_000, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, 1 << 40, ID_MAX)
LEDGERS = st.one_of(st.sampled_from(EDGES), st.integers(0, ID_MAX))


@pytest.mark.parametrize(
    ("ledger", "path"),
    [
        (1, "/ledgers/00/0000/L0001"),
        (2147483646, "/ledgers/21/4748/L3646"),
        (2147483647, "/ledgers/000/0000/0021/4748/L3647"),
        (1 << 40, "/ledgers/000/0001/0995/1162/L7776"),
        (ID_MAX, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_paths_of_ledgers(ledger: int, path: str) -> None:
    assert ledger_path("/ledgers", ledger) == path
    assert ledger_of("/ledgers", path) == ledger


@given(LEDGERS, st.sampled_from(["/ledgers", "/a/b", ""]))
def test_a_path_is_of_one_ledger(ledger: int, root: str) -> None:
    path = ledger_path(root, ledger)
    assert ledger_of(root, path) == ledger
    assert ledger_of("/other", path) is None
    parents = parents_of(root, path)
    assert all(parent.startswith(f"{root}/") for parent in parents)
    assert [parent.rpartition("/")[0] for parent in parents] == [root, *parents[:-1]]
    assert path.rpartition("/")[0] == parents[-1]


@pytest.mark.parametrize(
    "path",
    [
        "/ledgers/21/4748/L3647",
        "/ledgers/99/9999/L9999",
        "/ledgers/000/0000/0000/0000/L0001",
        "/ledgers/922/3372/0368/5477/L5808",
        "/ledgers/00/0000/0001",
        "/ledgers/00/0000/L001",
        "/ledgers/00/0000/L0001/x",
        "/ledgers/idgen/ID-0000000001",
        "/ledgers/LAYOUT",
        "00/0000/L0001",
        "/ledgers/\u0660\u0660/0000/L0001",
    ],
)
def test_what_is_no_path_of_a_ledger(path: str) -> None:
    """An id in the tree of the others would be looked for elsewhere."""
    assert ledger_of("/ledgers", path) is None


def test_a_walk_goes_in_the_order_of_ids_and_skips_everything_else() -> None:
    names = ["LAYOUT", "INSTANCEID", "available", "cookies", "idgen", "idgen-long", "underreplication", "ID-0000000001"]
    assert top_names([*names, "001", "21", "000", "00", "0", "0000", "x1"]) == ["00", "21", "000", "001"]
    assert inner_names(["0010", "0002", "L0001", "12", "00001"]) == ["0002", "0010"]
    assert ledgers_in("/r", "/r/00/0000", ["L0010", "L0002", "0001", "L12"]) == [2, 10]
    assert ledgers_in("/r", "/r/21/4748", ["L3646", "L3647"]) == [2147483646]


@given(st.lists(LEDGERS, unique=True, max_size=30))
def test_a_walk_of_a_tree_finds_its_ledgers_in_order(ledgers: list[int]) -> None:
    paths = [ledger_path("/r", ledger) for ledger in ledgers]
    children: dict[str, set[str]] = {"/r": {"LAYOUT"}}
    for path in paths:
        for node in [*parents_of("/r", path), path]:
            parent, _, name = node.rpartition("/")
            children.setdefault(parent, set()).add(name)

    def walked(node: str) -> list[int]:
        names = children.get(node, set())
        below = top_names(names) if node == "/r" else inner_names(names)
        return ledgers_in("/r", node, names) + [found for name in below for found in walked(f"{node}/{name}")]

    assert walked("/r") == sorted(ledgers)


def test_paths_of_records_and_locks() -> None:
    assert record_path("/r", 0x123456789) == "/r/underreplication/ledgers/0000/0001/2345/6789/urL4886718345"
    assert record_path("/r", 7) == "/r/underreplication/ledgers/0000/0000/0000/0007/urL0000000007"
    assert lock_path("/r", 7) == "/r/underreplication/locks/urL0000000007"


@given(LEDGERS)
def test_a_record_and_a_lock_name_their_ledger(ledger: int) -> None:
    for path in (record_path("/r", ledger), lock_path("/r", ledger)):
        assert ledger_of_leaf(path.rpartition("/")[2]) == ledger


@pytest.mark.parametrize("name", ["urL7", "urL00000000007", "L0000000007", "urL000000000x", "urL9999999999999999999"])
def test_what_is_no_name_of_a_record(name: str) -> None:
    assert ledger_of_leaf(name) is None


def test_the_layout_of_the_root() -> None:
    data = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
    assert encode_layout(Layout()) == data
    assert decode_layout(data) == decode_layout(data + b"\n") == Layout()
    assert Layout().is_served


@pytest.mark.parametrize(
    "data", [b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", f"2\n{HIERARCHICAL}:2".encode()]
)
def test_another_layout_is_not_served(data: bytes) -> None:
    assert not decode_layout(data).is_served
    assert encode_layout(decode_layout(data)) == data


@pytest.mark.parametrize("data", [b"", b"2", b"two\nx:1", b"2\nx", b"2\nx:one", b"2\nx:1\ny", b"2\n\xff:1", b"2\n:1"])
def test_what_is_no_layout(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError, match=r"layout"):
        decode_layout(data)
