"""One broker of a test: what a test does to it, and what can be seen of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from zab.broker.service import Running, Surroundings, serve
from zab.host.process.run_service import Supervised
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.settings.broker_config import BrokerConfig
from zab.service.failure import ServerFailedError
from zab.testing.broker_settings import BrokerPlace
from zab.testing.errors import BrokerFailedError, EnsembleError
from zab.testing.kit.journals import Lines
from zab.testing.kit.life import Life
from zab.testing.kit.ports import HOST
from zab.testing.session_wire import SessionWire

T = TypeVar("T")


class Broker:
    """Made by `Brokers`. Methods may be called from any thread, and from any kind of asynchronous code.

    What is asked for that is so already is no error: who does not run can be killed, who runs can be started."""

    def __init__(
        self,
        place: BrokerPlace,
        config: BrokerConfig,
        changed: Callable[[], None],
        end_session: Callable[[int], None],
    ) -> None:
        """`changed` is called whenever it begins to listen or ends, in any thread; `end_session` before a start, with
        the session of a life that was killed."""
        self.id = place.broker_id
        self.port = place.port
        self.directory = place.directory
        """Its logs."""
        self._config = config
        self._changed = changed
        self._end_session = end_session
        self._lines = Lines()
        self._is_closed = False
        self._left_session = 0
        self._wire = SessionWire()
        self._life: Life[Running] | None = None

    def __repr__(self) -> str:
        return f"<broker {self.id} at {self.bootstrap_servers}, {self.state}>"

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: the address of this broker alone."""
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
    def is_serving(self) -> bool:
        """Whether clients are told about it: it is registered, and there is a controller. One that stands still does
        not know better yet."""
        image = self.image
        return image is not None and self.id in image.brokers and image.controller in image.brokers

    @property
    def is_controller(self) -> bool:
        """Whether it believes that it is the controller."""
        image = self.image
        return image is not None and image.controller == self.id

    @property
    def image(self) -> ClusterImage | None:
        """For the kit: the cluster as it knows it; None if it does not run."""
        life = self._life
        running = None if life is None or life.has_ended else life.service
        return None if running is None else running.broker.image

    @property
    def state(self) -> str:
        """A word for it: `down`, `paused`, `starting` or `serving`."""
        if not self.is_running:
            return "down"
        if self.is_paused:
            return "paused"
        return "serving" if self.is_serving else "starting"

    def start(self) -> None:
        """Run it, on its port and with what is on its disk, and return when it listens. What a killed broker has left
        of itself in the ensemble is removed: it need not wait until its old session expires."""
        if self._is_closed:
            raise EnsembleError("the brokers are closed")
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
        life = Life(f"zab broker {self.id}", self._serve, self._lines, self._changed)
        life.start()
        # One that could not begin would never end.
        self._life = life

    async def _serve(self, life: Life[Running]) -> None:
        def opened(running: Running) -> None:
            life.opened(running)
            life.started()

        surroundings = Surroundings(opened=opened, drops=lambda: life.drops, dial=self._wire.dial)
        try:
            await serve(self._config, Supervised(None), surroundings)
        finally:
            life.closed()

    def stop(self) -> None:
        """End it as an operator does: others lead first what it leads, then its logs are closed. Returns when it has
        ended."""
        self._end(drops=False)

    def kill(self) -> None:
        """End it as `kill -9` does: what its disk has not begun to write is lost, and other brokers notice when its
        session expires. Returns when it has ended."""
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

    @property
    def failure(self) -> BrokerFailedError | None:
        """Why it ended by itself, which it should not."""
        error = None if self._life is None else self._life.failure
        if error is None:
            return None
        reason = error.reason if isinstance(error, ServerFailedError) else f"{type(error).__name__}: {error}"
        failed = BrokerFailedError(self.id, reason)
        failed.__cause__ = error
        return failed

    def raise_failure(self) -> None:
        """Raises BrokerFailedError if it ended by itself."""
        failed = self.failure
        if failed is not None:
            raise failed


def agree(wanted: Collection[Broker], living: Collection[int]) -> bool:
    """For the kit: whether each of these brokers knows the living ones and no others, with a controller among them,
    and nobody waits for a leader that one of them could be."""
    for broker in wanted:
        image = broker.image
        if image is None or set(image.brokers) != set(living) or image.controller not in image.brokers:
            return False
        states = [state for topic in image.topics.values() for state in topic.partitions.values()]
        if any(state.leader not in image.brokers and set(state.isr) & set(living) for state in states):
            return False
    return True
