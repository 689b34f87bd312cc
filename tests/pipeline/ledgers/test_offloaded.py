"""Copies of ledgers in object stores as rows, without Spark: what a copy has, which copies count, and what a damaged or
lying one says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.ledger.metadata.ledgers import ledger as metadata_of
from tests.ledgers.memory_bookies import memory_bookies
from tests.pipeline.rigs.bookie_files import PAYLOAD, Bookies, exported, length_of, rows_of
from tests.pipeline.rigs.copied_ledgers import LOG, UID, CopiedLedgers
from tests.pipeline.rigs.object_store import Store, store
from tests.rigs.in_process import members_here
from zab.client import connect
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.managed.log_info import LogInfo, OffloadState
from zab.ledger.managed.objects import INDEX_BYTES_MAX, Block, data_name, index_name
from zab.ledgers import OffloadSettings, open_store
from zab.pipeline.errors import PipelineError
from zab.pipeline.ledgers import offloaded
from zab.pipeline.ledgers.metadata import read_lists
from zab.pipeline.ledgers.offloaded import find_copies
from zab.pipeline.ledgers.options import LedgerOptions
from zab.pipeline.ledgers.planning import plan_ledgers
from zab.pipeline.ledgers.rows import piece_rows
from zab.pipeline.schema import LEDGER

__all__ = ["store"]

ALL = [column.name for column in LEDGER]
DATA, INDEX = data_name(1, UID), index_name(1, UID)


@pytest.fixture
def copied(tmp_path: Path) -> CopiedLedgers:
    """Ledger 1 has ten entries, in three blocks of its copy. There are no bookies."""
    made = CopiedLedgers(Bookies(tmp_path, ()), str(tmp_path / "archive"))
    closed(made, 1, 10)
    made.copy(1)
    return made


def closed(copied: CopiedLedgers, ledger: int, count: int, **differs: Any) -> None:
    """The metadata of a closed ledger."""
    copied.bookies.metadata[ledger] = metadata_of(**differs).closed_at(count - 1, length_of(count - 1))


def read(copied: CopiedLedgers, columns: list[str] = ALL, task_bytes: int = 1 << 20, **options: str) -> list[Any]:
    """The rows of the copies alone."""
    return rows_of((), columns, task_bytes, logs=str(copied.export()), **options)


@pytest.mark.parametrize("task_bytes", [1, 500, 1 << 20])
def test_every_entry_of_a_copy_is_a_row(copied: CopiedLedgers, task_bytes: int) -> None:
    rows = read(copied, task_bytes=task_bytes)
    assert [row["entry"] for row in rows] == [*range(10)]
    content = copied.get(DATA)
    for row in rows:
        entry = row["entry"]
        assert (row["ledger"], row["bookie"], row["stored"]) == (1, None, "object")
        assert (row["payload"], row["digest_ok"]) == (PAYLOAD % entry, True)
        assert (row["last_confirmed"], row["length"]) == (entry - 1, length_of(entry))
        assert row["file"] == f"{copied.uri}/{DATA}"
        assert content[row["position"] : row["position"] + len(row["envelope"])] == row["envelope"]
    tasks = plan_ledgers(LedgerOptions.parse({"logs": str(copied.export())}), task_bytes=task_bytes)
    assert len(copied.index(1).blocks) == 3
    assert len(tasks) == {1: 3, 500: 2, 1 << 20: 1}[task_bytes]


def test_rows_of_bookies_and_of_copies_are_told_apart(tmp_path: Path) -> None:
    bookies = Bookies(tmp_path, ("a", "b", "c"))
    bookies.ledger(1, 10)
    bookies.ledger(2, 3)
    copied = CopiedLedgers(bookies, str(tmp_path / "archive"))
    copied.copy(1)
    rows = rows_of(bookies.dirs, logs=str(copied.export()))
    counts = Counter((row["ledger"], row["bookie"]) for row in rows)
    assert counts == {(1, None): 10, **{(1, name): 10 for name in "abc"}, **{(2, name): 3 for name in "abc"}}
    assert {row["ledger"] for row in read(copied, ["ledger"], ledgers="1")} == {1}
    assert read(copied, ["ledger"], ledgers="2-9") == []


def test_only_copies_that_are_done_count(copied: CopiedLedgers) -> None:
    copied.offload(1, state=OffloadState.COPYING)
    assert read(copied) == []


def test_a_password_is_that_of_the_metadata_or_of_the_options(copied: CopiedLedgers) -> None:
    closed(copied, 2, 3, digest_type=DigestType.HMAC, password=b"secret")
    copied.copy(2)
    metadata = str(copied.bookies.export())

    def told(**options: str) -> set[tuple[bytes, bool | None]]:
        return {(row["payload"][:5], row["digest_ok"]) for row in read(copied, ledgers="2", **options)}

    assert told(metadata=metadata) == {(b"entry", True)}
    assert told(digest="hmac", password="secret") == {(b"entry", True)}
    assert told(digest="hmac", password="guess") == {(b"entry", False)}
    assert told(digest="crc32c") == {(b"entry", None)}
    assert told() == {(b"entry", None)}
    assert {row["digest_ok"] for row in read(copied, ledgers="1")} == {True}, "no other digest needs a password"


def test_envelopes_of_another_ledger_are_noticed_without_a_password(copied: CopiedLedgers) -> None:
    closed(copied, 2, 3, digest_type=DigestType.HMAC, password=b"secret")
    digest = Digest(DigestType.HMAC, b"secret")
    built(copied, 2, {1: digest.pack(Entry(3, 1, 0, length_of(1), PAYLOAD % 1))})
    assert [row["digest_ok"] for row in read(copied, ledgers="2")] == [None, False, None]


def built(copied: CopiedLedgers, ledger: int, envelopes: dict[int, bytes]) -> None:
    """A copy with these envelopes in place of the entries: checksums are right."""

    class Packs(Digest):
        def pack(self, entry: Entry) -> bytes:
            return envelopes.get(entry.entry) or super().pack(entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.pipeline.rigs.copied_ledgers.Digest", Packs)
        copied.copy(ledger)


def test_an_envelope_that_is_too_short_is_damage(copied: CopiedLedgers) -> None:
    built(copied, 1, {4: b"short"})
    at = copied.index(1).blocks[1].offset + 44
    with pytest.raises(PipelineError, match=f"{DATA} at offset {at}: entry 4 of ledger 1 has 5 bytes"):
        read(copied)
    assert [row["entry"] for row in read(copied, damaged="skip")] == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_a_damaged_block_is_refused_with_its_place_or_skipped(copied: CopiedLedgers) -> None:
    block = copied.index(1).blocks[1]
    copied.flip(DATA, block.offset + 50)
    with pytest.raises(PipelineError, match=f"{DATA} at offset {block.offset}: the checksum of the block at .*skip"):
        read(copied)
    expected = [entry for entry in range(10) if not block.first <= entry <= block.last]
    assert [row["entry"] for row in read(copied, damaged="skip")] == expected


def remove(copied: CopiedLedgers, name: str) -> None:
    copied.objects.remove(name)


def lies(copied: CopiedLedgers, change: Callable[[tuple[Block, ...]], tuple[Block, ...]]) -> None:
    """The index has other blocks, and a checksum that is right."""
    index = copied.index(1)
    copied.put(INDEX, evolve(index, blocks=change(index.blocks)).encode())


def one_that_is_too_long(copied: CopiedLedgers) -> None:
    lies(copied, lambda blocks: (*blocks[:-1], blocks[-1]._replace(size=200 << 20)))


def a_directory(copied: CopiedLedgers) -> None:
    remove(copied, INDEX)
    (Path(copied.uri) / INDEX).mkdir()


def one_with_other_entries(copied: CopiedLedgers) -> None:
    info = copied.ledgers[1]
    closed(copied, 1, 9)
    copied.copy(1)
    copied.ledgers[1] = info


WRONG: dict[str, tuple[Callable[[CopiedLedgers], None], str, int]] = {
    "no index": (
        lambda of: remove(of, INDEX),
        f"{INDEX} at offset 0: .* log {LOG} cannot be read: the object is miss",
        0,
    ),
    "no data": (lambda of: remove(of, DATA), f"{DATA} at offset 0: .* cannot be read: the object is missing", 0),
    "index damaged": (lambda of: of.flip(INDEX, 60), f"{INDEX} .*the checksum of the index does not match", 0),
    "index cut off": (lambda of: of.put(INDEX, of.get(INDEX)[:9]), f"{INDEX} .*an index of 9 bytes", 0),
    "data cut off": (lambda of: of.put(DATA, of.get(DATA)[:-1]), f"{DATA} .* bytes of data, and its index says", 8),
    "data too long": (lambda of: of.put(DATA, of.get(DATA) + b"x"), f"{DATA} .* bytes of data, and its index", 10),
    "a length too large": (one_that_is_too_long, f"{DATA} .* bytes of data, and its index says 2097", 8),
    "another end": (
        one_with_other_entries,
        f"{DATA} .*says 9 entries with 63 bytes, the list of the log 10 with 70",
        9,
    ),
    "nowhere": (lambda of: of.offload(1, uri="/nowhere"), f"/nowhere/{INDEX} .*the object is missing", 0),
    "no such scheme": (lambda of: of.offload(1, uri="x1://k:secret@h/p"), r"x1://h/p at offset 0: .*cannot be", 0),
    "no name": (lambda of: of.offload(1, uri="/a\0b"), "cannot be read", 0),
    "a directory": (a_directory, f"{INDEX} .* cannot be read", 0),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_copy_that_cannot_be_believed_is_told_or_skipped(copied: CopiedLedgers, wrong: str) -> None:
    change, said, count = WRONG[wrong]
    change(copied)
    with pytest.raises(PipelineError, match=said) as told:
        read(copied)
    assert "secret" not in str(told.value)
    assert len(read(copied, damaged="skip")) == count


def test_a_uri_that_is_not_text_can_be_told(copied: CopiedLedgers) -> None:
    copied.offload(1, uri="/a\ud800")
    copies = find_copies({LOG: LogInfo(ledgers=(copied.ledgers[1],))}, lambda _: True)
    [fault] = copies.faults
    assert fault.file == f"/a\\ud800/{INDEX}"
    assert "cannot be read" in fault.reason
    assert fault.reason.encode()


def test_nothing_is_read_beyond_the_data(copied: CopiedLedgers) -> None:
    """An index whose lengths lie makes nobody ask for more bytes than there are."""
    one_that_is_too_long(copied)
    size = len(copied.get(DATA))
    [task] = plan_ledgers(LedgerOptions.parse({"logs": str(copied.export()), "damaged": "skip"}))
    assert sum(piece.bytes for piece in task.pieces) <= size


def test_an_index_that_is_too_large_is_not_read(copied: CopiedLedgers) -> None:
    with (Path(copied.uri) / INDEX).open("r+b") as file:
        file.truncate(INDEX_BYTES_MAX + 1)
    with pytest.raises(PipelineError, match=f"an index of {INDEX_BYTES_MAX + 1} bytes, and at most"):
        read(copied)


def test_so_many_blocks_are_kept(copied: CopiedLedgers, monkeypatch: pytest.MonkeyPatch) -> None:
    closed(copied, 2, 1)
    copied.copy(2)
    monkeypatch.setattr(offloaded, "BLOCKS_MAX", 4)
    assert len(read(copied)) == 11
    monkeypatch.setattr(offloaded, "BLOCKS_MAX", 3)
    with pytest.raises(PipelineError, match="more than 3 blocks: name the ledgers"):
        read(copied)
    assert len(read(copied, ledgers="1")) == 10


def test_blocks_are_read_together_up_to_a_limit(copied: CopiedLedgers, monkeypatch: pytest.MonkeyPatch) -> None:
    part = find_copies(read_lists(str(copied.export())), lambda _: True).ledgers[1].part
    sizes = [block.size for block in part.blocks]
    assert [run.bytes for run in part.runs(1)] == sizes
    assert [run.bytes for run in part.runs(sizes[0] + sizes[1])] == [sizes[0] + sizes[1], sizes[2]]
    monkeypatch.setattr(offloaded, "READ_BYTES", sizes[0] + sizes[1])
    assert [row["entry"] for row in read(copied)] == [*range(10)]
    for start in range(10):
        within = part.within(start, start + 1)
        assert [block.first <= start <= block.last for block in within.blocks] == [True]
    assert part.within(0, 10).blocks == part.blocks


def test_two_lists_that_name_one_ledger_contradict_each_other(copied: CopiedLedgers) -> None:
    [(name, info)] = read_lists(str(copied.export())).items()
    copies = find_copies({name: info, "other": info}, lambda _: True)
    assert [*copies.ledgers] == [1]
    assert [each.reason for each in copies.faults] == [f"the logs {name} and other both have a copy of ledger 1"]


def test_objects_that_are_removed_meanwhile(copied: CopiedLedgers) -> None:
    [task] = plan_ledgers(LedgerOptions.parse({"logs": str(copied.export())}))
    remove(copied, DATA)
    with pytest.raises(PipelineError, match="the owner of the log has removed a file meanwhile: read it again"):
        [*piece_rows(task.pieces[0], ["entry"])]


@pytest.mark.parametrize(
    ("znodes", "said"),
    [
        ({"/logs": b""}, "has no lists of managed ledgers below /logs"),
        ({"/logs": b"", "/logs/orders/cursors": b"{}"}, "has no lists of managed ledgers below /logs"),
        ({"/logs": b"", "/logs/orders": b"[]"}, "the list of the log at /logs/orders cannot be read: no JSON object"),
        ({"/logs": b"", "/logs/orders": b""}, "the list of the log at /logs/orders cannot be read: no JSON"),
    ],
)
def test_what_is_no_list(tmp_path: Path, znodes: dict[str, bytes], said: str) -> None:
    file = exported(tmp_path / "logs.json", "/logs", znodes)
    with pytest.raises(PipelineError, match=said):
        plan_ledgers(LedgerOptions.parse({"logs": str(file)}))


def test_the_root_of_the_lists_is_an_option(copied: CopiedLedgers) -> None:
    with pytest.raises(PipelineError, match="has no lists of managed ledgers below /other"):
        read(copied, logsRoot="/other")


@pytest.mark.slow
async def test_what_the_owner_of_a_log_copied_is_read(tmp_path: Path) -> None:
    payloads = [b"a", b"bb", b"ccc"]
    with members_here(1) as members:
        async with connect(members.hosts) as zk, memory_bookies(zk, 3), open_store(zk) as ledgers:
            async with ledgers.open_log(LOG, create=True) as log:
                for payload in payloads:
                    await log.append(payload)
            settings = OffloadSettings(uri=str(tmp_path / "archive"), block_bytes=1, keep_ms=0)
            async with ledgers.open_log(LOG, offload=settings) as log:
                assert await log.offload() == 1
            data, _ = await zk.get(f"/logs/{LOG}")
    file = exported(tmp_path / "logs.json", "/logs", {"/logs": b"", f"/logs/{LOG}": data})
    rows = rows_of((), ["payload", "digest_ok", "length"], logs=str(file))
    assert [tuple(row.values()) for row in rows] == [(b"a", True, 1), (b"bb", True, 3), (b"ccc", True, 6)]


@pytest.mark.slow
def test_a_copy_in_an_object_store(store: Store, tmp_path: Path) -> None:
    copied = CopiedLedgers(Bookies(tmp_path, ()), store.uri("archive"))
    closed(copied, 1, 10)
    copied.copy(1)
    rows = read(copied, task_bytes=1)
    assert [(row["entry"], row["payload"], row["digest_ok"]) for row in rows] == [
        (entry, PAYLOAD % entry, True) for entry in range(10)
    ]
    assert {row["file"] for row in rows} == {f"s3://backups/archive/instance/{LOG}/{DATA}"}
    remove(copied, DATA)
    with pytest.raises(PipelineError, match=f"s3://backups/archive/instance/{LOG}/{DATA} .* the object is missing"):
        read(copied)
    copied.offload(1, uri=store.uri("archive").replace("backups", "nowhere"))
    with pytest.raises(PipelineError, match=f"s3://nowhere/archive/{INDEX} .*cannot be read"):
        read(copied)
