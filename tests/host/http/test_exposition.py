"""What Prometheus is told of a member in memory."""

import math
from functools import partial

from prometheus_client import CollectorRegistry

from tests.rigs.direct.members import SURROUNDINGS, Ensemble
from zab.host.http.exposition import STEP_SECONDS, WINDOW_SECONDS, FigureCollector, Recent, registry_of
from zab.member.words.figures import figures
from zab.service.summary import Summary


def test_quantiles_are_of_the_last_ten_minutes() -> None:
    recent, summary = Recent(), Summary()
    summary.add(5)
    assert recent.counts(summary, 0.0) == {5: 1}
    summary.add(7, 2)
    assert recent.counts(summary, STEP_SECONDS) == {7: 2}
    summary.add(9)
    assert recent.counts(summary, WINDOW_SECONDS) == {7: 2, 9: 1}
    assert recent.counts(summary, WINDOW_SECONDS + STEP_SECONDS) == {9: 1}
    assert recent.counts(summary, 2 * WINDOW_SECONDS + STEP_SECONDS) == {}


def test_what_is_kept_is_bounded_however_often_is_asked() -> None:
    recent, summary = Recent(), Summary()
    for second in range(10_000):
        recent.counts(summary, float(second))
    assert len(recent._before) <= WINDOW_SECONDS / STEP_SECONDS + 2


def test_another_summary_begins_anew() -> None:
    recent, summary = Recent(), Summary()
    summary.add(5, 10)
    recent.counts(summary, 0.0)
    reset = Summary()
    reset.add(5)
    assert recent.counts(reset, 1.0) == {5: 1}


def test_a_latency_that_was_not_measured_is_no_number() -> None:
    ensemble = Ensemble(3)
    registry = CollectorRegistry()
    registry.register(FigureCollector(partial(figures, ensemble.leader.member.view.around(SURROUNDINGS)), lambda: 0.0))
    assert math.isnan(registry.get_sample_value("readlatency", {"quantile": "0.99"}) or 0.0)
    assert registry.get_sample_value("readlatency_count") == 0
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.get(b"/"))
    assert registry.get_sample_value("readlatency_count") == 1


def test_figures_of_the_process_are_there_unless_they_are_switched_off() -> None:
    for exports_process in (False, True):
        registry = registry_of(FigureCollector(tuple), exports_process=exports_process)
        value = registry.get_sample_value("python_gc_collections_total", {"generation": "0"})
        assert (value is not None) is exports_process
