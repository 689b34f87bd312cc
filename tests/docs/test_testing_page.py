"""What docs/how-to/test-applications.md shows is what happens: its programs are run as tests, and its names are
there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from zab.testing import FAULTS, Broker, Brokers, Ensemble, Member, Run, SimulatedEnsemble, SimulatedMember, simulate
from zab.testing.broker_settings import COUNT_MAX
from zab.testing.ensemble import PATIENCE_SECONDS
from zab.testing.kit.journals import LINES_MAX
from zab.testing.kit.reports import REPORT_LINES
from zab.testing.settings import SIZE_MAX
from zab.testing.simulated import CLIENTS_MAX, LIMIT_SECONDS

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "test-applications.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.process
def test_the_programs_of_the_page_pass(pytester: pytest.Pytester) -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    for number, program in enumerate(programs):
        pytester.makepyfile(**{f"test_{number}": program})
    arguments = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "zab.testing.plugin", "-W", "error")
    count = sum(len(re.findall(r"^(?:async )?def test_", program, re.M)) for program in programs)
    assert count == 11
    # One of them has three parameters.
    pytester.runpytest_subprocess(*arguments, timeout=300).assert_outcomes(passed=count + 2)


def test_the_names_of_the_page_are_there() -> None:
    for name in re.findall(r"\be\.(\w+)", re.sub(r"```.*?```", "", PAGE, flags=re.S)):
        assert hasattr(Ensemble, name) or hasattr(SimulatedEnsemble, name) or name in ("members", "clock", "random"), (
            name
        )
    for name in re.findall(r"`(?:e\.members\[1\])?\.(\w+)\(\)`", PAGE):
        assert hasattr(SimulatedMember, name), name
        assert hasattr(Member, name) or name == "lose_power", name
    [row] = re.findall(r"^\| `e\.members\[1\]` \|.*: (.*) \|$", PAGE, re.M)
    for name in re.findall(r"`(\w+)`", row):
        assert hasattr(Member, name) or name in inspect.signature(Member.__init__).parameters or name in _set_by(Member)
    assert {"value", "hash", "seconds"} <= {field.name for field in Run.__attrs_attrs__}


def test_the_names_of_brokers_are_there() -> None:
    found = set(re.findall(r"`(?:await )?b\.(\w+)", PAGE))
    assert found >= {name for name in vars(Brokers) if not name.startswith("_")} - {"noun", "journal"}
    assert found <= set(dir(Brokers)) | _set_by(Brokers)
    [row] = re.findall(r"^\| `b\.members\[1\]` \|.*: (.*) \|$", PAGE, re.M)
    assert set(re.findall(r"`(\w+)`", row)) <= set(dir(Broker)) | _set_by(Broker)


def _set_by(kind: type) -> set[str]:
    return set(re.findall(r"self\.(\w+) =", inspect.getsource(kind.__init__)))


def test_what_is_done_to_members_has_the_same_names_in_both_kits() -> None:
    own = {"lose_power"}
    for real, simulated in ((Ensemble, SimulatedEnsemble), (Member, SimulatedMember)):
        public = {name for name in vars(simulated) if not name.startswith("_")} - own
        only = {"make_clock", "run", "note_seed", "hash", "say", "dial", "calm"}
        assert public - only <= {name for name in vars(real) if not name.startswith("_")}


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    for limit, value in (
        ("members of an ensemble", SIZE_MAX),
        ("brokers", COUNT_MAX),
        ("waiting for an ensemble", f"{PATIENCE_SECONDS:.0f} s"),
        ("lines kept", f"{LINES_MAX:,}"),
        ("lines of a member", f"the newest {REPORT_LINES}"),
        ("a simulated run", f"{LIMIT_SECONDS:,.0f} s"),
        ("clients of a simulated run", CLIENTS_MAX),
    ):
        assert re.search(rf"^\| {limit}.*? \| {value}[ ;]", PAGE, re.M), limit


def test_the_signatures_of_the_page_are_those_of_the_code() -> None:
    for kind, name in ((Ensemble.__init__, "Ensemble"), (Brokers.__init__, "Brokers"), (simulate, "simulate")):
        [shown] = re.findall(rf"^`{name}\((.*?)\)`", PAGE, re.M)
        names = re.findall(r"(?:^|[ *])([a-z_]+)(?:=|,|$)", shown)
        assert names == [name for name in inspect.signature(kind).parameters if name != "self"]
    assert {"disconnect", "expire", "kill", "power", "pause", "partition", "reset"} <= FAULTS
