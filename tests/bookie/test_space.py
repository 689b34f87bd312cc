"""A bookie whose disk is full: while it runs, and at its start."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bookie.wire import Wire, add
from zab.client import NoNodeError
from zab.host.storage.disk import RealDisk
from zab.ledger.wire.messages import Added, ReadEntry
from zab.ledger.wire.status import Status
from zab.testing import BookieFailedError, Bookies

FULL = {"diskUsageThreshold": "0.0001", "diskUsageLwmThreshold": "0.0001"}


@pytest.fixture(scope="module")
def bookies() -> Iterator[Bookies]:
    with Bookies(1, FULL) as opened:
        yield opened


def test_a_full_disk_makes_a_bookie_read_only(bookies: Bookies) -> None:
    """Adds of recovery have the reserve."""
    bookie = bookies.members[1]
    bookies.wait_until(lambda: bookie.is_read_only is True, "it is not read-only")
    with bookies.ensemble.connect() as zk:
        assert zk.get("/ledgers/available/readonly/b1")[1].ephemeral_owner
        with pytest.raises(NoNodeError):
            zk.get("/ledgers/available/b1")
    with Wire(bookie.address) as wire:
        assert wire.ask(add(1, 0)) == Added(Status.READ_ONLY, 1, 0)
        assert wire.ask(add(1, 0, is_urgent=True)) == Added(Status.OK, 1, 0)
        assert wire.ask(ReadEntry(1, 0)).status is Status.OK


def test_one_that_may_not_be_read_only_ends() -> None:
    with (
        pytest.raises(BookieFailedError, match="the disk is full, and readOnlyModeEnabled=false"),
        Bookies(1, {**FULL, "readOnlyModeEnabled": False}) as opened,
    ):
        opened.wait_until(lambda: False, "it does not end", seconds=30)


def test_without_room_for_a_journal_file_it_does_not_start(bookies: Bookies, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    bookie = bookies.members[1]
    bookie.stop()
    with monkeypatch.context() as patched:
        patched.setattr(RealDisk, "preallocate", no_room)
        with pytest.raises(BookieFailedError, match="a bookie needs room for a journal file of 16 MiB"):
            bookie.start()
    bookie.forget_failure()
    bookies.start()
