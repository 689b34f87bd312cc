"""Full disks, as real processes on small file systems of their own: nothing is lost, and nobody has to be helped up.

The file systems live in a namespace of the test, which any user may make on Linux.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    OperationTimeoutError,
    QuotaExceededError,
)
from kazoo.exceptions import SessionExpiredError as SessionExpired

from tests.cli.commands import Run, run
from tests.rigs import waiting
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember, configurations

__all__ = ["run"]

pytestmark = pytest.mark.slow

SIZE_MIB = 24
KEYS = {"preAllocSize": 1024, "diskLowBytes": 4 << 20, "diskReserveBytes": 4 << 20, "snapCount": 1_000_000}
DATA = bytes(500_000)
WRITES_MAX = 4 * SIZE_MIB


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


def insist(ask: Callable[[], Any]) -> Any:
    """Ask until there is an answer: the leader may be another one, and the connection gone."""
    for _ in range(200):
        try:
            return ask()
        except (ConnectionLoss, SessionExpired, OperationTimeoutError):
            continue
    raise AssertionError("no answer")


def is_refused(client: KazooClient, path: str) -> bool:
    try:
        client.create(path, DATA)
    except QuotaExceededError:
        return True
    except NodeExistsError:
        pass  # the connection broke before the answer
    return False


def until(ask: Callable[[], bool]) -> None:
    """The answers are quick, and a disk is looked at once a tick: so this waits in between."""

    def is_so() -> bool:
        with contextlib.suppress(KazooException):
            return ask()
        return False

    waiting.until(is_so)


@needs_namespaces
def test_full_disks_lose_nothing_and_serve_what_needs_no_room(tmp_path: Path) -> None:
    with on_small_disks(tmp_path) as (ensemble, disks):
        client = KazooClient(
            hosts=ensemble.hosts, timeout=30.0, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.2}
        )
        client.start(timeout=60)
        try:
            written: list[str] = []
            for number in range(WRITES_MAX):
                path = f"/w{number:03d}"
                if insist(lambda path=path: is_refused(client, path)):
                    break
                written.append(path)
            assert WRITES_MAX > len(written) > SIZE_MIB // 2
            assert all(member.running for member in ensemble.members)

            # What needs no room goes on.
            assert insist(lambda: client.get(written[0]))[0] == DATA
            insist(lambda: client.delete(written.pop()))
            other = KazooClient(hosts=ensemble.hosts, timeout=30.0)
            other.start(timeout=60)
            other.stop()
            other.close()

            # So it is after a loss of all processes: a start needs no free byte.
            for member in ensemble.members:
                member.kill()
            for member in ensemble.members:
                member.start()
            ensemble.wait()
            assert insist(lambda: client.get(written[-1]))[0] == DATA
            until(lambda: is_refused(client, "/more"))

            # And it ends by itself.
            disks.grow()
            until(lambda: not is_refused(client, "/again"))
            there = set(insist(lambda: client.get_children("/")))
            assert {path[1:] for path in written} <= there
        finally:
            client.stop()
            client.close()


@needs_namespaces
@pytest.mark.parametrize("word", ["mntr", "srvr"])
def test_status_names_the_disk_of_a_member_that_serves_nobody(tmp_path: Path, run: Run, word: str) -> None:
    with on_small_disks(tmp_path, [{"4lw.commands.whitelist": word}] * 3) as (ensemble, disks):
        kept = next(member for member in ensemble.members if member is not ensemble.leader())
        ballast = kept.directory / "data" / "of-others"

        def fill(free_mib: int) -> None:
            disks.run(
                f"rm -f {ballast}; free=$(($(stat -f -c '%a * %S' {ballast.parent}))); "
                f"head -c $((free - {free_mib << 20})) /dev/zero > {ballast}"
            )

        def alarms() -> list[tuple[str, str | None, str]]:
            """Of disks. Until the member says it, its leader may."""
            run("-s", ensemble.hosts, "status", "--json")
            values = [value for value in map(json.loads, run.out.splitlines()) if value.get("name") == "disk_full"]
            return [(each["severity"], each["server"], each["reason"].partition(",")[0]) for each in values]

        fill(2)
        waiting.until(lambda: alarms() == [("warning", kept.host, "this member's disk is nearly full")])
        fill(0)
        waiting.until(lambda: alarms() == [("critical", kept.host, "this member's disk is full")])
