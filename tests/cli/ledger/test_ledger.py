"""`zab ledger` on bookies in memory."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.cli.commands import call, started
from tests.cli.ledger.rig import Zab, hosts, lines
from tests.rigs.waiting import PATIENCE_SECONDS

__all__ = ["hosts", "lines"]

pytestmark = pytest.mark.slow


@pytest.fixture
def zab(capfd: pytest.CaptureFixture[str], hosts: str) -> Zab:
    return Zab(capfd, hosts, "ledger")


def test_a_ledger_from_its_creation_to_its_deletion(zab: Zab, lines: Path) -> None:
    [made] = zab.json("create", "--custom", "app=test")
    ledger = made["ledger"]
    [appended] = zab.json("append", ledger, "--file", lines)
    assert appended == {"ledger": ledger, "count": 3, "last": 2, "length": 11}
    assert zab("read", ledger).out == "one\ntwo\nthree\n"
    assert zab("read", ledger, 1, 1).out == "two\n"
    assert [each["data"] for each in zab.json("read", ledger, 1)] == ["two", "three"]
    assert zab("tail", ledger).out == "one\ntwo\nthree\n"
    zab.json("tail", ledger, 2)
    [shown] = zab.json("show", ledger)
    assert (shown["state"], shown["last"], shown["replicas"]) == ("CLOSED", 2, None)
    assert shown["custom"]["app"] == {"data": "test", "encoding": "utf-8"}
    [replicas] = zab.json("show", ledger, "--replicas")
    assert [each["count"] for each in replicas["replicas"]] == [3, 3, 3]
    assert [each["last_confirmed"] for each in replicas["replicas"]] == [None] * 3
    text = zab("show", ledger, "--replicas").out
    assert text.startswith(f"ledger {ledger}: CLOSED with 3 entries, 11 bytes\n")
    assert "confirmed" not in text, "its end says it"
    assert ledger in [each["ledger"] for each in zab.json("list", "--state", "closed")]
    assert f"\n{ledger} " in zab("list").out
    bookie = shown["fragments"][0]["bookies"][0]
    assert ledger in [each["ledger"] for each in zab.json("list", "--bookie", bookie)]
    [checked] = zab.json("check", ledger)
    assert checked["is_whole"]
    assert checked["checked"] == 9
    assert "whole" in zab("check", ledger).out
    assert zab.json("close", ledger) == [{"ledger": ledger, "last": 2, "length": 11}]
    assert zab.json("delete", ledger) == [{"ledger": ledger}]
    assert "no such ledger" in zab("read", ledger, code=1).err
    zab("delete", ledger)


def test_what_is_confirmed_of_an_open_ledger(zab: Zab) -> None:
    [made] = zab.json("create")
    [shown] = zab.json("show", made["ledger"], "--replicas")
    assert [each["last_confirmed"] for each in shown["replicas"]] == [-1] * 3
    lines = zab("show", made["ledger"], "--replicas").out.splitlines()
    assert lines[0] == f"ledger {made['ledger']}: OPEN"
    assert [line.split()[-1] for line in lines[-4:]] == ["confirmed", "none", "none", "none"]
    assert "-1" not in zab("recover", made["ledger"]).out + zab("show", made["ledger"]).out


def test_append_creates_a_ledger_of_its_own(zab: Zab, lines: Path) -> None:
    out = zab("append", "-E", 1, "-W", 1, "-A", 1, "--digest", "hmac", "--password", "pw", "--file", lines).out
    ledger = int(out.rpartition(" ")[2])
    assert out == f"3 entries in ledger {ledger}\n"
    assert "another password" in zab("read", ledger, code=1).err
    assert zab("read", ledger, "--password", "pw").out == "one\ntwo\nthree\n"


def test_a_ledger_is_appended_to_once(zab: Zab, lines: Path) -> None:
    [made] = zab.json("create")
    assert "another password" in zab("append", made["ledger"], "--password", "x", "--file", lines, code=1).err
    zab("append", made["ledger"], "--file", lines)
    assert zab("read", made["ledger"]).out == "one\ntwo\nthree\n"
    [other] = zab.json("append", "--file", lines)
    assert "not reserved" in zab("append", other["ledger"], "--file", lines, code=1).err
    assert "not reserved" in zab("append", made["ledger"], "--file", lines, code=1).err


def test_lengths_before_entries(zab: Zab, tmp_path: Path) -> None:
    path = tmp_path / "entries"
    path.write_bytes(b"\0\0\0\3a\nb\0\0\0\0\0\0\0\1c")
    [appended] = zab.json("append", "--length-prefixed", "--file", path)
    found = [each["data"] for each in zab.json("read", appended["ledger"])]
    assert found == ["a\nb", "", "c"]
    path.write_bytes(b"\0\0\0\3a")
    assert "has 1 of 3 bytes" in zab("append", "--length-prefixed", "--file", path, code=2).err


def test_without_auto_recovery_nobody_is_said_to_search_or_copy(zab: Zab, capfd: pytest.CaptureFixture[str]) -> None:
    said = call(capfd, "-s", zab.hosts, "audit", "run", "--delay", "7")
    assert (said.code, said.out) == (0, "No process runs auto-recovery: the first one searches; the delay is 7 s\n")
    said = call(capfd, "-s", zab.hosts, "bookie", "decommission", "b9")
    assert said.code == 0
    assert "no process runs auto-recovery: entries are copied once one does" in said.err


def test_recovering(zab: Zab) -> None:
    [made] = zab.json("create")
    ledger = made["ledger"]
    assert "only a closed one is deleted" in zab("delete", ledger, code=1).err
    assert "OPEN" in zab("check", ledger, code=1).err
    assert zab.json("recover", ledger) == [{"ledger": ledger, "last": -1, "length": 0}]
    assert zab("read", ledger).out == ""


def test_a_ledger_is_sealed_by_decree(zab: Zab) -> None:
    [made] = zab.json("create")
    ledger = made["ledger"]
    assert "--data-loss" in zab("seal", ledger, "--at", -1, code=2).err
    assert "not the id" in zab("seal", ledger, "--at", -1, "--data-loss", "--yes", "x", code=1).err
    assert zab.json("seal", ledger, "--at", -1, "--data-loss", "--yes", ledger)[0]["last"] == -1
    assert "it is empty" in zab("seal", ledger, "--at", 0, "--data-loss", "--yes", ledger, code=1).err


def test_a_root_is_formatted(zab: Zab) -> None:
    other = zab.below("/other")
    assert "zab ledger format" in other("list", code=1).err
    other("format")
    assert other("list").out == ""
    assert "already" in other("format", code=1).err
    assert "may be chosen -> start more bookies, or ask for a smaller ensemble" in other("create", code=1).err
    assert len(zab.below("/third").json("format")) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("create", "-E", 1),
        ("create", "--custom", "x"),
        ("create", "--digest", "md5"),
        ("list", "--state", "shut"),
        ("check",),
        ("check", 1, "--all"),
        ("append", "--file", "/nowhere"),
        ("append", "--password", "a", "--password-file", "b"),
        ("delete", "--", -1),
        ("read", "x"),
    ],
)
def test_wrong_usage(zab: Zab, words: tuple[object, ...]) -> None:
    zab(*words, code=2)


@pytest.mark.process
def test_an_interrupted_append_says_how_far_it_came(zab: Zab) -> None:
    """What was acknowledged is in the ledger, which is closed."""
    before = {each["ledger"] for each in zab.json("list")}
    with started("-s", zab.hosts, "ledger", "append", "--custom", "for=the interrupt") as process:
        assert process.stdin is not None
        process.stdin.write("one\n")
        process.stdin.flush()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (made := {each["ledger"] for each in zab.json("list")} - before):
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        process.stdin = None
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    [ledger] = made
    assert f"not finished: ledger {ledger}" in err
    assert zab.json("show", ledger)[0]["state"] == "CLOSED"
