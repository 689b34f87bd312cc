"""Compiles a native part in its place, as the installation does; and names the tests of each."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
TESTS = {
    "tests/host/loop/test_held_message.py": ["durable"],
    "tests/datatree/test_native_writes.py": ["tree", "writes"],
}
"""The tests, and the parts that are tested there, by tests with `native` in their names."""


def compile_part(source: Path, flags: Sequence[str] = (), directory: Path | None = None) -> Path:
    """Compile a source of `zab/native`, beside it or into a directory. Raises CalledProcessError."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    library = (directory or source.parent) / f"{source.stem}{suffix}"
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(["cc", *FLAGS, *flags, include, "-o", library, source], check=True)
    return library
