"""What docs/how-to/connect.md shows is what happens: its table is that of the options, and what can be run is run."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.commands import Run, run
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.zab_server import zab_over_tls
from tests.rigs.zookeeper_server import zookeeper
from zab.cli.connection_options import AUTH_VARIABLE, PASSWORD_VARIABLE
from zab.cli.main import build
from zab.cli.profiles import KEYS, read_profile

__all__ = ["run"]

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "connect.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    return PAGE.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]


def rows() -> list[tuple[frozenset[str], str, str]]:
    """(options, variable, key) of the table."""
    found = []
    for line in section("Options, environment, profiles").splitlines():
        if line.startswith("| ") and not line.startswith("| option"):
            options, variable, key, _ = (cell.strip() for cell in line.strip("|").split("|"))
            found.append((frozenset(re.findall(r"`([^`]+)`", options)), variable.strip("`"), key.strip("`")))
    return found


def test_the_table_has_every_option_variable_and_key() -> None:
    root: Any = typer.main.get_command(build(None))
    beside = {"auth": AUTH_VARIABLE}
    keys = {key.parameter: name for name, key in KEYS.items()}
    expected = {(frozenset(), PASSWORD_VARIABLE, "sasl-password")}
    for option in root.params:
        if not {"--version", "--help"} & set(option.opts):
            variable = option.envvar or beside.get(option.name, "")
            expected.add((frozenset([*option.opts, *option.secondary_opts]), variable, keys.get(option.name, "")))
    assert set(rows()) == expected


def test_the_file_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    file = tmp_path / "config.toml"
    file.touch(mode=0o600)
    file.write_text(text)
    assert read_profile(file, None).defaults == {"hosts": "127.0.0.1:2181"}
    assert read_profile(file, "production").defaults["ca"] == str(tmp_path / "production/truststore.pem")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands are run."""
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="module")
def hosts(place: Path) -> Iterator[str]:
    certificates = Certificates(place)
    certificates.client("alice")
    with zab_over_tls(client_store_lines(certificates.member("localhost"))) as (_, hosts):
        yield hosts


def test_the_commands_and_the_program_speak_tls(
    place: Path, hosts: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    said = []
    for command in re.findall(r"^\$ zab (.*)$", section("TLS"), re.M):
        assert run(*command.replace("localhost:2281", hosts).split()) == 0, run.err
        said.append(run.out)
    assert said == ["Created /hello\n", "world\n"]
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    command = [sys.executable, "-W", "error", "-c", program.replace("localhost:2281", hosts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("world\n", "")


@pytest.mark.java
def test_the_login_is_one_that_zookeeper_knows(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jaas").write_text(
        'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="opensesame"; };\n'
    )
    (tmp_path / "password").touch(mode=0o600)
    (tmp_path / "password").write_text("opensesame\n")
    monkeypatch.chdir(tmp_path)
    properties = {
        "java.security.auth.login.config": str(tmp_path / "jaas"),
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    command, identities, *acls = re.findall(r"^\$ zab (.*)$", section("Login"), re.M)
    (tmp_path / "identities").touch(mode=0o600)
    (tmp_path / "identities").write_text("digest:bob:secret\n")
    with zookeeper(1, properties=properties) as servers:
        monkeypatch.setenv("ZAB_HOSTS", servers.hosts)
        assert run(*command.split()) == 0, run.err
        assert "sasl: alice\n" in run.out
        assert run(*identities.split()) == 0, run.err
        assert "digest: bob" in run.out
        for each in acls:
            assert run(*each.split()) == 0, run.err
        assert run.out.startswith("'digest,'bob:")
        assert run("acl", "get", "/mine") == 1
        (tmp_path / "password").write_text("wrong\n")
        assert run(*command.split()) == 1
        assert run.err == "zab: AUTHFAILED: the login: the server refused it\n"
