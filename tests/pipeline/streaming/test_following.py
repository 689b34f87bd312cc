"""Following logs without Spark: each transaction once and in order, never one that is not committed, whatever the files
and the members do meanwhile."""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from datatree.log.frame import pack_frame, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES, SegmentHeader, log_files, read_segment_header
from tests.pipeline.rigs import damage
from tests.pipeline.rigs.ensembles import NATIVE, Directories
from tests.pipeline.rigs.log_writer import History, LogWriter, Rows, poll, rows_of, zxids_of
from zab.pipeline.errors import PipelineError
from zab.pipeline.streaming.following import Following

# ------------------------------------------------------------------------------------ members that a test writes itself


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "one")


def test_a_growing_log_is_shown_up_to_its_mark(history: History, writer: LogWriter) -> None:
    writer.log.append([history.add(3)])
    following, ensemble = poll([writer.directory])
    assert ensemble.route(0).end == 0, "no batch says yet that anything is committed"
    at, seen = 0, []
    for count in (1, 50, 2, 7):
        writer.log.append([history.add(count)])
        following.poll()
        route = ensemble.route(at)
        assert route.end == history.batches[-1].mark
        seen += zxids_of(following, route)
        at = route.end
    writer.log.set_mark(history.zxid)
    following.poll()
    seen += zxids_of(following, ensemble.route(at))
    assert seen == history.zxids()
    assert ensemble.obstacle(history.zxid) is None


