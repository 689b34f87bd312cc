"""What goes wrong for nodes and members under load, one after the other, as a seed says.

    kill_two, kill_all              `kill -9` of two nodes, of all
    kill_member, kill_members       of one member, of a majority of them
    pause_member                    SIGSTOP for longer than a session
    part_members                    the kernel drops packets between two members
    fill_disk                       the disk of the last node is full for a while

Each kind of node has more. After each, everything runs again. Faults of networks need machines (`rigs.namespaces`), and
`fill_disk` a small disk.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Generic, TypeAlias

from attrs import define, field

from tests.chaos.nodes.cluster import SESSION_SECONDS, Cluster, N
from tests.rigs.namespaces import Namespaces
from tests.rigs.processes import GuardedProcess

Part: TypeAlias = Callable[[int, int], None]


@define(kw_only=True)
class Faults(Generic[N]):
    """See the docstring of the module. small_disk: that of the last node."""

    always: ClassVar[Sequence[str]]
    of_networks: ClassVar[Sequence[str]]
    gaps: ClassVar[Sequence[float]]
    """How long nodes that were killed may be gone, in seconds."""

    cluster: Cluster[N]
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
        networks = self.of_networks if self.cluster.net is not None else ()
        return [*self.always, *networks, *([] if self.small_disk is None else ["fill_disk"])]

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

    def chosen(self, victim: N) -> N:
        """It is told."""
        self.say(f"{self.cluster.noun} {victim.number}")
        return victim

    def any(self) -> N:
        return self.random.choice(self.nodes)

    @property
    def nodes(self) -> list[N]:
        return [*self.cluster.nodes.values()]

    def watched(self, *victims: N, is_final: bool = True) -> AbstractContextManager[None]:
        """The block in which victims are taken away. Without `is_final` they may still serve after it."""
        return contextlib.nullcontext()

    # ----------------------------------------------------------------------------------------------------------- kills

    def kill_two(self) -> None:
        self.kill_nodes(self.random.sample(self.nodes, 2))

    def kill_all(self) -> None:
        self.kill_nodes(self.nodes)

    def kill_member(self) -> None:
        members = self.cluster.ensemble.members
        leaders = [member for member in members if member.mode() == "leader"]
        victim = leaders[0] if leaders and self.random.random() < 0.5 else self.random.choice(members)
        self.kill([victim])
        self.say(f"member {victim.server_id}")

    def kill_members(self) -> None:
        victims = self.random.sample(self.cluster.ensemble.members, self.random.choice([2, 3]))
        self.kill(victims)
        self.say(f"members {[victim.server_id for victim in victims]}")
        time.sleep(self.random.choice([0.0, 1.0, SESSION_SECONDS + 1]))

    def kill_nodes(self, victims: Sequence[N]) -> None:
        with self.watched(*victims):
            self.kill(victims)
        self.say(f"{self.cluster.noun}s {[victim.number for victim in victims]}")
        time.sleep(self.random.choice(self.gaps))

    def kill(self, victims: Sequence[GuardedProcess]) -> None:
        for victim in victims:
            assert victim.process is not None
            victim.process.kill()
        for victim in victims:
            victim.kill()
        self.kill_count += len(victims)

    # ---------------------------------------------------------------------------------------------------------- pauses

    def pause_member(self) -> None:
        victim = self.random.choice(self.cluster.ensemble.members)
        self.say(f"member {victim.server_id}")
        self.pause(victim)

    def pause(self, victim: GuardedProcess) -> None:
        with victim.paused():
            time.sleep(SESSION_SECONDS + self.random.uniform(1, 4))

    # -------------------------------------------------------------------------------------------------------- networks

    def part_members(self) -> None:
        one, other = self.random.sample(self.cluster.ensemble.members, 2)
        self.say(f"members {one.server_id} and {other.server_id}")
        self.parted(lambda _net, part: part(one.server_id, other.server_id))

    def parted(self, cut: Callable[[Namespaces, Part], object]) -> None:
        """For a while, as `cut` does it: with the network, and with what parts two machines, one way or both."""
        net = self.cluster.net
        assert net is not None
        try:
            cut(net, net.part if self.random.random() < 0.7 else net.cut)
            time.sleep(self.random.choice([1.0, SESSION_SECONDS + 1, SESSION_SECONDS + 4]))
        finally:
            net.heal()

    # ----------------------------------------------------------------------------------------------------------- disks

    def fill_disk(self) -> None:
        assert self.small_disk is not None
        filling = self.small_disk / "of somebody else"
        with filling.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                os.write(file.fileno(), bytes(1 << 16))
        time.sleep(self.random.uniform(1, 4))
        filling.unlink()
