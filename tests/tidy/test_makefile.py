"""`make` works in an environment of the Python that is asked for, and in none of a Python that is too old."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

OLD, NEW, NEWER = "3.9", "3.11", "3.12"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the rules of the environment look at, and a Python of each version, which makes environments of its own."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for needed in ("pyproject.toml", "zab/service/version.py"):
        (tmp_path / needed).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / needed).touch()
    for version in (OLD, NEW, NEWER):
        program = tmp_path / f"python{version}"
        major, minor = version.split(".")
        program.write_text(
            f"""#!/bin/sh
case "$1 $2" in
"-m pip") exit 0 ;;
"-m venv") shift 2; [ "$1" = --clear ] && rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
*) exec {sys.executable} -c "import sys; sys.version_info = ({major}, {minor}); exec(sys.argv[1])" "$2" ;;
esac
"""
        )
        program.chmod(0o755)
    return tmp_path


def made(checkout: Path, version: str | None) -> subprocess.CompletedProcess[str]:
    """Make the environment; with None, PYTHON is not given, and python3 is the old one."""
    link = checkout / "python3"
    if not link.exists():
        link.symlink_to(f"python{OLD}")
    asked = [] if version is None else [f"PYTHON={checkout}/python{version}"]
    path = f"{checkout}{os.pathsep}{os.environ['PATH']}"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))
    }
    return subprocess.run(
        ["make", ".venv/run.stamp", *asked],
        cwd=checkout,
        env=environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def version_of(checkout: Path) -> str:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.check_output([checkout / ".venv/bin/python", "-c", program], text=True).strip()


def test_a_python_that_is_too_old_is_refused_before_anything_is_made(checkout: Path) -> None:
    done = made(checkout, None)
    assert done.returncode != 0
    assert "zab needs Python 3.11 or newer, python3 is 3.9" in done.stderr + done.stdout
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(("first", "then"), [(OLD, NEW), (NEW, NEWER)], ids=["too old", "another"])
def test_environment_of_another_python_is_made_again(first: str, then: str, checkout: Path) -> None:
    (checkout / ".venv/bin").mkdir(parents=True)
    shutil.copy(checkout / f"python{first}", checkout / ".venv/bin/python")
    for stamp in ("run.stamp", "test.stamp"):
        (checkout / ".venv" / stamp).touch()
    done = made(checkout, then)
    assert done.returncode == 0, done.stderr
    assert f".venv has Python {first}: it is made again" in done.stdout
    assert version_of(checkout) == then
    assert not (checkout / ".venv/test.stamp").exists(), "what was installed is gone with it"


def test_environment_that_is_new_enough_stays_whatever_python3_is(checkout: Path) -> None:
    assert made(checkout, NEW).returncode == 0
    kept = checkout / ".venv/kept"
    kept.touch()
    for asked in (None, NEW):
        assert made(checkout, asked).returncode == 0
    assert kept.exists()
