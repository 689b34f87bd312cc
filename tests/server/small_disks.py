"""Disks of a few megabytes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember, configurations

SIZE_MIB = 24

KEYS = {"preAllocSize": 1024, "diskLowBytes": 4 << 20, "diskReserveBytes": 4 << 20, "snapCount": 1_000_000}


def can_mount() -> bool:
    try:
        made = subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, timeout=60, check=False
        )
    except OSError:
        return False
    return made.returncode == 0


needs_namespaces = pytest.mark.skipif(
    not can_mount(), reason="no unshare of util-linux that may mount a file system here"
)


class SmallDisks:
    """File systems of `SIZE_MIB` each, seen by the processes that `command` starts."""

    def __init__(self, places: list[Path]) -> None:
        self._places = places
        mounts = " && ".join(f"mount -t tmpfs -o size={SIZE_MIB}m tmpfs {place}" for place in places)
        # It ends, and all of them with it, when its input does: also when this process is killed.
        self._holder = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", f"{mounts} && echo there && read -r _"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"there\n"

    def command(self, *words: str) -> list[str]:
        inside = ["nsenter", "-t", str(self._holder.pid), "-U", "-m", "--preserve-credentials"]
        return [*inside, *words]

    def run(self, script: str) -> None:
        subprocess.run(self.command("sh", "-c", script), check=True, timeout=60)

    def grow(self) -> None:
        for place in self._places:
            self.run(f"mount -o remount,size={4 * SIZE_MIB}m {place}")

    def close(self) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait(60)


@contextlib.contextmanager
def on_small_disks(
    directory: Path, each: Sequence[Mapping[str, str | int]] = ({}, {}, {})
) -> Iterator[tuple[ZooKeeperEnsemble, SmallDisks]]:
    """`each`: further lines of each of the members."""
    places = [directory / f"server{server_id}" / "data" for server_id in range(1, len(each) + 1)]
    for place in places:
        place.mkdir(parents=True)
    ensemble = ZooKeeperEnsemble()
    with contextlib.ExitStack() as stack:
        disks = SmallDisks(places)
        stack.callback(disks.close)
        shared = configurations(len(each), KEYS)
        for server_id, (place, lines, more) in enumerate(zip(places, shared, each, strict=True), start=1):
            disks.run(f"echo {server_id} > {place}/myid")
            file = place.parent / "zoo.cfg"
            file.write_text("".join(f"{key}={value}\n" for key, value in {**lines, **more, "dataDir": place}.items()))
            command = disks.command(sys.executable, "-m", "zab.server", str(file))
            ensemble.members.append(ZooKeeperMember(server_id, int(lines["clientPort"]), place.parent, command))
        for member in ensemble.members:
            stack.callback(member.kill)
            member.start()
        ensemble.wait()
        yield ensemble, disks
