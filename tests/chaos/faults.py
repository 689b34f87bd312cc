"""What goes wrong for real members beside kills, as a `chaos.Misfortune` each. At the end of each all serve.

Partitions(net)         the links between members are cut, one way or both, or flap (`rigs.namespaces`)
Disturbances(net)       the same, and packets are late, overtake each other, are lost (netem)
NetworkTrouble(net)     the same of links that are relays: they are slow, lose pieces, break (`rigs.relay`)
reconfigure             a follower is taken out and in again, while another member is killed
restart_in_turn         every member is stopped and started, the leader once it has handed the lead over
damage                  bytes of files change, of a member that is down, and of one that runs
FullDisk(member, path)  the disk of one member fills, and is emptied again
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from tests.rigs.namespaces import Namespaces
from tests.rigs.relay import Network
from tests.rigs.waiting import until
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember

TROUBLE_SECONDS = (0.5, 4.0)
FLIPS_MAX = 60
ZAB_SECONDS = 60.0


def zab(member: ZooKeeperMember, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zab", "-s", member.host, *words, "--timeout", f"{ZAB_SECONDS:.0f}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * ZAB_SECONDS, check=False)


# ------------------------------------------------------------------------------------------------------------- networks


class Partable(Protocol):
    """A network that can be cut."""

    def cut(self, source: int, sink: int) -> None: ...

    def part(self, one: int, other: int) -> None: ...

    def heal(self) -> None: ...


Net = TypeVar("Net", bound=Partable)


@dataclass
class Partitions(Generic[Net]):
    """Each lasts a moment, then all is healed, and everybody has to serve again."""

    net: Net
    kinds: ClassVar[tuple[str, ...]] = ("one_way", "isolated", "bridge", "flapping")

    def __call__(self, ensemble: ZooKeeperEnsemble, seconds: float, source: random.Random, happened: list[str]) -> None:
        troubles = list(self.kinds)
        deadline = time.monotonic() + seconds
        source.shuffle(troubles)
        while time.monotonic() < deadline or len(happened) < len(troubles):
            trouble = troubles[len(happened) % len(troubles)]
            sids = [member.server_id for member in ensemble.members]
            leaders = [member.server_id for member in ensemble.members if member.mode() == "leader"]
            # The leader most often: it has most to lose.
            victim = leaders[0] if leaders and source.random() < 0.6 else source.choice(sids)
            others = [sid for sid in sids if sid != victim]
            source.shuffle(others)
            happened.append(f"{trouble}: server {victim} and {others}")
            getattr(self, trouble)(victim, others, source)
            self.net.heal()
            ensemble.wait()

    def one_way(self, victim: int, others: list[int], source: random.Random) -> None:
        """What it says does not come, or it does not hear the others."""
        is_mute = source.random() < 0.5
        for other in others:
            self.net.cut(*((victim, other) if is_mute else (other, victim)))
        time.sleep(source.uniform(*TROUBLE_SECONDS))

    def isolated(self, victim: int, others: list[int], source: random.Random) -> None:
        for other in others:
            self.net.part(victim, other)
        time.sleep(source.uniform(*TROUBLE_SECONDS))

    def bridge(self, victim: int, others: list[int], source: random.Random) -> None:
        """Two halves, and one member between them that sees all."""
        half = len(others) // 2
        for one in others[:half]:
            for other in others[half:]:
                self.net.part(one, other)
        time.sleep(source.uniform(*TROUBLE_SECONDS))

    def flapping(self, victim: int, others: list[int], source: random.Random) -> None:
        for _ in range(5):
            self._part(victim, others)
            time.sleep(source.uniform(0.05, 0.6))
            self.net.heal()
            time.sleep(source.uniform(0.05, 0.6))

    def _part(self, victim: int, others: list[int]) -> None:
        for other in others:
            self.net.part(victim, other)


class Disturbances(Partitions[Namespaces]):
    """Packets of one machine are late, or some of them lost, besides."""

    kinds = (*Partitions.kinds, "slow", "lossy")

    def slow(self, victim: int, _others: list[int], source: random.Random) -> None:
        self.net.disturb(victim, source.uniform(50, 500), 0)
        time.sleep(source.uniform(*TROUBLE_SECONDS))

    def lossy(self, victim: int, _others: list[int], source: random.Random) -> None:
        self.net.disturb(victim, 1, source.uniform(5, 30))
        time.sleep(source.uniform(*TROUBLE_SECONDS))


class NetworkTrouble(Partitions[Network]):
    """Links that are slow, lose pieces and break, besides."""

    kinds = (*Partitions.kinds, "slow", "lossy", "broken")

    def _part(self, victim: int, others: list[int]) -> None:
        super()._part(victim, others)
        for other in others:
            self.net.break_links(victim, other)

    def slow(self, victim: int, others: list[int], source: random.Random) -> None:
        for other in others:
            self.net.slow(victim, other, seconds=source.uniform(0.05, 0.5))
        time.sleep(source.uniform(*TROUBLE_SECONDS))

    def lossy(self, victim: int, others: list[int], source: random.Random) -> None:
        for other in others:
            self.net.lose(victim, other, share=0.2)
            self.net.lose(other, victim, share=0.2)
        time.sleep(source.uniform(*TROUBLE_SECONDS))

    def broken(self, victim: int, others: list[int], source: random.Random) -> None:
        for other in others:
            self.net.break_links(victim, other)


# ---------------------------------------------------------------------------------------------- changes of the ensemble


def reconfigure(ensemble: ZooKeeperEnsemble, seconds: float, source: random.Random, happened: list[str]) -> None:
    """Needs at least four members, so that a majority of the rest is left."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(happened) < 3:
        leader = ensemble.leader()
        gone, killed = source.sample([member for member in ensemble.members if member is not leader], 2)
        shown = zab(leader, "reconfig", "show").stdout
        [line] = [each for each in shown.splitlines() if each.startswith(f"server.{gone.server_id}=")]
        line = line.removeprefix("server.").partition(";")[0] + f";{gone.host}"
        happened.append(f"server {gone.server_id} is taken out, server {killed.server_id} is killed")
        killed.kill()
        _repeat(ensemble, "reconfig", "remove", str(gone.server_id))
        killed.start()
        time.sleep(source.uniform(0.0, 0.5))
        survivors = [member for member in ensemble.members if member is not gone]
        ZooKeeperEnsemble(survivors).wait()
        victim = source.choice(survivors)
        victim.kill()
        victim.start()
        _repeat(ZooKeeperEnsemble(survivors), "reconfig", "add", line)
        ensemble.wait()


