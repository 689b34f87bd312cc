"""docs/how-to/repair-ledgers.md: its commands are run, in order, and its keys are those of the settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page_steps import steps
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.bookie.auto_recovery import AutoRecoveryService
from zab.bookie.config_file import read_settings
from zab.bookie.settings import BookieSettings
from zab.client.coordination import OpenAccess
from zab.configuration.fields import settings_of
from zab.ledger.entries.ids import BookieId
from zab.testing.bookies import Bookies

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "repair-ledgers.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def bookies() -> Iterator[Bookies]:
    with Bookies(
        1,
        {
            "autoRecoveryDaemonEnabled": "true",
            "auditorPeriodicCheckInterval": 0,
            "auditorPeriodicOrphanCheckInterval": 0,
        },
    ) as running:
        yield running


@pytest.mark.process
@pytest.mark.long
def test_the_commands_print_what_the_page_says(bookies: Bookies) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ZAB_HOSTS": bookies.ensemble.hosts,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    bookies.wait_until(lambda: "is the auditor" in bookies.journal, "an auditor")
    for command, said in steps(PAGE):
        done = subprocess.run(
            ["bash", "-c", command.replace("zab ", f"{sys.executable} -m zab.cli.main ", 1)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert (command, done.stdout, done.returncode) == (command, said, 0), done.stderr


def test_the_page_has_every_key() -> None:
    keys = {each.key for each in settings_of(BookieSettings) if each.block == "replication"}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == keys


def test_the_figures_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "bookie-metrics.md").read_text(encoding="utf-8")
    settings = read_settings("ledgerDirectories=/tmp/nowhere\nautoRecoveryDaemonEnabled=true\n")
    figures = {each.name for each in AutoRecoveryService(settings, BookieId("b1"), OpenAccess()).figures()}
    assert set(re.findall(r"`(zab_auto_recovery_\w+)`", page)) == figures