def test_a_poll_looks_at_nothing_twice(history: History, writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    from zab.pipeline.streaming import chart

    writer.log.append([history.add(2000), history.add(2000)])
    following, ensemble = poll([writer.directory])
    looked: list[int] = []
    scan = chart.FrameScan
    monkeypatch.setattr(chart, "FrameScan", lambda *given: (looked.append(given[5]), scan(*given))[1])
    end = writer.path().stat().st_size
    following.poll()
    assert looked == []
    writer.log.append([history.add()])
    following.poll()
    assert looked == [end]
    assert ensemble.route(0).end == history.batches[-1].mark


@pytest.mark.parametrize("length", [1, 27, 28, 60, 150])
def test_a_torn_tail_waits(length: int, history: History, writer: LogWriter) -> None:
    writer.log.append([history.add(4), history.add(2)])
    following, ensemble = poll([writer.directory])
    batch, last = history.add(5, mark=6 + (1 << 32)), history.add(1)
    rest = writer.torn(batch, length)
    following.poll()
    at = ensemble.route(0).end
    assert at == (1 << 32) + 4
    assert ensemble.obstacle(at) is None
    with writer.path().open("ab") as file:
        file.write(rest)
    following.poll()
    assert ensemble.route(at).end == batch.mark
    rest = writer.torn(last, 1000)
    assert rest == b""
    following.poll()
    assert zxids_of(following, ensemble.route(0)) == [*range((1 << 32) + 1, last.mark + 1)]


def test_preallocated_space_is_not_read_again_and_again(history: History, writer: LogWriter) -> None:
    writer.log.append([history.add(4), history.add(1)])
    with writer.path().open("r+b") as file:
        file.truncate(64 << 20)
    _, ensemble = poll([writer.directory])
    assert ensemble.route(0).end == (1 << 32) + 4
    (chart,) = ensemble.members["1"].charts.values()
    assert chart.stop < 10_000


def test_files_that_roll_follow_each_other(history: History, writer: LogWriter) -> None:
    following, ensemble, seen, at = None, None, [], 0
    for number in range(12):
        writer.log.append([history.add(3, epoch=1 + number // 5)])
        if number % 2:
            writer.log.roll()
        if following is None or ensemble is None:
            following, ensemble = poll([writer.directory])
        following.poll()
        route = ensemble.route(at)
        seen += zxids_of(following, route)
        at = route.end
    writer.log.set_mark(history.zxid)
    following.poll()
    seen += zxids_of(following, ensemble.route(at))
    assert seen == history.zxids()
    assert len(log_files(writer.disk)) == 6


def test_what_is_cut_was_never_shown_and_what_replaces_it_is(history: History, writer: LogWriter) -> None:
    writer.log.append([history.add(4)])
    writer.log.append([history.add(2)])
    lost = history.fork()
    writer.log.append([lost.add(3, mark=(1 << 32) + 4), lost.add(2, mark=(1 << 32) + 4)])
    following, ensemble = poll([writer.directory])
    at = ensemble.route(0).end
    assert at == (1 << 32) + 4
    writer.log.truncate(history.zxid, history.chain)
    following.poll()
    assert ensemble.route(at).end == at
    writer.log.append([history.add(6, epoch=3), history.add(1)])
    following.poll()
    seen = zxids_of(following, ensemble.route(0))
    assert seen == history.zxids()[:-1]
    assert set(seen).isdisjoint(set(lost.zxids()) - set(history.zxids()))


def test_a_file_that_is_written_anew_is_looked_at_anew(history: History, writer: LogWriter) -> None:
    """At its start a member copies what was not known to be synced: the same batches, in other frames."""
    for _ in range(5):
        writer.log.append([history.add(2)])
    following, ensemble = poll([writer.directory])
    at = ensemble.route(0).end
    path = writer.path()
    header = read_segment_header(path.read_bytes(), (1 << 32) + 1)
    assert isinstance(header, SegmentHeader)
    history.add(3)
    raws = [batch.raw for batch in history.batches]
    frame = pack_frame(seed_of(header.first), SEGMENT_HEADER_BYTES, 0, raws)
    path.write_bytes(header.pack() + frame)
    following.poll()
    route = ensemble.route(at)
    assert route.end == history.batches[-1].mark
    assert zxids_of(following, route) == [*range(at + 1, route.end + 1)]


def test_a_position_that_is_not_kept_any_more_is_named(history: History, writer: LogWriter) -> None:
    for _ in range(4):
        writer.log.append([history.add(10)])
        writer.log.roll()
    writer.log.set_mark(history.zxid)
    following, ensemble = poll([writer.directory])
    assert ensemble.route(0).end == history.zxid
    writer.path(0).unlink()
    following.poll()
    assert ensemble.route(0).end == 0
    assert ensemble.kept_from(0) == (1 << 32) + 10
    assert "0x10000000a" in str(ensemble.obstacle(0))
    assert ensemble.earliest() == (1 << 32) + 10
    assert zxids_of(following, ensemble.route((1 << 32) + 10)) == history.zxids()[10:]


def test_a_file_that_is_missing_stops_the_stream_until_it_is_there(
    history: History, writer: LogWriter, tmp_path: Path
) -> None:
    for _ in range(4):
        writer.log.append([history.add(9), history.add(1)])
        writer.log.roll()
    writer.log.set_mark(history.zxid)
    missing = writer.path(2)
    missing.rename(tmp_path / "missing")
    following, ensemble = poll([writer.directory])
    route = ensemble.route(0)
    assert route.end == (1 << 32) + 20
    assert "log.10000001f goes on from 0x10000001e" in str(ensemble.obstacle(route.end))
    (tmp_path / "missing").rename(missing)
    following.poll()
    assert zxids_of(following, ensemble.route(0)) == history.zxids()


def test_before_a_hole_only_what_marks_of_its_epoch_say_is_shown(history: History, writer: LogWriter) -> None:
    """The file that is missing may say that the end of the one before it is void."""
    for epoch in (1, 2, 3):
        writer.log.append([history.add(10, epoch=epoch), history.add(10)])
        writer.log.roll()
    writer.log.set_mark(history.zxid)
    writer.path(1).unlink()
    _, ensemble = poll([writer.directory])
    assert ensemble.route(0).end == (1 << 32) + 10
    assert ensemble.route((2 << 32) + 20).end == history.zxid


def test_members_take_turns(history: History, tmp_path: Path) -> None:
    """Each of two members lacks what the other has; together they have everything."""
    one, two = LogWriter(tmp_path / "one", 1), LogWriter(tmp_path / "two", 2)
    for _ in range(6):
        batch = history.add(10)
        for writer in (one, two):
            writer.log.append([batch])
            writer.log.roll()
    lost: list[Path] = []
    for number, writer in ((1, one), (4, one), (2, two), (3, two)):
        lost.append(writer.path(number))
    for path in lost:
        path.unlink()
    for writer in (one, two):
        writer.log.set_mark(history.zxid)
    following, ensemble = poll([one.directory, two.directory])
    route = ensemble.route(0)
    assert zxids_of(following, route) == history.zxids()
    assert {leg.span.member for leg in route.legs} == {"1", "2"}


def test_a_member_that_falls_behind_is_left_for_another(history: History, tmp_path: Path) -> None:
    one, two = LogWriter(tmp_path / "one", 1), LogWriter(tmp_path / "two", 2)
    for writer in (one, two):
        writer.log.append([history.add(5)] if writer is one else history.batches)
    batch = history.add(5)
    for writer in (one, two):
        writer.log.append([batch])
    following, ensemble = poll([one.directory, two.directory])
    at = ensemble.route(0).end
    two.log.append([history.add(5), history.add(5)])
    following.poll()
    route = ensemble.route(at)
    assert [leg.span.member for leg in route.legs] == ["1", "2"]
    assert zxids_of(following, route) == [*range(at + 1, history.batches[-1].mark + 1)]


def test_the_end_of_a_deposed_leader_is_not_shown_by_the_mark_of_others(history: History, tmp_path: Path) -> None:
    """Its batches have smaller zxids than the mark that the others know by now, and nobody committed them."""
    deposed, other = LogWriter(tmp_path / "one", 1), LogWriter(tmp_path / "two", 2)
    history.add(5)
    history.add(2)
    for writer in (deposed, other):
        writer.log.append(history.batches)
    lost = history.fork()
    deposed.log.append([lost.add(4, mark=(1 << 32) + 5)])
    other.log.append([history.add(3, epoch=2), history.add(1), history.add(1)])
    following, ensemble = poll([deposed.directory, other.directory])
    assert zxids_of(following, ensemble.route(0)) == history.zxids()[:-1]
    alone, of_deposed = poll([deposed.directory])
    assert zxids_of(alone, of_deposed.route(0)) == history.zxids()[:5]


def test_uncommitted_ones_are_shown_when_asked_for(history: History, writer: LogWriter) -> None:
    writer.log.append([history.add(5)])
    following = Following([str(writer.directory)], uncommitted=True)
    following.poll()
    (ensemble,) = following.ensembles.values()
    assert ensemble.route(0).end == ensemble.latest() == history.zxid


def test_so_many_and_no_more(history: History, writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.pipeline.streaming.following.LEG_TRANSACTIONS_MAX", 4)
    for epoch in (1, 1, 2, 4):
        writer.log.append([history.add(7, epoch=epoch)])
        writer.log.roll()
    writer.log.set_mark(history.zxid)
    following, ensemble = poll([writer.directory])
    at, seen = 0, []
    while (route := ensemble.route(at, count_max=5)).legs:
        assert route.count == min(5, len(history.zxids()) - len(seen))
        assert all(leg.count <= 4 for leg in route.legs)
        seen += zxids_of(following, route)
        at = route.end
    assert seen == history.zxids()
    assert ensemble.route(0, until=(2 << 32) + 3).end == (2 << 32) + 3


# --------------------------------------------------------------------------------------------------------- real members


@pytest.fixture(params=["zab_directories", "zookeeper_directories"])
def directories(request: pytest.FixtureRequest) -> Directories:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Directories)
    return found


def test_all_that_clients_were_told_comes_once_and_in_order(directories: Directories) -> None:
    following, ensemble = poll(directories.members)
    route = ensemble.route(ensemble.earliest())
    seen = zxids_of(following, route)
    assert seen == sorted(set(seen))
    assert route.end == directories.last_zxid
    assert {write.zxid for write in directories.writes} <= set(seen)


def test_what_was_acknowledged_before_a_kill_is_there_after_it(directories: Directories) -> None:
    """The mark that says so of the last ones may not have been logged any more."""
    acknowledged = {write.zxid for write in directories.writes if write.zxid <= directories.killed_zxid}
    shown, ensemble = poll(directories.killed)
    route = ensemble.route(ensemble.earliest())
    assert {zxid for zxid in acknowledged if zxid <= route.end} <= set(zxids_of(shown, route))
    assert route.count > len(acknowledged) // 2
    following = Following([str(path) for path in directories.killed], uncommitted=True)
    following.poll()
    (everything,) = following.ensembles.values()
    assert acknowledged <= set(zxids_of(following, everything.route(everything.earliest())))


def test_one_member_of_ours_alone_shows_what_it_knows(zab_directories: Directories) -> None:
    whole, of_all = poll(zab_directories.members)
    rows = rows_of(whole, of_all.route(of_all.earliest()))
    for path in zab_directories.members:
        following, ensemble = poll([path])
        assert rows_of(following, ensemble.route(ensemble.earliest())) == [
            row
            for row in rows
            if row["zxid"] > ensemble.earliest()  # type: ignore[operator]
        ]


def test_one_member_of_zookeeper_alone_is_refused(zookeeper_directories: Directories) -> None:
    with pytest.raises(PipelineError, match="does not say what is committed"):
        poll(zookeeper_directories.members[:1])


def test_transactions_that_no_quorum_has_are_not_shown(directories: Directories, tmp_path: Path) -> None:
    copy = directories.copy(tmp_path)
    first, last = damage.uncommitted_tail(copy)
    following, ensemble = poll(copy.members)
    ensemble._preferred = "1"
    seen = zxids_of(following, ensemble.route(ensemble.earliest()))
    assert seen[-1] == directories.last_zxid
    assert set(seen).isdisjoint(range(first, last + 1))


INJECTORS: dict[str, Callable[[Directories], object]] = {
    **{where: lambda copy, where=where: damage.flip_byte(copy, where=where) for where in ("record", "header")},
    "zeros": damage.zeros,
    "truncate": damage.truncate,
    "truncate newest": lambda copy: damage.truncate(copy, newest=True),
    "remove_record": damage.remove_record,
    "remove_segment": damage.remove_segment,
    "shorten_tail": damage.shorten_tail,
    "swap_segments": damage.swap_segments,
    "absurd length": damage.absurd_length,
    "empty_segment": damage.empty_segment,
    "without_logs": damage.without_logs,
    "stray_files": damage.stray_files,
}
NATIVE_INJECTORS: dict[str, Callable[[Directories], object]] = {
    **{where: lambda copy, where=where: damage.flip_byte(copy, where=where) for where in ("frame", "file", "index")},
    "absurd frame": lambda copy: damage.absurd_length(copy, where="frame"),
}


@functools.cache
def whole_rows(members: tuple[Path, ...]) -> tuple[int, Rows]:
    """Where undamaged members begin, and all their rows."""
    following, ensemble = poll(members)
    earliest = ensemble.earliest()
    return earliest, rows_of(following, ensemble.route(earliest))


@pytest.mark.parametrize("name", [*INJECTORS, *NATIVE_INJECTORS])
def test_what_one_member_has_lost_another_gives(name: str, directories: Directories, tmp_path: Path) -> None:
    if name in NATIVE_INJECTORS and directories.kind != NATIVE:
        pytest.skip("ZooKeeper's files do not have it")
    earliest, rows = whole_rows(directories.members)
    copy = directories.copy(tmp_path)
    {**INJECTORS, **NATIVE_INJECTORS}[name](copy)
    following, ensemble = poll(copy.members)
    ensemble._preferred = "1"
    assert rows_of(following, ensemble.route(earliest)) == rows


@pytest.mark.parametrize("name", ["record", "remove_record", "zeros"])
def test_what_everybody_has_lost_is_an_error(name: str, directories: Directories, tmp_path: Path) -> None:
    """The only member that was given has lost it: of ZooKeeper's three, all that have it are damaged alike."""
    copy = directories.copy(tmp_path)
    injected = INJECTORS[name](copy)
    assert isinstance(injected, damage.Injected)
    following = Following([str(copy.members[0])], uncommitted=True)
    following.poll()
    (ensemble,) = following.ensembles.values()
    route = ensemble.route(ensemble.earliest())
    try:
        rows_of(following, route)
    except PipelineError as error:
        text = str(error)
    else:
        text = str(ensemble.obstacle(route.end))
    assert injected.file.name in text


@pytest.mark.parametrize("seed", range(4))
def test_shipped_logs_are_followed_as_they_arrive(seed: int, directories: Directories, tmp_path: Path) -> None:
    """Files arrive in pieces of any length, one file before the other or side by side, and never again differently.

    With an odd seed they have their space from the beginning, zeros, as those that a member writes."""
    dice = random.Random(seed)
    done: dict[Path, int] = {}
    sources = [*directories.members]
    targets = [tmp_path / path.parent.name / "data" for path in sources]
    for source, target in zip(sources, targets, strict=True):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("log.*", "snapshot.*"))
    files = [
        (path, target / directories.version / path.name)
        for number, target in enumerate(targets)
        for path in directories.logs(number)
    ]
    for _, target in files[:: len(directories.logs())]:
        target.touch()
    whole, of_whole = poll(sources)
    expected = zxids_of(whole, of_whole.route(of_whole.earliest()))
    following, at, seen = Following([str(path) for path in targets]), None, []
    waiting = [files[: len(directories.logs(0))], files[len(directories.logs(0)) :]]
    while any(waiting):
        queue = dice.choice([one for one in waiting if one])
        source, target = queue[0]
        data = source.read_bytes()
        start = done.get(target, 0)
        end = done[target] = min(len(data), start + dice.randrange(1, 200_000))
        with target.open("r+b" if start else "wb") as file:
            if seed % 2 and not start:
                file.truncate(len(data))
            file.seek(start)
            file.write(data[start:end])
        if end == len(data):
            queue.pop(0)
        seen, at = _follow(following, seen, at)
    seen, at = _follow(following, seen, at)
    assert seen == expected


def _follow(following: Following, seen: list[int], at: int | None) -> tuple[list[int], int | None]:
    try:
        following.poll()
    except PipelineError:
        return seen, at  # Nothing has arrived as yet.
    for ensemble in following.ensembles.values():
        if not ensemble.logs:
            continue
        at = ensemble.earliest() if at is None else at
        route = ensemble.route(at)
        seen = seen + zxids_of(following, route)
        at = route.end
    return seen, at
