"""How far logs may be shown."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from datatree.log.epochs import pack_mark
from datatree.record import Txn
from tests.pipeline.rigs.log_builder import (
    FIRST,
    LINEAGE,
    NativeFile,
    in_batches,
    random_txns,
    write_native,
    write_version2,
)
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import inventory
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.reading.visible import Survey, epoch_ends, mark, survey, visible_epochs

SECOND = (2 << 32) + 1


def txns(count: int, first: int = FIRST, *, native: bool = True) -> list[Txn]:
    return random_txns(random.Random(first), count, first, native=native)


def member(directory: Path) -> MemberFiles:
    (found,) = inventory(directory).members
    return found


def write_mark(directory: Path, zxid: int, lineage: bytes = LINEAGE) -> None:
    (directory / "version-1" / "committed").write_bytes(pack_mark(lineage, zxid))


@pytest.mark.parametrize("closed", [True, False])
def test_the_mark_is_the_larger_of_log_and_file(tmp_path: Path, closed: bool) -> None:
    files = write_native(tmp_path, [in_batches(txns(50), 5)], closed=closed)
    write_mark(tmp_path, FIRST + 20)
    assert survey(member(tmp_path)).mark == files[0].batches[-1].mark == FIRST + 44
    write_mark(tmp_path, FIRST + 49)
    assert survey(member(tmp_path)).mark == FIRST + 49
    write_mark(tmp_path, FIRST + 60, bytes(16))
    assert survey(member(tmp_path)).mark == FIRST + 44, "it belongs to another lineage"


@pytest.mark.parametrize("closed", [True, False])
def test_the_last_zxid_and_where_it_ends(tmp_path: Path, closed: bool) -> None:
    files = write_native(tmp_path, [in_batches(txns(50), 5), in_batches(txns(30, FIRST + 50), 5)], closed=closed)
    path = tmp_path / "version-1" / files[1].name
    if not closed:
        with path.open("ab") as file:
            file.write(bytes(10_000))
    found = survey(member(tmp_path))
    assert found.last == FIRST + 79
    assert found.ends == ({} if closed else {path.name: len(files[1].data)})


def test_a_file_without_batches_leaves_it_to_the_one_before(tmp_path: Path) -> None:
    (file,) = write_native(tmp_path, [in_batches(txns(50), 5)], mark=FIRST + 9)
    begun = NativeFile.build([txns(1, FIRST + 50)], file.last)
    (tmp_path / "version-1" / begun.name).write_bytes(begun.data[:70] + bytes(500))
    found = survey(member(tmp_path))
    assert (found.last, found.mark) == (FIRST + 49, FIRST + 9)


def test_a_damaged_last_batch_is_not_believed(tmp_path: Path) -> None:
    (file,) = write_native(tmp_path, [in_batches(txns(50), 5)], mark=FIRST + 9)
    path = tmp_path / "version-1" / file.name
    data = bytearray(file.data)
    data[file.offsets[-1] + 34] ^= 0x40
    path.write_bytes(data)
    found = survey(member(tmp_path))
    assert (found.last, found.mark) == (FIRST + 44, FIRST + 9)


def test_committed_positions_of_each_epoch(tmp_path: Path) -> None:
    write_native(tmp_path, [in_batches(txns(50), 5), in_batches(txns(20, SECOND), 5)], mark=SECOND + 9)
    found = survey(member(tmp_path))
    assert found.epochs == {0: 0, 1: FIRST + 49, 2: SECOND + 9}
    assert epoch_ends([found, Survey(epochs={1: FIRST + 60, 3: 5})]) == {0: 0, 1: FIRST + 60, 2: SECOND + 9, 3: 5}
    assert mark([found, Survey(mark=5), Survey()]) == SECOND + 9
    assert mark([]) == 0


def test_the_last_zxid_of_each_epoch_of_zookeepers_logs(tmp_path: Path) -> None:
    first = [txns(20, native=False), txns(30, FIRST + 20, native=False)]
    both = first[1] + txns(7, SECOND, native=False)
    write_version2(tmp_path, [first[0], both, txns(5, SECOND + 7, native=False)])
    (tmp_path / "version-2" / "snapshot.300000000").write_bytes(b"ZKSN" + bytes(60))
    found = survey(member(tmp_path))
    assert found.epochs == {1: FIRST + 49, 2: SECOND + 11, 3: 3 << 32}
    assert found.turns == [(FIRST + 49, SECOND)]
    assert found.last == SECOND + 11


def reached(**epochs: int) -> Survey:
    return Survey(epochs={int(name[1:]): zxid for name, zxid in epochs.items()})


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([reached(e1=10), reached(e1=8), reached(e1=3)], {1: 8}),
        ([reached(e1=10), reached(), reached()], {}),
        ([reached(e1=10, e2=5), reached(e1=9), reached(e2=7)], {1: 9, 2: 5}),
        ([reached(e1=10), reached(e1=8)], {1: 8}),
        ([reached(e1=9)] * 5 + [reached(e1=20)] * 2, {1: 9}),
        ([reached(e1=9)], {1: 9}),
    ],
)
def test_what_a_majority_has_is_visible(members: list[Survey], expected: dict[int, int]) -> None:
    assert visible_epochs(members) == expected


def test_what_comes_right_before_a_committed_transaction_is_committed(tmp_path: Path) -> None:
    """One member has the end of the epoch; another came by a snapshot, the third lost its older files."""
    first, second = txns(50, native=False), txns(20, SECOND, native=False)
    write_version2(tmp_path / "1", [first, second], member=1)
    write_version2(tmp_path / "2", [first[:20], second[10:]], member=2)
    write_version2(tmp_path / "3", [second], member=3)
    surveys = [survey(found) for found in inventory(tmp_path).members]
    assert [found.turns for found in surveys] == [[(FIRST + 49, SECOND)], [(FIRST + 19, SECOND + 10)], []]
    assert visible_epochs(surveys) == {1: FIRST + 49, 2: SECOND + 19}
    assert visible_epochs(surveys[1:]) == {2: SECOND + 19}
    assert visible_epochs([surveys[0], Survey(), Survey()]) == {}
    # With another end of the epoch on another member, a majority has to have it.
    surveys[2].turns.append((FIRST + 44, SECOND))
    assert visible_epochs(surveys) == {1: FIRST + 19, 2: SECOND + 19}


def test_logs_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    write_native(tmp_path, [in_batches(txns(50), 5)])
    found = member(tmp_path)
    (tmp_path / "version-1" / f"log.{FIRST:x}").unlink()
    with pytest.raises(PipelineError, match="cannot be read"):
        survey(found)
