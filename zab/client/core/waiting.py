"""Requests that wait for room in flight, or for a server: in order, each until its time is over. Pure."""

from collections.abc import Callable
from typing import Any

from attrs import define, field

from zab.client.core.exceptions import NotConnectedError, ThrottledError, ZabError
from zab.client.core.failures import Failures
from zab.client.core.requests import ClientRequest
from zab.client.core.session import Session
from zab.client.core.settings import Settings

__all__ = ["WaitingRequests"]


@define(eq=False)
class WaitingRequests:
    """until: each request, in order, and until when it waits (ms of the backend's clock)."""

    _session: Session
    _settings: Settings
    _failures: Failures
    until: dict[ClientRequest[Any], int] = field(factory=dict, init=False)

    def add(self, request: ClientRequest[Any], now: int) -> None:
        """Raises ThrottledError: too many wait."""
        if len(self.until) >= self._settings.waiting_count_max:
            raise ThrottledError(request.path, detail=f"{len(self.until)} requests of this client wait already")
        self.until[request] = now + self._wait_ms

    def take(self) -> ClientRequest[Any]:
        """The first one, whose turn it is."""
        request = next(iter(self.until))
        del self.until[request]
        return request

    @property
    def _wait_ms(self) -> int:
        return self._settings.request_wait_ms or self._session.session_timeout_ms

    @property
    def next_deadline(self) -> int:
        """When the time of the first one is over."""
        return next(iter(self.until.values()))

    def refuse_late(self, now: int) -> None:
        """Refuse those whose time is over."""
        for request, deadline in list(self.until.items()):
            if deadline > now:
                return
            if self._session.state.is_connected:
                error: ZabError = ThrottledError(request.path, detail=f"no room in flight for {self._wait_ms} ms")
            else:
                detail = f"no server for {self._wait_ms} ms; {self._failures}"
                error = NotConnectedError(request.path, detail=detail)
            del self.until[request]
            request.end(None, error)

    def refuse_all(self, error_of: Callable[[str | None], ZabError]) -> None:
        """Refuse all of them, since they can only fail. error_of: the error, given the path."""
        for request in list(self.until):
            del self.until[request]
            request.end(None, error_of(request.path))
