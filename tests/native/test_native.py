"""Native parts: they compile without a warning, and their absence changes nothing but the speed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.native.compiling import compile_part
from tests.tidy.sources import ROOT
from zab.native import PARTS, load, loaded

SOURCES = sorted(Path(ROOT, "zab", "native").glob("*.c"))
HEADERS = sorted(Path(ROOT, "zab", "native").glob("*.h"))
LINES_MAX = 1_500
"""The limit of all native code together."""

SAY = "from zab.native import loaded; print(loaded())"


def test_each_source_is_a_part_that_the_build_knows() -> None:
    project = tomllib.loads(Path(ROOT, "pyproject.toml").read_text(encoding="utf-8"))
    modules = project["tool"]["setuptools"]["ext-modules"]
    assert [source.stem for source in SOURCES] == sorted(PARTS)
    assert sorted(module["name"] for module in modules) == [f"zab.native.{part}" for part in sorted(PARTS)]
    assert all(module["optional"] for module in modules), "without a compiler the installation goes on"


def test_native_code_stays_small() -> None:
    assert sum(len(source.read_text(encoding="utf-8").splitlines()) for source in [*SOURCES, *HEADERS]) <= LINES_MAX


@pytest.mark.process
@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_each_compiles_without_a_warning(source: Path, tmp_path: Path) -> None:
    assert compile_part(source, ["-O0"], tmp_path).exists()


@pytest.mark.process
def test_the_environment_switches_them_off() -> None:
    off = subprocess.run(
        [sys.executable, "-c", SAY], env={"ZAB_NATIVE": "0"}, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert off.stdout == "none\n"


def test_what_is_loaded_is_named() -> None:
    assert loaded() == (", ".join(part for part in PARTS if load(part) is not None) or "none")
