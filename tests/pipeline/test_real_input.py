"""The pipeline on what running ensembles left, ours and the real ZooKeeper's, against datatree's readers,
against what clients were told, and against the members' own snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from datatree.errors import ErrorCode
from datatree.recovery.recover import recover
from tests.pipeline.rigs import damage
from tests.pipeline.rigs.damage import Injected
from tests.pipeline.rigs.ensembles import NATIVE, Directories
from tests.pipeline.rigs.expected_rows import (
    COLUMNS,
    Row,
    batch_checksums,
    expected,
    parts_of,
    read_faults,
    read_rows,
    transaction_at,
    whole_rows,
)
from zab.cli.files.log_files import Entry, open_log
from zab.host.storage.disk import RealDisk

pytestmark = pytest.mark.slow

ZAB, ZOOKEEPER = "zab", pytest.param("zookeeper", marks=pytest.mark.java)


@pytest.fixture(params=[ZAB, ZOOKEEPER])
def directories(request: pytest.FixtureRequest) -> Directories:
    found = request.getfixturevalue(f"{request.param}_directories")
    assert isinstance(found, Directories)
    return found


def zxids_of(directories: Directories, member: int) -> set[int]:
    """What the log of a member holds, by datatree's recovery (ours) or its formatter tool (ZooKeeper's, which really
    cuts what it truncates). `directories` is a copy: recovery puts files in order."""
    if directories.kind != NATIVE:
        events = (event for path in directories.logs(member) for event in open_log(path).dump())
        return {event.txn.zxid for event in events if isinstance(event, Entry)}
    disk = RealDisk(str(directories.members[member]), lock=False)
    zxids: set[int] = set()
    for segment in recover(disk).log.segments:
        for _, batch in segment.batches(disk, segment.previous[0]):
            zxids.update(range(batch.first, batch.zxid + 1))
    return zxids


def test_every_row_is_what_stands_at_its_place(directories: Directories) -> None:
    rows = whole_rows(directories.members)
    contents: dict[tuple[str, str], bytes] = {}
    checksums: dict[tuple[str, str], dict[int, int]] = {}
    for number, member in enumerate(directories.members, 1):
        for path in directories.logs(number - 1):
            contents[str(number), path.name] = path.read_bytes()
            if directories.kind == NATIVE:
                checksums[str(number), path.name] = batch_checksums(path)
        assert member.name
    for row in rows:
        place = row["member"], row["segment"]
        txn = transaction_at(directories, contents[place], row)
        assert row == row | expected(txn, row["part"])
        assert tuple(row) == COLUMNS
        if directories.kind == NATIVE:
            assert row["checksum"] == checksums[place][row["zxid"]]
        assert row["part"] in set(parts_of(txn))


def test_every_transaction_is_there_once_and_in_order(directories: Directories, tmp_path: Path) -> None:
    rows = whole_rows(directories.members)
    by_member: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_member[row["member"]].append(row)
    copy = directories.copy(tmp_path)
    held = [zxids_of(copy, member) for member in range(3)]
    if directories.kind != NATIVE:
        # A member that was synchronized with a snapshot keeps the end of a log that nobody else has; it is not shown.
        held = [{zxid for zxid in one if sum(zxid in other for other in held) > 1} for one in held]
    assert sorted(by_member) == ["1", "2", "3"]
    for member, found in by_member.items():
        places = [(row["zxid"], -1 if row["part"] is None else row["part"]) for row in found]
        assert places == sorted(set(places))
        assert {zxid for zxid, _ in places} == held[int(member) - 1]
    assert len({row["ensemble"] for row in rows}) == 1


def test_every_acknowledged_write_is_in_the_rows(directories: Directories) -> None:
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in read_rows(directories.members, members="one"):
        rows[row["zxid"]].append(row)
    for write in directories.writes:
        found = rows[write.zxid]
        assert {row["session"] for row in found} == {write.session}
        if write.operation == "multi":
            refused = any(part.error for part in write.parts)
            assert [row["part"] for row in found] == list(range(len(write.parts)))
            fine = ErrorCode.RUNTIMEINCONSISTENCY if refused else ErrorCode.OK
            assert [row["error"] for row in found] == [part.error or fine for part in write.parts]
            for row, part in zip(found, write.parts, strict=True):
                assert row["operation"] == ("error" if refused else part.operation)
                if not refused:
                    assert (row["path"], row["data"]) == (part.path, part.data)
            continue
        (row,) = found
        assert (row["operation"], row["error"]) == (write.operation, write.error)
        if not write.error:
            assert (row["path"], row["data"]) == (write.path, write.data)


def test_one_member_fills_what_another_lacks(directories: Directories) -> None:
    zxids = [row["zxid"] for row in read_rows(directories.members, members="one") if not row["part"]]
    assert len(zxids) == len(set(zxids))
    everything = {row["zxid"] for row in whole_rows(directories.members)}
    assert set(zxids) == everything
    assert max(zxids) == directories.last_zxid


def test_a_killed_ensemble_shows_all_that_was_acknowledged(directories: Directories) -> None:
    acknowledged = {write.zxid for write in directories.writes if write.zxid <= directories.killed_zxid}
    assert {row["zxid"] for row in read_rows(directories.killed, uncommitted=True)} >= acknowledged
    shown = {row["zxid"] for row in read_rows(directories.killed)}
    assert shown <= {row["zxid"] for row in whole_rows(directories.members)}
    missing = acknowledged - shown
    if directories.kind == NATIVE:
        # That the last batches were committed would have been in the next one, which nobody made any more.
        assert all(zxid > max(shown) for zxid in missing)
        assert len(missing) < 200
    else:
        assert missing == set()


def test_what_no_quorum_has_is_not_shown(directories: Directories, tmp_path: Path) -> None:
    copy = directories.copy(tmp_path)
    logged = {row["zxid"] for row in read_rows(copy.members, uncommitted=True)}
    first, last = damage.uncommitted_tail(copy)
    shown = {row["zxid"] for row in read_rows(copy.members)}
    assert max(shown) == directories.last_zxid
    with_them = {row["zxid"] for row in read_rows(copy.members, uncommitted=True)}
    assert with_them - logged == set(range(first, last + 1))


@pytest.mark.parametrize("limits", [(0.1, 0.2), (0.5, 0.5), (0.9, 1.0)])
def test_ranges_are_exact(directories: Directories, limits: tuple[float, float]) -> None:
    everything = whole_rows(directories.members)
    ordered = sorted({row["zxid"] for row in everything})
    low, high = (ordered[int(limit * (len(ordered) - 1))] for limit in limits)
    assert read_rows(directories.members, zxid_min=low, zxid_max=high) == [
        row for row in everything if low <= row["zxid"] <= high
    ]
    times = sorted(row["time"] for row in everything)
    since, until = (round(times[int(limit * (len(times) - 1))].timestamp() * 1000) for limit in limits)
    assert read_rows(directories.members, time_min=since, time_max=until) == [
        row for row in everything if since <= round(row["time"].timestamp() * 1000) <= until
    ]


def injectors(kind: str) -> dict[str, Callable[[Directories], Injected | tuple[Injected, ...]]]:
    """What reading one member alone can find, by name."""
    found: dict[str, Callable[[Directories], Injected | tuple[Injected, ...]]] = {
        "record": damage.flip_byte,
        "header": partial(damage.flip_byte, where="header"),
        "file": partial(damage.flip_byte, where="file"),
        "zeros": damage.zeros,
        "cut": damage.truncate,
        "torn": partial(damage.truncate, newest=True),
        "removed record": damage.remove_record,
        "removed file": damage.remove_segment,
        "swapped files": damage.swap_segments,
        "absurd length": damage.absurd_length,
    }
    if kind == NATIVE:
        found["frame"] = partial(damage.flip_byte, where="frame")
        found["absurd frame"] = partial(damage.absurd_length, where="frame")
        found["absurd count"] = partial(damage.absurd_length, where="count")
    return found


def test_each_damage_is_found_and_named(directories: Directories, tmp_path: Path) -> None:
    known = {(Path(fault.file).name, *fault[2:]) for fault in read_faults(directories.members[:1])}
    missed = []
    for name, inject in injectors(directories.kind).items():
        copy = directories.copy(tmp_path / name)
        injected = inject(copy)
        found = read_faults(copy.members[:1])
        faults = [fault for fault in found if (Path(fault.file).name, *fault[2:]) not in known]
        for one in injected if isinstance(injected, tuple) else (injected,):
            if not any(one.named_by(fault.file, fault.offset) and fault.kind in one.kinds for fault in faults):
                missed.append((name, one, faults))
    assert missed == []


def test_what_one_member_lost_comes_from_another(directories: Directories, tmp_path: Path) -> None:
    whole = {row["zxid"] for row in read_rows(directories.members, members="one")}
    for name, inject in injectors(directories.kind).items():
        copy = directories.copy(tmp_path / name)
        injected = inject(copy)
        rows = read_rows(copy.members, members="one")
        assert {row["zxid"] for row in rows} == whole, name
        for one in injected if isinstance(injected, tuple) else (injected,):
            # The frames of a file with an index are not looked at; its batches are whole.
            if one.zxids is not None and "frame" not in name:
                assert {row["member"] for row in rows if row["zxid"] == one.zxids[0]} == {"2"}, name
