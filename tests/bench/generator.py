"""The load generator and the server that only answers, compiled for the tests of a module."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
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


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of both. The generator speaks no TLS."""
    directory = tmp_path_factory.mktemp("build")
    for name in ("load", "echo"):
        compile_program(name, directory)
    return directory


@pytest.fixture(scope="module")
def tls_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a generator that speaks TLS."""
    if not has_openssl():
        pytest.skip("the headers of OpenSSL (libssl-dev) are missing")
    directory = tmp_path_factory.mktemp("build")
    compile_program("load", directory, TLS_FLAGS)
    return directory
