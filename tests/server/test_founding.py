"""Who may begin an ensemble, as real processes: every voter, a quorum of marked ones, and nobody else."""

import contextlib
import shutil

import pytest
from kazoo.client import KazooClient

from tests.server.processes import unstarted

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def kazoo(*members):
    client = KazooClient(hosts=",".join(f"127.0.0.1:{member.client_port}" for member in members), timeout=10.0)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def start(*members):
    for member in members:
        member.start()


def wipe(*members):
    for member in members:
        shutil.rmtree(member.directory / "version-1")


def mark(*members):
    for member in members:
        (member.directory / "initialize").touch()


def is_marked(member):
    return (member.directory / "initialize").exists()


def test_two_marked_voters_of_three_begin_without_the_third(tmp_path):
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        mark(first, second)
        start(first, second)
        ensemble.wait_until_serving([first, second])
        assert not is_marked(first)
        assert not is_marked(second)
        with kazoo(first, second) as client:
            client.create("/a", b"1")
        mark(third)
        start(third)
        ensemble.wait_until_serving()
        assert "tells of a history: the file initialize does not count" in third.log()
        assert not is_marked(third)
        with kazoo(third) as client:
            client.sync("/a")
            assert client.get("/a")[0] == b"1"
        third.stop()
        mark(third)
        start(third)
        third.wait_until_it_says("it says that this member never had data, but it has, or had")
        assert not is_marked(third)
        ensemble.wait_until_serving()


def test_one_marked_voter_of_three_waits_for_all_of_them(tmp_path):
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        mark(first)
        start(first, second)
        first.wait_until_it_says("listening")
        second.wait_until_it_says("listening")
        start(third)
        ensemble.wait_until_serving()
        assert "of marked, empty voters" not in "".join(member.log() for member in ensemble.members)


def test_markers_of_wiped_members_count_for_nothing_while_somebody_has_a_history(tmp_path):
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        start(first, second, third)
        ensemble.wait_until_serving()
        with kazoo(first, second, third) as client:
            client.create("/a", b"1")
            client.sync("/a")
        for member in ensemble.members:
            member.stop()
        wipe(first, second)
        mark(first, second)
        start(third)
        third.wait_until_it_says("listening", 2)
        start(first, second)
        for member in (first, second):
            member.wait_until_it_says("tells of a history: the file initialize does not count")
        assert not ensemble.with_mode("leader")
        assert [member for member in ensemble.members if member.mode is not None] == []
