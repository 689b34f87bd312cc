"""The HTTP port of a broker: metrics, health, and a summary.

    GET /metrics         all figures, in Prometheus' text format (`zab.partition.figures`)
    GET /health/live     200 while the loop takes turns
    GET /health/ready    200 while the broker is registered and its logs are open, otherwise 503
    GET /status          who it is and how its replicas are, as JSON

A broker that has lost the coordination service is ready: it serves its clients, and if all brokers became unready
together when that service is away, clients would reach none. One that stops is not.

Nothing here names a topic's contents or a client, or changes anything, so there is no login; `/metrics` has the names
of topics.

Not here: the port (`zab.host.http.ports`).
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import attrs
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zab.host.http.exposition import metrics_route
from zab.host.http.ports import HttpPorts
from zab.host.process.machine import open_descriptors
from zab.partition.figures import BrokerView, Life, Surroundings, figures, health, life
from zab.partition.settings.broker_settings import HttpSettings
from zab.service.figure import Figure
from zab.service.version import shown


class HttpServices:
    """The HTTP port of one broker. `look` gives what is around the process, without descriptors; it may take a while.
    `wall_ms`: ms since 1970."""

    def __init__(
        self,
        settings: HttpSettings,
        view: Callable[[], BrokerView],
        look: Callable[[], Surroundings],
        wall_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._view = view
        self._look = look
        self._wall_ms = wall_ms
        self._ports = HttpPorts()

    async def open(self) -> None:
        """Bind the port; one that cannot be bound is skipped with a warning."""
        await self._ports.open("http", self._settings.host, self._settings.port, self.application())

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._ports.run()

    def close(self) -> None:
        """Close the port if it was opened and not run."""
        self._ports.close()

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                metrics_route(self._figures, exports_process=True),
                Route("/health/live", self._live, methods=["GET"]),
                Route("/health/ready", self._ready, methods=["GET"]),
                Route("/status", self._status, methods=["GET"]),
            ]
        )

    async def _figures(self) -> Callable[[], Iterable[Figure]]:
        around = attrs.evolve(
            await trio.to_thread.run_sync(self._look),
            open_descriptors=open_descriptors(),
            max_descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )
        return partial(figures, self._view(), around)

    async def _live(self, _request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, _request: Request) -> Response:
        is_ready = life(self._view()) is Life.RUNNING
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    async def _status(self, _request: Request) -> Response:
        return JSONResponse(self._summary())

    def _summary(self) -> dict[str, Any]:
        view = self._view()
        return {
            "broker": view.id,
            "epoch": view.epoch,
            "cluster_id": view.image.cluster_id,
            "version": shown(),
            "life": life(view).name.lower(),
            "controller": view.image.controller,
            "is_controller": view.controller.state.is_active,
            "coordination_connected": view.controller.is_connected,
            "time_ms": self._wall_ms(),
            **attrs.asdict(health(view)),
            "max_lag": view.fetchers.max_lag,
        }
