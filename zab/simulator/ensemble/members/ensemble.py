"""All members of a run: their machines, and the processes that run on them now."""

from __future__ import annotations

from collections import deque
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
from zab.simulator.world.machine import World
from zab.simulator.world.network import Network
from zab.simulator.world.schedule import Schedule
from zab.simulator.world.trace import Trace
from zab.wire.handshake import SECRET_BYTES_MIN, Secret


class Ensemble:
    """See the module."""

    def __init__(self, profile: Profile, schedule: Schedule, trace: Trace, observer: Observer) -> None:
        self.profile = profile
        self.schedule = schedule
        self.trace = trace
        self.observer = observer
        rng = Random(f"{profile.seed}/network")
        self.network = Network(schedule, rng, profile.latency_us, profile.jitter_us)
        self._secret = Secret(Random(f"{profile.seed}/secret").randbytes(SECRET_BYTES_MIN))
        self.overheard: deque[bytes] = deque(maxlen=OVERHEARD_MAX)
        """What members said in handshakes."""
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
        """The process of a server, None while there is none."""
        running = self.machines[sid].running
        assert running is None or isinstance(running, MemberProcess)
        return running

    def election_links(self, sid: ServerId) -> ElectionLinks | None:
        """Those of a server's process, None while there is none."""
        process = self.process(sid)
        return None if process is None else process.election

    @property
    def processes(self) -> list[MemberProcess]:
        """Those that run."""
        return [process for sid in self.machines if (process := self.process(sid)) is not None]

    @property
    def leader(self) -> MemberProcess | None:
        """The one that serves as leader; of two, the one of the later epoch."""
        leading = [process for process in self.processes if process.peer.leading is not None and process.peer.serving]
        return max(leading, key=lambda process: process.peer.epoch, default=None)
