"""What goes wrong for bookies, members and clients under load, one after the other, as a seed says.

    kill_bookie, kill_two, kill_all     `kill -9` of bookies
    kill_member, kill_members           of one member, of a majority of them
    kill_client                         of a client, which another incarnation follows
    pause_bookie, pause_member, pause_client    SIGSTOP for longer than a session
    part_bookie_from_members, part_bookie_from_clients, part_bookie, part_members     the kernel drops packets
    fill_disk                           the disk of one bookie is full for a while
    restart_in_turn                     SIGTERM of each bookie, and a start
    wipe_bookie                         a bookie loses its disk, is decommissioned and replaced by another one

After each, everything runs again. Faults of networks need machines (`rigs.namespaces`), and `fill_disk` a small disk.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from attrs import define, field

from tests.chaos.ledgers.cluster import MEMBERS, SESSION_SECONDS, ChaosBookie, Cluster
from tests.rigs.namespaces import Namespaces
from tests.rigs.processes import GuardedProcess

REPAIR_SECONDS: Final = 600.0
"""Some hundred ledgers are copied meanwhile, beside everything else."""
ALWAYS: Final = (
    *("kill_bookie", "kill_two", "kill_all", "kill_member", "kill_members", "kill_client"),
    *("pause_bookie", "pause_member", "pause_client", "restart_in_turn", "wipe_bookie"),
)
OF_NETWORKS: Final = ("part_bookie_from_members", "part_bookie_from_clients", "part_bookie", "part_members")


@define
class Faults:
    """See the docstring of the module. small_disk: that of the last bookie."""

    cluster: Cluster
    clients: Sequence[GuardedProcess]
    random: random.Random
    small_disk: Path | None = None
    only: Sequence[str] = ()
    """Nothing but these; empty: everything."""
    happened: list[str] = field(factory=list)
    kill_count: int = 0

    @property
    def kinds(self) -> list[str]:
        if self.only:
            return [*self.only]
        networks = OF_NETWORKS if self.cluster.net is not None else ()
        return [*ALWAYS, *networks, *([] if self.small_disk is None else ["fill_disk"])]

    def run(self, seconds: float) -> None:
        """For so long; each kind once before one comes again."""
        deadline = time.monotonic() + seconds
        waiting: list[str] = []
        while time.monotonic() < deadline:
            if not waiting:
                waiting = self.kinds
                self.random.shuffle(waiting)
            time.sleep(self.random.uniform(0.5, 2.0))
            kind = waiting.pop()
            self.happened.append(kind)
            getattr(self, kind)()
            self.cluster.start_all()

    def say(self, text: str) -> None:
        self.happened[-1] += f"; {text}"

    # ----------------------------------------------------------------------------------------------------------- kills

    def kill_bookie(self) -> None:
        self._kill_bookies(1)

    def kill_two(self) -> None:
        self._kill_bookies(2)

    def kill_all(self) -> None:
        self._kill_bookies(len(self.cluster.bookies))

    def kill_member(self) -> None:
        members = self.cluster.ensemble.members
        leaders = [member for member in members if member.mode() == "leader"]
        victim = leaders[0] if leaders and self.random.random() < 0.5 else self.random.choice(members)
        self._kill([victim])
        self.say(f"member {victim.server_id}")

    def kill_members(self) -> None:
        victims = self.random.sample(self.cluster.ensemble.members, self.random.choice([2, 3]))
        self._kill(victims)
        self.say(f"members {[victim.server_id for victim in victims]}")
        time.sleep(self.random.choice([0.0, 1.0, SESSION_SECONDS + 1]))

    def kill_client(self) -> None:
        victim = self.random.choice(self.clients)
        self._kill([victim])
        self.say(f"client {self.clients.index(victim)}")
        victim.start()

    def _kill_bookies(self, count: int) -> None:
        victims = self.random.sample([*self.cluster.bookies.values()], count)
        self._kill(victims)
        self.say(f"bookies {[victim.number for victim in victims]}")
        time.sleep(self.random.choice([0.0, 0.1, 1.0, SESSION_SECONDS + 1]))

    def _kill(self, victims: Sequence[GuardedProcess]) -> None:
        for victim in victims:
            assert victim.process is not None
            victim.process.kill()
        for victim in victims:
            victim.kill()
        self.kill_count += len(victims)

    # ---------------------------------------------------------------------------------------------------------- pauses

    def pause_bookie(self) -> None:
        victim = self._any()
        self.say(f"bookie {victim.number}")
        self._pause(victim)

    def pause_member(self) -> None:
        victim = self.random.choice(self.cluster.ensemble.members)
        self.say(f"member {victim.server_id}")
        self._pause(victim)

    def pause_client(self) -> None:
        victim = self.random.choice(self.clients)
        self.say(f"client {self.clients.index(victim)}")
        self._pause(victim)

    def _pause(self, victim: GuardedProcess) -> None:
        with victim.paused():
            time.sleep(SESSION_SECONDS + self.random.uniform(1, 4))

    def _any(self) -> ChaosBookie:
        return self.random.choice([*self.cluster.bookies.values()])

    # -------------------------------------------------------------------------------------------------------- networks

    def part_bookie_from_members(self) -> None:
        """Clients reach it, and it loses its session."""
        victim = self._any()
        self.say(f"bookie {victim.number}")
        self._parted(lambda net, part: [part(victim.machine, member) for member in range(1, MEMBERS + 1)])

    def part_bookie_from_clients(self) -> None:
        """Clients do not hear it, and it keeps its session."""
        victim = self._any()
        self.say(f"bookie {victim.number}")
        self._parted(lambda net, _part: net.cut_outside(victim.machine))

    def part_bookie(self) -> None:
        """Nobody hears it."""
        victim = self._any()
        self.say(f"bookie {victim.number}")

        def cut(net: Namespaces, part: Part) -> None:
            net.cut_outside(victim.machine)
            for member in range(1, MEMBERS + 1):
                part(victim.machine, member)

        self._parted(cut)

    def part_members(self) -> None:
        one, other = self.random.sample(self.cluster.ensemble.members, 2)
        self.say(f"members {one.server_id} and {other.server_id}")
        self._parted(lambda _net, part: part(one.server_id, other.server_id))

    def _parted(self, cut: Callable[[Namespaces, Part], object]) -> None:
        net = self.cluster.net
        assert net is not None
        try:
            cut(net, net.part if self.random.random() < 0.7 else net.cut)
            time.sleep(self.random.choice([1.0, SESSION_SECONDS + 1, SESSION_SECONDS + 4]))
        finally:
            net.heal()

    # --------------------------------------------------------------------------------------------- disks, and operators

    def fill_disk(self) -> None:
        assert self.small_disk is not None
        filling = self.small_disk / "of somebody else"
        with filling.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                os.write(file.fileno(), bytes(1 << 16))
        time.sleep(self.random.uniform(1, 4))
        filling.unlink()

    def restart_in_turn(self) -> None:
        for bookie in self.cluster.bookies.values():
            bookie.stop()
            bookie.start()
            self.cluster.start_all()

    def wipe_bookie(self) -> None:
        """Nothing else is lost before its ledgers have all their copies again: `zab bookie decommission` says when."""
        victim = self._any()
        self.say(f"bookie {victim.number}")
        self._kill([victim])
        words = ("-s", self.cluster.hosts, "bookie", "decommission", victim.bookie_id)
        deadline = time.monotonic() + REPAIR_SECONDS
        command = [sys.executable, "-m", "zab.cli.main", *words]
        while (done := _ran(command)).returncode != 0:
            # It is registered until its old session is over.
            assert time.monotonic() < deadline, done.stdout + done.stderr
            time.sleep(0.2)
        victim.lose_disk(self.cluster.hosts)


Part = Callable[[int, int], None]


def _ran(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=REPAIR_SECONDS)
