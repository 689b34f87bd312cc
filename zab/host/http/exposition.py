"""The figures of a service in Prometheus' format.

    GET /metrics    all figures, in the text format 0.0.4

Names are those of the figures. A counter has no suffix, as in ZooKeeper 3.9, although the client library adds one to
counters; so it is exposed without a type. A summary has its quantiles, `_count` and `_sum`; a figure in a family has
the label `key`, or labels of its own.

A task beside the loop makes the answer from figures of the same moment.

Not here: the figures of a service.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zab.service.figure import Figure, Kind
from zab.service.summary import Summary, quantiles_of

QUANTILES: Final = {Kind.BASIC: (0.5,), Kind.ADVANCED: (0.5, 0.9, 0.99)}
"""The quantiles of ZooKeeper."""
WINDOW_SECONDS: Final = 600.0
"""Quantiles cover the last ten minutes, as in ZooKeeper. Without a value they are NaN."""
STEP_SECONDS: Final = 60.0


class Recent:
    """The values added to a summary in the last `WINDOW_SECONDS`, or since the first call."""

    def __init__(self) -> None:
        self._before: deque[tuple[float, Summary, dict[int, int]]] = deque()
        """Time, summary and its counts at that time, at most one for each `STEP_SECONDS`; the oldest counts are
        subtracted."""

    def counts(self, summary: Summary, now: float) -> dict[int, int]:
        """How often each value was seen in the window. `now` in seconds."""
        before = self._before
        counts = summary.counts.copy()
        if before and before[-1][1] is not summary:
            before.clear()  # the service has started a new summary
        while len(before) > 1 and before[1][0] <= now - WINDOW_SECONDS:
            before.popleft()
        recent = counts
        if before:
            oldest = before[0][2]
            recent = {value: times - oldest.get(value, 0) for value, times in counts.items()}
        if not before or now >= before[-1][0] + STEP_SECONDS:
            before.append((now, summary, counts))
        return {value: times for value, times in recent.items() if times}


class FigureCollector:
    """A collector of `prometheus_client`."""

    def __init__(self, figures: Callable[[], Iterable[Figure]], clock: Callable[[], float] = time.monotonic) -> None:
        self.figures = figures
        self._clock = clock
        self._recent: defaultdict[tuple[object, ...], Recent] = defaultdict(Recent)

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        now = self._clock()
        for figure in self.figures():
            if figure.kind is Kind.TEXT:
                continue
            labels = {"key": figure.key} if figure.key else dict(figure.labels)
            metric = found.get(figure.name)
            if metric is None:
                metric = found[figure.name] = Metric(figure.name, figure.name, _TYPES[figure.kind])
            if isinstance(figure.value, Summary):
                shares = QUANTILES[figure.kind]
                counts = self._recent[figure.name, figure.key, figure.labels].counts(figure.value, now)
                for share, value in zip(shares, quantiles_of(counts, *shares), strict=True):
                    shown = value if counts else math.nan
                    metric.add_sample(figure.name, {**labels, "quantile": str(share)}, shown)
                metric.add_sample(f"{figure.name}_count", labels, figure.value.count)
                metric.add_sample(f"{figure.name}_sum", labels, figure.value.total)
            else:
                assert not isinstance(figure.value, str)
                metric.add_sample(figure.name, labels, figure.value)
        yield from found.values()


_TYPES: Final = {Kind.GAUGE: "gauge", Kind.COUNTER: "unknown", Kind.BASIC: "summary", Kind.ADVANCED: "summary"}


def registry_of(collector: FigureCollector, *, exports_process: bool) -> CollectorRegistry:
    """The registry of one service; a process may have several, as in tests."""
    registry = CollectorRegistry()
    registry.register(collector)
    if exports_process:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
    return registry


def application(look: Callable[[], Awaitable[Callable[[], Iterable[Figure]]]], *, exports_process: bool) -> Starlette:
    """The ASGI application of the port. `look` waits for figures of the same moment."""
    return Starlette(routes=[metrics_route(look, exports_process=exports_process)])


def metrics_route(look: Callable[[], Awaitable[Callable[[], Iterable[Figure]]]], *, exports_process: bool) -> Route:
    """The route of an application that has others, too."""
    collector = FigureCollector(tuple)
    registry = registry_of(collector, exports_process=exports_process)

    async def metrics(_request: Request) -> Response:
        collector.figures = await look()
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    return Route("/metrics", metrics, methods=["GET"])
