"""docs/reference/broker-metrics.md, the alarms and the dashboard of brokers: they name the figures of brokers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import partial

import pytest
import yaml

from tests.partition.asked_broker import asked_broker
from tests.partition.one_broker import OneBroker
from tests.tidy.sources import ROOT
from zab.host.http.exposition import FigureCollector, registry_of
from zab.partition.figures import Surroundings, figures
from zab.service.figure import Kind

DEPLOY = ROOT / "docs" / "deploy"
ALARMS = DEPLOY / "broker-alarms.yaml"
[GROUP] = yaml.safe_load(ALARMS.read_text(encoding="utf-8"))["groups"]
PAGE = (ROOT / "docs" / "reference" / "broker-metrics.md").read_text(encoding="utf-8")
FIGURES = PAGE.split("\n## Figures\n", 1)[1].split("\n## ", 1)[0]
NAME = re.compile(r"\b(?:kafka|zab|process)_[a-z_]+")


@pytest.fixture(scope="module")
def used() -> OneBroker:
    """A broker that has been asked everything that makes figures."""
    return asked_broker()


def test_the_page_has_every_figure_and_no_other(used: OneBroker) -> None:
    known = {each.name for each in figures(used.broker.view(), Surroundings()) if each.kind is not Kind.TEXT}
    rows = [line.split("|")[1] for line in FIGURES.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == known


def test_the_page_has_the_labels_of_each_figure(used: OneBroker) -> None:
    labels: dict[str, set[str]] = {}
    for each in figures(used.broker.view(), Surroundings()):
        labels.setdefault(each.name, set()).update(name for name, _ in each.labels)
    for line in FIGURES.splitlines():
        if line.startswith("| `"):
            names, said = line.split("|")[1:3]
            for name in re.findall(r"`(\w+)`", names):
                assert labels[name] == set(re.findall(r"`(\w+)`", said)), name


def test_alarms_and_dashboard_ask_for_figures_that_brokers_have(used: OneBroker) -> None:
    collector = FigureCollector(partial(figures, used.broker.view(), Surroundings()))
    families = registry_of(collector, exports_process=True).collect()
    known = {sample.name for family in families for sample in family.samples}
    dashboard = json.loads((DEPLOY / "broker-dashboard.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [rule["expr"] for rule in GROUP["rules"]]
    asked = {name for expression in expressions for name in NAME.findall(expression)}
    assert len(asked) > 20
    assert asked <= known


def test_the_page_has_every_alarm_with_its_severity() -> None:
    section = PAGE.split("\n## Alarms\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (Zab\w+) \| (\w+) \|", section, re.M)
    assert rows == [(rule["alert"], rule["labels"]["severity"]) for rule in GROUP["rules"]]


@pytest.mark.process
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not here")
def test_prometheus_reads_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", ALARMS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
