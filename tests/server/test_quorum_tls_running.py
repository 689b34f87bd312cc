"""TLS between members, as real processes: it comes, and its certificates change, and no client notices."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Run, run
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember
from tests.server.leaders import handshake, leader_of
from tests.server.quorum_tls import HOSTS, add, give, make_certificates, members_on_hosts, start, store_lines
from tests.server.snapshot_fetching import SMALL_LOGS, check_that_a_snapshot_is_fetched
from tests.server.writer import Writer, restart
from zab.cli.servers.certificate_files import QUORUM_TRUST_STORE
from zab.testing.kit.ports import free_ports

__all__ = ["run"]

pytestmark = pytest.mark.process


def change_lines(ensemble: ZooKeeperEnsemble, change: Callable[[str], str]) -> None:
    """One member after the other is stopped, gets another file, and is started again."""
    for member in ensemble.members:
        member.stop()
        member.config.write_text(change(member.config.read_text()))
        member.start()
        ensemble.wait()


def links_since_start(member: ZooKeeperMember) -> list[str]:
    return [
        line for line in member.log_text().rpartition(" listening ")[2].splitlines() if " zab.links link is up " in line
    ]


@pytest.mark.long
def test_running_ensemble_changes_to_tls_and_nobody_notices(tmp_path: Path) -> None:
    make_certificates(tmp_path / "certificates")
    with members_on_hosts(tmp_path) as ensemble:
        start(ensemble)
        with Writer(ensemble.hosts) as writer:
            stores = {
                member.server_id: "".join(f"{line}\n" for line in store_lines(tmp_path / "certificates" / host))
                for member, host in zip(ensemble.members, HOSTS, strict=True)
            }
            for member in ensemble.members:
                add(member, stores[member.server_id].rstrip())
                restart(member, "portUnification=true")
                ensemble.wait()
                writer.check()
            change_lines(ensemble, lambda text: f"{text}sslQuorum=true\n")
            writer.check()
            change_lines(ensemble, lambda text: text.replace("portUnification=true\n", ""))
            writer.check()
            # Who was started last has no link of the time before.
            up = links_since_start(ensemble.members[-1])
            assert up
            assert all("proven=true" in line for line in up)


def replace_files(source: Path, target: Path, *names: str) -> None:
    """Each as one, as `zab certs --renew` does."""
    for name in names:
        aside = target / f".{name}"
        shutil.copy(source / name, aside)
        aside.replace(target / name)


def all_say(ensemble: ZooKeeperEnsemble, text: str, times: int) -> None:
    for member in ensemble.members:
        member.wait_until_it_says(text, times)


@pytest.mark.longest
def test_certificates_change_to_those_of_another_authority_while_members_run(tmp_path: Path) -> None:
    """As docs/how-to/secure.md says it: first both are believed, then new ones are shown, then only they are
    believed."""
    old, new = tmp_path / "old", tmp_path / "new"
    make_certificates(old)
    make_certificates(new)
    store = f"{QUORUM_TRUST_STORE}.pem"
    reloaded = "there are other certificates of members"
    with members_on_hosts(tmp_path) as ensemble:
        give(ensemble, old, "sslQuorum=true", "sslQuorumReloadCertFiles=true")
        start(ensemble)
        given = handshake(ensemble.members[0])
        [key] = {session_keys(member) for member in ensemble.members}
        with Writer(ensemble.hosts) as writer:
            for host in HOSTS:
                both = tmp_path / "both"
                both.mkdir(exist_ok=True)
                (both / store).write_bytes((old / host / store).read_bytes() + (new / host / store).read_bytes())
                replace_files(both, old / host, store)
            all_say(ensemble, reloaded, 1)
            for host in HOSTS:
                replace_files(new / host, old / host, "keystore.pem")
            all_say(ensemble, reloaded, 2)
            for host in HOSTS:
                replace_files(new / host, old / host, store)
            all_say(ensemble, reloaded, 3)
            writer.check()
            # The next leader, which has read the stores again, makes another key for the passwords of sessions.
            restart(leader_of(ensemble))
            ensemble.wait()
            for member in ensemble.members:
                assert session_keys(member).split()[1] != key.split()[1]
                assert key.split()[1] in session_keys(member)
            # Connections that there are go on; those that are made from now on show the new ones.
            for member in ensemble.members:
                restart(member)
                ensemble.wait()
            writer.check()
        for member in ensemble.members:
            given = handshake(member, given.session_id, given.password)
            assert given.session_id


def session_keys(member: ZooKeeperMember) -> str:
    return (member.directory / "version-1" / "sessionKeys").read_text()


@pytest.mark.long
def test_member_that_lost_its_data_fetches_a_snapshot_inside_of_tls(tmp_path: Path) -> None:
    make_certificates(tmp_path / "certificates")
    with members_on_hosts(tmp_path, *SMALL_LOGS) as ensemble:
        give(ensemble, tmp_path / "certificates", "sslQuorum=true")
        start(ensemble)
        check_that_a_snapshot_is_fetched(ensemble)


def test_members_on_other_machines_need_a_proof_and_a_certificate_is_one(tmp_path: Path) -> None:
    """While who comes without TLS is taken, there is none."""
    make_certificates(tmp_path / "certificates")
    with members_on_hosts(tmp_path) as ensemble:
        give(ensemble, tmp_path / "certificates", "sslQuorum=true", "portUnification=true")
        [first, *_] = ensemble.members
        text = first.config.read_text().replace("server.3=127.0.0.3:", "server.3=192.0.2.1:")
        first.config.write_text(text)
        assert first.start().wait() == 2
        assert "have to prove who they are" in first.log_text()
        first.config.write_text(text.replace("portUnification=true\n", ""))
        first.start().wait_until_it_says(" listening ")
        assert "members are not authenticated" not in first.log_text().rpartition("have to prove who they are")[2]


@pytest.mark.long
def test_lines_that_zab_certs_prints_start_an_ensemble(tmp_path: Path, run: Run) -> None:
    with members_on_hosts(tmp_path) as ensemble:
        config = ensemble.members[0].config
        assert run("certs", tmp_path / "c", "--zoo-cfg", config, "--place", tmp_path / "PLACE") == 0, run.err
        [lines] = re.findall(r"^secureClientPort=.*?(?=\n\n)", run.out, re.S | re.M)
        ports = free_ports(3)
        for member, host, port in zip(ensemble.members, HOSTS, ports, strict=True):
            own = lines.replace(str(tmp_path / "PLACE"), str(tmp_path / "c" / "members" / host))
            add(member, own.replace("secureClientPort=2281", f"secureClientPort={port}"))
        start(ensemble)
        for member in ensemble.members:
            assert all("proven=true" in line for line in links_since_start(member))
        assert run("certs", tmp_path / "c", "--renew") == 0, run.err
        all_say(ensemble, "there are other certificates of members", 1)


@pytest.mark.long
def test_store_that_the_others_would_refuse_leaves_the_one_before_and_says_so(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "certificates")
    expired = certificates.member(HOSTS[0], begins_in=-20, name="expired")
    with members_on_hosts(tmp_path) as ensemble:
        give(ensemble, tmp_path / "certificates", "sslQuorum=true", "sslQuorumReloadCertFiles=true")
        start(ensemble)
        first, second, third = ensemble.members
        replace_files(expired, tmp_path / "certificates" / HOSTS[0], "keystore.pem")
        first.wait_until_it_says("the certificates of members cannot be used -> those before stay")
        assert "certificate has expired" in first.log_text()
        # It goes on with the one before: the others come back to it.
        restart(second)
        restart(third)
        ensemble.wait()
        first.stop()
        assert first.start().wait() == 2
        assert "ssl.quorum.keyStore.location" in first.log_text()
