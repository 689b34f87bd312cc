"""Entries of ledgers as rows, without Spark: every entry of a bookie once, the newest copy, options, damage."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.ledger.bookie.directories import PAYLOAD, rich_directory
from tests.ledger.metadata.ledgers import A, B, C, ledger
from tests.pipeline.rigs.bookie_files import Bookies, export, rows_of
from zab.host.storage.disk import RealDisk
from zab.ledger.bookie.inspection import Copy, Inspection
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.ids import ID_MAX
from zab.ledger.metadata.serialized import encode_metadata
from zab.pipeline.errors import PipelineError
from zab.pipeline.ledgers.metadata import read_metadata
from zab.pipeline.ledgers.options import Ids, LedgerOptions
from zab.pipeline.ledgers.planning import plan_ledgers
from zab.pipeline.ledgers.rows import piece_rows
from zab.pipeline.schema import LEDGER
from zab.pipeline.state.local_state import LocalState

ALL = [column.name for column in LEDGER]
THERE = {1: [*range(18)], 2: [0, 1, 3, 6, 9], 3: [*range(5)], 7: [0]}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `rich_directory`. Nobody changes it."""
    return rich_directory(tmp_path_factory.mktemp("bookies") / "here").root


@pytest.mark.parametrize("task_bytes", [1, 100, 1 << 20])
def test_every_entry_once_as_the_bookie_reads_it(root: Path, task_bytes: int) -> None:
    rows = rows_of([root], ALL, task_bytes, digest="crc32c")
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row["ledger"], []).append(row["entry"])
    assert found == THERE, "the deleted ledger 5 is left out"
    inspection = Inspection(RealDisk(str(root), lock=False))
    for row in rows:
        copies = inspection.find(row["ledger"], row["entry"])
        (counts,) = (each for each in copies if isinstance(each, Copy) and each.counts)
        assert row["file"] == str(root / counts.path)
        assert (row["position"], len(row["envelope"])) == (counts.offset, counts.size)
        assert row["stored"] == ("segment" if counts.path.startswith("entries/") else "journal")
        assert (row["payload"], row["digest_ok"]) == (PAYLOAD % row["entry"], True)
        assert row["length"] == sum(len(PAYLOAD % each) for each in range(row["entry"] + 1))
        assert row["bookie"] == "bookie-1"
    again = {row["entry"]: row["last_confirmed"] for row in rows if row["ledger"] == 2}
    assert again == {0: -1, 1: 0, 3: 1, 6: 4, 9: 8}


def test_ledgers_and_digests_that_are_asked_for(root: Path) -> None:
    assert {row["ledger"] for row in rows_of([root], ledgers="2-3, 9")} == {2, 3}
    [row, *_] = rows_of([root], ALL, ledgers="7")
    assert (row["payload"], row["digest_ok"]) == (None, None)
    [row, *_] = rows_of([root], ALL, ledgers="7", digest="HMAC", password="x")
    assert (row["payload"], row["digest_ok"]) == (row["envelope"][52:], False)
    assert rows_of([root], ["entry"], ledgers="8") == []
    assert rows_of([root], [], ledgers="3") == [{}] * 5


def test_metadata_say_which_digest_a_ledger_has(tmp_path: Path) -> None:
    bookies = Bookies(tmp_path)
    bookies.ledger(1, 3, digest_type=DigestType.HMAC, password=b"secret")
    bookies.ledger(2, 3, digest_type=DigestType.CRC32)
    rows = rows_of(bookies.dirs, ALL, metadata=str(bookies.export()))
    assert Counter(row["ledger"] for row in rows) == {1: 9, 2: 9}
    assert {row["digest_ok"] for row in rows} == {True}
    assert {row["bookie"] for row in rows} == {"a", "b", "c"}
    assert {row["stored"] for row in rows} == {"journal"}
    bookies.flush()
    assert {row["stored"] for row in rows_of([tmp_path], ["stored"])} == {"segment"}


def test_a_journal_apart_is_found_by_its_cookie(root: Path, tmp_path: Path) -> None:
    entries, journal = tmp_path / "entries-disk", tmp_path / "journal-disk"
    shutil.copytree(root, entries)
    journal.mkdir()
    shutil.move(entries / "journal", journal / "journal")
    shutil.copy(entries / "cookie", journal)
    assert len(rows_of([tmp_path])) == len(rows_of([root]))
    assert len(rows_of([entries, journal])) == len(rows_of([root]))
    with pytest.raises(PipelineError, match="the file is missing; damaged=skip"):
        rows_of([entries])


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_damage_is_refused_with_its_place_or_skipped(root: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(root, tmp_path / "copy"))
    segment = copied / "entries" / f"{1:016x}"
    flip(segment, 70)
    with pytest.raises(PipelineError, match=f"{segment} at offset 64: entry 0 of ledger 1 does not match"):
        rows_of([copied])
    rows = rows_of([copied], damaged="skip")
    assert len(rows) == sum(map(len, THERE.values())) - 1
    flip(segment, segment.stat().st_size - 10)
    with pytest.raises(PipelineError, match="the ledger map is not readable; damaged=skip"):
        rows_of([copied])
    assert [row["entry"] for row in rows_of([copied], damaged="skip", ledgers="1")] == [*range(10, 18)]


