"""`zab log DIR DIR DIR`: the logs of several members of a ZooKeeper, of which is shown what a majority has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from datatree.record import Txn
from datatree.zookeeper.log import LOG_HEADER, LogReader, encode_record
from tests.cli.commands import Run, nap_with, run
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zookeeper_server import zookeeper
from zab.cli.files.log_files import Damage, Entry, Event, Note, UnreadableError
from zab.cli.files.member_logs import MemberLogs, open_members

__all__ = ["run"]

SPACE = bytes(300)
E1, E2, E3 = (epoch << 32 for epoch in (1, 2, 3))


def record(zxid: int, data: bytes = b"x") -> bytes:
    return encode_record(Txn(zxid, 1_763_700_000_000, 0x55, 1, 5, zxid & 0xFFFF, b"/app", data, None), digest=zxid)


class Member:
    """A member's directory, written as ZooKeeper writes it."""

    def __init__(self, root: Path, number: int) -> None:
        self.root = root / str(number)
        self.directory = self.root / "version-2"
        self.directory.mkdir(parents=True)
        (self.root / "myid").write_text(f"{number}\n")
        self.path: Path | None = None
        self.zxids: list[int] = []

    def write(self, *zxids: int, data: bytes = b"x") -> Member:
        for zxid in zxids:
            if self.path is None:
                self.path = self.directory / f"log.{zxid:x}"
                self.path.write_bytes(LOG_HEADER)
            content = self.path.read_bytes().removesuffix(SPACE)
            self.path.write_bytes(content + record(zxid, data) + SPACE)
            self.zxids.append(zxid)
        return self

    def roll(self) -> Member:
        self.path = None
        return self

    def cut(self, last: int) -> Member:
        """As `FileTxnLog.truncate`: the file is shortened, those after it go; what comes begins a file."""
        paths = sorted(self.directory.glob("log.*"), key=lambda path: int(path.name[4:], 16))
        found = max((path for path in paths if int(path.name[4:], 16) <= last), key=paths.index, default=paths[0])
        for later in paths[paths.index(found) + 1 :]:
            later.unlink()
        reader = LogReader([found.read_bytes()], str(found))
        ends = next((each.offset for each in reader if each.txn.zxid > last), reader.offset)
        found.write_bytes(found.read_bytes()[:ends])
        self.zxids = [zxid for zxid in self.zxids if zxid <= last]
        return self.roll()


@pytest.fixture
def members(tmp_path: Path) -> list[Member]:
    return [Member(tmp_path, number) for number in (1, 2, 3)]


def opened(members: list[Member]) -> MemberLogs:
    return open_members([member.root for member in members])


def zxids(events: list[Event]) -> list[int]:
    return [event.txn.zxid for event in events if isinstance(event, Entry)]


def notes(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Note)]


def damage(events: list[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, Damage)]


def epoch(base: int, first: int, last: int) -> list[int]:
    return [base + counter for counter in range(first, last + 1)]


# What is shown.


def test_what_a_majority_has_is_shown_once(members: list[Member]) -> None:
    one, two, three = members
    one.write(*epoch(E1, 1, 5))
    two.write(*epoch(E1, 1, 3))
    three.write(*epoch(E1, 1, 4))
    log = opened(members)
    events = list(log.dump())
    assert zxids(events) == epoch(E1, 1, 4)
    assert all(event.committed for event in events if isinstance(event, Entry))
    assert list(log.poll()) == []
    two.write(*epoch(E1, 4, 5))
    assert zxids(list(log.poll())) == [E1 + 5]
    three.write(E1 + 5)
    assert list(log.poll()) == []


def test_files_that_follow_and_files_that_are_purged(members: list[Member]) -> None:
    for member in members:
        member.write(*epoch(E1, 1, 3)).roll()
    log = opened(members)
    assert zxids(list(log.dump())) == epoch(E1, 1, 3)
    for member in members:
        old = next(member.directory.iterdir())
        member.write(E1 + 4).roll().write(E1 + 5)
        (member.directory / f"snapshot.{E1 + 3:x}").write_bytes(b"")
        old.unlink()
    assert zxids(list(log.poll())) == epoch(E1, 4, 5)
    assert not notes(list(log.poll()))


def test_a_snapshot_says_what_its_member_has(members: list[Member]) -> None:
    members[0].write(*epoch(E1, 1, 5))
    log = opened(members)
    assert zxids(list(log.dump())) == []
    (members[1].directory / f"snapshot.{E1 + 4:x}.gz").write_bytes(b"")
    assert zxids(list(log.poll())) == epoch(E1, 1, 4)


