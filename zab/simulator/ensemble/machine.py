"""The machine of one member: what is on its disk, and the configuration of its place in the ensemble.

A start recovers what is on the disk; a disk may fail in that too. Recovery that reports damage is a failure of the run:
no fault here damages what was durable.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from datatree.log.epochs import INITIALIZE, load_epochs, load_member
from datatree.recovery.recover import Recovered, recover
from zab.ids import ServerId
from zab.simulator.ensemble.profile import Profile
from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.machine import Machine, Running, World
from zab.simulator.world.verdict import SafetyError


class MemberMachine(Machine):
    """One server of the ensemble, whether its process runs or not."""

    number: ServerId

    def __init__(
        self,
        world: World,
        profile: Profile,
        sid: ServerId,
        rng: Random,
        boot: Callable[[MemberMachine, Recovered], Running],
    ) -> None:
        def recover_and_boot() -> Running | None:
            recovered = self._recover()
            return None if recovered is None else boot(self, recovered)

        super().__init__(
            world,
            sid,
            rng,
            recover_and_boot,
            disk_us=profile.disk_us,
            drift_ppm=profile.drift_ppm,
            pause_us=profile.tick_us * 20,
        )
        self.config = profile.config(sid)
        self._recent_bytes = profile.recent_bytes
        if sid in profile.markers:
            self.disk.replace(INITIALIZE, b"")
        self.is_wiped = False
        """It lost its data, and was not synchronized since."""

    @property
    def is_synchronized(self) -> bool:
        """What is on its disk says that it may be counted (B1 member record)."""
        return load_member(self.disk) is not None and load_epochs(self.disk) is not None

    def _recover(self) -> Recovered | None:
        trace = self.world.trace
        try:
            recovered = recover(self.disk, self.number, recent_bytes=self._recent_bytes)
        except PowerLossError:
            self.disk.crash(self.rng)
            return None
        except OSError as error:
            trace.say(str(self.number), f"cannot recover: {error}")
            self.disk.kill()
            return None
        if recovered.damage:
            damage = "; ".join(map(str, recovered.damage))
            raise SafetyError("recovery", f"server {self.number} finds damage: {damage}")
        trace.mark(self.number, self.disk.operations)
        return recovered
