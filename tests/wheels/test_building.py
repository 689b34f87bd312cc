"""Wheels for both architectures of Linux, built on this one; and what is not what its name says is refused."""

from __future__ import annotations

import platform
import struct
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.downloads.environments import environment
from tests.wheels.building import ARCHITECTURES, built_for
from zab.native import PARTS

pytestmark = [
    pytest.mark.downloads,
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() not in ARCHITECTURES, reason="Zig builds on Linux for Linux"
    ),
]

MACHINES = {"x86_64": 62, "aarch64": 183}
"""The machine in the head of an ELF file."""


@pytest.fixture(scope="module")
def tools() -> Path:
    return environment("wheels", "auditwheel==6.8.2", "ziglang==0.17.1")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_native_parts_are_of_the_architecture(architecture: str, tools: Path, tmp_path: Path) -> None:
    wheel = built_for(architecture, sys.executable, tools, tmp_path)
    with ZipFile(wheel) as archive:
        libraries = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    assert {struct.unpack_from("<H", library, 18)[0] for library in libraries.values()} == {MACHINES[architecture]}
    assert len(libraries) == len(PARTS)
    assert f"-manylinux_2_26_{architecture}.whl" in wheel.name


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("x86_64-linux-gnu.2.28", "auditwheel"),
        ("aarch64-linux-gnu.2.38", "is not for aarch64 with glibc 2.28"),
        ("aarch64-linux-gnu.2.17", "needs pwritev64v2, which this glibc does not have"),
    ],
)
def test_anything_else_is_refused(target: str, said: str, tools: Path, tmp_path: Path) -> None:
    """Another architecture; a newer glibc; and an older one, without what a part calls."""
    with pytest.raises(SystemExit, match=said):
        built_for("aarch64", sys.executable, tools, tmp_path, target)
