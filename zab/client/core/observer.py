"""What a client reports for metrics and logs.

    class Metrics(Observer):
        def request_ended(self, name, seconds, error): …

    async with connect(hosts, observer=Metrics()) as zk: …

Every method does nothing here. They are called between two steps of the client: an override returns at once, does not
wait, calls no method of the client, and raises nothing.
"""

from datatree.opcodes import OpCode
from zab.client.core.backends import Backend, Waiter
from zab.client.core.exceptions import ZabError
from zab.client.core.records import State
from zab.client.core.requests import ClientRequest

__all__ = ["Observer", "Timed"]


class Observer:
    """Override the methods that you need."""

    def state_changed(self, state: State) -> None:
        """The session's state has changed."""

    def server_lost(self, host: str, reason: str) -> None:
        """The server did not take the session, or did not keep it."""

    def request_begun(self, name: str) -> None:
        """A caller has asked. name: the type of the request, such as `getData`."""

    def request_ended(self, name: str, seconds: float, error: ZabError | None) -> None:
        """A caller's request is over, unless the caller was cancelled. seconds: since the caller asked."""


class Timed:
    """The asker of a request that is reported to an observer."""

    def __init__(self, observer: Observer, request: ClientRequest[object], asker: Waiter, backend: Backend) -> None:
        self._observer = observer
        self._request = request
        self._asker = asker
        self._backend = backend
        self._since = backend.now()
        self._name = OpCode(request.opcode).spelled
        observer.request_begun(self._name)

    @property
    def is_woken(self) -> bool:
        return self._asker.is_woken

    def wake(self) -> None:
        self._observer.request_ended(self._name, self._backend.now() - self._since, self._request.error)
        self._asker.wake()

    async def wait(self) -> None:
        await self._asker.wait()
