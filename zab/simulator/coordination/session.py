"""The session of a simulated broker with the coordination service: what `zab.client.coordination` is in production.

It pings, notices silence after two thirds of the session's timeout, and connects again, with the session or, after it
has expired, with a new one. The inputs of the broker are those that production tells, in the same order: what was under
way is answered with CONNECTIONLOSS before `Suspended`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from zab.coordination.driver import Connected, Expired, FromCoordination, Results, Submit, Suspended, WatchFired
from zab.coordination.operations import Result, ZooKeeperError
from zab.simulator.coordination.service import (
    ITEM_BYTES,
    Answered,
    Ask,
    Connection,
    CoordinationService,
    Fired,
    Goodbye,
    Hello,
    Over,
    Ping,
    Pong,
    Welcome,
)
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

RETRY_US: Final = 200 * MS
NEVER_PROVEN: Final = -(1 << 62)
_ANSWERS: Final[dict[type, type]] = {Welcome: Hello, Pong: Ping, Answered: Ask}


class CoordinationSession:
    """See the docstring of the module. It belongs to one process."""

    def __init__(
        self,
        process: Process,
        service: CoordinationService,
        timeout_ms: int,
        tell: Callable[[FromCoordination], None],
    ) -> None:
        self.number = process.sid
        self.id = 0
        """The session; 0: there is none."""
        self._process = process
        self._service = service
        self._timeout_ms = timeout_ms
        self._timeout_us = timeout_ms * MS
        self._tell = tell
        self._connection: Connection | None = None
        self._is_connected = False
        self._is_closed = False
        self._heard_us = 0
        self._heard_count = 0
        self._asked: Submit | None = None
        self._sent_ms: dict[type, deque[int]] = {Hello: deque(), Ping: deque(), Ask: deque()}
        """When the messages of each kind were sent, by the machine's clock, that this connection has not answered."""
        self._proven_ms: int | None = None
        """When the newest message was sent that was answered; None: there is no session."""

    def lives_until(self) -> int:
        """Until when (ms of the machine's monotonic clock) the session surely lives, if nothing else is heard."""
        return NEVER_PROVEN if self._proven_ms is None else self._proven_ms + self._timeout_ms

    def start(self) -> None:
        self._dial()
        self._process.later(self._timeout_us // 3, self._ping)

    def submit(self, effect: Submit) -> None:
        """Begin these operations."""
        self._process.called()
        assert self._asked is None, "one batch is under way at a time"
        self._asked = effect
        if self._connection is None or not self._is_connected:
            self._process.later(0, self._lose_asked)
        else:
            self._send(Ask(effect.batch, effect.operations))

    def close(self) -> None:
        """End the session, if the service can be reached."""
        if self._connection is not None and self._is_connected:
            self._connection.to_service.send(Goodbye(), ITEM_BYTES)
            self._is_closed = True

    def process_died(self) -> None:
        """Break the connection; the session lives on until its timeout, unless it was closed."""
        if self._connection is not None and not self._is_closed:
            self._connection.cut()

    # ------------------------------------------------------------------------------------------------------ connection

    def _dial(self) -> None:
        connection = self._service.connect(self)
        if connection is None:
            self._process.later(RETRY_US, self._dial)
            return
        self._connection, self._heard_us = connection, self._process.schedule.now
        for sent in self._sent_ms.values():
            sent.clear()
        self._send(Hello(self.id, self._timeout_us, self._heard_count))

    def _send(self, message: Hello | Ping | Ask) -> None:
        assert self._connection is not None
        self._sent_ms[type(message)].append(self._process.machine.now_ms)
        self._connection.to_service.send(message, ITEM_BYTES)

    def _ping(self) -> None:
        self._process.later(self._timeout_us // 3, self._ping)
        if self._connection is None:
            return
        if self._process.schedule.now - self._heard_us > self._timeout_us * 2 // 3:
            self._lose()
        else:
            self._send(Ping(self._heard_count))

    def _lose(self) -> None:
        """Give the connection up, and dial again."""
        assert self._connection is not None
        self._connection.cut()
        self._connection = None
        self._lose_asked()
        if self._is_connected:
            self._is_connected = False
            self._tell(Suspended())
        self._process.later(RETRY_US, self._dial)

    def _lose_asked(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            lost = Result(ZooKeeperError.CONNECTIONLOSS)
            self._tell(Results(asked.batch, (lost,) * len(asked.operations)))

    # --------------------------------------------------------------------------------------------------- what is heard

    def receive(self, connection: Connection, message: object) -> None:
        """Take a message of the service, unless the process stands still."""
        self._process.later(0, self._take, connection, message)

    def _take(self, connection: Connection, message: object) -> None:
        if connection is not self._connection:
            return
        self._heard_us = self._process.schedule.now
        answers = _ANSWERS.get(type(message))
        if answers is not None:
            sent = self._sent_ms[answers].popleft()
            self._proven_ms = sent if self._proven_ms is None else max(sent, self._proven_ms)
        match message:
            case Welcome(session):
                if session != self.id:
                    self.id, self._heard_count = session, 0
                self._is_connected = True
                self._tell(Connected(session, self._timeout_ms))
            case Over():
                self._end()
            case Fired(number, path):
                self._heard_count = number
                self._tell(WatchFired(path))
            case Answered(batch, results) if self._asked is not None and self._asked.batch == batch:
                self._asked = None
                self._tell(Results(batch, results))

    def _end(self) -> None:
        """The session has expired."""
        assert self._connection is not None
        self._connection.cut()
        self._connection = self._asked = self._proven_ms = None
        self._is_connected = False
        if self.id:
            self.id = 0
            self._tell(Expired())
        self._process.later(RETRY_US, self._dial)
