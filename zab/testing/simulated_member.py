"""One member of a simulated ensemble: what a program does to it, and what can be seen of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zab.protocol.states import LEADING
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.process import MemberProcess

CLIENT_PORT: Final = 2181


class SimulatedMember:
    """One member; the names are those of `zab.testing.Member`. Whatever is done to it happens at once."""

    def __init__(self, simulated: Ensemble, sid: ServerId, say: Callable[[str], None]) -> None:
        """`say` writes a line into the trace of the run."""
        self.sid = sid
        self.client_port = CLIENT_PORT
        self.hosts = f"10.0.0.{sid}:{CLIENT_PORT}"
        self._simulated = simulated
        self._machine = simulated.machines[sid]
        self._say = say

    def __repr__(self) -> str:
        return f"<simulated member {self.sid}, {self.state}>"

    @property
    def _process(self) -> MemberProcess | None:
        return self._simulated.process(self.sid)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def is_paused(self) -> bool:
        process = self._process
        return process is not None and process.paused_until > self._simulated.schedule.now

    @property
    def is_serving(self) -> bool:
        """Whether it takes requests of clients. One that stands still, or is cut off, does not know better yet."""
        process = self._process
        return process is not None and process.member.serving

    @property
    def is_leading(self) -> bool:
        process = self._process
        return process is not None and process.member.serving and process.peer.state is LEADING

    @property
    def state(self) -> str:
        if not self.is_running:
            return "down"
        if self.is_paused:
            return "paused"
        return ("leading" if self.is_leading else "serving") if self.is_serving else "looking"

    def start(self) -> None:
        """Run it, with what is on its disk."""
        self._say(f"start {self.sid}")
        self._machine.stays_down = False
        self._machine.start()

    def kill(self) -> None:
        """Its process ends, in whatever it is doing; it stays down until `start`."""
        self._end("kill", with_power=False)

    def stop(self) -> None:
        """As `kill`: what was acknowledged is on its disk anyway."""
        self._end("stop", with_power=False)

    def lose_power(self) -> None:
        """As `kill`, and what its disk has not synced may be lost or torn; nobody hears of it at first."""
        self._end("power", with_power=True)

    def _end(self, what: str, *, with_power: bool) -> None:
        self._say(f"{what} {self.sid}")
        self._machine.stays_down = True
        self._machine.stop(with_power=with_power)

    def pause(self) -> None:
        """It stands still until `resume`: what comes to it waits."""
        self._say(f"pause {self.sid}")
        process = self._process
        if process is not None:
            process.stand_still()

    def resume(self) -> None:
        self._say(f"resume {self.sid}")
        process = self._process
        if process is not None:
            process.go_on()
