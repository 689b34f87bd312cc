"""The injectors do what they say, as the readers of datatree see it: what is mended is mended, what is broken shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from datatree.log.batch import continues
from datatree.log.frame import Bad, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, read_index
from tests.pipeline.rigs import damage
from tests.pipeline.rigs.damage import FORGED, Injected
from tests.pipeline.rigs.ensembles import NATIVE, Directories
from tests.pipeline.rigs.native_files import NativeLog
from tests.pipeline.rigs.version2_files import Version2Log
from zab.cli.files.log_files import Damage, Entry, Event, UnreadableError, open_log

pytestmark = pytest.mark.slow

Injector = Callable[[Directories], Injected]

ZAB, ZOOKEEPER = "zab", pytest.param("zookeeper", marks=pytest.mark.java)


@pytest.fixture(params=[ZAB, ZOOKEEPER])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Directories:
    found = request.getfixturevalue(f"{request.param}_directories")
    assert isinstance(found, Directories)
    return found.copy(tmp_path)


@pytest.fixture
def zab_copy(zab_directories: Directories, tmp_path: Path) -> Directories:
    return zab_directories.copy(tmp_path)


def events(path: Path) -> list[Event]:
    return list(open_log(path).dump())


def zxids(path: Path) -> list[int]:
    return [event.txn.zxid for event in events(path) if isinstance(event, Entry) and event.intact]


def all_events(directories: Directories, member: int = 0) -> list[Event]:
    return [event for path in directories.logs(member) for event in events(path)]


def test_a_native_file_taken_apart_and_written_is_the_same(zab_copy: Directories) -> None:
    for path in zab_copy.logs():
        log = NativeLog.read(path)
        before, index = path.read_bytes(), log.index_path.read_bytes()
        log.write()
        assert path.read_bytes() == before[: log.end]
        assert not before[log.end :].strip(b"\0")
        assert log.index_path.read_bytes() == index


@pytest.mark.java
def test_a_file_of_zookeeper_taken_apart_and_written_is_the_same(
    zookeeper_directories: Directories, tmp_path: Path
) -> None:
    for path in zookeeper_directories.copy(tmp_path).logs():
        before = path.read_bytes()
        Version2Log.read(path).write()
        assert path.read_bytes() == before


BREAKING: list[tuple[str, Injector]] = [
    ("record", damage.flip_byte),
    ("header", lambda copy: damage.flip_byte(copy, where="header")),
    ("zeros", damage.zeros),
    ("absurd length", damage.absurd_length),
]


@pytest.mark.parametrize("inject", [inject for _, inject in BREAKING], ids=[name for name, _ in BREAKING])
def test_a_break_in_the_middle_shows_where_it_is(copy: Directories, inject: Injector) -> None:
    before = all_events(copy)
    injected = inject(copy)
    found = [event for event in all_events(copy) if isinstance(event, Damage)]
    assert len(found) >= 1
    assert injected.named_by(found[0].path, found[0].offset), (injected, found)
    assert injected.zxids is not None
    first, last = injected.zxids
    lost = {event.txn.zxid for event in before if isinstance(event, Entry)} - set(zxids(injected.file))
    assert set(range(first, last + 1)) <= lost


@pytest.mark.parametrize("where", ["frame", "count"])
def test_native_frames_break_too(zab_copy: Directories, where: str) -> None:
    injected = (
        damage.flip_byte(zab_copy, where="frame") if where == "frame" else damage.absurd_length(zab_copy, where=where)
    )
    found = [event for event in all_events(zab_copy) if isinstance(event, Damage)]
    assert injected.named_by(found[0].path, found[0].offset), (injected, found)


def test_an_absurd_frame_has_a_right_checksum(zab_copy: Directories) -> None:
    injected = damage.absurd_length(zab_copy, where="frame")
    first = int(injected.file.name.partition(".")[2], 16)
    found = scan(injected.file.read_bytes(), first, SEGMENT_HEADER_BYTES)
    assert not any(isinstance(part, Bad) and part.reason == "no frame header" for part in found.parts)
    assert max(part.end for part in found.parts) >= injected.start


def test_the_header_of_a_file_breaks(copy: Directories) -> None:
    injected = damage.flip_byte(copy, where="file")
    with pytest.raises(UnreadableError):
        events(injected.file)


def test_an_index_and_a_snapshot_break(zab_copy: Directories) -> None:
    injected = damage.flip_byte(zab_copy, where="index")
    log = injected.file.with_suffix("")
    assert read_index(injected.file.read_bytes(), crc32(log.read_bytes()[:60])) is None
    snapshot = damage.flip_byte(zab_copy, where="snapshot")
    assert snapshot.file.name.startswith("snapshot.")


def test_a_removed_record_leaves_sound_files_with_a_gap(copy: Directories) -> None:
    before = {event.txn.zxid for event in all_events(copy) if isinstance(event, Entry)}
    injected = damage.remove_record(copy)
    after = all_events(copy)
    assert not any(isinstance(event, Damage) for event in after)
    assert injected.zxids is not None
    first, last = injected.zxids
    assert before - {event.txn.zxid for event in after if isinstance(event, Entry)} == set(range(first, last + 1))


@pytest.mark.parametrize("mended", ["checksums", "chain"])
def test_a_changed_batch_has_right_checksums(zab_copy: Directories, mended: str) -> None:
    changed_alone(zab_copy, damage.change_record(zab_copy, mended=mended))


@pytest.mark.java
def test_a_changed_record_has_right_checksums(zookeeper_directories: Directories, tmp_path: Path) -> None:
    copy = zookeeper_directories.copy(tmp_path)
    changed_alone(copy, damage.change_record(copy))


def changed_alone(copy: Directories, injected: Injected) -> None:
    after = all_events(copy)
    assert not any(isinstance(event, Damage) for event in after)
    assert injected.zxids is not None
    changed = [event.txn for event in after if isinstance(event, Entry) and (event.txn.data or b"").startswith(FORGED)]
    assert {injected.zxids[0], injected.zxids[1]} >= {changed[0].zxid}
    others = {event.txn.zxid: event.txn for event in all_events(copy, 1) if isinstance(event, Entry)}
    assert others[changed[0].zxid].data != changed[0].data


def test_the_chain_holds_only_where_it_was_mended(zab_directories: Directories, tmp_path: Path) -> None:
    for mended, holds in (("checksums", False), ("chain", True)):
        copy = zab_directories.copy(tmp_path / mended)
        injected = damage.change_record(copy, mended=mended)
        broken = []
        for path in copy.logs():
            log = NativeLog.read(path)
            chain = log.header.previous[1]
            for batch in log.batches():
                if not continues(chain, batch):
                    broken.append((path, batch.first))
                chain = batch.chain
        assert injected.zxids is not None
        assert broken == ([] if holds else [(injected.file, injected.zxids[0])])


def test_segments_are_swapped(copy: Directories) -> None:
    one, other = damage.swap_segments(copy)
    assert one.file != other.file
    if copy.kind == NATIVE:
        with pytest.raises(AssertionError):
            NativeLog.read(one.file)
    else:
        assert one.zxids is not None
        assert zxids(other.file)[0] == one.zxids[0]


def test_a_file_goes_and_a_tail_goes(copy: Directories) -> None:
    injected = damage.remove_segment(copy)
    held = {event.txn.zxid for event in all_events(copy) if isinstance(event, Entry)}
    assert injected.zxids is not None
    assert not held & set(range(injected.zxids[0], injected.zxids[1] + 1))
    assert copy.last_zxid in held
    tail = damage.shorten_tail(copy)
    after = all_events(copy)
    assert not any(isinstance(event, Damage) for event in after)
    assert tail.zxids is not None
    assert max(event.txn.zxid for event in after if isinstance(event, Entry)) == tail.zxids[0] - 1


@pytest.mark.parametrize("newest", [True, False])
def test_a_file_is_cut_inside_a_record(copy: Directories, newest: bool) -> None:
    injected = damage.truncate(copy, newest=newest)
    size = injected.file.stat().st_size
    assert injected.start < size < injected.end
    assert injected.zxids is not None
    assert max(zxids(injected.file)) < injected.zxids[0]


def test_a_tail_that_no_quorum_has(copy: Directories) -> None:
    first, last = damage.uncommitted_tail(copy)
    after = [event for event in all_events(copy) if isinstance(event, Entry)]
    assert [event.txn.zxid for event in after[-(last - first + 1) :]] == list(range(first, last + 1))
    assert {event.committed for event in after if event.txn.zxid >= first} == {False if copy.kind == NATIVE else None}
    assert all(event.txn.zxid < first for event in all_events(copy, 1) if isinstance(event, Entry))


@pytest.mark.java
def test_what_does_not_belong_there(
    zab_directories: Directories, zookeeper_directories: Directories, tmp_path: Path
) -> None:
    copy = zab_directories.copy(tmp_path)
    foreign = damage.foreign_segment(copy, zookeeper_directories)
    assert foreign.file.read_bytes()[:4] == b"ZKLG"
    assert {path.name for path in damage.mixed_versions(copy, zookeeper_directories).iterdir()} >= {
        "version-1",
        "version-2",
    }
    assert damage.empty_segment(copy).stat().st_size == 0
    assert damage.stray_files(copy)
    assert not list((damage.without_logs(copy, 1) / copy.version).glob("log.*"))
