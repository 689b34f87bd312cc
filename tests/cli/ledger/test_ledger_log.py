"""`zab ledger-log` on bookies in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Result, call
from tests.cli.ledger.rig import Zab, hosts, lines

__all__ = ["hosts", "lines"]

pytestmark = pytest.mark.slow


@pytest.fixture
def zab(capfd: pytest.CaptureFixture[str], hosts: str) -> Zab:
    return Zab(capfd, hosts, "ledger-log")


def test_a_log_from_its_creation_to_its_deletion(zab: Zab, lines: Path) -> None:
    assert zab.json("create", "orders") == [{"log": "orders"}]
    assert "already" in zab("create", "orders", code=1).err
    [first] = zab.json("append", "orders", "--file", lines)
    assert first["count"] == 3
    assert "3 entries appended to log orders" in zab("append", "orders", "--file", lines).out
    assert zab("read", "orders").out == "one\ntwo\nthree\n" * 2
    assert zab("read", "orders", "--after", first["last"]).out == "one\ntwo\nthree\n"
    assert [each["data"] for each in zab.json("read", "orders", "--after", first["last"])] == ["one", "two", "three"]
    [info] = zab.json("info", "orders")
    assert [each["count"] for each in info["ledgers"]] == [3, 3]
    assert info["epoch"] == 3
    assert "orders: open, owner 3, 3/3/2" in zab("info", "orders").out
    assert zab.json("list") == [{"log": "orders"}]
    assert zab.json("cursors", "orders") == []
    assert "--retention-ms" in zab("trim", "orders", code=2).err
    [trimmed] = zab.json("trim", "orders", "--retention-bytes", 11)
    assert trimmed["count"] == 1
    [ended] = zab.json("terminate", "orders")
    assert zab("tail", "orders").out == "one\ntwo\nthree\n"
    assert zab.json("info", "orders")[0]["terminated"] == ended["last"]
    assert "terminated" in zab("append", "orders", "--file", lines, code=1).err
    assert zab.json("delete", "orders") == [{"log": "orders"}]
    assert "no such log" in zab("read", "orders", code=1).err


@pytest.mark.parametrize("words", [("read", ".."), ("read", "orders", "--after", "x"), ("append", "")])
def test_what_is_no_name_or_position_is_refused(zab: Zab, words: tuple[str, ...]) -> None:
    zab(*words, code=2)


def test_a_ledger_of_a_log_is_not_deleted_by_its_id(zab: Zab, lines: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Readers of the log were told of nothing, and waited."""
    zab("create", "whole")
    for _ in range(2):
        zab("append", "whole", "--file", lines)
    first = zab.json("info", "whole")[0]["ledgers"][0]["ledger"]

    def delete(*words: object) -> Result:
        return call(capfd, "-s", zab.hosts, "ledger", "delete", first, *words)

    refused = delete()
    assert refused.code == 1
    assert f"ledger {first} belongs to log whole: trim or delete that (zab ledger-log), or use --force" in refused.err
    assert zab("read", "whole").out == "one\ntwo\nthree\n" * 2
    assert delete("--force").code == 0
    assert f"ledger {first}" in zab("read", "whole", code=1).err


def test_a_log_that_is_not_there(zab: Zab, lines: Path) -> None:
    for words in (("append", "gone", "--file", lines), ("info", "gone"), ("delete", "gone"), ("tail", "gone")):
        assert "no such log" in zab(*words, code=1).err


def test_closed_ledgers_go_to_a_directory_and_are_read_from_there(zab: Zab, lines: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    zab("create", "old")
    for _ in range(2):
        zab("append", "old", "--file", lines)
    assert zab.json("offload", "old", "--to", archive) == [{"log": "old", "count": 2, "dropped": 0}]
    assert [each["offload"] for each in zab.json("info", "old")[0]["ledgers"]] == ["done", "done"]
    assert "bookies, objects" in zab("info", "old").out
    assert zab.json("offload", "old", "--to", archive, "--keep-ms", 0) == [{"log": "old", "count": 0, "dropped": 2}]
    [info] = zab.json("info", "old")
    assert [each["is_on_bookies"] for each in info["ledgers"]] == [False, False]
    assert info["ledgers"][0]["uri"].startswith(str(archive))
    assert zab("read", "old").out == "one\ntwo\nthree\n" * 2
    names = sorted(path.suffix for path in archive.rglob("*.*"))
    assert names == [".data", ".data", ".index", ".index"]
    for path in archive.rglob("*.index"):
        path.unlink()
    assert "cannot be read" in zab("read", "old", code=1).err
    zab("delete", "old")
    assert not list(archive.rglob("*.*"))


def test_an_archive_that_cannot_be_used_is_told(zab: Zab, lines: Path) -> None:
    zab("create", "kept")
    zab("append", "kept", "--file", lines)
    assert "--to" in zab("offload", "kept", "--to", "archive", code=2).err
    assert "password" in zab("offload", "kept", "--to", "s3://key:secret@bucket", code=2).err
    assert "could not be copied" in zab("offload", "kept", "--to", lines, code=1).err
    assert "could not be copied" in zab("offload", "kept", "--to", "nothing://here", code=1).err
    assert zab("read", "kept").out == "one\ntwo\nthree\n"
    zab("delete", "kept")
