"""Real processes begin an ensemble: all voters, or a quorum of marked ones, and nobody else."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import call
from tests.rigs.kazoo_client import kazoo_of
from tests.rigs.zab_server import unstarted

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "recover.md").read_text(encoding="utf-8")


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
        ensemble.wait(members=[first, second])
        assert not is_marked(first)
        assert not is_marked(second)
        with kazoo_of(first, second) as client:
            client.create("/a", b"1")
        mark(third)
        start(third)
        ensemble.wait()
        assert "tells of a history: the file initialize does not count" in third.log_text()
        assert not is_marked(third)
        with kazoo_of(third) as client:
            client.sync("/a")
            assert client.get("/a")[0] == b"1"
        third.stop()
        mark(third)
        start(third)
        third.wait_until_it_says("it says that this member never had data, but it has, or had")
        assert not is_marked(third)
        ensemble.wait()


def test_a_healthy_first_start_counts_no_intruder(tmp_path):
    with unstarted(tmp_path, 3, "audit.enable=true") as ensemble:
        first, *others = ensemble.members
        start(first)
        # It dials two that are not there yet, and they dial it while it dials them.
        first.wait_until_it_says("listening")
        start(*others)
        ensemble.wait()
        for member in ensemble.members:
            assert "zk_members_refused\t0\n" in member.word("mntr")
        for member in ensemble.members:
            member.stop()
            audited = (member.directory / "audit.log").read_text().splitlines()
            assert audited[0].endswith("operation=serverStart\tresult=success")
            assert [line for line in audited if " ERROR " in line] == []
            assert "TooSlowError" not in member.log_text()


@pytest.mark.long
def test_who_is_missing_at_a_first_start_is_said_to_clients(tmp_path, capsys):
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        start(first, second)
        for member in (first, second):
            member.wait_until_it_says("election link is up")
        expected = "no service: server 3 was not heard. No member that was heard has any data, so this is a first start"
        for member in (first, second):
            answer = call(capsys, "-s", f"127.0.0.1:{member.client_port}", "--wait", "2", "ls", "/")
            assert answer.code == 3
            assert f"127.0.0.1:{member.client_port}: {expected}" in answer.err.replace("\n", " ")
        start(third)
        ensemble.wait()


@pytest.mark.long
def test_a_member_that_is_not_in_the_configuration_is_called_that(tmp_path):
    with unstarted(tmp_path, 4) as ensemble:
        *others, fourth = ensemble.members
        for member in others:
            lines = member.config.read_text().splitlines()
            member.config.write_text("\n".join(line for line in lines if not line.startswith("server.4=")) + "\n")
        start(*ensemble.members)
        ensemble.wait(members=others)
        for member in others:
            said = f"server 4 is not in the configuration of server {member.server_id}"
            fourth.wait_until_it_says(f"server {member.server_id} refuses: {said}")
            member.wait_until_it_says(f'election connection is closed reason="{said}"')
        fourth.wait_until_it_says("no service: servers 1, 2, 3 do not know server 4: add it with `zab reconfig add`")
        assert "first start" not in fourth.log_text()


def test_one_marked_voter_of_three_waits_for_all_of_them(tmp_path):
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        mark(first)
        start(first, second)
        first.wait_until_it_says("listening")
        second.wait_until_it_says("listening")
        start(third)
        ensemble.wait()
        assert "of marked, empty voters" not in "".join(member.log_text() for member in ensemble.members)


@pytest.mark.long
def test_markers_of_wiped_members_count_for_nothing_while_somebody_has_a_history(tmp_path):
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        start(first, second, third)
        ensemble.wait()
        with kazoo_of(first, second, third) as client:
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
        assert [member for member in ensemble.members if member.mode()] == []


# ---------------------------------------------------------------------------------------------- when a majority is lost


def commands_of_the_page():
    """(command, lines it prints) of the section, in order."""
    section = PAGE.split("\n## When a majority is lost\n")[1].split("\n## ")[0]
    for block in re.findall(r"```console\n\$ (.*?)```", section, re.S):
        command, *printed = block.splitlines()
        yield command, printed


def run_as_shown(command, directory):
    """The exit code, and what it prints, as if the directory were that of the page."""
    words = [str(directory) if word == "/var/lib/zab" else word for word in shlex.split(command)]
    assert words[0] == "zab"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": path})
    # What it says on standard error comes last, as a terminal shows it.
    return done.returncode, (done.stdout + done.stderr).replace(str(directory), "/var/lib/zab").splitlines()


def without_values(lines):
    """What is the same every time."""
    values = r"\b(0x[0-9a-f]+|[0-9a-f]{32}|[0-9-]{10}T[0-9:.+]+|(?<=[.-])[0-9a-f]{9}|[0-9]+ znodes|[0-9]+ sessions?)\b"
    return [re.sub(values, "…", line) for line in lines]


@pytest.mark.long
def test_what_one_member_has_begins_a_new_ensemble_when_two_of_three_lost_their_data(tmp_path):
    """B4, through the commands that the page shows."""
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        start(first, second, third)
        ensemble.wait()
        with kazoo_of(third) as client:
            client.create("/a", b"1")
            for number in range(100):
                client.create(f"/a/{number}", b"%d" % number)
            last_zxid = client.set("/a", b"2").mzxid
        for member in ensemble.members:
            member.stop()
        wipe(first, second)
        start(first, second, third)
        for member in (first, second):
            member.wait_until_it_says("amnesiac=true", 2)
        third.wait_until_it_says("recovered", 2)
        assert [member for member in ensemble.members if member.mode()] == []
        for member in ensemble.members:
            member.stop()
        shown = list(commands_of_the_page())
        for (command, printed), expected in zip(shown, (0, 0), strict=True):
            code, lines = run_as_shown(command, third.directory)
            assert (code, without_values(lines)) == (expected, without_values(printed))
        wipe(first, second)
        start(first, third)
        first.wait_until_it_says("listening", 3)
        third.wait_until_it_says("listening", 3)
        assert first.mode() == third.mode() == ""
        start(second)
        ensemble.wait()
        for member in ensemble.members:
            with kazoo_of(member) as client:
                client.sync("/a")
                assert client.get("/a")[0] == b"2"
                assert {client.get(f"/a/{name}")[0] for name in client.get_children("/a")} == {
                    b"%d" % number for number in range(100)
                }
                assert client.create(f"/new{member.server_id}", b"", include_data=True)[1].czxid > last_zxid
        second.kill()
        ensemble.wait(members=[first, third])


@pytest.mark.long
def test_another_member_with_old_data_keeps_the_new_ensemble_from_beginning(tmp_path):
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        start(first, second, third)
        ensemble.wait()
        with kazoo_of(third) as client:
            client.create("/a", b"1")
            client.sync("/a")
        for member in ensemble.members:
            member.stop()
        wipe(first)
        assert run_as_shown("zab recover --force /var/lib/zab", third.directory)[0] == 0
        start(first, second, third)
        for member in ensemble.members:
            member.wait_until_it_says("listening", 2)
        assert [member for member in ensemble.members if member.mode()] == []
        second.stop()
        wipe(second)
        start(second)
        ensemble.wait()
        with kazoo_of(second) as client:
            assert client.get("/a")[0] == b"1"
