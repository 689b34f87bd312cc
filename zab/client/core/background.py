"""Work that a session does by itself, in no task of its callers. Pure.

    zk.undertake(job)

The core asks a job for its `next` operation until it has none: when it is undertaken, when a server has the session
again, after each answer to it, and after an event for it. So its work is done even if the task that wanted it was
cancelled, or the connection was lost.

A job that waits for events is passed to the operations as their watcher: it has `deliver` and `end`, like `Watcher`.

Invariants:
- After an answer was lost with its connection (ConnectionLossError), no request is sent until the next connection.
- No operation is asked for while there is no room in flight.
- A job hears `ended` once, or is done before.
"""

from typing import Any, Protocol

from attrs import define

from zab.client.core.exceptions import ZabError
from zab.client.core.operations import Operation
from zab.client.core.requests import ClientRequest

__all__ = ["BackgroundJob", "BackgroundJobs"]


class BackgroundJob(Protocol):
    """What the core needs of a job."""

    @property
    def is_done(self) -> bool:
        """Nothing is left to do: the client forgets it."""

    def next(self) -> Operation[Any] | None:
        """The next operation to send; None: nothing for now."""

    def answered(self, operation: Operation[Any], result: Any, error: ZabError | None) -> None:
        """The operation's result, or its error."""

    def ended(self, reason: ZabError) -> None:
        """The session is over, or the client was closed."""


@define(eq=False)
class _JobAnswer:
    """The asker of a job's request."""

    jobs: "BackgroundJobs"
    job: BackgroundJob
    operation: Operation[Any]
    request: ClientRequest[Any]

    def wake(self) -> None:
        self.job.answered(self.operation, self.request.result, self.request.error)
        self.jobs.stir(self.job)


class BackgroundJobs:
    """The jobs of one client."""

    def __init__(self) -> None:
        self._jobs: dict[BackgroundJob, None] = {}
        self.stirred: dict[BackgroundJob, None] = {}
        """The jobs that may have something to send, in order."""

    def add(self, job: BackgroundJob) -> None:
        self._jobs[job] = None
        self.stir(job)

    def stir(self, job: BackgroundJob) -> None:
        """The job may have something to send. Ignored unless it is a job of this client that is not done."""
        if job in self._jobs:
            self.stirred[job] = None

    def stir_all(self) -> None:
        self.stirred.update(self._jobs)

    def next_request(self) -> ClientRequest[Any] | None:
        """The next request of the first job that was stirred; None if it has none for now."""
        job = next(iter(self.stirred))
        operation = job.next()
        if operation is None:
            self.stirred.pop(job, None)
            if job.is_done:
                self._jobs.pop(job, None)
            return None
        request = operation.request()
        request.asker = _JobAnswer(self, job, operation, request)
        return request

    def end(self, reason: ZabError) -> None:
        """Tells all jobs that the session is over, and forgets them."""
        jobs, self._jobs = self._jobs, {}
        self.stirred.clear()
        for job in jobs:
            job.ended(reason)
