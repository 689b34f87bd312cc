"""What docs/how-to/use-tls.md says of certificates is what happens: its commands are run, in order."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import Run, run

__all__ = ["run"]

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "use-tls.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Certificates\n", 1)[1].split("\n## ", 1)[0]


def test_the_commands_make_add_renew_and_revoke_certificates(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zoo.cfg").write_text("server.1=zab1:2888:3888\nserver.2=zab2:2888:3888\nserver.3=zab3:2888:3888\n")
    said = []
    for command in re.findall(r"^\$ zab (certs .*)$", SECTION, re.M):
        assert run(*command.split()) == 0, run.err
        said.append(run.out)
    first, added, renewed, revoked = said
    (lines,) = re.findall(r"^```\n(secureClientPort.*?)^```$", SECTION, re.S | re.M)
    assert lines in first
    assert [line.partition(":")[0] for line in added.splitlines()] == ["member zab4", "client alice"]
    assert renewed.count("\n") == 6
    assert revoked.startswith("client alice: 2 more of its certificates are not good any more\nnew: certs/members/zab1")
    assert sorted(os.listdir("certs")) == ["ca", "clients", "members"]
    assert sorted(os.listdir("certs/members")) == ["zab1", "zab2", "zab3", "zab4"]
    assert sorted(os.listdir("certs/clients")) == ["alice", "client"]
    stores = {"keystore", "truststore"}
    expected = {f"{store}.{kind}" for store in stores for kind in ("pem", "p12")} | {"password"}
    assert set(os.listdir("certs/clients/alice")) == expected
    member = {"quorum.truststore.pem", "quorum.truststore.p12"}
    assert set(os.listdir("certs/members/zab1")) == expected | member


def test_what_is_copied_again_takes_the_place_of_what_was_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^\$ (cp .*)$", SECTION, re.M)
    place = tmp_path / "etc" / "tls"
    place.parent.mkdir()
    copy = command.replace("/etc/zab/tls", str(place)).split()
    assert run("certs", "certs", "--host", "zab1", "--place", "/etc/zab/tls") == 0
    assert f"\n{command}\n" in run.out, "the command prints the same"
    for options in ((), ("--renew",)):
        assert not options or run("certs", "certs", *options) == 0
        subprocess.run(copy, check=True)
        made = tmp_path / "certs" / "members" / "zab1"
        assert {path.name: path.read_bytes() for path in place.iterdir()} == {
            path.name: path.read_bytes() for path in made.iterdir()
        }
        assert not any(path.stat().st_mode & 0o077 for path in (place, *place.iterdir()))
