"""docs/how-to/monitor.md, metrics and four-letter words: what they show is what happens, and their tables are whole."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page_steps import steps
from tests.docs.status_commands import ensemble
from tests.rigs.admin_servers import facts
from tests.rigs.direct.members import Ensemble
from tests.tidy.sources import ROOT
from zab.cli.servers.local_ensemble import LocalEnsemble
from zab.member.words.admin_commands import NAMES_OF
from zab.member.words.figures import figures
from zab.server.admin import MORE

__all__ = ["ensemble"]

PAGE = (ROOT / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")
WORDS, METRICS = [
    (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") for name in ("four-letter-words.md", "metrics.md")
]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_print_what_the_pages_say(ensemble: LocalEnsemble) -> None:
    member = ensemble.members[0]
    assert len({each.admin_port for each in ensemble.members}) == 3
    shown = steps(PAGE) + steps(WORDS)
    assert len(shown) >= 4
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, expected in shown:
        ours = command.replace(":8081", f":{member.admin_port}").replace(":2181", f":{member.client_port}")
        done = subprocess.run(
            ["bash", "-c", ours],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PATH": path},
            check=False,
        )
        assert done.returncode == 0, (ours, done.stderr)
        pattern = ".*".join(map(re.escape, expected.strip().split("…")))
        assert re.fullmatch(pattern, done.stdout.strip(), re.S), (ours, done.stdout)


def test_the_table_has_every_command_with_its_short_forms() -> None:
    told = {}
    for names, shorts in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|([^|]*)\|", PAGE, re.M):
        first, aliases = re.findall(r"`(\w+)`", names), re.findall(r"`(\w+)`", shorts)
        if first[0] in NAMES_OF or first[0] in MORE:
            told |= dict.fromkeys([*first, *aliases])
    assert told.keys() == NAMES_OF.keys() | MORE.keys()


def test_each_name_of_zookeepers_is_served_or_has_a_reason_why_not() -> None:
    theirs = {line.split()[0] for line in facts("zookeeper.txt")}
    ours = set(names_of_mntr())
    rows = re.findall(r"^\| ((?:`[\w…]+`(?:, )?)+) \| \S", METRICS.split("\n## Names that are not there\n", 1)[1], re.M)
    told = [name for row in rows for name in re.findall(r"`([\w…]+)`", row)]
    missing = theirs - ours
    reasoned = {name: {each for each in missing if re.fullmatch(name.replace("…", r"\w*"), each)} for name in told}
    assert {name for name, found in reasoned.items() if not found} == set(), "rows for what is there, or for nothing"
    assert missing == set().union(*reasoned.values())
    assert len(theirs & ours) >= 70


def names_of_mntr() -> Iterator[str]:
    """The names of a leader and of a follower; the names of one summary together."""
    ensemble = Ensemble(3)
    for server in (ensemble.leader, ensemble.follower):
        yield from (figure.name for figure in figures(server.member.view))
