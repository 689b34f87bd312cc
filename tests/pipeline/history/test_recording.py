"""A recorded run says the same as the run: a right one is right, and what the checker here finds, its history shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.checker import Held, Operation, Replica
from tests.chaos.good_runs import good_history, good_replicas, with_operation, with_znode
from tests.chaos.records import judged
from tests.pipeline.rigs.recording import record
from zab.pipeline.history.files import read_history
from zab.pipeline.jobs.history import check_table


def kinds(path: Path, operations: Sequence[Operation], replicas: Sequence[Replica]) -> set[str]:
    record(path, operations, replicas)
    return set(check_table(read_history([path])).column("kind").to_pylist())


def test_a_right_run_is_recorded_as_one(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    assert kinds(path, good_history(), good_replicas()) == set()
    assert judged(good_history(), good_replicas()) == []
    # Each member reads both znodes at last, after a sync.
    assert read_history([path]).num_rows == len(good_history()) + 3 * 3


@pytest.mark.parametrize(
    ("kind", "operations", "replicas"),
    [
        ("stale synced read", good_history(), with_znode("/y", None)),
        ("stale synced read", good_history(), with_znode("/x", Held("x2", 5, 2), everywhere=False)),
        ("lost write", with_operation(9, version=1), with_znode("/x", Held("x3", 6, 1))),
        ("refused write seen", with_operation(8, value="no"), []),
        ("phantom value", with_operation(8, value="x9"), []),
        ("two states", with_operation(9, zxid=2), []),
        ("write order", with_operation(1, start=20, end=21), []),
        ("non-monotonic read", with_operation(8, zxid=1, modified=1, value="x0", version=0), []),
        ("lost write", with_operation(5, value="x0", modified=1, version=0), []),
    ],
)
def test_what_is_wrong_with_a_run_is_in_its_history(
    tmp_path: Path, kind: str, operations: list[Operation], replicas: list[Replica]
) -> None:
    found = kinds(tmp_path / "run.parquet", operations, replicas)
    assert found & {kind, "lost write" if replicas else kind}, found
    assert [text for text in judged(operations, replicas) if "undecided" not in text]


def test_times_are_those_of_one_clock(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    record(path, [replace(good_history()[0], start=1.5, end=1.75)])
    (row,) = read_history([path]).to_pylist()
    assert (row["invoked"], row["returned"]) == (1_500_000_000, 1_750_000_000)
