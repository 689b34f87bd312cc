"""Why no server has the session: the last failure, and what TLS has against which server. Pure.

Trying again does not change what TLS has against a server. As long as no server had the session, the client ends with
TlsError when TLS failed with all servers in two rounds, and nothing else came between. Afterwards it goes on trying,
since certificates are renewed; the errors of requests say what TLS has against which server.
"""

from collections.abc import Callable
from typing import Final

from zab.client.core.exceptions import TlsError
from zab.client.core.hosts import Place

__all__ = ["Failures"]

TLS_ROUNDS: Final = 2


class Failures:
    """See the module docstring. fault: says what TLS has against a stream that ended with an error."""

    def __init__(self, fault: Callable[[BaseException | None], str | None]) -> None:
        self.tls_error: TlsError | None = None
        """Ends the client."""
        self._fault = fault
        self._last = ""
        self._was_connected = False
        self._tls_faults: dict[Place, str] = {}
        self._tls_faults_in_a_row = 0

    def __str__(self) -> str:
        """The last failure, and what TLS has against each of the other servers."""
        others = [f"{place}: {reason}" for place, reason in self._tls_faults.items()]
        return "last: " + "; ".join(dict.fromkeys([self._last, *others]))

    def trying(self, place: Place) -> None:
        self._last = self._last or f"{place}: no answer yet"

    def connected(self) -> None:
        """A server took the session."""
        self._was_connected = True
        self._tls_faults.clear()

    def add(self, place: Place, reason: str, error: Exception | None, servers_count: int) -> str:
        """The server did not take the session, or did not keep it. Returns the reason, as TLS names it if it can."""
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
