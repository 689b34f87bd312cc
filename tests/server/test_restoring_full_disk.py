"""A member on a small disk is given a snapshot: it goes on with the one state or with the other, says why, and needs no
help but room (B8 restored members)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from datatree.snapshot import HEADER_BYTES, parse_snapshot_header, snapshot_path
from tests.rigs.admin_servers import Running, lines_of
from tests.rigs.waiting import until
from tests.server.restoring import AUTHORIZATION, kazoo_at, restore, snapshot_of
from tests.server.small_disks import SmallDisks, needs_namespaces, on_small_disks
from zab.testing.kit.ports import free_ports

pytestmark = [pytest.mark.slow, needs_namespaces]

DATA = bytes(500_000)
UNGUARDED = {"diskLowBytes": 0}

STAGE = """
import sys
from datatree.log.epochs import load_member
from datatree.recovery.restoring import stage
from zab.host.storage.disk import RealDisk

disk = RealDisk(sys.argv[1])
member = load_member(disk)
assert member is not None
stage(disk, sys.argv[2], member.lineage)
"""


@contextlib.contextmanager
def on_a_small_disk(directory: Path, **lines: int) -> Iterator[tuple[Running, SmallDisks]]:
    admin, metrics = free_ports(2)
    with on_small_disks(directory, [{**lines_of(admin, metrics), **lines}]) as (servers, disks):
        yield Running(servers, [admin], [metrics]), disks


def fill(alone: Running, count: int) -> bytes:
    """The snapshot of a state with so much in it, which the member then leaves."""
    with kazoo_at(alone) as client:
        for number in range(count):
            client.create(f"/w{number}", DATA)
        snapshot = snapshot_of(alone)
        client.create("/later", b"")
    return snapshot


def is_at(alone: Running, name: str) -> bool:
    with kazoo_at(alone) as client:
        return client.exists(name) is not None


def files(alone: Running, disks: SmallDisks) -> set[str]:
    place = alone.servers.members[0].data_directory
    disks.run(f"cd {place} && find . -type f > ../files")
    return set((place.parent / "files").read_text().split())


def takes_it_with_room(alone: Running, disks: SmallDisks, snapshot: bytes) -> None:
    disks.grow()
    restore(alone, 1, snapshot)
    alone.servers.wait()
    assert not is_at(alone, "/later")


def test_one_that_does_not_fit_changes_nothing_and_is_taken_once_there_is_room(tmp_path: Path) -> None:
    with on_a_small_disk(tmp_path) as (alone, disks):
        snapshot = fill(alone, 12)
        before = files(alone, disks)
        answer = alone.post(1, "/commands/restore", snapshot, Authorization=AUTHORIZATION)
        assert (answer.status_code, "diskLowBytes" in answer.json()["error"]) == (500, True)
        assert is_at(alone, "/later")
        assert files(alone, disks) == before
        takes_it_with_room(alone, disks, snapshot)


def test_where_nothing_is_kept_free_the_member_goes_on_nevertheless(tmp_path: Path) -> None:
    """The disk is full to the last byte while the snapshot comes, or while it is staged."""
    with on_a_small_disk(tmp_path, **UNGUARDED) as (alone, disks):
        snapshot = fill(alone, 12)
        [member] = alone.servers.members
        before = files(alone, disks)
        for free_mib in (1, 9):
            filler = member.data_directory / "filler"
            disks.run(f"dd if=/dev/zero of={filler} bs=1M 2> /dev/null; truncate -s -{free_mib}M {filler}")
            answer = alone.post(1, "/commands/restore", snapshot, Authorization=AUTHORIZATION)
            assert (answer.status_code, answer.json()["error"]) == (
                500,
                "it cannot be written: No space left on device",
            )
            assert member.running
            disks.run(f"rm {filler}")
            assert is_at(alone, "/later")
            assert files(alone, disks) == before
        takes_it_with_room(alone, disks, snapshot)


def stage_and_fill(alone: Running, disks: SmallDisks, directory: Path, snapshot: bytes) -> Path:
    """The member is ended, what it starts again with is staged, and a file has all that was free; that file."""
    [member] = alone.servers.members
    member.kill()
    (directory / "sent").write_bytes(snapshot)
    (directory / "stage.py").write_text(STAGE)
    place, filler = member.data_directory, member.data_directory / "filler"
    zxid = parse_snapshot_header(snapshot[:HEADER_BYTES], "what was sent").zxid
    sent = f"{snapshot_path(zxid)}.restore.tmp"
    root = Path(__file__).parents[2]
    staged = f"PYTHONPATH={root} {sys.executable} {directory}/stage.py {place} {sent}"
    disks.run(f"cp {directory}/sent {place}/{sent} && {staged} && rm {place}/{sent}")
    disks.run(f"dd if=/dev/zero of={filler} bs=4k 2> /dev/null; true")
    return filler


def test_a_start_on_a_full_disk_goes_on_with_it_by_its_reserve(tmp_path: Path) -> None:
    with on_a_small_disk(tmp_path) as (alone, disks):
        snapshot = fill(alone, 2)
        stage_and_fill(alone, disks, tmp_path, snapshot)
        alone.servers.members[0].start()
        alone.servers.wait()
        assert not is_at(alone, "/later")
        assert is_at(alone, "/w0")


def test_a_start_without_a_free_byte_says_so_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with on_a_small_disk(tmp_path, **UNGUARDED) as (alone, disks):
        snapshot = fill(alone, 2)
        filler = stage_and_fill(alone, disks, tmp_path, snapshot)
        [member] = alone.servers.members
        for count in (1, 2):
            member.start()
            until(lambda: not member.running, "it ends")
            assert member.process is not None
            assert member.process.returncode == 3
            assert member.log_text().count("cannot recover: [Errno 28] No space left on device") == count
            member.kill()
        disks.run(f"rm {filler}")
        member.start()
        alone.servers.wait()
        assert not is_at(alone, "/later")
        assert is_at(alone, "/w0")
        assert not [name for name in files(alone, disks) if "restore" in name or "stagedOf" in name]