def test_the_tail_of_a_leader_that_was_left_behind_is_not_shown(members: list[Member]) -> None:
    one, two, three = members
    for member in members:
        member.write(*epoch(E1, 1, 4))
    one.write(*epoch(E1, 5, 7))
    log = opened(members)
    assert zxids(list(log.dump())) == epoch(E1, 1, 4)
    two.roll().write(E2 + 1)
    assert list(log.poll()) == []
    three.roll().write(E2 + 1, E2 + 2)
    events = list(log.poll())
    assert zxids(events) == [E2 + 1]
    assert notes(events) == [
        f"{one.root}: 0x100000005 to 0x100000007 is in no majority's log, and 0x200000001 came without: left out"
    ]
    # It comes back, and gives up what it had alone.
    one.cut(E1 + 4)
    assert notes(list(log.poll())) == [f"{one.root}: the log was cut from 0x100000007 back to 0x100000004"]
    one.write(E2 + 1, E2 + 2)
    assert zxids(list(log.poll())) == [E2 + 2]


def test_a_tail_that_is_cut_was_never_shown(members: list[Member]) -> None:
    for member in members:
        member.write(E1 + 1)
    members[0].write(*epoch(E1, 2, 3)).roll().write(E1 + 4)
    log = opened(members)
    assert zxids(list(log.dump())) == [E1 + 1]
    members[0].cut(E1 + 1).write(E2 + 1)
    members[1].write(E2 + 1)
    events = list(log.poll())
    assert zxids(events) == [E2 + 1]
    # Between two polls it had more epochs already, so what was cut is no news.
    assert notes(events) == []


def test_the_end_of_an_epoch_that_one_member_kept_is_shown(members: list[Member]) -> None:
    one, two, three = members
    one.write(*epoch(E1, 1, 5), E2 + 1)
    two.write(E2 + 1)
    three.write(*epoch(E1, 1, 3))
    events = list(opened(members).dump())
    assert zxids(events) == [*epoch(E1, 1, 5), E2 + 1]
    assert notes(events) == []


def test_a_hole_is_said(members: list[Member]) -> None:
    for member in members:
        member.write(*epoch(E1, 1, 2), *epoch(E1, 5, 6))
    events = list(opened(members).dump())
    assert zxids(events) == [E1 + 1, E1 + 2, E1 + 5, E1 + 6]
    assert notes(events) == ["0x100000005 comes right after 0x100000002 in no log: something may be missing here"]


def test_a_record_is_waited_for_until_it_is_whole(members: list[Member]) -> None:
    for member in members:
        member.write(E1 + 1)
    log = opened(members)
    list(log.dump())
    paths = [member.path for member in members if member.path is not None]
    whole = paths[0].read_bytes().removesuffix(SPACE) + record(E1 + 2)
    for length in range(len(whole) - len(record(E1 + 2)), len(whole), 7):
        for path in paths:
            path.write_bytes(whole[:length] + SPACE)
        assert list(log.poll()) == []
    for path in paths:
        path.write_bytes(whole + SPACE)
    assert zxids(list(log.poll())) == [E1 + 2]


