"""Packages of npm, in a cache outside the repository (`tests.downloads.environments`).

Where there is no Node or no npm, or its registry cannot be reached, the test is skipped with the reason.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.downloads.environments import cache, once

_DOWNLOAD_SECONDS = 300.0


def node() -> str:
    """The Node that runs programs. Skips the test where there is none."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not there: apt-get install nodejs npm")
    return found


def node_modules(name: str, version: str) -> Path:
    """The `node_modules` with this package and what it needs; no scripts of packages are run."""
    node()

    def make(place: Path) -> None:
        place.mkdir()
        (place / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
        try:
            subprocess.run(
                ["npm", "install", *options, f"{name}@{version}"],
                cwd=place,
                capture_output=True,
                check=True,
                text=True,
                timeout=_DOWNLOAD_SECONDS,
            )
        except subprocess.CalledProcessError as error:
            pytest.skip(f"npm: {next(iter((error.stderr or error.stdout).strip().splitlines()), error)}")
        except subprocess.TimeoutExpired as error:
            pytest.skip(str(error))

    place = cache() / f"{name.removeprefix('@').replace('/', '-')}-{version}"
    once(place, make)
    return place / "node_modules"
