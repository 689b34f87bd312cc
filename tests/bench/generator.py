"""The generators of load, the server that only answers and the library that counts syncs, compiled for the tests of a
module."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "bench"
TLS_FLAGS = ("-DWITH_TLS", "-lssl", "-lcrypto")

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or not sys.platform.startswith("linux"), reason="the generator is C for Linux"
)


def has_openssl() -> bool:
    """Whether the compiler finds the headers."""
    found = subprocess.run(
        ["cc", "-E", "-"], input=b"#include <openssl/ssl.h>\n", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return found.returncode == 0


def compile_program(name: str, directory: Path, more: Sequence[str] = ()) -> Path:
    flags = ["-O1", "-std=c11", "-Wall", "-Wextra", "-Werror"]
    program = directory / name
    subprocess.run(["cc", *flags, "-o", program, SOURCES / f"{name}.c", *more], check=True)
    return program


def compile_library(name: str, directory: Path) -> Path:
    flags = ["-shared", "-fPIC", "-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    library = directory / f"{name}.so"
    subprocess.run(["cc", *flags, "-o", library, SOURCES / f"{name}.c", "-ldl"], check=True)
    return library


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of all. The generators speak no TLS."""
    directory = tmp_path_factory.mktemp("build")
    for name in ("load", "crowd", "echo"):
        compile_program(name, directory)
    compile_library("syncs", directory)
    return directory


@contextlib.contextmanager
def echoing(programs: Path, *arguments: str) -> Iterator[int]:
    """The port of a server that only answers."""
    command = [programs / "echo", "0", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline().split()[-1])
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def tls_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a generator that speaks TLS."""
    if not has_openssl():
        pytest.skip("the headers of OpenSSL (libssl-dev) are missing")
    directory = tmp_path_factory.mktemp("build")
    compile_program("load", directory, TLS_FLAGS)
    return directory
