"""Why no server has the session: the last failure, and the TLS faults of each server. Pure.

Trying again does not mend a TLS fault. As long as no server has had the session, the client ends with TlsError when TLS
failed with all servers in two rounds, without another failure in between. Later it keeps trying, since certificates
are renewed; the errors of requests list the TLS fault of each server.
"""

from collections.abc import Callable
from typing import Final

from zab.client.core.exceptions import TlsError
from zab.client.core.hosts import Place

__all__ = ["Failures"]

TLS_ROUNDS: Final = 2


class Failures:
    """fault: says why TLS failed, for the error that ended a stream; None if TLS did not."""

    def __init__(self, fault: Callable[[BaseException | None], str | None]) -> None:
        self.tls_error: TlsError | None = None
        """Ends the client."""
        self._fault = fault
        self._last = ""
        self._was_connected = False
        self._tls_faults: dict[Place, str] = {}
        self._tls_faults_in_a_row = 0

    def __str__(self) -> str:
        """The last failure, and the TLS faults of the other servers."""
        others = [f"{place}: {reason}" for place, reason in self._tls_faults.items()]
        return "last: " + "; ".join(dict.fromkeys([self._last, *others]))

    def trying(self, place: Place) -> None:
        self._last = self._last or f"{place}: no answer yet"

    def connected(self) -> None:
        """A server took the session."""
        self._was_connected = True
        self._tls_faults.clear()

    def add(self, place: Place, reason: str, error: Exception | None, servers_count: int) -> str:
        """The server did not take the session, or did not keep it. Returns the reason: the TLS fault, if there is
        one."""
        found = self._fault(error)
        self._last = f"{place}: {found or reason}"
        if found is None:
            self._tls_faults.pop(place, None)
            self._tls_faults_in_a_row = 0
            return reason
        self._tls_faults[place] = found
        self._tls_faults_in_a_row += 1
        if not self._was_connected and self._tls_faults_in_a_row >= TLS_ROUNDS * servers_count:
            self.tls_error = TlsError(detail=str(self).removeprefix("last: "))
        return found
