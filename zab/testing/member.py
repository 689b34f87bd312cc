"""One member of a test ensemble: what a test does to it, and what can be seen of it."""

from __future__ import annotations

from collections.abc import Callable

from zab.host.loop.dial import Dial
from zab.member.settings.config import Config
from zab.protocol.effects import RoleChanged
from zab.protocol.states import LEADING
from zab.server.server import Callbacks, Server, run_once
from zab.service.failure import ServerFailedError
from zab.testing.errors import EnsembleError, MemberFailedError
from zab.testing.kit.journals import Lines
from zab.testing.kit.life import Life
from zab.testing.kit.ports import HOST
from zab.testing.settings import Place


class Member:
    """Made by an `Ensemble`. Methods may be called from any thread, and from any kind of asynchronous code.

    What is asked for that is so already is no error: who does not run can be killed, who runs can be started."""

    def __init__(self, place: Place, config: Config, dial: Dial, changed: Callable[[], None]) -> None:
        """`changed` is called whenever something of it is another, in any thread."""
        self.sid = place.sid
        self.client_port = place.client_port
        self.directory = place.directory
        self._config = config
        self._dial = dial
        self._changed = changed
        self._lines = Lines()
        self._is_closed = False
        self.life: Life[Server] | None = None
        """For the ensemble: from its last start on."""
        self._role: RoleChanged | None = None
        """The last one that this life told of."""

    def __repr__(self) -> str:
        return f"<member {self.sid} at {self.hosts}, {self.state}>"

    @property
    def hosts(self) -> str:
        """The connection string of this member alone."""
        return f"{HOST}:{self.client_port}"

    @property
    def journal(self) -> str:
        """What it has said, over all its starts: one line an event."""
        return str(self._lines)

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither ended nor was ended since."""
        return self.life is not None and not self.life.has_ended

    @property
    def is_paused(self) -> bool:
        return self.life is not None and self.life.is_paused

    @property
    def is_serving(self) -> bool:
        """Whether it takes requests of clients. One that stands still, or is cut off, does not know better yet."""
        life, role = self.life, self._role
        return life is not None and not life.has_ended and life.is_listening and role is not None and role.serving

    @property
    def is_leading(self) -> bool:
        """Whether it serves as leader, or alone. One that was cut off may not know better yet."""
        role = self._role
        return self.is_serving and role is not None and role.state is LEADING

    def follows(self, leader: Member) -> bool:
        """For the ensemble: whether it serves under this one, which may be itself."""
        role = self._role
        return leader is self or (role is not None and role.leader == leader.sid)

    @property
    def state(self) -> str:
        """A word for it."""
        if not self.is_running:
            return "down"
        if self.is_paused:
            return "paused"
        return ("leading" if self.is_leading else "serving") if self.is_serving else "looking"

    def start(self) -> None:
        """Run it, on its ports and with what is on its disk, and return when it listens."""
        if self._is_closed:
            raise EnsembleError("the ensemble is closed")
        if self.is_running:
            return
        self.begin()
        assert self.life is not None
        self.life.wait_until_listening()
        self.raise_failure()

    def begin(self) -> None:
        """For the ensemble: `start` without waiting."""
        self._role = None
        life = Life(f"zab member {self.sid}", self._serve, self._lines, self._changed)
        life.start()
        # One that could not begin would never end.
        self.life = life

    async def _serve(self, life: Life[Server]) -> None:
        config, filled = self._config, None
        callbacks = Callbacks(opened=life.opened, started=life.started, role_changed=self._role_changed)
        while True:
            try:
                filled, config = await run_once(config, filled, callbacks, dial=self._dial, drops=lambda: life.drops)
            finally:
                life.closed()

    def _role_changed(self, role: RoleChanged) -> None:
        self._role = role
        self._changed()

    def stop(self) -> None:
        """End it as an operator does: what it was told to write is written. Returns when it has ended."""
        self._end(drops=False)

    def kill(self) -> None:
        """End it as `kill -9` does: what its disk has not begun to write is lost. Returns when it has ended."""
        self._end(drops=True)

    def _end(self, *, drops: bool) -> None:
        self.raise_failure()
        life, self.life = self.life, None
        if life is not None:
            life.end(drops=drops)
            if life.failure is not None:
                self.life = life
                self.raise_failure()

    def pause(self) -> None:
        """It stands still, as a process does that is stopped: what comes to it waits. Nothing happens if it is down."""
        self.raise_failure()
        if self.life is not None:
            self.life.pause()

    def resume(self) -> None:
        """It goes on."""
        self.raise_failure()
        if self.life is not None:
            self.life.resume()

    def close(self) -> None:
        """For the ensemble: it ends, and cannot be started any more."""
        self._is_closed = True
        if self.life is not None:
            self.life.end(drops=True)

    @property
    def failure(self) -> MemberFailedError | None:
        """Why it ended by itself, which it should not."""
        error = None if self.life is None else self.life.failure
        if error is None:
            return None
        reason = error.reason if isinstance(error, ServerFailedError) else f"{type(error).__name__}: {error}"
        failed = MemberFailedError(self.sid, reason)
        failed.__cause__ = error
        return failed

    def raise_failure(self) -> None:
        failed = self.failure
        if failed is not None:
            raise failed
