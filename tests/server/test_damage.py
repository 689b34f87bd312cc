"""Members whose files are damaged, as real processes: who is filled by the others, and who founds nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.rigs.kazoo_client import kazoo_of
from tests.rigs.zab_server import servers, unstarted

pytestmark = pytest.mark.slow

SAYS = "the history is damaged -> count for nothing until the others have synchronized this member"


def oldest_log(member) -> Path:
    logs = [path for path in (member.directory / "version-1").glob("log.*") if path.suffix not in (".index", ".spare")]
    return min(logs, key=lambda path: int(path.suffix[1:], 16))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def damage(member) -> Path:
    path = oldest_log(member)
    flip(path, 200)
    return path


@contextlib.contextmanager
def stopped_after_writes(tmp_path):
    """Three members that have lived, and are stopped."""
    with unstarted(tmp_path, 3) as ensemble:
        for member in ensemble.members:
            member.start()
        ensemble.wait()
        with kazoo_of(*ensemble.members) as client:
            for number in range(20):
                client.create(f"/{number}", b"x" * 100)
        for member in ensemble.members:
            member.stop()
        yield ensemble


@pytest.mark.long
def test_a_damaged_member_is_filled_by_the_others_and_keeps_what_it_had(tmp_path):
    with stopped_after_writes(tmp_path) as ensemble:
        first, *others = ensemble.members
        path = damage(first)
        before = path.read_bytes()
        for member in ensemble.members:
            member.start()
        first.wait_until_it_says(SAYS)
        assert f'damage="version-1/{path.name} at offset ' in first.log_text()
        ensemble.wait()
        with kazoo_of(first) as client:
            assert len(client.get_children("/")) == 21
        beside = first.directory / "version-1.damaged"
        assert (beside / path.name).read_bytes() == before
        first.wait_until(lambda: (first.directory / "version-1" / "member").exists())
        # It counts again: with one other it is a quorum.
        first.stop()
        first.start()
        others[0].kill()
        ensemble.wait(members=[first, others[1]])
        assert first.log_text().count(SAYS) == 1


@pytest.mark.long
def test_a_hole_is_filled_by_one_other_though_no_quorum_is_left_without_this_member(tmp_path):
    with stopped_after_writes(tmp_path) as ensemble:
        first, second, _ = ensemble.members
        damage(first)
        first.start()
        first.wait_until_it_says(SAYS)
        first.wait_until_it_says("no service: there is no quorum; ")
        second.start()
        first.wait_until_it_says("the hole in the log is filled")
        ensemble.wait(members=[first, second])
        with kazoo_of(first, second) as client:
            assert len(client.get_children("/")) == 21
            client.create("/after", b"")
        assert not (first.directory / "version-1.damaged").exists()
        first.stop()
        first.start()
        ensemble.wait(members=[first, second])
        assert first.log_text().count(SAYS) == 1
        assert "link is refused" not in first.log_text(), "it has asked itself"


@pytest.mark.long
def test_members_with_holes_in_different_places_fill_each_other(tmp_path):
    with stopped_after_writes(tmp_path) as ensemble:
        first, second, _ = ensemble.members
        flip(oldest_log(first), 200)
        flip(oldest_log(second), 1500)
        for member in (first, second):
            member.start()
        for member in (first, second):
            member.wait_until_it_says("the hole in the log is filled")
        ensemble.wait(members=[first, second])
        with kazoo_of(first, second) as client:
            assert len(client.get_children("/")) == 21


@pytest.mark.longest
def test_where_all_are_damaged_in_one_place_nothing_is_begun_and_nothing_is_changed(tmp_path):
    with stopped_after_writes(tmp_path) as ensemble:
        damaged = ensemble.members
        paths = [damage(member) for member in damaged]
        before = [path.read_bytes() for path in paths]
        for member in ensemble.members:
            member.start()
        for member in damaged:
            member.wait_until_it_says("no service: there is no quorum; ")
            assert member.mode() == ""
            assert "no data, or lost it" in member.log_text()
        assert [path.read_bytes() for path in paths] == before
        assert not any((member.directory / "version-1.damaged").exists() for member in damaged)
        # Anyone who can put a copy right, has everything again.
        for member in damaged[1:]:
            member.stop()
            flip(oldest_log(member), 200)
            member.start()
        ensemble.wait()
        with kazoo_of(*ensemble.members) as client:
            assert len(client.get_children("/")) == 21


@pytest.mark.long
def test_a_running_member_finds_damage_and_the_next_start_finds_none(tmp_path):
    with servers(tmp_path, 3, "scrub.intervalSeconds=1", "snapCount=50", "log.level=debug") as ensemble:
        victim = ensemble.members[0]
        with kazoo_of(*ensemble.members) as client:
            for number in range(120):
                client.create(f"/{number}", b"x" * 100)
            victim.wait_until(lambda: list((victim.directory / "version-1").glob("snapshot.*[0-9a-f]")))
            flip(oldest_log(victim), 200)
            victim.wait_until_it_says(
                f'as reading through all of them shows damage="version-1/{oldest_log(victim).name} '
            )
            newest = max(
                (victim.directory / "version-1").glob("snapshot.*[0-9a-f]"), key=lambda path: path.stat().st_mtime
            )
            flip(newest, 300)
            victim.wait_until_it_says(f'as reading through all of them shows damage="version-1/{newest.name} ')
            assert (victim.directory / "version-1.damaged" / newest.name).exists()
            flip(victim.directory / "version-1" / "currentEpoch", 0)
            victim.wait_until_it_says('as reading through all of them shows damage="version-1/currentEpoch ')
            victim.wait_until_it_says("-> a snapshot of the tree at ")
            victim.wait_until_it_says(
                "all files are read through", victim.log_text().count("all files are read through") + 2
            )
            client.create("/after", b"")
        victim.stop()
        victim.start()
        ensemble.wait()
        assert SAYS not in victim.log_text()
        assert "amnesiac=true" not in victim.log_text().rpartition("recovered zxid=")[2]
        with kazoo_of(victim) as client:
            assert len(client.get_children("/")) == 122


def test_a_standalone_server_repairs_what_it_still_knows(tmp_path):
    with servers(tmp_path, 1, "scrub.intervalSeconds=1") as ensemble:
        [server] = ensemble.members
        with kazoo_of(server) as client:
            for number in range(20):
                client.create(f"/{number}", b"x" * 100)
            flip(oldest_log(server), 200)
            server.wait_until_it_says("-> a snapshot of the tree at ")
            server.wait_until_it_says("snapshot is written")
            client.create("/after", b"")
        server.stop()
        server.start()
        ensemble.wait()
        with kazoo_of(server) as client:
            assert len(client.get_children("/")) == 22
