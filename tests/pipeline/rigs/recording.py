"""The history of a run as Parquet: what the clients were told, and what the members hold at last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import asdict

from tests.chaos.checker import Operation, Replica
from tests.chaos.records import records_of
from zab.pipeline.history import operation as history
from zab.pipeline.history.files import read_history, write_history
from zab.pipeline.jobs.history import check_table


def record(path: Path, operations: Sequence[Operation], replicas: Sequence[Replica] = ()) -> None:
    """Write the history of one run to `path`."""
    write_history(path, [history.Operation(**asdict(one)) for one in records_of(operations, replicas)])


def violations(path: Path) -> list[str]:
    """What `zab pipeline history` has to say of a recorded run."""
    rows = check_table(read_history([path])).to_pylist()
    return [f"{row['kind']} {row['path']}: {row['sentence']}: {row['witness']}" for row in rows]
