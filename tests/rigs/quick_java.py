"""How the tests start Java: compiled quickly rather than well, and with classes from an archive.

Half of what a short job costs is that Spark's driver loads its classes. An archive (Java's class data sharing) has them
parsed and checked. It fits the runtime and the jars that it was made with; another runtime runs
without it, and so does everybody while it is not there, or empty, since not every runtime makes one.
`tests.rigs.java_archives` makes it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

QUICK: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
_IN_SILENCE: Final = "-Xlog:cds*=off"


def archive_of(program: str) -> Path:
    """Where the classes of `spark` or `zookeeper` are kept: as long as the virtual environment."""
    return Path(sys.prefix, "share", "zab", f"{program}-classes.jsa")


def quick_java(program: str) -> list[str]:
    """Options of a JVM that runs `spark` or `zookeeper` for the time of a test."""
    archive = archive_of(program)
    if not archive.exists() or not archive.stat().st_size:
        return [*QUICK]
    return [*QUICK, f"-XX:SharedArchiveFile={archive}", _IN_SILENCE]


def archiving_java(archive: Path) -> list[str]:
    """Options of a JVM that writes the classes it took into `archive` when it ends."""
    return [*QUICK, f"-XX:ArchiveClassesAtExit={archive}", _IN_SILENCE]