def test_one_member_alone_shows_all_that_it_has_and_says_nothing_of_it(members: list[Member]) -> None:
    members[0].write(*epoch(E1, 1, 3)).roll().write(E2 + 1)
    log = open_members([members[0].root])
    events = list(log.dump())
    assert [(event.txn.zxid, event.committed) for event in events if isinstance(event, Entry)] == [
        (zxid, None) for zxid in (*epoch(E1, 1, 3), E2 + 1)
    ]
    members[0].write(E2 + 2)
    assert zxids(list(log.poll())) == [E2 + 2]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_what_is_shown_is_the_history_in_its_order(tmp_path: Path, seed: int) -> None:
    """Leaders come and go; each is the most advanced of a majority, and brings its followers to its own history."""
    random = Random(seed)
    members = [Member(tmp_path, number) for number in range(1, random.choice([3, 3, 5]) + 1)]
    log, shown = opened(members), list[int]()
    epochs = dict.fromkeys((member.root for member in members), 0)
    for current in range(1, 8):
        quorum = random.sample(members, len(members) // 2 + 1)
        leader = max(quorum, key=lambda member: (epochs[member.root], member.zxids[-1:]))
        for member in quorum:
            epochs[member.root] = current
            common = max((zxid for zxid in leader.zxids if zxid in member.zxids), default=0)
            if common < max(member.zxids, default=0):
                member.cut(common)
            member.roll().write(*(zxid for zxid in leader.zxids if zxid > common))
        for counter in range(1, random.randrange(2, 7)):
            leader.write((current << 32) + counter)
            for member in quorum:
                missing = [zxid for zxid in leader.zxids if zxid > max(member.zxids, default=0)]
                member.write(*missing[: random.randrange(len(missing) + 1)])
                if not random.randrange(5):
                    member.roll()
            if not random.randrange(3):
                shown += zxids(list(log.poll()))
        history = leader.zxids
    shown += zxids(list(log.poll()))
    held = sorted((max(member.zxids, default=0) for member in quorum), reverse=True)
    assert shown == [zxid for zxid in history if zxid <= held[len(members) // 2]]
    assert not damage(list(log.poll()))


# What is wrong.


def test_damage_in_one_log_is_told_and_the_others_have_what_it_lost(members: list[Member]) -> None:
    for member in members:
        member.write(*epoch(E1, 1, 4))
    path = members[0].path
    assert path is not None
    content = bytearray(path.read_bytes())
    content[content.index(record(E1 + 2)) + 30] ^= 1
    path.write_bytes(content)
    log = opened(members)
    events = list(log.dump())
    assert zxids(events) == epoch(E1, 1, 4)
    assert damage(events) == ["checksum of the transaction does not match"]
    assert not notes(events)
    assert list(log.poll()) == []


def test_nothing_is_taken_for_the_end_of_an_epoch_across_damage(members: list[Member]) -> None:
    one, two, _ = members
    one.write(*epoch(E1, 1, 6), E2 + 1)
    two.write(E2 + 1)
    assert one.path is not None
    one.path.write_bytes(
        one.path.read_bytes().replace(record(E1 + 6), record(E1 + 6)[:40] + b"?" + record(E1 + 6)[41:])
    )
    events = list(opened(members).dump())
    assert zxids(events) == [E2 + 1]
    assert len(damage(events)) == 1
    assert "0x100000001 to 0x100000005 is in no majority's log" in notes(events)[0]


@pytest.mark.parametrize("is_there_before", [True, False])
def test_a_record_that_cannot_be_read_is_damage_once_nobody_writes_it_any_more(
    members: list[Member], is_there_before: bool
) -> None:
    for member in members:
        member.write(E1 + 1)
    log = opened(members)
    if not is_there_before:
        list(log.dump())
    for member in members:
        member.write(*epoch(E1, 2, 3))
    path = members[0].path
    assert path is not None
    broken = bytearray(record(E1 + 2))
    broken[8:12] = b"\xff" * 4
    path.write_bytes(path.read_bytes().replace(record(E1 + 2), broken))
    events = list(log.dump() if is_there_before else log.poll())
    assert zxids(events)[-2:] == epoch(E1, 2, 3)
    assert len(damage(events)) == is_there_before
    members[0].roll().write(E1 + 4)
    assert len(damage(list(log.poll()))) == (not is_there_before)


def test_a_file_that_is_none_is_told_once_and_the_next_one_is_read(members: list[Member]) -> None:
    for member in members:
        member.write(*epoch(E1, 1, 2)).roll().write(*epoch(E1, 3, 4))
    (members[0].directory / f"log.{E1 + 1:x}").write_bytes(b"no log at all, but long enough")
    log = opened(members)
    events = list(log.dump())
    assert zxids(events) == epoch(E1, 1, 4)
    assert len(damage(events)) == 1
    assert "magic" in damage(events)[0]
    (members[0].directory / f"log.{E1 + 9:x}").write_bytes(b"no log at all, but long enough")
    assert len(damage(list(log.poll()))) == 1
    assert list(log.poll()) == []


def test_a_directory_that_goes_counts_as_one_that_has_nothing(members: list[Member], tmp_path: Path) -> None:
    for member in members:
        member.write(E1 + 1)
    log = opened(members)
    assert zxids(list(log.dump())) == [E1 + 1]
    members[2].root.rename(tmp_path / "away")
    members[0].write(E1 + 2)
    events = list(log.poll())
    assert zxids(events) == []
    assert notes(events) == [
        f"{members[2].root} cannot be read, and counts as a member that has nothing: No such file or directory"
    ]
    assert list(log.poll()) == []
    (tmp_path / "away").rename(members[2].root)
    members[2].write(E1 + 2)
    events = list(log.poll())
    assert zxids(events) == [E1 + 2]
    assert notes(events) == [f"{members[2].root} can be read again"]


def test_members_that_disagree_are_told_apart(members: list[Member]) -> None:
    members[0].write(E1 + 1).write(E1 + 2, data=b"this")
    members[1].write(E1 + 1).write(E1 + 2, data=b"that")
    log = opened(members)
    with pytest.raises(UnreadableError, match=r"1/.* offset \d+ and .*2/.* offset \d+ have different .*0x100000002"):
        list(log.dump())


def test_a_digest_that_only_one_logs_is_no_difference(members: list[Member]) -> None:
    for member, digest in zip(members[:2], (None, 5), strict=True):
        txn = Txn(E1 + 1, 0, 0x55, 1, 5, 1, b"/app", b"x", None)
        (member.directory / "log.100000001").write_bytes(LOG_HEADER + encode_record(txn, digest))
    assert zxids(list(opened(members).dump())) == [E1 + 1]


# The command.


def test_what_is_left_out_at_the_end_is_said(run: Run, members: list[Member]) -> None:
    for member in members:
        member.write(E1 + 1)
    members[1].write(*epoch(E1, 2, 3))
    assert run("log", "--json", *(member.root for member in members)) == 0
    assert [json.loads(line)["zxid"] for line in run.out.splitlines()] == ["0x100000001"]
    assert json.loads(run.out)["committed"] is True
    assert run.err == f"zab: {members[1].root}: 0x100000002 to 0x100000003 is in no majority's log: left out\n"


def test_several_members_are_followed(run: Run, members: list[Member], monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of the command: what is there, what comes, until Ctrl-C."""
    naps: list[Callable[[], object]] = [lambda: members[0].write(E1 + 1), lambda: members[1].write(E1 + 1)]

    def sleep(_seconds: float) -> None:
        if not naps:
            raise KeyboardInterrupt
        naps.pop(0)()

    nap_with(monkeypatch, sleep)
    # version-2 itself may be named, too.
    assert run("log", "--follow", members[0].root, members[1].directory, members[2].root) == 130
    assert run.out.splitlines()[0] == "ZooKeeper Transactional Log Files of 3 members: what 2 of them have"
    assert ["0x100000001" in line for line in run.out.splitlines()] == [False, True]


def test_members_that_disagree_end_in_1(run: Run, members: list[Member]) -> None:
    members[0].write(E1 + 1, data=b"this")
    members[1].write(E1 + 1, data=b"that")
    assert run("log", *(member.root for member in members)) == 1
    assert "different transactions" in run.err
    assert "0x100000001" not in run.out


def test_wrong_members_are_refused(run: Run, members: list[Member], tmp_path: Path) -> None:
    one, two, _ = (member.write(E1 + 1) for member in members)
    assert run("log", "--follow", one.root) == 2
    assert "--uncommitted" in run.err
    assert run("log", "--uncommitted", one.root, two.root) == 2
    assert "majority" in run.err
    assert run("log", one.root, tmp_path / "absent") == 2
    assert run("log", one.root, one.directory) == 1
    assert "are one directory" in run.err
    assert run("log", one.root, one.path) == 1
    assert "name the directory of each" in run.err
    shutil.copytree(one.root, tmp_path / "copy")
    assert run("log", one.root, tmp_path / "copy") == 1
    assert "both of member 1" in run.err
    (tmp_path / "else").mkdir()
    assert run("log", one.root, tmp_path / "else") == 1
    assert "neither logs of ZooKeeper" in run.err
    native = tmp_path / "native" / "version-1"
    native.mkdir(parents=True)
    for directory in (native, native.parent):
        assert run("log", one.root, directory) == 1
        assert "name the directory of one member" in run.err


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.longest
def test_a_real_ensemble_is_followed_while_leaders_change(tmp_path: Path) -> None:
    configuration = {"tickTime": 300, "maxSessionTimeout": 60_000}
    with zookeeper(3, directory=tmp_path, configuration=configuration) as ensemble:
        with kazoo_client(ensemble.hosts) as client:
            log = open_members([member.data_directory for member in ensemble.members])
            events: list[Event] = []
            client.ensure_path("/app")
            for number in range(3):
                events += log.poll()
                leader = ensemble.leader()
                leader.kill()
                client.retry(client.create, f"/app/{number}-", b"x", sequence=True)
                leader.start()
                ensemble.wait()
                client.retry(client.set, "/app", b"%d" % number)
            last = client.retry(client.get, "/app")[1].mzxid
            children = client.retry(client.get_children, "/app")
        assert not [event for event in events if isinstance(event, Damage)]
    events += log.poll()
    shown = zxids(events)
    assert last in shown
    assert shown == sorted(set(shown))
    paths = [event.txn.path for event in events if isinstance(event, Entry)]
    assert sorted(path.decode()[5:] for path in paths if path.startswith(b"/app/")) == sorted(children)
    # All members were there at the end, so each has what was shown, except for what a snapshot brought it.
    for member in ensemble.members:
        has = set(zxids(list(open_members([member.data_directory]).dump())))
        assert has <= set(shown) | {zxid for zxid in has if zxid > last}
