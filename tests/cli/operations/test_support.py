"""`zab support`: what is in the file, and what never is."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path

from tests.cli.commands import Run, run
from tests.cli.json_page import FIELDS
from tests.rigs.admin_servers import lines_of
from tests.rigs.certificates import Certificates, quorum_store_lines
from tests.rigs.zab_server import zab_servers
from zab.testing.kit.ports import free_ports

__all__ = ["run"]

HASH = "VWtk8RlLl86/uVG5FIHgpHieL2Q="
"""The superDigest of super:wire."""
KEY_PASSWORD = "the-password-of-a-key"
SASL_PASSWORD = "the-password-of-alice"


def texts(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        found = {}
        for info in tar.getmembers():
            file = tar.extractfile(info)
            assert file is not None
            found[info.name.removeprefix("zab-support/")] = file.read().decode()
        return found


def test_no_secret_is_in_it(tmp_path: Path, run: Run) -> None:
    """A member with every kind of secret, whose journal was told all of them."""
    secret, users, journal = tmp_path / "secret", tmp_path / "users", tmp_path / "journal.log"
    assert run("secret", secret) == 0
    users.write_text(f"alice:{SASL_PASSWORD}\n")
    users.chmod(0o600)
    member = Certificates(tmp_path).member("localhost")
    ports = free_ports(2)
    lines = {
        **lines_of(*ports),
        **quorum_store_lines(member),
        "admin.portUnification": "true",
        "ssl.quorum.keyStore.password": KEY_PASSWORD,
        "quorum.secretFile": secret,
        "log.file": journal,
        "x.unknownPassword": "unknown-to-all",
    }
    with zab_servers(1, directory=tmp_path / "members", configuration=lines) as servers:
        file = tmp_path / "members" / "server1" / "zoo.cfg"
        file.write_text(file.read_text() + f"sasl.usersFile={users}\n# {KEY_PASSWORD}\n")
        told = "\n".join((KEY_PASSWORD, SASL_PASSWORD, secret.read_text(), f"digest:super:{HASH}", "auth-of-mine", ""))
        with journal.open("a") as writing:
            writing.write(f"{told}\nthe link to leader 3 broke\n")
        auth = tmp_path / "auth"
        auth.write_text("digest:me:auth-of-mine\n")
        auth.chmod(0o600)
        to = tmp_path / "bundle.tar.gz"
        words = ("--auth", f"@{auth}", "-s", servers.hosts, "support", file, "--to", to, "--json")
        assert run(*words, "--admin", f"127.0.0.1:{ports[0]}") == 0, run.err
    value = json.loads(run.out)
    assert list(value) == FIELDS["support"]
    found = texts(to)
    assert sorted(found) == value["files"]
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    everything = "\n".join((*found, *found.values()))
    key = "".join((member / "keystore.pem").read_text().split("-----")[2].split())
    for each in (
        *(KEY_PASSWORD, SASL_PASSWORD, HASH, HASH[:12], "auth-of-mine", "unknown-to-all", key[:20], "PRIVATE KEY"),
        *(word for word in secret.read_text().split() if len(word) > 20),
    ):
        assert each not in everything, each
    # What helps is there.
    assert "the link to leader 3 broke" in found["logs/1-journal.log"]
    assert "tickTime=" in found["configuration/1-zoo.cfg"]
    assert "ssl.quorum.keyStore.password=(left out)" in found["configuration/1-zoo.cfg"]
    assert '"server_state": "standalone"' in found["status.json"]
    assert "DigestAuthenticationProvider.superDigest=(left out)" in found["configuration/1-zoo.cfg"]
    for name, text in found.items():
        if name.endswith(".json"):
            assert [json.loads(each) for each in ([text] if text.startswith("{\n") else text.splitlines())], name
    monitor = next(text for name, text in found.items() if name.endswith("/monitor.json"))
    assert json.loads(monitor)["znode_count"] > 0
    # What a command refuses is what it says.
    leader = next(text for name, text in found.items() if name.endswith("/leader.json"))
    assert json.loads(leader)["error"] == "server is not initialized"
    assert value["missing"] == []
    assert run.err == ""


def test_what_cannot_be_reached_is_said(tmp_path: Path, run: Run) -> None:
    one, two = free_ports(2)
    to = tmp_path / "b.tar.gz"
    words = ("-s", f"127.0.0.1:{one}", "--wait", "1", "support", tmp_path / "no.cfg", "--to", to)
    assert run(*words, "--admin", f"127.0.0.1:{two}", "--json") == 1
    found = texts(to)
    assert "unreachable" in found["status.json"]
    assert "it cannot be read" in found["check/1-no.cfg.json"]
    assert [name for name in found if name.startswith("admin/")] == [f"admin/127.0.0.1_{two}/missing.txt"]
    assert found[f"admin/127.0.0.1_{two}/missing.txt"] == "Connection refused\n"
    said = {f"127.0.0.1:{one}", f"127.0.0.1:{two}", str(tmp_path / "no.cfg")}
    missing = json.loads(run.out)["missing"]
    assert {each["name"] for each in missing} == said
    assert all(run.err.count(f"zab: {each}: ") == 1 for each in said), run.err
    assert run.err.endswith(f"zab: {to} is not whole: what is said above is not in it\n")
    assert run(*words) == 2, "it is there already"
    assert run("-s", f"127.0.0.1:{one}", "--wait", "1", "support", "--to", tmp_path / "no" / "b") == 1


def test_a_journal_that_no_configuration_names_is_given(tmp_path: Path, run: Run) -> None:
    journal, file = tmp_path / "server.log", tmp_path / "zoo.cfg"
    journal.write_text("it began\nDigestAuthenticationProvider.superDigest=a:b password=geheim99\n")
    file.write_text(f"dataDir={tmp_path}\nclientPort=1\n")
    [port] = free_ports(1)
    words = ("-s", f"127.0.0.1:{port}", "--wait", "1", "support", file)
    assert run(*words, "--to", tmp_path / "without") == 1
    assert f"{file} names no log.file: its journal is where its standard error goes" in run.err
    found = texts(tmp_path / "without")
    assert not any(name.startswith("logs/") for name in found)
    verdict = {"type": "configuration", "file": str(file), "is_good": True, "exit_code": 0}
    assert json.loads(found["check/1-zoo.cfg.json"]) == verdict
    to = tmp_path / "with"
    assert run(*words, "--to", to, "--log", journal, "--log", tmp_path / "nowhere") == 1
    assert "names no log.file" not in run.err
    assert f"zab: {tmp_path / 'nowhere'}: it cannot be read: No such file" in run.err
    found = texts(to)
    assert found["logs/given-1-server.log"].startswith("it began\n")
    assert "geheim99" not in found["logs/given-1-server.log"]
    assert "it cannot be read" in found["logs/given-2-nowhere"]


def test_only_the_end_of_a_long_journal(tmp_path: Path, run: Run) -> None:
    journal, file = tmp_path / "j.log", tmp_path / "zoo.cfg"
    journal.write_text("".join(f"line {number}\n" for number in range(1000)))
    Path(f"{journal}.1").write_text("older\n")
    audit = tmp_path / "audit.log"
    audit.write_text("user=bob\n")
    file.write_text(f"dataDir={tmp_path}\nclientPort=1\nlog.file={journal}\naudit.enable=true\naudit.file={audit}\n")
    [port] = free_ports(1)
    for number, more in enumerate(((), ("--audit",))):
        to = tmp_path / f"{number}.tar.gz"
        words = ("-s", f"127.0.0.1:{port}", "--wait", "1", "support", file, "--to", to, "--log-bytes", "100", *more)
        assert run(*words) == 1
        assert run.err.count("zab: ") == 2, "of the server, and of the whole"
        found = texts(to)
        assert found["logs/1-j.log"].startswith("line 9")
        assert found["logs/1-j.log"].endswith("line 999\n")
        assert found["logs/1-j.log.1"] == "older\n"
        assert ("logs/1-audit.log" in found) is bool(more)


def test_an_admin_port_whose_certificate_is_not_trusted_is_said_once(tmp_path: Path, run: Run) -> None:
    member = Certificates(tmp_path).member("localhost")
    ports = free_ports(2)
    lines = {**lines_of(*ports), **quorum_store_lines(member), "admin.portUnification": "true"}
    with zab_servers(1, directory=tmp_path / "members", configuration=lines) as servers:
        to = tmp_path / "bundle.tar.gz"
        admin = f"127.0.0.1:{ports[0]}"
        words = ("-s", servers.hosts, "support", "--to", to, "--admin", f"https://{admin}")
        assert run(*words) == 1
        assert run.err.count(admin) == 1, run.err
        assert "certificate" in run.err
        found = texts(to)
        [missing] = [text for name, text in found.items() if name.startswith("admin/")]
        assert "certificate" in missing
        to.unlink()
        assert run("-s", servers.hosts, "support", "--to", to, "--admin", admin) == 0, run.err
        assert run.err == ""
