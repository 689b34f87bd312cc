"""The HTTP port of auto-recovery that runs without a bookie: what it and the port of a bookie (`http_services`) share.

    GET /metrics                        the figures of auto-recovery and of the process
    GET /health/live                    200 while the process answers
    GET /health/ready                   200 while it has a session with the coordination service, otherwise 503
    GET /status                         who it is and what it does, as JSON
    GET /heartbeat                      OK
    GET /api/v1/config/server_config    the settings

Nothing can be changed here: `zab audit` does that, through the coordination service.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from zab.bookie.http_services import shown_settings
from zab.bookie.settings import BookieSettings
from zab.host.http.exposition import metrics_route
from zab.host.http.ports import HttpPorts
from zab.host.process.machine import open_descriptors
from zab.ledger.entries.ids import BookieId
from zab.service.figure import Figure, Kind
from zab.service.version import shown


class Recovering(Protocol):
    """Auto-recovery, as this port shows it (`auto_recovery`)."""

    @property
    def has_session(self) -> bool: ...

    @property
    def is_auditor(self) -> bool: ...

    def figures(self) -> Iterator[Figure]: ...


class RecoveryHttp:
    """See the docstring of the module."""

    def __init__(self, settings: BookieSettings, name: BookieId, recovery: Recovering) -> None:
        self._settings = settings
        self._name = name
        self._recovery = recovery
        self._ports = HttpPorts()

    async def open(self) -> None:
        """Bind the port; one that cannot be bound is skipped with a warning."""
        await self._ports.open("http", self._settings.http.host, self._settings.http.port, self.application())

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
                Route("/heartbeat", self._heartbeat, methods=["GET"]),
                Route("/api/v1/config/server_config", self._config, methods=["GET"]),
            ]
        )

    async def _figures(self) -> Callable[[], Iterable[Figure]]:
        process = (
            Figure(Kind.TEXT, "version", shown()),
            Figure(Kind.GAUGE, "open_file_descriptor_count", open_descriptors()),
            Figure(Kind.GAUGE, "max_file_descriptor_count", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        )
        return lambda: chain(process, self._recovery.figures())

    async def _live(self, _request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, _request: Request) -> Response:
        is_ready = self._recovery.has_session
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    async def _heartbeat(self, _request: Request) -> Response:
        return PlainTextResponse("OK\n")

    async def _status(self, _request: Request) -> Response:
        recovery = self._recovery
        return JSONResponse(
            {
                "bookie": self._name,
                "version": shown(),
                "has_session": recovery.has_session,
                "is_auditor": recovery.is_auditor,
                "metadata_service_uri": str(self._settings.metadata.uri),
            }
        )

    async def _config(self, _request: Request) -> Response:
        return JSONResponse(shown_settings(self._settings))
