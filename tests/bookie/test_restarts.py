"""What a bookie still has after its end, and when it must not start at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.bookie.wire import KEY, Wire, add, envelope_of
from zab.ledger.wire.messages import Added, EntryRead, ReadEntry
from zab.ledger.wire.status import Status
from zab.testing import Bookie, BookieFailedError, Bookies, free_ports

WAIT_SECONDS = 30


@pytest.fixture(scope="module")
def bookies() -> Iterator[Bookies]:
    with Bookies(2) as opened:
        yield opened


def test_nothing_acknowledged_is_lost_by_a_kill(bookies: Bookies) -> None:
    bookie = bookies.members[1]
    with Wire(bookie.address) as wire:
        wire.send(*(add(5, entry) for entry in range(500)))
        acknowledged = [each.entry for _, each in wire.answers(300) if isinstance(each, Added)]
        bookies.kill(1)
    bookies.start(1)
    with Wire(bookie.address) as wire:
        wire.send(*(ReadEntry(5, entry) for entry in acknowledged))
        found = {answer for _, answer in wire.answers(len(acknowledged))}
    assert {(each.entry, each.envelope) for each in found if isinstance(each, EntryRead)} == {
        (entry, envelope_of(5, entry)) for entry in acknowledged
    }


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_fence_survives(bookies: Bookies, is_killed: bool) -> None:
    """G8: also of an entry, and of a ledger, that was not there."""
    bookie, ledger = bookies.members[1], 10 + is_killed
    with Wire(bookie.address) as wire:
        assert wire.ask(add(ledger, 0)).status is Status.OK
        assert wire.ask(ReadEntry(ledger, 1, KEY, is_fencing=True)).status is Status.NO_ENTRY
        assert wire.ask(ReadEntry(ledger + 10, 0, KEY, is_fencing=True)).status in (Status.NO_LEDGER, Status.NO_ENTRY)
        (bookies.kill if is_killed else bookies.stop)(1)
    bookies.start(1)
    with Wire(bookie.address) as wire:
        assert wire.ask(add(ledger, 1)) == Added(Status.FENCED, ledger, 1)
        assert wire.ask(add(ledger + 10, 0)) == Added(Status.FENCED, ledger + 10, 0)
        assert wire.ask(add(ledger, 1, is_recovery=True)) == Added(Status.OK, ledger, 1)


def refused(bookies: Bookies, bookie: Bookie) -> str:
    """Why it does not start; then it is down."""
    with pytest.raises(BookieFailedError) as failed:
        bookie.start()
    bookie.forget_failure()
    return str(failed.value)


def test_a_wiped_disk_and_a_foreign_one_are_refused(bookies: Bookies, tmp_path: Path) -> None:
    """S4: it would say that it does not have what it has acknowledged."""
    bookie, other = bookies.members[2], bookies.members[1]
    with Wire(bookie.address) as wire:
        assert wire.ask(add(7, 0)).status is Status.OK
    bookie.stop()
    kept = tmp_path / "kept"
    shutil.copytree(bookie.directory, kept)

    for lost in ("journal", "ledgers"):
        shutil.rmtree(bookie.directory / lost)
        assert "a disk was lost" in refused(bookies, bookie), lost
        shutil.copytree(kept / lost, bookie.directory / lost, dirs_exist_ok=True)
    shutil.rmtree(bookie.directory)
    assert "the disk was lost" in refused(bookies, bookie)
    other.stop()
    shutil.copytree(other.directory, bookie.directory, dirs_exist_ok=True)
    assert "the cookie of b2 in the metadata differs" in refused(bookies, bookie)

    shutil.rmtree(bookie.directory)
    shutil.copytree(kept, bookie.directory)
    bookies.start()
    with Wire(bookie.address) as wire:
        assert wire.ask(ReadEntry(7, 0)).status is Status.OK


def test_a_directory_that_another_process_uses_is_refused(bookies: Bookies) -> None:
    one, two = bookies.members[1], bookies.members[2]
    two.stop()
    settings, two.settings = two.settings, attrs.evolve(two.settings, place=one.settings.place)
    assert "another process uses this directory" in refused(bookies, two)
    two.settings = settings
    bookies.start()


def test_a_root_that_is_not_formatted_is_refused(bookies: Bookies) -> None:
    bookie = bookies.members[2]
    bookie.stop()
    settings = bookie.settings
    uri = attrs.evolve(settings.metadata.uri, root="/other")
    bookie.settings = attrs.evolve(settings, metadata=attrs.evolve(settings.metadata, uri=uri))
    assert "format the root first" in refused(bookies, bookie)
    bookie.settings = settings
    bookies.start()


@pytest.mark.process
@pytest.mark.long
def test_a_process_that_is_killed_loses_nothing(bookies: Bookies, tmp_path: Path) -> None:
    """As a process, started by the command, ended by `kill -9`."""
    [port] = free_ports(1)
    config = tmp_path / "bk_server.conf"
    config.write_text(
        f"bookiePort={port}\nledgerDirectories={tmp_path / 'data'}\njournalMaxSizeMB=16\nzkTimeout=2000\n"
        f"diskUsageThreshold=0.999\nmetadataServiceUri={bookies.metadata_service_uri}\nbookieId=own\n"
    )
    command = [sys.executable, "-m", "zab.cli.main", "bookie", "run", str(config)]
    for at in range(2):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "registered as available" in line:
                    break
            else:
                raise AssertionError(f"it ended with {process.wait(WAIT_SECONDS)}")
            with Wire(f"127.0.0.1:{port}") as wire:
                for entry in range(at):
                    assert wire.ask(ReadEntry(1, entry)).status is Status.OK
                assert wire.ask(add(1, at)).status is Status.OK
            os.kill(process.pid, signal.SIGKILL if at == 0 else signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == (-signal.SIGKILL if at == 0 else 0)
        finally:
            process.kill()
            process.wait(WAIT_SECONDS)
            assert process.stderr is not None
            process.stderr.close()
