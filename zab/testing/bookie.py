"""One bookie of a test: what a test does to it, and what can be seen of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from zab.bookie.service import Running, Surroundings, serve
from zab.bookie.settings import BookieSettings
from zab.host.process.run_service import Supervised
from zab.ledger.entries.ids import BookieId
from zab.service.failure import ServerFailedError
from zab.testing.bookie_settings import BookiePlace
from zab.testing.errors import BookieFailedError, EnsembleError
from zab.testing.kit.journals import Lines
from zab.testing.kit.life import Life
from zab.testing.kit.ports import HOST
from zab.testing.session_wire import SessionWire

T = TypeVar("T")


class Bookie:
    """Made by `Bookies`. Methods may be called from any thread, and from any kind of asynchronous code.

    What is asked for that is so already is no error: one that does not run can be killed, one that runs can be started.
    """

    def __init__(
        self, number: int, place: BookiePlace, settings: BookieSettings, end_session: Callable[[int], None]
    ) -> None:
        """`end_session` is called before a start, with the session of a life that was killed."""
        self.number = number
        self.id = BookieId(place.name)
        """Its name in all metadata."""
        self.port = place.port
        self.directory = place.directory
        """Its journal, in `journal`, and its entries, in `ledgers`."""
        self.settings = settings
        """Another value has its effect with the next start."""
        self._end_session = end_session
        self._lines = Lines()
        self._is_closed = False
        self._left_session = 0
        self._wire = SessionWire()
        self._life: Life[Running] | None = None

    def __repr__(self) -> str:
        return f"<bookie {self.id} at {self.address}, {self.state}>"

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"{HOST}:{self.port}"

    @property
    def journal(self) -> str:
        """What it has said, over all its starts: one line an event."""
        return str(self._lines)

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither ended nor was ended since."""
        return self._life is not None and not self._life.has_ended

    @property
    def is_paused(self) -> bool:
        return self._life is not None and self._life.is_paused

    @property
    def is_registered(self) -> bool:
        """Whether it is registered, as it believes; read-only or not."""
        return self.is_read_only is not None

    @property
    def is_read_only(self) -> bool | None:
        """How it is registered, as it believes; None: it is not."""
        life = self._life
        running = None if life is None or life.has_ended else life.service
        membership = None if running is None else running.bookie.membership
        return None if membership is None else membership.read_only

    @property
    def state(self) -> str:
        """A word for it: `down`, `paused`, `starting` or `serving`."""
        if not self.is_running:
            return "down"
        if self.is_paused:
            return "paused"
        return "serving" if self.is_registered else "starting"

    def start(self) -> None:
        """Run it, on its port and with what is on its disk, and return when it listens. What a killed bookie has left
        of itself in the ensemble is removed: it need not wait until its old session expires."""
        if self._is_closed:
            raise EnsembleError("the bookies are closed")
        if self.is_running:
            return
        self.begin()
        assert self._life is not None
        self._life.wait_until_listening()
        self.raise_failure()

    def begin(self) -> None:
        """For the kit: `start` without waiting."""
        left, self._left_session = self._left_session, 0
        if left:
            self._end_session(left)
        self._wire = SessionWire()
        life = Life(f"zab bookie {self.id}", self._serve, self._lines, lambda: None)
        life.start()
        # One that could not begin would never end.
        self._life = life

    async def _serve(self, life: Life[Running]) -> None:
        def opened(running: Running) -> None:
            life.opened(running)
            life.started()

        surroundings = Surroundings(opened=opened, drops=lambda: life.drops, dial=self._wire.dial)
        try:
            await serve(self.settings, Supervised(None), surroundings)
        finally:
            life.closed()

    def stop(self) -> None:
        """End it as an operator does: its journal is ended in good order. Returns when it has ended."""
        self._end(drops=False)

    def kill(self) -> None:
        """End it as `kill -9` does: what its disk has not begun to write is lost, and others notice when its session
        expires. Returns when it has ended."""
        self._end(drops=True)

    def restart(self) -> None:
        """`stop`, then `start`."""
        self.stop()
        self.start()

    def _end(self, *, drops: bool) -> None:
        self.raise_failure()
        life, self._life = self._life, None
        if life is not None:
            self._let_go(life, drops=drops)
            life.end(drops=drops)
            if life.failure is not None:
                self._life = life
                self.raise_failure()

    def _let_go(self, life: Life[Running], *, drops: bool) -> None:
        running = life.service
        if drops and running is not None:
            self._wire.cut()
            self._left_session = running.coordination.session_id

    def pause(self) -> None:
        """It stands still, as a process does that is stopped: what comes to it waits. Nothing happens if it is down."""
        self.raise_failure()
        if self._life is not None:
            self._life.pause()

    def resume(self) -> None:
        """It goes on."""
        self.raise_failure()
        if self._life is not None:
            self._life.resume()

    def ask(self, question: Callable[[Running], T]) -> T | None:
        """For the kit: what the question, which raises nothing, finds between two turns; None if it does not run."""
        life = self._life
        return None if life is None or life.is_paused else life.ask(question)

    def close(self) -> None:
        """For the kit: it ends, and cannot be started any more."""
        self._is_closed = True
        if self._life is not None:
            self._let_go(self._life, drops=True)
            self._life.end(drops=True)

    def forget_failure(self) -> None:
        """A failure that the test has asked for is none: it is down."""
        if self._life is not None and self._life.failure is not None:
            self._life = None

    @property
    def failure(self) -> BookieFailedError | None:
        """Why it ended by itself, which it should not."""
        error = None if self._life is None else self._life.failure
        if error is None:
            return None
        reason = error.reason if isinstance(error, ServerFailedError) else f"{type(error).__name__}: {error}"
        failed = BookieFailedError(self.id, reason)
        failed.__cause__ = error
        return failed

    def raise_failure(self) -> None:
        """Raises BookieFailedError if it ended by itself."""
        failed = self.failure
        if failed is not None:
            raise failed
