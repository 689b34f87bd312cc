"""The sync of a fetched file fails, once in every member, and a member that has installed a snapshot loses its power at
once: a member that trusts such a file finds out then.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zab.cli.servers.simulate import SAFETY, attempt
from zab.member.storage.events import FetchFailed
from zab.member.storage.snapshot_fetch import FetchError
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.simulator.ensemble.members.fetch import Fetching
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.world.disk import FaultyDisk, PowerLossError, _Inode
from zab.simulator.world.schedule import MS

SEEDS = (13, 74)
"""Runs in which snapshots are fetched."""
MORE_SEEDS = range(400)
FAILED = "OSError: [Errno 5] Input/output error: 'sync version-1/snapshot."


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fetched files whose sync has failed."""
    paths: list[str] = []
    disks: set[FaultyDisk] = set()
    sync, peer_stepped = FaultyDisk.sync_inode, Observer.peer_stepped

    def fail_once(disk: FaultyDisk, inode: _Inode, path: str) -> None:
        if path.endswith(".fetch") and disk not in disks:
            disks.add(disk)
            paths.append(path)
            disk.fail_after(1)
        sync(disk, inode, path)

    def lose_power(observer: Observer, process: MemberProcess, event: ev.Event, effects: list[fx.Effect]) -> None:
        peer_stepped(observer, process, event, effects)
        if isinstance(event, ev.SnapshotInstalled):
            process.later(MS, lambda: process.machine.stop(with_power=True))

    monkeypatch.setattr(FaultyDisk, "sync_inode", fail_once)
    monkeypatch.setattr(Observer, "peer_stepped", lose_power)
    return paths


def test_c1_a_failed_sync_of_what_is_fetched_ends_the_process(failed: list[str]) -> None:
    ended = 0
    for seed in (*SEEDS, *MORE_SEEDS):
        failed.clear()
        lines: list[str] = []
        assert attempt(seed, lines.append).failure is None
        assert len(failed) == sum(FAILED in line and ".fetch" in line for line in lines)
        ended += len(failed)
        if ended > 1:
            return
    pytest.fail("no snapshot was fetched")


@pytest.mark.hunt
@pytest.mark.slow
def test_c1_a_member_that_takes_it_for_a_broken_connection_is_found(
    failed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(fetching: Fetching, step: Callable[[], None]) -> None:
        fetch = fetching._fetch
        file = fetch._file
        if fetching._is_over:
            return
        with fetching._process.ends_by(PowerLossError):
            try:
                step()
            except FetchError as error:
                fetch.close()
                fetching._end(FetchFailed(fetching._effect, str(error)))
            except OSError as error:
                fetch._file = file
                fetching._broken(str(error))

    monkeypatch.setattr(Fetching, "_do", again)
    for seed in (*SEEDS, *MORE_SEEDS):
        failure = attempt(seed).failure
        if failed and failure is not None and failure.code == SAFETY:
            return
    pytest.fail("nobody noticed")
