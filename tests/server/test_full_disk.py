"""Full disks, as real processes on small file systems of their own: nothing is lost, and nobody has to be helped up.

The file systems live in a namespace of the test, which any user may make on Linux.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
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
from tests.rigs.kazoo_client import kazoo_client
from tests.server.small_disks import SIZE_MIB, needs_namespaces, on_small_disks

__all__ = ["run"]

pytestmark = pytest.mark.slow

DATA = bytes(500_000)
WRITES_MAX = 4 * SIZE_MIB


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
            with kazoo_client(ensemble.hosts):
                pass

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
            """The alarms about disks. Until the member reports it, its leader may."""
            run("-s", ensemble.hosts, "status", "--json")
            values = [value for value in map(json.loads, run.out.splitlines()) if value.get("name") == "disk_full"]
            return [(each["severity"], each["server"], each["reason"].partition(",")[0]) for each in values]

        fill(2)
        waiting.until(lambda: alarms() == [("warning", kept.host, "this member's disk is nearly full")])
        fill(0)
        waiting.until(lambda: alarms() == [("critical", kept.host, "this member's disk is full")])
