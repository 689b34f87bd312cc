"""The command by which kazoo's own test harness starts members of ours: `java`, as docs/how-to/migrate.md has it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.sources import ROOT


def java_of_the_page(directory: Path) -> Path:
    """It is in a directory of its own below this one, for `PATH`."""
    page = (ROOT / "docs" / "how-to" / "migrate.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```sh\n(#!/bin/sh\n# java,.*?)```", page, re.S)
    path = directory / "bin" / "java"
    path.parent.mkdir()
    path.write_text(script)
    path.chmod(0o755)
    return path
