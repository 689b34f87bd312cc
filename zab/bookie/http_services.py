"""The HTTP port of a bookie: metrics, health, and those of BookKeeper's paths for administration that make sense here.

    GET /metrics                        all figures, in Prometheus' text format (`figures`)
    GET /health/live                    200 while the loop takes turns
    GET /health/ready                   200 while the bookie is registered, otherwise 503
    GET /status                         who it is and how it is, as JSON
    GET /heartbeat                      OK
    GET /api/v1/bookie/is_ready         as /health/ready
    GET /api/v1/bookie/state            running, readOnly, shuttingDown, availableForHighPriorityWrites
    GET /api/v1/bookie/state/readonly   readOnly
    PUT /api/v1/bookie/state/readonly   {"readOnly": true}: take no adds until it is false; a restart forgets it
    GET /api/v1/bookie/info             freeSpace, totalSpace
    PUT /api/v1/bookie/gc               look now which ledgers are gone; {"force": true}: also if they are many
    GET /api/v1/config/server_config    the settings

There is no login: every client of the port may do this. So by default it is for this machine alone. A request with a
`Host` or an `Origin` that is not this server's is refused: it comes from a web page.

Not here: the port (`zab.host.http.ports`).
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from zab.bookie.audit import Administered
from zab.bookie.figures import UNREGISTERED, Surroundings, figures, status_of
from zab.bookie.settings import BookieSettings
from zab.bookie.storage import Threads
from zab.bookie.turn import BookieTurn
from zab.configuration.fields import settings_of
from zab.host.http.exposition import metrics_route
from zab.host.http.own_names import is_own_name, is_own_page
from zab.host.http.ports import HttpPorts
from zab.host.loop.handshakes import Handshakes
from zab.host.process.machine import open_descriptors
from zab.ledger.bookie.events import Collect, Input, Ordered
from zab.ledger.entries.ids import BookieId
from zab.service.audit import Record
from zab.service.figure import Figure
from zab.service.version import shown

BODY_BYTES_MAX: Final = 4096
"""A longer body of a PUT is refused."""
_API: Final = "/api/v1"
Handler = Callable[[Request], Awaitable[Response]]


class HttpServices:
    """The HTTP port of one bookie. `tell` gives the bookie an input, `note` the audit log a record."""

    def __init__(
        self,
        settings: BookieSettings,
        turn: BookieTurn,
        threads: Threads,
        bookie: BookieId,
        tell: Callable[[Input], None],
        note: Callable[[Record], None],
        handshakes: Handshakes,
        more: Callable[[], Iterable[Figure]],
    ) -> None:
        """`handshakes`: of TLS with clients. `more`: further figures, of what runs beside the bookie."""
        self._settings = settings
        self._turn = turn
        self._threads = threads
        self._bookie = bookie
        self._tell = tell
        self._note = note
        self._handshakes = handshakes
        self._more = more
        self._names = {socket.gethostname().lower(), settings.http.host.lower()}
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
                Route(f"{_API}/bookie/is_ready", self._is_ready, methods=["GET"]),
                Route(f"{_API}/bookie/state", self._state, methods=["GET"]),
                Route(f"{_API}/bookie/state/readonly", self._read_only, methods=["GET"]),
                Route(f"{_API}/bookie/state/readonly", self._own(self._set_read_only), methods=["PUT"]),
                Route(f"{_API}/bookie/info", self._info, methods=["GET"]),
                Route(f"{_API}/bookie/gc", self._own(self._collect), methods=["PUT"]),
                Route(f"{_API}/config/server_config", self._config, methods=["GET"]),
            ]
        )

    def _own(self, handler: Handler) -> Handler:
        """Refuse what comes from a web page of another server."""

        async def checked(request: Request) -> Response:
            host, origin = request.headers.get("host", ""), request.headers.get("origin")
            if not is_own_name(host, self._names) or (origin is not None and not is_own_page(origin, host)):
                return JSONResponse({"error": "this request is not meant for this server"}, 403)
            return await handler(request)

        return checked

    async def _figures(self) -> Callable[[], Iterable[Figure]]:
        around = Surroundings(
            writes_ms=self._threads.writes_ms,
            connections=self._turn.connections,
            failed_handshakes=self._handshakes.failed_count,
            open_descriptors=open_descriptors(),
            max_descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )
        return lambda: chain(figures(self._turn, around), self._more())

    # ---------------------------------------------------------------------------------------------------------- health

    async def _live(self, _request: Request) -> Response:
        return JSONResponse({"live": True})

    @property
    def _is_registered(self) -> bool:
        return status_of(self._turn) != UNREGISTERED

    async def _ready(self, _request: Request) -> Response:
        is_ready = self._is_registered
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    async def _heartbeat(self, _request: Request) -> Response:
        return PlainTextResponse("OK\n")

    async def _is_ready(self, _request: Request) -> Response:
        if self._is_registered:
            return PlainTextResponse("OK")
        return PlainTextResponse("Bookie is not fully started yet", 503)

    async def _status(self, _request: Request) -> Response:
        bookie = self._turn.bookie
        space = bookie.space
        return JSONResponse(
            {
                "bookie": self._bookie,
                "version": shown(),
                "registered": self._is_registered,
                "read_only": space.is_read_only,
                "disk_full": space.is_full,
                "free_bytes": None if space.known is None else space.known.free,
                "total_bytes": None if space.known is None else space.known.total,
                "ledgers": len(bookie.table),
                "segments": len(bookie.segments),
                "metadata_service_uri": str(self._settings.metadata.uri),
            }
        )

    # -------------------------------------------------------------------------------------------------- administration

    async def _state(self, _request: Request) -> Response:
        space = self._turn.bookie.space
        return JSONResponse(
            {
                "running": True,
                "readOnly": space.is_read_only,
                "shuttingDown": False,
                "availableForHighPriorityWrites": not space.is_read_only or space.has_reserve,
            }
        )

    async def _read_only(self, _request: Request) -> Response:
        return JSONResponse({"readOnly": self._turn.bookie.space.is_read_only})

    async def _set_read_only(self, request: Request) -> Response:
        body = await _body(request)
        read_only = body.get("readOnly") if isinstance(body, dict) else None
        if not isinstance(read_only, bool):
            return JSONResponse({"error": 'the body is {"readOnly": true} or {"readOnly": false}'}, 400)
        self._administered(request, "orderReadOnly" if read_only else "orderWritable")
        self._tell(Ordered(read_only=read_only))
        return JSONResponse({"readOnly": read_only})

    async def _info(self, _request: Request) -> Response:
        known = self._turn.bookie.space.known
        if known is None:
            return JSONResponse({"error": "the space is not known yet"}, 503)
        return JSONResponse({"freeSpace": known.free, "totalSpace": known.total})

    async def _collect(self, request: Request) -> Response:
        body = await _body(request)
        if not isinstance(body, dict) or not isinstance(body.get("force", False), bool):
            return JSONResponse({"error": 'the body is empty or {"force": true}'}, 400)
        force = body.get("force", False)
        self._administered(request, "forceCollection" if force else "collect")
        self._tell(Collect(force=force))
        return PlainTextResponse("Triggered GC on BookieServer")

    async def _config(self, _request: Request) -> Response:
        return JSONResponse(shown_settings(self._settings))

    def _administered(self, request: Request, operation: str) -> None:
        self._note(Administered(operation, request.client.host if request.client is not None else ""))


def shown_settings(settings: BookieSettings) -> dict[str, bool | int | float | str | None]:
    """The settings that are no secrets, by their keys."""
    return {
        setting.key: value if isinstance(value, bool | int | float | None) else str(value)
        for setting in settings_of(BookieSettings)
        if not setting.is_secret
        for value in [setting.of(settings)]
    }


async def _body(request: Request) -> Any:
    """The JSON of the body; {} if there is none, None if it is none or too long."""
    data = b""
    async with contextlib.aclosing(request.stream()) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > BODY_BYTES_MAX:
                return None
    if not data:
        return {}
    try:
        return json.loads(data)
    except ValueError:
        return None
