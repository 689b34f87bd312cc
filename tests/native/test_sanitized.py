"""Native parts under the sanitizers of addresses and of undefined behaviour: their tests, in another process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.gate import bench
from tests.native.compiling import TESTS, compile_part
from tests.tidy.sources import ROOT
from zab.native import PARTS

FLAGS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
SECONDS_MAX = 900
"""This only bounds a hang."""


def library(name: str) -> str | None:
    """The library of a sanitizer, as the compiler names it; None where it is missing."""
    if shutil.which("cc") is None:
        return None
    found = subprocess.run(
        ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return found if os.path.isabs(found) else None


@pytest.mark.process
@pytest.mark.longest
@pytest.mark.parametrize("tests", TESTS)
def test_no_sanitizer_finds_anything(tests: str) -> None:
    assert sorted(PARTS) == sorted(part for parts in TESTS.values() for part in parts)
    libraries = [library("libasan.so"), library("libubsan.so")]
    if None in libraries:
        pytest.skip("no compiler with sanitizers here")
    with bench(ROOT) as workbench:
        directory = workbench.directory
        for part in TESTS[tests]:
            compile_part(Path(directory, "zab", "native", f"{part}.c"), FLAGS)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {
            "LD_PRELOAD": " ".join(filter(None, libraries)),
            # The interpreter keeps what it has allocated until its process ends.
            "ASAN_OPTIONS": "detect_leaks=0",
            # Its own allocator would hide what is read beside a block.
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": str(directory),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "native", tests]
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
