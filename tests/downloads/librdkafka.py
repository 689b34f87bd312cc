"""librdkafka with its own tests, and its client in JavaScript, built from the package @confluentinc/kafka-javascript.

    librdkafka()    -> its runner of tests and its shared libraries
    javascript()    -> the directory node_modules with the client

npm gets the sources. Each is built once, in the cache outside the repository: it takes one to two minutes of two
processors that do nothing else. Where a compiler or a header is missing, or the build takes too long, the test is
skipped with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen

from tests.downloads.environments import cache, once
from tests.downloads.node import node, node_modules

PACKAGE = "@confluentinc/kafka-javascript"
PACKAGE_VERSION = "1.10.1"
VERSION = "2.15.1"
"""The librdkafka that the package carries."""
LIBRARY_SECONDS, CLIENT_SECONDS = 360.0, 160.0
"""How long each may be built."""


@frozen
class Librdkafka:
    """What was built."""

    sources: Path

    @property
    def runner(self) -> Path:
        """The program that runs its tests."""
        return self.sources / "tests" / "test-runner"

    @property
    def libraries(self) -> str:
        """The directories of its shared libraries, for LD_LIBRARY_PATH."""
        return f"{self.sources / 'src'}:{self.sources / 'src-cpp'}"


def librdkafka() -> Librdkafka:
    """Skips the test where it cannot be had."""
    for program in ("make", "gcc", "g++", "python3"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    downloaded = node_modules(PACKAGE, PACKAGE_VERSION)

    def make(place: Path) -> None:
        shutil.copytree(downloaded / PACKAGE / "deps" / "librdkafka", place, symlinks=True)
        _run(
            place,
            LIBRARY_SECONDS,
            ("./configure", "--disable-optimization", "--disable-debug-symbols", "--disable-gssapi", "--disable-curl"),
            ("make", "-j2", "libs"),
            ("make", "-C", "tests", "-j2", "build"),
        )

    place = cache() / f"librdkafka-{VERSION}-built"
    once(place, make)
    return Librdkafka(place)


def javascript() -> Path:
    """The directory node_modules with its client for Node, which finds the shared libraries by LD_LIBRARY_PATH."""
    library = librdkafka()
    downloaded = node_modules(PACKAGE, PACKAGE_VERSION)
    home = Path(node()).resolve().parent.parent
    npm = Path(shutil.which("npm") or "npm").resolve().parents[1]
    environment = {
        "BUILD_LIBRDKAFKA": "0",
        "CXXFLAGS": f"-O0 -I{library.sources / 'src'} -I{library.sources / 'src-cpp'}",
        "LDFLAGS": f"-L{library.sources / 'src'} -L{library.sources / 'src-cpp'}",
    }

    def make(place: Path) -> None:
        shutil.copytree(downloaded, place / "node_modules", symlinks=True)
        gyp = (node(), str(npm / "node_modules" / "node-gyp" / "bin" / "node-gyp.js"))
        command = (*gyp, "rebuild", f"--nodedir={home}", "--jobs", "2")
        _run(place / "node_modules" / PACKAGE, CLIENT_SECONDS, command, environment=environment)

    place = cache() / f"kafka-javascript-{PACKAGE_VERSION}-built"
    once(place, make)
    return place / "node_modules"


def _run(place: Path, seconds: float, *commands: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    deadline = time.monotonic() + seconds
    for command in commands:
        try:
            subprocess.run(
                command,
                cwd=place,
                env={**os.environ, **(environment or {})},
                capture_output=True,
                check=True,
                text=True,
                timeout=deadline - time.monotonic(),
            )
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{' '.join(command[-3:])}: {(error.stderr or error.stdout).strip()[-300:]}")
        except subprocess.TimeoutExpired as error:
            pytest.skip(str(error))