def _repeat(ensemble: ZooKeeperEnsemble, *words: str) -> None:
    """Until it is done: meanwhile members are down and elect."""
    until(lambda: zab(ensemble.leader(), *words).returncode == 0, " ".join(words))


def restart_in_turn(ensemble: ZooKeeperEnsemble, seconds: float, source: random.Random, happened: list[str]) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(happened) < len(ensemble.members):
        for member in ensemble.members:
            if member.mode() == "leader":
                heir = source.choice([each for each in ensemble.members if each is not member])
                done = zab(member, "lead", str(heir.server_id))
                happened.append(
                    f"server {heir.server_id} leads in place of {member.server_id}: {done.stderr.strip() or 'done'}"
                )
            member.stop()
            member.start()
            happened.append(f"server {member.server_id} was restarted")
            ensemble.wait()


# ---------------------------------------------------------------------------------------------------------------- disks


def damage(ensemble: ZooKeeperEnsemble, seconds: float, source: random.Random, happened: list[str]) -> None:
    """Damage one member at a time: the others still have what it has lost. Goes on until it has reported damage."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(happened) < 4 or not has_said_so(ensemble):
        assert len(happened) < FLIPS_MAX, happened
        member = source.choice(ensemble.members)
        runs = source.random() < 0.4
        if not runs:
            member.kill()
        flipped = flip(member, source)
        happened.append(f"{flipped} of server {member.server_id}, which {'runs' if runs else 'is down'}")
        if runs:
            time.sleep(source.uniform(0.0, 2.0))
            member.kill()
        member.start()
        ensemble.wait()


def has_said_so(ensemble: ZooKeeperEnsemble) -> bool:
    return any("damage" in member.log_text() for member in ensemble.members)


def flip(member: ZooKeeperMember, source: random.Random) -> str:
    """One bit of a file of its history."""
    history = member.data_directory / "version-1"
    files = [path for path in sorted(history.glob("*.*")) if path.name.startswith(("log.", "snapshot."))]
    files = [path for path in files if path.suffix != ".index" and path.stat().st_size > 0]
    if not files:
        return "nothing"
    path = source.choice(files)
    # In front, where a preallocated log has been written.
    size = min(path.stat().st_size, 20_000)
    with path.open("r+b") as file:
        at = source.randrange(size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << source.randrange(8))]))
    return f"a bit at {at} of {path.name}"


def can_mount(place: Path) -> bool:
    place.mkdir(parents=True, exist_ok=True)
    try:
        if subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], capture_output=True, check=False).returncode:
            return False
    except OSError:
        return False
    subprocess.run(["umount", str(place)], check=True)
    return True


@contextlib.contextmanager
def small_disk(place: Path, mib: int) -> Iterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@dataclass
class FullDisk:
    """Somebody else fills the disk of a member, and takes it away again. It may end meanwhile; then it is started."""

    server_id: int
    place: Path

    def __call__(self, ensemble: ZooKeeperEnsemble, seconds: float, source: random.Random, happened: list[str]) -> None:
        [member] = [each for each in ensemble.members if each.server_id == self.server_id]
        others = ZooKeeperEnsemble([each for each in ensemble.members if each is not member])
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or len(happened) < 2:
            filling = self.place / "of somebody else"
            _fill(filling)
            happened.append(f"the disk of server {self.server_id} is full")
            time.sleep(source.uniform(1.0, 4.0))
            others.wait()
            filling.unlink()
            if not member.running:
                member.kill()
                member.start()
            ensemble.wait()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(1 << 16))
