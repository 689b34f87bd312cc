"""`zab bookie inspect`: every part is printed with the fields of the page, and every fault ends with exit code 1."""

from __future__ import annotations

import errno
import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, run
from tests.cli.json_page import table
from tests.ledger.bookie.directories import INSTANCE, rich_directory
from zab.ledger.bookie.inspection import Kind

__all__ = ["run"]

FIELDS = table("Lines of `zab bookie inspect`")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rich_directory(tmp_path_factory.mktemp("bookies") / "bookie-1", journal_file_bytes=1500).root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "bookie"))


def lines(run: Run, *words: object, code: int = 0) -> list[dict[str, Any]]:
    assert run("bookie", "inspect", "--json", *words) == code, run.err
    found: list[dict[str, Any]] = [json.loads(line) for line in run.out.splitlines()]
    for line in found:
        assert [*line] == FIELDS[line["type"]], line
    return found


def test_every_part_is_printed_with_the_fields_of_the_page(made: Path, run: Run) -> None:
    words = ((), ("journal",), ("segments",), ("state",), ("entry", 2, 3))
    seen = {line["type"] for each in words for line in lines(run, made, *each)}
    findings = {kind.value for kind in Kind}
    assert seen >= FIELDS.keys() - findings - {"tombstones"}
    assert findings < FIELDS.keys()
    kinds = [line["kind"] for line in lines(run, made, "journal") if line["type"] == "record"]
    assert {*kinds} == {"ledger", "fence", "explicit_lac", "tombstones"}


def test_the_summary(made: Path, run: Run) -> None:
    [*findings, whole] = lines(run, made)
    assert {line["type"] for line in findings} <= {"leftover"}
    assert (whole["bookie"], whole["instance"]) == ("bookie-1", INSTANCE.hex())
    assert (whole["segments"], whole["entries"], whole["journal_entries"]) == (2, 28, 6)
    assert (whole["ledgers"], whole["fenced"], whole["limbo"]) == (4, 1, 0)
    assert (whole["is_whole"], whole["verdict"]) == (True, "whole")
    assert run("bookie", "inspect", made) == 0
    assert "verdict whole" in run.out


def test_a_copy_of_an_entry_with_its_payload(made: Path, run: Run) -> None:
    [*older, newest] = lines(run, made, "entry", 2, 6, "--digest", "crc32c")
    assert [line["counts"] for line in (*older, newest)] == [False, True]
    assert newest["path"].startswith("journal/")
    assert (newest["rank"], newest["data"], newest["is_digest_right"]) == (None, "payload 6", True)
    assert (newest["last_confirmed"], newest["length"]) == (4, 63)
    assert run("bookie", "inspect", made, "entry", 2, 6, "--digest", "crc32c", "--password", "other") == 0
    assert run("bookie", "inspect", made, "entry", 2, 6, "--digest", "hmac", "--password", "other") == 1
    [copy, *_] = lines(run, made, "entry", 2, 6)
    assert (copy["data"], copy["is_digest_right"]) == (None, None)
    assert run("bookie", "inspect", made, "entry", 2, 4) == 1
    assert "entry 4 of ledger 2 is not in this directory" in run.err


def test_faults_have_a_file_and_an_offset(root: Path, run: Run) -> None:
    segment = root / "entries" / f"{1:016x}"
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    [fault] = [line for line in lines(run, root, code=1) if line["type"] == "suspect"]
    assert (fault["path"], fault["offset"]) == (f"entries/{1:016x}", 64)
    assert run("bookie", "inspect", root) == 1
    assert f"suspect: entries/{1:016x} at offset 64: entry 0 of ledger 1 does not match its checksum" in run.out
    assert "with an I/O error" in run.out
    assert run("bookie", "inspect", root, "segments") == 1
    assert "zab: suspect: entries/" in run.err
    assert run("bookie", "inspect", root, "entry", 1, 0) == 1
    assert run("bookie", "inspect", root, "entry", 1, 1) == 0
    (root / "checkpoint").unlink()
    assert run("bookie", "inspect", root) == 1
    assert "damage: checkpoint at offset 0: it is missing" in run.out
    assert "it does not start" in run.out


def test_a_journal_in_another_directory(root: Path, tmp_path: Path, run: Run) -> None:
    other = tmp_path / "journal-disk"
    other.mkdir()
    shutil.move(root / "journal", other / "journal")
    assert run("bookie", "inspect", root) == 1
    assert "damage: journal/" in run.out
    assert run("bookie", "inspect", root, "--journal-dir", other) == 0, run.out


def test_a_running_bookie_is_read_only_if_asked_for(root: Path, run: Run) -> None:
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run("bookie", "inspect", root) == 1
        assert f"{root}: a bookie runs on it" in run.err
        assert run("bookie", "inspect", root, "--no-lock") == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("{root}", "entries"), 2, "'entries' is none of journal, segments, state"),
        (("{root}", "entry", "1"), 2, "'entry 1' is none of"),
        (("{root}", "entry", "1", "x"), 2, "'x' is no id"),
        (("{root}", "entry", "1", str(1 << 63)), 2, "is no id"),
        (("{root}", "--digest", "crc32c"), 2, "it is for `entry LEDGER ENTRY`"),
        (("{root}", "entry", "1", "0", "--password", "x"), 2, "it needs --digest"),
        (("{root}/nowhere",), 1, "there is no such directory"),
        (("{root}/state",), 1, "no bookie has written into this directory"),
    ],
)
def test_wrong_usage(made: Path, run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    assert run("bookie", "inspect", *(word.format(root=made) for word in words)) == code
    assert said in " ".join(run.err.replace("│", " ").split())


def test_a_file_that_cannot_be_read(root: Path, run: Run) -> None:
    (root / "checkpoint").unlink()
    (root / "checkpoint").mkdir()
    assert run("bookie", "inspect", root) == 1
    assert "Is a directory" in run.err


def test_a_reader_of_the_output_that_is_gone(made: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no fault of the directory."""

    def broken(text: str, file: object = None) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("zab.cli.files.bookie_inspect.say", broken)
    run("bookie", "inspect", made, "journal")
    assert str(made) not in run.err
