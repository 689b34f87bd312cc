"""What is downloaded for tests of `make test-all`: environments of Python in a cache outside the repository.

    environment("clickhouse", "chdb-core==26.9.0")    -> the Python of an environment that has it

It is in `$XDG_CACHE_HOME/zab/NAME-HASH` (`~/.cache/zab`), by what it has, and is made once: of several workers that
want it, one makes it, and the others wait. Where PyPI cannot be reached, or has nothing for this Python, the test is
skipped with what pip said, and nothing half made is left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from fcntl import LOCK_EX, flock
from hashlib import blake2b
from pathlib import Path

import pytest

_DOWNLOAD_SECONDS = 1200.0


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "zab"


def environment(name: str, *requirements: str) -> Path:
    """The Python of an environment with these packages. Skips the test where they cannot be had."""

    def make(place: Path) -> None:
        venv.create(place, with_pip=True)
        _pip(place, "install", *requirements)

    what = "\n".join((sys.version, *requirements))
    place = cache() / f"{name}-{blake2b(what.encode(), digest_size=6).hexdigest()}"
    once(place, make)
    return place / "bin" / "python"


def sources(name: str, python: Path, requirement: str) -> Path:
    """The directory of a package's sources, with its own tests, beside an environment."""

    def make(place: Path) -> None:
        options = ("--no-deps", "--no-binary", ":all:", "--dest", str(place))
        _pip(python.parent.parent, "download", *options, requirement)
        (archive,) = place.glob(f"{name}-*.tar.gz")
        shutil.unpack_archive(archive, place, filter="data")
        archive.unlink()

    place = python.parent.parent / "sources"
    once(place, make)
    (found,) = place.glob(f"{name}-*")
    return found


def once(place: Path, make: Callable[[Path], None]) -> None:
    """The directory is there, and whole."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if (place / "complete").exists():
            return
        shutil.rmtree(place, ignore_errors=True)
        try:
            make(place)
            (place / "complete").touch()
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise


def _pip(place: Path, *arguments: str) -> None:
    command = [place / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    try:
        subprocess.run(command, capture_output=True, check=True, text=True, timeout=_DOWNLOAD_SECONDS)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()
        pytest.skip(f"pip {' '.join(arguments)}: {said[-1] if said else error}")
    except subprocess.TimeoutExpired as error:
        pytest.skip(str(error))
