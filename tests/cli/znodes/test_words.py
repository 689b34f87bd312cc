"""`zab 4lw` against running servers, ours and ZooKeeper's, and against what is none."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Result, call
from tests.client.running import KINDS_OF_LONGEST, running
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.zab_server import zab_over_tls
from zab.testing.kit.ports import free_ports


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {"4lw.commands.whitelist": "srvr, mntr, gtmk, stmk, hash"}) as servers:
        yield servers.hosts


@pytest.fixture
def zab(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    return lambda *words: call(capsys, *words)


def test_a_word_is_answered(hosts: str, zab: Callable[..., Result]) -> None:
    code, out, err = zab("-s", hosts, "4lw", "srvr")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"Zookeeper version: 3\.9\.5.*\nMode: standalone\nNode count: \d+\n", out, re.S)


def test_tabs_stay(hosts: str, zab: Callable[..., Result]) -> None:
    assert "\nzk_server_state\tstandalone\n" in zab("-s", hosts, "4lw", "mntr").out


def test_the_mask_of_stmk(hosts: str, zab: Callable[..., Result]) -> None:
    assert zab("-s", hosts, "4lw", "stmk", "306") == (0, "306\n", "")
    assert zab("-s", hosts, "4lw", "gtmk").out == "306\n"


def test_a_digest_log_may_be_empty(hosts: str, zab: Callable[..., Result]) -> None:
    assert zab("-s", hosts, "4lw", "hash").code == 0


def test_a_refusal_and_an_unknown_word_are_said(hosts: str, zab: Callable[..., Result]) -> None:
    refused = "wchp is not executed because it is not in the whitelist."
    assert zab("-s", hosts, "4lw", "wchp") == (1, "", f"zab: {hosts}: {refused}\n")
    code, out, err = zab("-s", hosts, "4lw", "nope")
    # ZooKeeper may reset the connection.
    assert (code, out) in {(1, ""), (3, "")}
    assert err


def test_each_server_is_asked_and_one_that_is_not_there_is_named(hosts: str, zab: Callable[..., Result]) -> None:
    [port] = free_ports(1)
    code, out, err = zab("-s", f"{hosts},127.0.0.1:{port}", "4lw", "srvr")
    assert code == 3
    assert out.startswith(f"--- {hosts}\nZookeeper version: ")
    assert err.startswith(f"zab: 127.0.0.1:{port}: ")
    code, out, _ = zab("-s", f"{hosts},{hosts}", "4lw", "--json", "gtmk")
    one = {"server": hosts, "word": "gtmk", "answer": "306"}
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, [one, one])


@pytest.mark.parametrize("words", [("srv",), ("srvr5",), ("s vr",), ("stmk",), ("srvr", "1")])
def test_wrong_usage(words: tuple[str, ...], zab: Callable[..., Result]) -> None:
    assert zab("-s", "127.0.0.1:1", "4lw", *words).code == 2


def test_over_tls(zab: Callable[..., Result], tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    alice, bob = (certificates.client(name) for name in ("alice", "bob"))
    with zab_over_tls(client_store_lines(certificates.member("localhost"))) as (member, host):
        own = ("--ca", str(alice / "truststore.pem"), "--cert", str(alice / "keystore.pem"))
        assert "Mode: standalone\n" in zab("-s", host, *own, "4lw", "srvr").out
        code, _, err = zab("-s", host, "--ca", str(bob / "truststore.pem"), "4lw", "srvr")
        assert (code, err.partition(" it ")[0]) == (3, f"zab: {host}:")
        assert zab("-s", member.host, *own, "4lw", "srvr").code == 3


def test_a_server_that_says_nothing_is_given_up(zab: Callable[..., Result]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host = f"127.0.0.1:{mute.getsockname()[1]}"
        assert zab("-s", host, "4lw", "srvr", "--timeout", "0.2").code == 124


def test_an_answer_commands_no_terminal(zab: Callable[..., Result]) -> None:
    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            assert connection.recv(4) == b"wchp"
            connection.sendall(b"/a\x1b[2J\n\t0x1\n\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        code, out, _ = zab("-s", f"127.0.0.1:{listening.getsockname()[1]}", "4lw", "wchp")
        thread.join()
    assert code == 0
    assert "\x1b" not in out
    assert out.endswith("\n\t0x1\n\n")
