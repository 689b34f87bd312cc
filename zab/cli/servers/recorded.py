"""Writes the recorded history of a simulated run as Parquet, and judges it by `zab.pipeline`.

The pipeline needs its extra, and is imported only when it is used.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from zab.cli.exits import fail
from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.world.verdict import SafetyError, UndecidedError

if TYPE_CHECKING:
    from zab.pipeline.history.operation import Operation

__all__ = ["demand_extra", "judge", "write"]


def demand_extra(option: str) -> None:
    """End the command before a run if the extra `pipeline` is missing."""
    try:
        import zab.pipeline.jobs  # noqa: F401
    except ModuleNotFoundError as error:
        fail(f"{option}: {error}")


def _operations(recorder: Recorder) -> "Iterator[Operation]":
    from zab.pipeline.history.operation import Operation

    return (Operation(**attrs.asdict(record)) for record in recorder.records)


def write(path: Path, seed: int, recorder: Recorder) -> None:
    """Write a recorded run to `path`."""
    from zab.pipeline.errors import PipelineError
    from zab.pipeline.history.files import write_history

    try:
        write_history(path, _operations(recorder), name=f"seed {seed}")
    except PipelineError as error:
        fail(error)
    print(f"{len(recorder.records)} operations in {path}")


def judge(seed: int, recorder: Recorder) -> None:
    """Judge a recorded run like `zab pipeline history`. Raises SafetyError, UndecidedError."""
    from zab.pipeline.history.files import table_of
    from zab.pipeline.jobs.history import check_table

    rows = check_table(table_of(_operations(recorder), f"seed {seed}")).to_pylist()
    for row in sorted(rows, key=lambda row: not row["violation"]):
        text = f"{row['path']}: {row['sentence']}: {'; '.join(row['witness'])}"
        if not row["violation"]:
            raise UndecidedError(text)
        raise SafetyError(row["kind"], text)
