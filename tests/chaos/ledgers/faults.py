"""What goes wrong for bookies, members and clients under load, one after the other, as a seed says.

    kill_bookie                     `kill -9`
    kill_client                     of a client, which another incarnation follows
    pause_bookie, pause_client      SIGSTOP for longer than a session
    part_bookie_from_members, part_bookie_from_clients, part_bookie     the kernel drops packets
    restart_in_turn                 SIGTERM of each bookie, and a start
    wipe_bookie                     a bookie loses its disk, is decommissioned and replaced by another one

And what goes wrong for every kind of node: `nodes.faults`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from attrs import define

from tests.chaos.ledgers.cluster import ChaosBookie
from tests.chaos.nodes.cluster import MEMBERS, SESSION_SECONDS
from tests.chaos.nodes.faults import Faults, Part
from tests.rigs.namespaces import Namespaces
from tests.rigs.processes import GuardedProcess

REPAIR_SECONDS: Final = 600.0
"""Some hundred ledgers are copied meanwhile, beside everything else."""


@define(kw_only=True)
class BookieFaults(Faults[ChaosBookie]):
    """See the docstring of the module."""

    always = (
        *("kill_bookie", "kill_two", "kill_all", "kill_member", "kill_members", "kill_client"),
        *("pause_bookie", "pause_member", "pause_client", "restart_in_turn", "wipe_bookie"),
    )
    of_networks = ("part_bookie_from_members", "part_bookie_from_clients", "part_bookie", "part_members")
    gaps = (0.0, 0.1, 1.0, SESSION_SECONDS + 1)

    clients: Sequence[GuardedProcess]

    # ------------------------------------------------------------------------------------------------ kills and pauses

    def kill_bookie(self) -> None:
        self.kill_nodes([self.any()])

    def kill_client(self) -> None:
        victim = self.random.choice(self.clients)
        self.kill([victim])
        self.say(f"client {self.clients.index(victim)}")
        victim.start()

    def pause_bookie(self) -> None:
        victim = self.chosen(self.any())
        self.pause(victim)

    def pause_client(self) -> None:
        victim = self.random.choice(self.clients)
        self.say(f"client {self.clients.index(victim)}")
        self.pause(victim)

    # -------------------------------------------------------------------------------------------------------- networks

    def part_bookie_from_members(self) -> None:
        """Clients reach it, and it loses its session."""
        victim = self.chosen(self.any())
        self.parted(lambda net, part: [part(victim.machine, member) for member in range(1, MEMBERS + 1)])

    def part_bookie_from_clients(self) -> None:
        """Clients do not hear it, and it keeps its session."""
        victim = self.chosen(self.any())
        self.parted(lambda net, _part: net.cut_outside(victim.machine))

    def part_bookie(self) -> None:
        """Nobody hears it."""
        victim = self.chosen(self.any())

        def cut(net: Namespaces, part: Part) -> None:
            net.cut_outside(victim.machine)
            for member in range(1, MEMBERS + 1):
                part(victim.machine, member)

        self.parted(cut)

    # --------------------------------------------------------------------------------------------- disks, and operators

    def restart_in_turn(self) -> None:
        for bookie in self.nodes:
            bookie.stop()
            bookie.start()
            self.cluster.start_all()

    def wipe_bookie(self) -> None:
        """Nothing else is lost before its ledgers have all their copies again: `zab bookie decommission` says when."""
        victim = self.chosen(self.any())
        self.kill([victim])
        words = ("-s", self.cluster.hosts, "bookie", "decommission", victim.bookie_id)
        deadline = time.monotonic() + REPAIR_SECONDS
        command = [sys.executable, "-m", "zab.cli.main", *words]
        while (done := _ran(command)).returncode != 0:
            # It is registered until its old session is over.
            assert time.monotonic() < deadline, done.stdout + done.stderr
            time.sleep(0.2)
        victim.lose_disk(self.cluster.hosts)


def _ran(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=REPAIR_SECONDS)
