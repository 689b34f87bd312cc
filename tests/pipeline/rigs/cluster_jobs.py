"""The driver of the cluster tests: runs every job of `zab pipeline` once in one Spark session, and says how it went.

    python -m tests.pipeline.rigs.cluster_jobs URL OUT DIR...

Prints a line of JSON for each job, and before that one with where the workers' code comes from; ends early where a job
raises anything. A process of its own: one process has one Spark session at a time, and the tests have theirs."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.pipeline.rigs.cluster import EXECUTOR_SETTINGS
from tests.pipeline.rigs.histories import good_history
from zab.cli.main import main as zab
from zab.cli.pipeline.jobs import JOBS, Job
from zab.pipeline.history.files import write_history
from zab.pipeline.spark_session import job_session


def inputs(name: str, job: Job, out: Path, dirs: list[str]) -> list[str]:
    """What follows the name."""
    if name == "history":
        write_history(out / "clients.parquet", good_history(Random(1), 100))
        return [str(out / "clients.parquet")]
    return dirs if job.takes_dirs else []


def arguments(name: str, job: Job, url: str, out: Path, dirs: list[str]) -> list[str]:
    """The command line of a job: its example, or the options that suffice."""
    words = list(job.example) or (["--out", "{out}/rows.parquet"] if job.gives_rows else [])
    words = [word.replace("{out}", str(out)) for word in words]
    spark = ["--spark-url", url] if job.takes_spark else []
    return ["pipeline", name, *inputs(name, job, out, dirs), *words, *spark]


def run(command: list[str]) -> dict[str, Any]:
    said, began = io.StringIO(), time.monotonic()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            zab(command)
            code: Any = 0
        except SystemExit as left:
            code = left.code
    return {"command": command, "code": code or 0, "said": said.getvalue(), "seconds": time.monotonic() - began}


def where(_: object) -> list[tuple[str, str]]:
    """What a worker imports, and its directory."""
    import os

    import zab.pipeline.schema

    return [(zab.pipeline.schema.__file__, os.getcwd())]


SETTINGS = {
    **EXECUTOR_SETTINGS,
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s",
}
"""Nothing runs before both workers have their executor: else the first may have done all before the second is there."""


def main() -> None:
    url, top, *dirs = sys.argv[1:]
    with job_session(url, memory="768m", settings=SETTINGS) as spark:
        found = spark.sparkContext.parallelize(range(8), 8).mapPartitions(where).collect()
        print(json.dumps({"name": "", "workers": found, "app": spark.sparkContext.applicationId}), flush=True)
        for name, job in JOBS.items():
            out = Path(top) / name
            out.mkdir()
            print(json.dumps({"name": name, **run(arguments(name, job, url, out, dirs))}), flush=True)


if __name__ == "__main__":
    main()
