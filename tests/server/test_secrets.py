"""Members that prove who they are, as real processes: a secret comes, changes, and keeps out who has none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.rigs.zab_server import servers, unstarted
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember
from tests.server.leaders import handshake, leader_of
from tests.server.writer import Writer, restart
from zab.host.files.secret_file import add_secret, keep_newest, make_secret_file

pytestmark = pytest.mark.slow


def is_proven(member: ZooKeeperMember) -> bool:
    """Whether all of its links since its last start are with members that have proven who they are."""
    log = member.log_text().rpartition("listening")[2]
    return "proven=true" in log and "proven=false" not in log


def change_secret(secret: str, ensemble: ZooKeeperEnsemble) -> None:
    """Another one takes the place of the one that there is, and no member stops."""
    add_secret(secret)
    for member in ensemble.members:
        member.wait_until_it_says("there are other secrets")
    keep_newest(secret)
    for member in ensemble.members:
        member.wait_until_it_says("there are other secrets", 2)


def copy_to_all(secret: Path, ensemble: ZooKeeperEnsemble) -> None:
    """As on machines of their own: each member has a file of its own."""
    for member in ensemble.members:
        aside = member.config.parent / "secret.copied"
        shutil.copy(secret, aside)
        aside.rename(member.config.parent / "secret")


@pytest.mark.long
def test_secret_is_changed_by_copies_to_all_at_once_and_the_leader_stays(tmp_path: Path) -> None:
    """As docs/how-to/secure.md says it; the leader's copy is the first one."""
    secret = tmp_path / "secret"
    make_secret_file(str(secret))
    with unstarted(tmp_path, 3) as ensemble:
        for member in ensemble.members:
            member.config.write_text(member.config.read_text() + f"quorum.secretFile={member.config.parent}/secret\n")
        copy_to_all(secret, ensemble)
        for member in ensemble.members:
            member.start()
        ensemble.wait()
        with Writer(ensemble.hosts) as writer:
            leader = leader_of(ensemble)
            elections = leader.log_text().count("-> elect")
            ensemble.members.sort(key=lambda member: member is not leader)
            add_secret(str(secret))
            copy_to_all(secret, ensemble)
            for member in ensemble.members:
                member.wait_until_it_says("there are other secrets")
            keep_newest(str(secret))
            copy_to_all(secret, ensemble)
            for member in ensemble.members[1:]:
                member.wait_until_it_says("the secret that proved its identity was removed")
            ensemble.wait()
            leader.wait_until(lambda: leader.log_text().count("link is up") >= 4)
            writer.check()
            assert leader.mode() == "leader"
            assert leader.log_text().count("-> elect") == elections, "it never lost its quorum"
            assert leader.log_text().count("by=secret") >= 4


@pytest.mark.longest
def test_running_ensemble_gets_a_secret_and_another_one_and_nobody_notices(tmp_path: Path) -> None:
    secret = str(tmp_path / "secret")
    with servers(tmp_path, 3) as ensemble, Writer(ensemble.hosts) as writer:
        assert all("proven=false" in member.log_text() for member in ensemble.members)
        make_secret_file(secret)
        for member in ensemble.members:
            restart(member, f"quorum.secretFile={secret}", "quorum.secretRequired=false")
            ensemble.wait()
        for member in ensemble.members:
            member.config.write_text(member.config.read_text().replace("quorum.secretRequired=false\n", ""))
            restart(member)
            ensemble.wait()
        assert is_proven(ensemble.members[2])
        writer.check()
        change_secret(secret, ensemble)
        writer.check()
        # Who starts has the new one alone.
        restart(ensemble.members[0])
        ensemble.wait()
        assert is_proven(ensemble.members[0])
        writer.check()


@pytest.mark.long
def test_member_without_the_secret_of_the_others_stays_out_and_hears_why(tmp_path: Path) -> None:
    for name in ("secret", "another"):
        make_secret_file(str(tmp_path / name))
    with unstarted(tmp_path, 3, f"quorum.secretFile={tmp_path / 'secret'}") as ensemble:
        _, _, third = ensemble.members
        text = third.config.read_text()
        third.config.write_text(text.replace(str(tmp_path / "secret"), str(tmp_path / "another")))
        for member in ensemble.members:
            member.start()
        third.wait_until_it_says("has none of the secrets of server 1")
        third.wait_until_it_says("has none of the secrets of server 2")
        assert third.mode() == ""
        third.config.write_text(text)
        restart(third)
        ensemble.wait()


@pytest.mark.long
def test_session_outlives_its_leader_and_a_change_of_the_secret(tmp_path: Path) -> None:
    """Its password was made with a key that all members have, the next leader included, and the one after that."""
    secret = str(tmp_path / "secret")
    make_secret_file(secret)
    with servers(tmp_path, 3, f"quorum.secretFile={secret}") as ensemble:
        given = handshake(ensemble.members[0])
        lines = {(member.directory / "version-1" / "sessionKeys").read_text() for member in ensemble.members}
        [line] = lines
        change_secret(secret, ensemble)
        restart(leader_of(ensemble))
        ensemble.wait()
        for member in ensemble.members:
            keys = (member.directory / "version-1" / "sessionKeys").read_text()
            assert keys not in lines, "another secret, another key"
            assert line.split()[1] in keys
            resumed = handshake(member, given.session_id, given.password)
            assert resumed.session_id == given.session_id
            assert handshake(member, given.session_id, resumed.password).session_id == given.session_id
            assert handshake(member, given.session_id, bytes(16)).session_id == 0


def test_nobody_else_on_the_machine_may_read_what_a_member_writes(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as ensemble:
        [member] = ensemble.members
        kept = member.directory / "version-1"
        found = [kept, *kept.iterdir()]
        assert kept / "sessionKeys" in found
        assert not [path for path in found if path.stat().st_mode & 0o077]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "it cannot be read: No such file or directory"),
        (lambda path: (path.write_text("secret\n"), path.chmod(0o600)), ":1: a secret has at least 64"),
        (lambda path: path.write_text("01" * 32), "run `chmod 600"),
    ],
    ids=["absent", "no secret", "for all to read"],
)
def test_file_of_no_use_refuses_the_start_with_2(tmp_path: Path, make, reason: str) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "secret")
    with unstarted(tmp_path, 3, f"quorum.secretFile={tmp_path / 'secret'}") as ensemble:
        member = ensemble.members[0]
        assert member.start().wait() == 2
        assert "quorum.secretFile: " in member.log_text()
        assert reason in member.log_text()
        assert "01" * 32 not in member.log_text()