def test_a_file_that_is_removed_meanwhile(root: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(root, tmp_path / "copy"))
    [task] = plan_ledgers(LedgerOptions.parse({"dirs": str(copied)}))
    (copied / "entries" / f"{1:016x}").unlink()
    with pytest.raises(PipelineError, match="bookie bookie-1 has removed a file meanwhile: read it again"):
        [*piece_rows(task.pieces[0], ["entry"])]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dirs": ""}, 'option "dirs" is missing'),
        ({"dirs": "[1"}, "option dirs is no JSON"),
        ({"colour": "red"}, "unknown option colour"),
        ({"damaged": "no"}, "option damaged is fail or skip"),
        ({"ledgers": "3-1"}, "option ledgers is like 3,7-12"),
        ({"ledgers": ","}, "names no ledger"),
        ({"ledgers": str(ID_MAX + 1)}, "option ledgers is like"),
        ({"password": "x"}, "option password needs the option digest"),
        ({"digest": "md5"}, "option digest is one of crc32, hmac, crc32c, dummy"),
        ({"metadata": "/nowhere/at/all"}, "does not exist"),
        ({"dirs": "/nowhere/at/all"}, "does not exist"),
        ({"dirs": "{tmp}"}, "no directory of a bookie"),
        ({"dirs": "{root},{tmp}/twin"}, "several directories of bookie bookie-1"),
    ],
)
def test_what_is_refused(root: Path, tmp_path: Path, options: dict[str, str], said: str) -> None:
    if "twin" in options.get("dirs", ""):
        shutil.copytree(root, tmp_path / "twin")
    given = {"dirs": str(root)}
    for name, text in options.items():
        given[name] = text.replace("{tmp}", str(tmp_path)).replace("{root}", str(root))
    with pytest.raises(PipelineError, match=said):
        plan_ledgers(LedgerOptions.parse(given))


def test_ids() -> None:
    ids = Ids.parse("7-12, 3, 10-20, 1000")
    assert ids.runs == ((3, 3), (7, 20), (1000, 1000))
    assert [each for each in range(25) if each in ids] == [3, *range(7, 21)]
    assert 1000 in ids
    assert 999 not in ids
    assert ID_MAX in Ids()


def test_what_is_no_export(tmp_path: Path) -> None:
    bookies = Bookies(tmp_path, (A, B, C))
    bookies.ledger(1, 1)
    text = bookies.export().read_text()
    file = tmp_path / "other.json"
    lines = text.splitlines(keepends=True)
    for content, said in (
        ("".join(lines[:-1]), "its last line is missing"),
        ("".join([*lines[:-2], lines[-1]]), "it is not complete"),
        ("{}", "is no output of zab export"),
        (lines[0] + "[]\n", "a line of it is malformed"),
        (lines[0] + '{"path": 3}\n', "a line of it is malformed"),
        ("\x00", "a line of it is malformed"),
    ):
        file.write_text(content)
        with pytest.raises(PipelineError, match=said):
            read_metadata(str(file))
    export(file, {})
    with pytest.raises(PipelineError, match="has no metadata of ledgers below /ledgers"):
        read_metadata(str(file))
    broken = json.dumps({"path": "/ledgers/00/0000/L0001", "data": "x", "encoding": "utf-8", "acl": []})
    file.write_text(lines[0] + broken + '\n{"znodes": 1}\n')
    with pytest.raises(PipelineError, match="the metadata at /ledgers/00/0000/L0001 cannot be read"):
        read_metadata(str(file))


def test_metadata_in_the_data_of_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = ledger(digest_type=DigestType.HMAC, password=b"x")
    paths = ["/", "/ledgers", "/ledgers/00/0000/L0007", "/other/00/0000/L0008"]
    datas = [None, b"", encode_metadata(metadata), encode_metadata(metadata)]
    state = LocalState(1, {}, [pa.RecordBatch.from_pydict({"path": paths, "data": datas})])
    monkeypatch.setattr("zab.pipeline.ledgers.metadata.local_moment", lambda text: text)
    monkeypatch.setattr("zab.pipeline.ledgers.metadata.local_state", lambda moment: state)
    assert read_metadata(str(tmp_path)) == {7: metadata}
    assert list(read_metadata(str(tmp_path), "/other")) == [8]
