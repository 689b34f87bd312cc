"""docs/deploy/alarms.yaml: its rules ask for figures that members have, and fire when they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.rigs.direct.members import SURROUNDINGS, Ensemble, Server
from tests.tidy.sources import ROOT
from zab.host.http.exposition import FigureCollector, registry_of
from zab.member.words.figures import figures
from zab.protocol.states import LEADING, LOOKING

ALARMS = ROOT / "docs" / "deploy" / "alarms.yaml"
[GROUP] = yaml.safe_load(ALARMS.read_text(encoding="utf-8"))["groups"]
RULES = {rule["alert"]: rule["expr"] for rule in GROUP["rules"]}
PAGE = (ROOT / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Alarms\n", 1)[1]
WORDS = {"by", "count", "job", "increase", "on", "rate", "unless", "up", "zab", "h", "m"}
"""Words of rules that are not figures."""
MINUTES = 20
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not here")


@attrs.define
class Scrape:
    """What a member says: samples with their labels."""

    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    @classmethod
    def of(cls, server: Server) -> Scrape:
        families = registry_of(
            FigureCollector(partial(figures, server.member.view.around(SURROUNDINGS))), exports_process=True
        ).collect()
        return cls({(s.name, tuple(s.labels.items())): s.value for family in families for s in family.samples})

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}


def cut_off(ensemble: Ensemble, *gone: Server) -> None:
    """Long enough for everybody to notice."""
    ensemble.cut |= {server.sid for server in gone}
    ensemble.advance(60_000)


def series(instance: str, up: bool, before: Scrape, after: Scrape | None) -> Iterator[dict[str, str]]:
    """The series of one member, a minute a sample: two from `before`, the rest from `after`; none where it is None."""

    def one(name: str, labels: Sequence[tuple[str, str]], first: float | None, then: float | None) -> dict[str, str]:
        said = ",".join(f'{key}="{value}"' for key, value in (("job", "zab"), ("instance", instance), *labels))
        values = ["_" if first is None else str(first)] * 2 + ["stale" if then is None else str(then)] * MINUTES
        return {"series": f"{name}{{{said}}}", "values": " ".join(values)}

    yield one("up", (), 1, int(up))
    later = after.samples if after is not None else {}
    for name, labels in dict.fromkeys([*before.samples, *later]):
        key = (name, labels)
        yield one(name, labels, before.samples.get(key), later.get(key))


def firing(directory: Path, input_series: list[dict[str, str]], *expected: dict[str, str]) -> None:
    """promtool sees these labels of ZabNoQuorum, and no others, a quarter of an hour later."""
    [summary] = [rule["annotations"]["summary"] for rule in GROUP["rules"] if rule["alert"] == "ZabNoQuorum"]
    alerts = [
        {
            "exp_labels": {**labels, "severity": "critical"},
            "exp_annotations": {"summary": summary.replace("{{ $labels.job }}", labels["job"])},
        }
        for labels in expected
    ]
    test = {
        "rule_files": [str(ALARMS)],
        "tests": [
            {
                "interval": "1m",
                "input_series": input_series,
                "alert_rule_test": [{"eval_time": "15m", "alertname": "ZabNoQuorum", "exp_alerts": alerts}],
            }
        ],
    }
    (directory / "test.yaml").write_text(yaml.safe_dump(test))
    done = subprocess.run(
        ["promtool", "test", "rules", str(directory / "test.yaml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_ask_for_what_members_say_and_the_page_has_each() -> None:
    ensemble = Ensemble(3)
    known = set().union(*(Scrape.of(server).names for server in ensemble.servers.values()))
    asked = {name for rule in RULES.values() for name in re.findall(r"[a-z_]+", re.sub(r'"[^"]*"', "", rule))}
    assert asked - WORDS <= known
    assert len(asked - WORDS) >= 9
    assert re.findall(r"^\| (\w+) \|", SECTION, re.M)[1:] == list(RULES)


def test_figures_that_the_leader_alone_has_are_those_of_the_page() -> None:
    ensemble = Ensemble(3)
    leader = Scrape.of(ensemble.leader).names - Scrape.of(ensemble.follower).names
    told = set(re.findall(r"`([a-z_]+)`", SECTION.split("\nIn rules of your own:", 1)[1])) - {"quorum_size"}
    assert leader == told | {"max_proposal_size", "min_proposal_size"}
    cut_off(ensemble, *ensemble.others(ensemble.leader))
    assert all(server.member.peer.state == LOOKING for server in ensemble.servers.values())
    for server in ensemble.servers.values():
        assert not Scrape.of(server).names & leader
        assert "quorum_size" in Scrape.of(server).names


@needs_promtool
def test_promtool_takes_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(ALARMS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


@needs_promtool
@pytest.mark.parametrize("gone", [0, 1, 2, 3])
@pytest.mark.parametrize("with_leader", [True, False])
def test_no_quorum_fires_when_nobody_leads(gone: int, with_leader: bool, tmp_path: Path) -> None:
    ensemble = Ensemble(3)
    before = {sid: Scrape.of(server) for sid, server in ensemble.servers.items()}
    order = sorted(ensemble.servers.values(), key=lambda s: (s.member.peer.state == LEADING) is not with_leader)
    cut_off(ensemble, *order[:gone])
    closed = {server.sid for server in order[:gone]}
    told: list[dict[str, Any]] = []
    for sid, server in ensemble.servers.items():
        after = None if sid in closed else Scrape.of(server)
        told += series(str(sid), sid not in closed, before[sid], after)
    firing(tmp_path, told, *([{"job": "zab"}] if gone >= 2 else []))


@needs_promtool
def test_no_quorum_fires_where_members_are_there_and_do_not_reach_each_other(tmp_path: Path) -> None:
    ensemble = Ensemble(3)
    before = {sid: Scrape.of(server) for sid, server in ensemble.servers.items()}
    cut_off(ensemble, *ensemble.servers.values())
    told = [
        each
        for sid, server in ensemble.servers.items()
        for each in series(str(sid), True, before[sid], Scrape.of(server))
    ]
    firing(tmp_path, told, {"job": "zab"})


def values_fire(directory: Path, alarm: str, told: dict[str, str], minute: int) -> bool:
    """Whether an alarm of one member fires then, with these samples a minute each."""
    of = '{job="zab",instance="a"}'
    alert_rule_test = [{"eval_time": f"{minute}m", "alertname": alarm, "exp_alerts": []}]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name + of, "values": values} for name, values in told.items()],
            "alert_rule_test": alert_rule_test,
        }
    ]
    (directory / "test.yaml").write_text(yaml.safe_dump({"rule_files": [str(ALARMS)], "tests": tests}))
    command = ["promtool", "test", "rules", str(directory / "test.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "got:[" in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode != 0


@needs_promtool
@pytest.mark.parametrize(
    ("elections", "fires"),
    [
        # Of a follower whose leader is restarted once, and whose own process is, too.
        ("1 1 1 2 2 2 1 1 1 1 1 1 1 1 1 1", False),
        # The leadership goes on to a member that is restarted next, twice.
        ("1 1 2 2 3 3 1 1 1 1 1 1 1 1 1 1", False),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", True),
    ],
)
def test_a_rolling_restart_is_no_alarm_and_leaders_that_are_lost_again_and_again_are(
    elections: str, fires: bool, tmp_path: Path
) -> None:
    assert values_fire(tmp_path, "ZabElections", {"election_time_count": elections}, 15) is fires


@needs_promtool
@pytest.mark.parametrize(("each_takes_ms", "fires"), [(2, False), (150, True)])
def test_requests_that_are_slow_now_are_an_alarm_however_long_the_member_was_quick(
    each_takes_ms: int, fires: bool, tmp_path: Path
) -> None:
    """A thousand million requests of a millisecond came before these."""
    before, minutes = 1_000_000_000, range(12)
    told = {
        "readlatency_count": " ".join(str(before + 600 * at) for at in minutes),
        "readlatency_sum": " ".join(str(before + 600 * at * each_takes_ms) for at in minutes),
        "updatelatency_count": " ".join(str(before + 60 * at) for at in minutes),
        "updatelatency_sum": " ".join(str(before + 60 * at * each_takes_ms) for at in minutes),
        "avg_latency": " ".join(["1"] * len(minutes)),
    }
    assert values_fire(tmp_path, "ZabLatency", told, 10) is fires


def steady(value: int) -> str:
    return f"{value}x11"


def growing(each_minute: int) -> str:
    return f"0+{each_minute}x11"


AT_THE_LIMIT: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "ZabMemberIsGone": ({"up": steady(1)}, {"up": steady(0)}),
    "ZabSlowDisk": ({"fsynctime_sum": growing(6000)}, {"fsynctime_sum": growing(6060)}),
    "ZabLearnerIsBehind": ({"learner_lag": steady(10_000)}, {"learner_lag": steady(10_001)}),
    "ZabWrongTree": ({"digest_mismatches_count": steady(1)}, {"digest_mismatches_count": "0x5 1x5"}),
    "ZabFullDisk": ({"disk_space": steady(2)}, {"disk_space": steady(1)}),
    "ZabSequenceNumbersEnd": (
        {"sequence_numbers_left": steady(500_000_000)},
        {"sequence_numbers_left": steady(499_999_999)},
    ),
    "ZabDescriptors": (
        {"open_file_descriptor_count": steady(850), "max_file_descriptor_count": steady(1000)},
        {"open_file_descriptor_count": steady(851), "max_file_descriptor_count": steady(1000)},
    ),
}
"""Figures that are no alarm yet, and the next that are one. The others have tests of their own."""


@needs_promtool
@pytest.mark.parametrize("alarm", AT_THE_LIMIT)
def test_an_alarm_fires_above_its_limit_and_not_at_it(alarm: str, tmp_path: Path) -> None:
    still_good, bad = AT_THE_LIMIT[alarm]
    assert not values_fire(tmp_path, alarm, still_good, 10)
    assert values_fire(tmp_path, alarm, bad, 10)


@needs_promtool
@pytest.mark.parametrize(("alarm", "told"), [("ZabMemberIsGone", "up"), ("ZabLearnerIsBehind", "learner_lag")])
def test_what_is_over_within_a_minute_is_no_alarm(alarm: str, told: str, tmp_path: Path) -> None:
    good, bad = (each[told].partition("x")[0] for each in AT_THE_LIMIT[alarm])
    assert not values_fire(tmp_path, alarm, {told: f"{good}x9 {bad}x1"}, 10)


@needs_promtool
def test_no_quorum_fires_while_a_leader_does_not_serve_yet(tmp_path: Path) -> None:
    assert values_fire(tmp_path, "ZabNoQuorum", {"up": steady(1), "leader_uptime": steady(0)}, 10)
    assert not values_fire(tmp_path, "ZabNoQuorum", {"up": steady(1), "leader_uptime": steady(1)}, 10)


def test_each_alarm_is_seen_to_fire() -> None:
    others = {"ZabNoQuorum", "ZabElections", "ZabLatency"}
    assert set(RULES) == others | set(AT_THE_LIMIT)


def test_each_alarm_has_a_severity_and_a_name_of_its_own() -> None:
    for rule in GROUP["rules"]:
        assert rule["alert"].startswith("Zab")
        assert f"| {rule['alert']} | {rule['labels']['severity']} |" in SECTION
        assert rule["labels"]["severity"] in ("critical", "warning")
