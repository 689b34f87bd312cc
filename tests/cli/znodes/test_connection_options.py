"""How the znode commands reach their servers: options, the environment, profiles; TLS and a login."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, run, standard_input, started
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_over_tls
from zab.cli.arguments import DEFAULT_HOSTS
from zab.cli.connection_options import AUTH_VARIABLE, PASSWORD_VARIABLE
from zab.client import SaslLogin, Tls, ZabError

__all__ = ["run"]

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file of profiles is; nothing else says anything."""
    for name in list(os.environ):
        if name.startswith("ZAB_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "zab").mkdir(parents=True)
    return tmp_path / "home" / "zab" / "config.toml"


@pytest.fixture
def told(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """What `zab WORDS ls /`, or another command, would tell the client."""

    def call(*words: object, command: Sequence[str] = ("ls", "/")) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def connect(hosts: str, **settings: Any) -> Any:
            seen.update(settings, hosts=hosts)
            raise ZabError("enough")

        monkeypatch.setattr("zab.cli.znodes.opening.connect", connect)
        assert run(*words, *command) == 1, run.err
        assert run.err.endswith("zab: enough\n")
        return seen

    return call


def written(file: Path, text: str) -> Path:
    file.touch(mode=0o600)
    file.write_text(text)
    return file


def default(file: Path, text: str) -> Path:
    """The file has this default profile."""
    return written(file, f"[profiles.default]\n{text}")


def test_nothing_is_encrypted_and_nobody_logs_in_unless_told(told: Callable[..., dict[str, Any]]) -> None:
    assert (told()["tls"], told()["sasl"]) == (None, None)


def test_options_say_how_servers_prove_their_names(told: Callable[..., dict[str, Any]]) -> None:
    assert told("--tls")["tls"] == Tls()
    assert told("--ca", "a.pem")["tls"] == Tls(trust_store="a.pem")
    assert told("--cert", "k.pem")["tls"] == told("--key-store", "k.pem")["tls"] == Tls(key_store="k.pem")
    options = ("--ca", "a.pem", "--key-store", "k.pem", "--password-file", "p", "--no-check-host")
    expected = Tls(trust_store="a.pem", key_store="k.pem", password_file="p", check_host=False)
    assert told("--tls", *options)["tls"] == expected
    assert told("--no-tls", *options)["tls"] is None


@pytest.mark.parametrize("command", ["ledger list", "ledger-log list", "bookie list", "audit status"])
def test_commands_beside_those_for_znodes_have_profiles_too(
    told: Callable[..., dict[str, Any]], home: Path, command: str
) -> None:
    default(home, 'hosts = "file:1"\nca = "ca.pem"\nsasl-user = "alice"\nsasl-password = "x"\nsecure-ledgers = true\n')
    found = told(command=command.split())
    assert (found["hosts"], found["tls"]) == ("file:1", Tls(trust_store=str(home.parent / "ca.pem")))
    assert found["sasl"] == SaslLogin("alice", "x")


VARIABLES = [
    ("ZAB_TLS", "1", "tls", Tls()),
    ("ZAB_CA", "a.pem", "tls", Tls(trust_store="a.pem")),
    ("ZAB_KEY_STORE", "k.pem", "tls", Tls(key_store="k.pem")),
    ("ZAB_HOSTS", "x:1", "hosts", "x:1"),
    (AUTH_VARIABLE, "digest:a:b c\nip:", "auth", [("digest", "a:b c"), ("ip", "")]),
]


@pytest.mark.parametrize(("name", "value", "key", "expected"), VARIABLES)
def test_the_environment_says_the_same(
    told: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    key: str,
    expected: object,
) -> None:
    monkeypatch.setenv(name, value)
    assert told()[key] == expected


def test_the_environment_has_the_rest_too(told: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAB_TLS", "true")
    monkeypatch.setenv("ZAB_PASSWORD_FILE", "p")
    monkeypatch.setenv("ZAB_CHECK_HOST", "0")
    assert told()["tls"] == Tls(password_file="p", check_host=False)


def test_an_option_comes_before_the_environment_and_that_before_the_file(
    told: Callable[..., dict[str, Any]], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default(home, 'hosts = "file:1"\nca = "ca.pem"\nwait = 7\nauth = ["digest:file:x"]\n')
    found = told()
    assert (found["hosts"], found["tls"]) == ("file:1", Tls(trust_store=str(home.parent / "ca.pem")))
    assert (found["settings"].connect_wait_ms, found["auth"]) == (7000, [("digest", "file:x")])
    monkeypatch.setenv("ZAB_HOSTS", "environment:1")
    monkeypatch.setenv("ZAB_CA", "environment.pem")
    monkeypatch.setenv(AUTH_VARIABLE, "digest:environment:x")
    found = told()
    assert (found["hosts"], found["tls"]) == ("environment:1", Tls(trust_store="environment.pem"))
    assert found["auth"] == [("digest", "environment:x")]
    found = told("-s", "option:1", "--ca", "option.pem", "--auth", "digest:option:x", "--wait", "1")
    assert (found["hosts"], found["tls"]) == ("option:1", Tls(trust_store="option.pem"))
    assert (found["settings"].connect_wait_ms, found["auth"]) == (1000, [("digest", "option:x")])
    assert told("--no-tls")["tls"] is None


def test_another_file_is_named_by_the_option_or_the_environment(
    told: Callable[..., dict[str, Any]], home: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    default(home, 'hosts = "home:1"\n')
    one, two = default(tmp_path / "1", 'hosts = "one:1"\n'), default(tmp_path / "2", 'hosts = "two:1"\n')
    monkeypatch.setenv("ZAB_CONFIG", str(one))
    assert told()["hosts"] == "one:1"
    assert told("--config", two)["hosts"] == "two:1"
    assert run("--config", tmp_path / "none", "ls", "/") == 2
    assert run.err == f"zab: {tmp_path / 'none'}: there is no such file\n"


def test_a_profile_is_named_by_the_option_or_the_environment(
    told: Callable[..., dict[str, Any]], home: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("--profile", "one", "ls", "/") == 2
    assert run.err == f"zab: {home}: there is no such file, and so no profile one\n"
    written(home, '[profiles.default]\nhosts = "home:1"\n[profiles.one]\nhosts = "one:1"\nsession-timeout = 7\n')
    other = written(tmp_path / "other", '[profiles.one]\nhosts = "other:1"\n')
    assert told()["hosts"] == "home:1"
    found = told("--profile", "one")
    assert (found["hosts"], found["settings"].session_timeout_ms) == ("one:1", 7000)
    assert told("--profile", "one", "--config", other)["hosts"] == "other:1"
    assert told("--config", other, "--profile", "one")["hosts"] == "other:1"
    assert told("--config", other)["hosts"] == DEFAULT_HOSTS, "without a default profile nothing is told"
    monkeypatch.setenv("ZAB_PROFILE", "one")
    assert told()["hosts"] == "one:1"
    assert told("--profile", "default")["hosts"] == "home:1"
    monkeypatch.setenv("ZAB_HOSTS", "environment:1")
    assert told()["hosts"] == "environment:1"
    assert told("-s", "option:1")["hosts"] == "option:1"
    assert run("--profile", "on", "ls", "/") == 2
    assert run.err == f"zab: {home}: there is no profile on: did you mean one?\n"
    assert run("--profile", "on", "secret", tmp_path / "secret") == 0, "it talks to no server"


def test_identities_of_a_profile_are_in_a_file_beside_it(
    told: Callable[..., dict[str, Any]], run: Run, home: Path
) -> None:
    default(home, 'auth = ["@identities"]\n')
    identities = written(home.parent / "identities", "digest:alice:a\n")
    assert told()["auth"] == [("digest", "alice:a")]
    assert run.err == "zab: enough\n"
    identities.chmod(0o644)
    assert run("ls", "/") == 2
    assert str(identities) in run.err


def test_a_file_that_cannot_be_used_stops_znode_commands_only(run: Run, home: Path, tmp_path: Path) -> None:
    default(home, f'sasl-pasword = "{SECRET}"\n')
    assert run("ls", "/") == 2
    assert run.err.startswith(f"zab: {home}:2: sasl-pasword is no key: did you mean sasl-password?")
    assert SECRET not in run.err
    assert run("secret", tmp_path / "secret") == 0


def test_the_password_of_a_login_comes_from_the_nearest_place(
    told: Callable[..., dict[str, Any]], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default(home, 'sasl-user = "alice"\nsasl-password = "of the file"\n')
    assert told()["sasl"] == SaslLogin("alice", "of the file")
    monkeypatch.setenv(PASSWORD_VARIABLE, "of the environment")
    assert told()["sasl"] == SaslLogin("alice", "of the environment")
    assert told("--sasl-user", "bob")["sasl"] == SaslLogin("bob", "of the environment")
    option = written(tmp_path / "password", "of an option\nmore\n")
    assert told("--sasl-password-file", option)["sasl"] == SaslLogin("alice", "of an option")
    default(home, f'sasl-user = "alice"\nsasl-password-file = "{option}"\n')
    assert told()["sasl"] == SaslLogin("alice", "of the environment")
    monkeypatch.delenv(PASSWORD_VARIABLE)
    assert told()["sasl"] == SaslLogin("alice", "of an option")
    monkeypatch.setenv("ZAB_SASL_USER", "bob")
    monkeypatch.setenv("ZAB_SASL_PASSWORD_FILE", str(written(tmp_path / "other", "of a variable")))
    assert told()["sasl"] == SaslLogin("bob", "of a variable")


@pytest.mark.parametrize("text", ['sasl-password = "hunter2"', 'sasl-password-file = "password"'])
def test_the_files_password_is_for_its_user_alone(run: Run, home: Path, text: str) -> None:
    written(home.parent / "password", SECRET)
    default(home, f'sasl-user = "alice"\n{text}\n')
    with standard_input(""):
        assert run("--sasl-user", "bob", "ls", "/") == 2
    assert run.err.startswith("zab: there is no password for bob: ")


def test_a_password_file_is_for_its_owner_alone(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path / "password", SECRET)
    file.chmod(0o640)
    assert run("--sasl-user", "alice", "--sasl-password-file", file, "ls", "/") == 2
    assert run.err == f"zab: {file}: users other than its owner can use it: run `chmod 600 {file}`\n"
    assert run("--sasl-user", "alice", "--sasl-password-file", tmp_path / "none", "ls", "/") == 2
    assert run.err == f"zab: {tmp_path / 'none'}: it cannot be read: No such file or directory\n"
    assert run("--sasl-user", "alice", "--sasl-password-file", written(tmp_path / "empty", ""), "ls", "/") == 2
    assert "one of them is empty" in run.err
    assert run("--sasl-password-file", file, "ls", "/") == 2
    assert run.err == "zab: there is the password of a login, and no --sasl-user\n"


def test_no_option_takes_a_password(run: Run) -> None:
    assert run("--sasl-password", SECRET, "ls", "/") == 2


def test_identities_come_from_a_file_or_standard_input_and_nobody_sees_them(
    told: Callable[..., dict[str, Any]], run: Run, tmp_path: Path
) -> None:
    file = written(tmp_path / "identities", "digest:alice:a:b\n\ndigest:bob:x")
    both = [("digest", "alice:a:b"), ("digest", "bob:x")]
    assert told("--auth", f"@{file}")["auth"] == both
    with standard_input("digest:eve:y\n"):
        assert told("--auth", "-", "--auth", f"@{file}")["auth"] == [("digest", "eve:y"), *both]
    assert run.err == "zab: enough\n"
    file.chmod(0o644)
    assert run("--auth", f"@{file}", "ls", "/") == 2
    assert run.err == f"zab: --auth: {file}: users other than its owner can use it: run `chmod 600 {file}`\n"
    assert run("--auth", "@", "ls", "/") == 2


def test_credentials_in_the_words_of_a_command_are_warned_of_and_work(
    told: Callable[..., dict[str, Any]], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AUTH_VARIABLE, f"digest:alice:{SECRET}")
    assert told()["auth"] == [("digest", f"alice:{SECRET}")]
    assert run.err == "zab: enough\n"
    assert told("--auth", f"digest:bob:{SECRET}")["auth"] == [("digest", f"bob:{SECRET}")]
    assert run.err.startswith(
        "zab: --auth: others may read credentials in the list of processes: $ZAB_AUTH, --auth @FILE"
    )
    assert SECRET not in run.err


def test_credentials_are_in_no_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUTH_VARIABLE, SECRET)
    assert run("ls", "/") == 2
    assert run.err == "zab: --auth: it is not scheme:credentials\n"


def test_credentials_are_in_no_help(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default(home, f'sasl-user = "alice"\nsasl-password = "{SECRET}"\nauth = ["digest:a:{SECRET}"]\n')
    for words in (["--config", home, "--help"], ["--help"], ["ls", "--help"], ["--config", home, "--help", "ls"]):
        assert run(*words) == 0
        assert SECRET not in run.out


@pytest.mark.process
def test_a_password_is_asked_for_at_a_terminal_and_not_shown(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom zab.cli.arguments import ConnectionOptions\nfrom zab.cli.znodes.opening import login_of\n"
        "found = login_of(ConnectionOptions(sasl_user='alice'))\nprint(len(found.password), found)\n"
    )
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        said = b""
        while not said.endswith(b"Password of alice: "):
            said += os.read(ours, 1)
        os.write(ours, f"{SECRET}\n".encode())
        try:
            while data := os.read(ours, 65536):
                said += data
        except OSError:
            pass
    os.close(ours)
    assert process.returncode == 0, said
    assert f"{len(SECRET)} SaslLogin(user='alice')".encode() in said
    assert SECRET.encode() not in said


# ------------------------------------------------------------------------------------- against a server that speaks TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[tuple[int, str]]:
    """Its plain port, and its hosts for TLS."""
    with zab_over_tls(client_store_lines(certificates.member("localhost"))) as (member, hosts):
        yield member.client_port, hosts


@pytest.fixture(scope="module")
def hosts(server: tuple[int, str]) -> str:
    return server[1]


@pytest.fixture(scope="module")
def alice(certificates: Certificates) -> Path:
    return certificates.client("alice")


def test_commands_and_the_shell_speak_tls(hosts: str, alice: Path, run: Run, home: Path) -> None:
    ca, own = alice / "truststore.pem", alice / "keystore.pem"
    assert run("-s", hosts, "--ca", ca, "--cert", own, "create", "/tls", "hello") == 0
    default(home, f'hosts = "{hosts}"\nca = "{ca}"\nkey-store = "{own}"\n')
    assert run("get", "/tls") == 0
    assert run.out == "hello\n"
    with started("shell") as process:
        out, err = process.communicate("get /tls\n", timeout=PATIENCE_SECONDS)
    assert (out, err) == ("hello\n", "")


def test_what_tls_refuses_is_3_and_said_at_once(server: tuple[int, str], alice: Path, run: Run, home: Path) -> None:
    target, hosts = server
    ca, own = alice / "truststore.pem", alice / "keystore.pem"
    port = hosts.partition(":")[2]
    # Long enough that only what is said at once is said within the test.
    wait = ("--wait", "600")
    assert run(*wait, "-s", hosts, "--tls", "ls", "/") == 3
    assert "no authority that this client trusts signed its certificate" in run.err
    assert run(*wait, "-s", f"127.0.0.1:{port}", "--ca", ca, "--cert", own, "ls", "/") == 3
    assert "its certificate is for another host" in run.err
    assert run("-s", f"127.0.0.1:{port}", "--ca", ca, "--cert", own, "--no-check-host", "ls", "/") == 0
    assert run("--wait", "1", "-s", f"localhost:{target}", "--ca", ca, "ls", "/") == 3
    assert "as a port without TLS does" in run.err


def test_a_store_that_cannot_be_used_is_2(hosts: str, alice: Path, run: Run) -> None:
    assert run("-s", hosts, "--ca", alice / "none.pem", "ls", "/") == 2
    assert run.err == f"zab: the trust store: {alice / 'none.pem'}: it cannot be read: No such file or directory\n"
