"""A broker that is to stop has others lead first what it leads (controlled shutdown).

    begin(done)         asks the controller; `done` is called once nothing is left to wait for
    keep_up(now)        asks again when that is due

The controller moves the leaders to replicas in sync, and answers what this broker still leads. It asks again
`controlled.shutdown.max.retries` times, each `controlled.shutdown.retry.backoff.ms` later, then stops all the same.
While no other broker lives there is nobody to lead anything.

Not here: stopping (`zab.broker.service`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zab.kafka.errors import ErrorCode
from zab.partition.controller.requests import Answer, ControlledShutdown
from zab.partition.requests.asking_controller import AskingController
from zab.partition.settings.broker_settings import ReplicationSettings

NEVER: Final = 1 << 62


class GivingAway:
    """See the docstring of the module. Times are monotonic ms."""

    def __init__(
        self,
        settings: ReplicationSettings,
        controller: AskingController,
        who: Callable[[], tuple[int, int]],
        has_others: Callable[[], bool],
    ) -> None:
        """`who`: the id and the epoch of this broker. `has_others`: whether another broker lives."""
        self._settings = settings
        self._controller = controller
        self._who = who
        self._has_others = has_others
        self._done: Callable[[], None] | None = None
        self._tries_left = settings.shutdown_tries
        self._ask_at = NEVER
        self.has_begun = False
        """Whether the broker is asked to stop."""

    def begin(self, done: Callable[[], None]) -> None:
        """Have others lead."""
        self.has_begun = True
        self._done = done
        self._ask_at = 0

    def keep_up(self, now: int) -> None:
        """Ask, if that is due."""
        if now < self._ask_at:
            return
        self._ask_at = NEVER
        if not self._settings.gives_leaders_away or not self._has_others():
            self._end()
        else:
            self._controller.ask(lambda token: ControlledShutdown(token, *self._who()), self._answered)

    def _answered(self, answer: Answer) -> None:
        if (answer.error is ErrorCode.NONE and not answer.remaining) or not self._tries_left:
            self._end()
            return
        self._tries_left -= 1
        self._ask_at = self._controller.now + self._settings.shutdown_retry_ms

    def _end(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done()

    def next_deadline(self) -> int:
        """When it asks next."""
        return self._ask_at
