"""All members of a run: their machines, and their running processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random

from datatree.log.zxid import BEFORE_ALL
from datatree.recovery.recovered import Recovered
from zab.member.membership.reconfiguring import servers
from zab.member.membership.restore import quorum_of
from zab.protocol.membership import Membership
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.members.election_links import ElectionLinks
from zab.simulator.ensemble.members.greeter import OVERHEARD_MAX, Greeter
from zab.simulator.ensemble.members.machine import MemberMachine
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.ensemble.members.profile import Profile
from zab.simulator.world.cluster import Cluster
from zab.simulator.world.machine import Machine, World
from zab.simulator.world.network import Network, Pair
from zab.simulator.world.schedule import Schedule
from zab.simulator.world.trace import Trace
from zab.wire.handshake import SECRET_BYTES_MIN, Secret


class Ensemble(Cluster):
    """The members of one run."""

    machines: dict[ServerId, MemberMachine]

    def __init__(self, profile: Profile, schedule: Schedule, trace: Trace, observer: Observer) -> None:
        rng = Random(f"{profile.seed}/network")
        super().__init__(
            schedule,
            Network(schedule, rng, profile.latency_us, profile.jitter_us),
            trace,
            tick_us=profile.tick_us,
            patience_ticks=profile.sync_limit,
            disk_us=profile.disk_us,
            is_merciless=profile.is_merciless,
        )
        self.profile = profile
        self.observer = observer
        self._secret = Secret(Random(f"{profile.seed}/secret").randbytes(SECRET_BYTES_MIN))
        self.overheard: deque[bytes] = deque(maxlen=OVERHEARD_MAX)
        """Parts of handshakes of members."""
        world = World(schedule, self.network, trace, profile.turn_us)
        self.machines = {
            sid: MemberMachine(world, profile, sid, Random(f"{profile.seed}/machine/{sid}"), self._boot, observer.count)
            for sid in profile.sids
        }
        config = next(iter(self.machines.values())).config
        of_files = Membership(BEFORE_ALL, quorum_of(config), servers(config.ensemble.servers))
        observer.watch(of_files, profile.sids, self.process)

    def _boot(self, machine: MemberMachine, recovered: Recovered) -> MemberProcess:
        rng = Random(f"{self.profile.seed}/member/{machine.number}/{machine.starts_count}")
        sid, nonces = (
            ServerId(machine.number),
            Random(f"{self.profile.seed}/nonces/{machine.number}/{machine.starts_count}"),
        )
        greeter = Greeter(sid, self.profile.sids, self._secret, nonces, self.overheard)
        votes = Random(f"{self.profile.seed}/votes/{machine.number}/{machine.starts_count}")
        process = MemberProcess(machine, recovered, rng, self.profile.sids, self.process, self.observer, greeter, votes)
        self.observer.process_started(process, recovered)
        process.say(
            f"starts at {recovered.last[0]:#x}, mark {recovered.mark:#x}, snapshot {recovered.snapshot_zxid:#x}"
            + (", amnesiac" if recovered.amnesiac else "")
        )
        return process

    def process(self, sid: ServerId) -> MemberProcess | None:
        """The process of a server; None while there is none."""
        running = self.machines[sid].running
        assert running is None or isinstance(running, MemberProcess)
        return running

    def election_links(self, sid: ServerId) -> ElectionLinks | None:
        """The election links of a server's process; None while there is none."""
        process = self.process(sid)
        return None if process is None else process.election

    @property
    def processes(self) -> list[MemberProcess]:
        """The running processes."""
        return [process for sid in self.machines if (process := self.process(sid)) is not None]

    @property
    def leader(self) -> MemberProcess | None:
        """The process that serves as leader; of two, the one with the later epoch."""
        leading = [process for process in self.processes if process.peer.leading is not None and process.peer.serving]
        return max(leading, key=lambda process: process.peer.epoch, default=None)

    @property
    def at_stake(self) -> Machine | None:
        """The leader's machine."""
        return None if self.leader is None else self.leader.machine

    def count(self, what: str, number: int = 1) -> None:
        self.observer.count(what, number)

    def cut_for_long(self, pairs: Iterable[Pair]) -> None:
        """Give up election connections that are still cut, without notice to the other side."""
        for one, two in pairs:
            process = self.process(ServerId(one))
            if process is not None and (one, two) in self.network.blocked:
                process.election.break_off(ServerId(two), after_us=None)
