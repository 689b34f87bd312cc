"""Which members and files are in directories, found by looking, and what is wrong with the directories."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from datatree.log.epochs import COMMITTED, pack_mark
from tests.pipeline.rigs.log_builder import (
    FIRST,
    LINEAGE,
    NativeFile,
    in_batches,
    random_txns,
    version2_bytes,
    write_native,
    write_version2,
)
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Inventory, inventory, shown_dirs
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.places import Place

OTHER = bytes(range(16, 32))
TXNS = random_txns(random.Random(1), 60)
PLAIN = random_txns(random.Random(2), 60, native=False)
FILES = [in_batches(TXNS[at : at + 20], 3) for at in (0, 20, 40)]


def native(directory: Path, member: int | None = 1, lineage: bytes = LINEAGE) -> Path:
    write_native(directory, FILES, member=member, lineage=lineage)
    return directory


def theirs(directory: Path, member: int | None = 1) -> Path:
    write_version2(directory, [PLAIN[:30], PLAIN[30:]], member=member)
    return directory


def names(found: Inventory) -> list[tuple[str, str]]:
    return [(member.ensemble, member.member) for member in found.members]


def only(found: Inventory) -> MemberFiles:
    (member,) = found.members
    return member


def test_a_native_member(tmp_path: Path) -> None:
    member = only(inventory(native(tmp_path / "data", 7)))
    assert (member.ensemble, member.member, member.kind) == (LINEAGE.hex(), "7", "native")
    assert member.committed == TXNS[-1].zxid
    assert [log.name for log in member.logs] == [f"log.{FIRST + at:x}" for at in (0, 20, 40)]
    assert [log.previous and log.previous[0] for log in member.logs] == [0, FIRST + 19, FIRST + 39]
    assert [log.cutoff for log in member.logs] == [FIRST + 19, FIRST + 39, None]
    assert [log.following for log in member.logs] == [FIRST + 19, FIRST + 39, None]
    assert [(log.is_newest, log.has_index, log.problem) for log in member.logs] == [
        (False, True, None),
        (False, True, None),
        (True, True, None),
    ]
    assert all(log.size == Path(log.place.path).stat().st_size for log in member.logs)


def test_a_member_of_zookeeper(tmp_path: Path) -> None:
    theirs(tmp_path / "ensemble" / "data", 3)
    version = tmp_path / "ensemble" / "data" / "version-2"
    for name in ("snapshot.0", "snapshot.100000005.gz", "snapshot.100000009.snappy", "snapshot.100000004"):
        (version / name).write_bytes(b"ZKSN" + bytes(60))
    for name in ("acceptedEpoch", "currentEpoch.tmp", "log.100000001.gz", "snapshot.xyz", "log.spare"):
        (version / name).write_bytes(b"1")
    member = only(inventory(tmp_path))
    assert (member.ensemble, member.member, member.kind) == ("ensemble", "3", "version-2")
    assert [(log.first, log.previous, log.cutoff, log.problem) for log in member.logs] == [
        (FIRST, None, FIRST + 29, None),
        (FIRST + 30, None, None, None),
    ]
    assert [(one.zxid, one.name) for one in member.snapshots] == [
        (0, "snapshot.0"),
        (FIRST + 3, "snapshot.100000004"),
        (FIRST + 4, "snapshot.100000005.gz"),
        (FIRST + 8, "snapshot.100000009.snappy"),
    ]


@pytest.mark.parametrize("given", ["", "data", "data/version-1"])
def test_a_member_may_be_named_from_above_or_below(tmp_path: Path, given: str) -> None:
    native(tmp_path / "data", None)
    assert names(inventory(tmp_path / given)) == [(LINEAGE.hex(), "data")]


def test_log_files_alone_in_a_directory_are_a_member(tmp_path: Path) -> None:
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / f"log.{FIRST:x}").write_bytes(version2_bytes(PLAIN))
    assert names(inventory([tmp_path / "shipped"])) == [(tmp_path.name, "shipped")]


@pytest.mark.parametrize("layout", ["{}/{}", "{}/host{}/data", "{}/deep/er/{}"])
def test_members_of_zookeeper_below_one_directory_are_an_ensemble(tmp_path: Path, layout: str) -> None:
    for member in (1, 2, 3):
        theirs(tmp_path / layout.format("prod", member), member)
    expected = "er" if "deep" in layout else "prod"
    assert names(inventory(tmp_path / "prod")) == [(expected, "1"), (expected, "2"), (expected, "3")]
    dirs = [tmp_path / layout.format("prod", member) for member in (1, 2, 3)]
    assert names(inventory(dirs)) == names(inventory(tmp_path / "prod"))


@pytest.mark.parametrize("layout", ["{}/{}", "{}/host{}/data"])
def test_members_with_the_same_numbers_are_of_different_ensembles(tmp_path: Path, layout: str) -> None:
    for name in ("prod", "test"):
        for member in (1, 2):
            theirs(tmp_path / layout.format(name, member), member)
    assert names(inventory(tmp_path)) == [("prod", "1"), ("prod", "2"), ("test", "1"), ("test", "2")]


def test_native_members_are_together_by_their_lineage(tmp_path: Path) -> None:
    native(tmp_path / "a" / "1", 1)
    native(tmp_path / "b" / "2", 2)
    native(tmp_path / "b" / "1", 1, OTHER)
    assert names(inventory([tmp_path / "a", tmp_path / "b"])) == [
        (LINEAGE.hex(), "1"),
        (LINEAGE.hex(), "2"),
        (OTHER.hex(), "1"),
    ]


def test_an_ensemble_may_be_named(tmp_path: Path) -> None:
    native(tmp_path / "a", 1)
    theirs(tmp_path / "x" / "b", 1)
    theirs(tmp_path / "y" / "c", 2)
    found = inventory([f"ours={tmp_path / 'a'}", f"theirs={tmp_path / 'x'}", f"theirs={tmp_path / 'y'}"])
    assert names(found) == [("ours", "1"), ("theirs", "1"), ("theirs", "2")]
    assert {name: len(members) for name, members in found.ensembles.items()} == {"ours": 1, "theirs": 2}


def test_a_directory_may_have_an_equals_sign_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native(tmp_path / "day=5")
    monkeypatch.chdir(tmp_path)
    assert only(inventory("day=5")).ensemble == LINEAGE.hex()


def test_copies_of_one_member_are_told_apart(tmp_path: Path) -> None:
    for name in ("monday", "tuesday"):
        native(tmp_path / name, 1)
    assert [member.member for member in inventory(tmp_path).members] == [
        f"1 ({tmp_path}/{name}/version-1)" for name in ("monday", "tuesday")
    ]


def test_a_directory_given_twice_counts_once(tmp_path: Path) -> None:
    native(tmp_path / "data")
    assert len(inventory([tmp_path, tmp_path / "data", tmp_path / "data" / "version-1"]).members) == 1


# What is wrong with a file.


def damaged(directory: Path, change: int) -> Path:
    path = directory / "version-1" / f"log.{FIRST + 20:x}"
    data = bytearray(path.read_bytes())
    data[change] ^= 1
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("at", [0, 5, 20, 63])
def test_a_damaged_header_does_not_hide_the_file(tmp_path: Path, at: int) -> None:
    damaged(native(tmp_path), at)
    member = only(inventory(tmp_path))
    log = member.logs[1]
    assert log.is_usable
    assert log.problem is not None
    assert (log.problem.kind, log.problem.offset, log.previous) == ("damaged", 0, None)
    # Where it begins is not known, so the file before it is not cut there.
    assert member.logs[0].cutoff == FIRST + 39


def test_a_file_under_the_name_of_another_is_foreign(tmp_path: Path) -> None:
    native(tmp_path)
    version = tmp_path / "version-1"
    one, two = version / f"log.{FIRST:x}", version / f"log.{FIRST + 20:x}"
    one.rename(version / "x")
    two.rename(one)
    (version / "x").rename(two)
    first, second, third = only(inventory(tmp_path)).logs
    assert first.problem is not None
    assert second.problem is not None
    assert (first.problem.kind, first.is_usable) == ("foreign", False)
    assert first.problem.reason == f"its header says that it is log.{FIRST + 20:x}"
    assert second.problem.reason == f"its header says that it is log.{FIRST:x}"
    assert third.problem is None


def test_a_file_of_another_lineage_is_foreign(tmp_path: Path) -> None:
    native(tmp_path)
    NativeFile.build(FILES[1], (FIRST + 19, bytes(16)), lineage=OTHER).write(tmp_path / "version-1", index=False)
    log = only(inventory(tmp_path)).logs[1]
    assert log.problem is not None
    assert log.problem.kind == "foreign"
    assert OTHER.hex() in log.problem.reason


def test_a_file_that_is_only_preallocated_is_none_yet(tmp_path: Path) -> None:
    native(tmp_path)
    (tmp_path / "version-1" / f"log.{FIRST + 60:x}").write_bytes(bytes(5000))
    (tmp_path / "version-1" / f"log.{FIRST + 70:x}").write_bytes(b"")
    assert len(only(inventory(tmp_path)).logs) == 3


def test_a_cut_or_damaged_header_of_zookeeper(tmp_path: Path) -> None:
    theirs(tmp_path)
    version = tmp_path / "version-2"
    (version / f"log.{FIRST + 60:x}").write_bytes(b"ZKLG\0\0\0\2\0\0")
    (version / f"log.{FIRST + 30:x}").write_bytes(b"ZKLG\0\0\0\3" + version2_bytes(PLAIN[30:])[8:])
    first, second, third = only(inventory(tmp_path)).logs
    assert first.problem is None
    assert second.problem is not None
    assert (second.problem.kind, second.is_usable) == ("damaged", True)
    assert third.problem is not None
    assert (third.problem.kind, third.is_usable) == ("unreadable", False)


# What makes a directory unusable.


def make_mixed(root: Path) -> None:
    native(root)
    (root / "version-1" / "log.5").write_bytes(version2_bytes(PLAIN))


def make_both(root: Path) -> None:
    native(root)
    theirs(root)


def make_empty(root: Path) -> None:
    (root / "version-1").mkdir()


def make_others(root: Path) -> None:
    (root / "log.1").write_bytes(b"something else entirely" * 10)
    (root / "snapshot.1").write_bytes(b"neither")


def make_two_lineages(root: Path) -> None:
    native(root / "1", 1)
    native(root / "2", 2, OTHER)


def make_two_histories(root: Path) -> None:
    theirs(root / "1", 1)
    write_version2(root / "2", [random_txns(random.Random(9), 5, native=False)], member=2)


def test_a_failed_multi_that_members_wrote_otherwise_is_one_history(tmp_path: Path) -> None:
    """ZooKeeper's leader may write its parts as errors where the others have them as they were asked for."""
    for number in (1, 2):
        theirs(tmp_path / str(number), number)
    for log in (tmp_path / "2").rglob("log.*"):
        data = bytearray(log.read_bytes())
        # The checksum of the first record, and the first byte after its header.
        data[20] ^= 0xFF
        data[16 + 12 + 32] ^= 0xFF
        log.write_bytes(data)
    assert [ensemble for ensemble, _ in names(inventory(tmp_path))] == [tmp_path.name] * 2


@pytest.mark.parametrize(
    ("make", "given", "reason"),
    [
        (make_empty, "{}", "holds no logs and no snapshots"),
        (make_others, "{}", "holds no logs and no snapshots"),
        (make_empty, "{}/missing", "missing does not exist"),
        (make_others, "{}/log.1", "log.1 is a file; name the directory"),
        (make_mixed, "{}", "mixes files of zab and of ZooKeeper"),
        (make_both, "{}", "holds both version-1 and version-2; name the one that is meant"),
        (make_two_lineages, "name={}", "have different lineages"),
        (make_two_histories, "{}", "hold different transactions; name them apart"),
        (make_two_histories, "name={}", "hold different transactions"),
    ],
)
def test_an_unusable_directory_is_told_in_one_sentence(
    tmp_path: Path, make: Callable[[Path], None], given: str, reason: str
) -> None:
    make(tmp_path)
    with pytest.raises(PipelineError, match=reason) as caught:
        inventory(given.format(tmp_path))
    assert "\n" not in str(caught.value)


def test_nothing_given_is_told() -> None:
    with pytest.raises(PipelineError, match="no directory was given"):
        inventory([])


def test_the_search_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.pipeline.inventory.DIRECTORIES_MAX", 20)
    for number in range(30):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(PipelineError, match="more than 20 directories"):
        inventory(tmp_path)
    native(tmp_path / "a" / "b" / "c" / "d" / "e" / "f")
    monkeypatch.undo()
    with pytest.raises(PipelineError, match="holds no logs"):
        inventory(tmp_path)


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native(tmp_path)
    inventory(tmp_path)
    read: list[str] = []
    plain = Place.read

    def counted(place: Place, offset: int = 0, length: int | None = None) -> bytes:
        read.append(place.name)
        return plain(place, offset, length)

    monkeypatch.setattr(Place, "read", counted)
    assert len(only(inventory(tmp_path)).logs) == 3
    assert not [name for name in read if name.startswith("log.")]
    with (tmp_path / "version-1" / f"log.{FIRST + 40:x}").open("ab") as file:
        file.write(b"x")
    inventory(tmp_path)
    assert [name for name in read if name.startswith("log.")] == [f"log.{FIRST + 40:x}"]


def test_what_is_shown_of_a_uri_is_no_secret() -> None:
    given = ["north=s3://key:secret@bucket/a?endpoint_override=here", "hdfs://user@host/b", "plain?c", "e=/d"]
    assert shown_dirs(given) == "north=s3://bucket/a, hdfs://host/b, plain?c, e=/d"


def test_a_mark_of_another_lineage_is_not_the_members(tmp_path: Path) -> None:
    directory = native(tmp_path / "data", 7)
    (found,) = directory.rglob(COMMITTED)
    found.write_bytes(pack_mark(b"another history!", TXNS[-1].zxid))
    assert only(inventory(directory)).committed == 0


def test_hidden_directories_are_passed_over(tmp_path: Path) -> None:
    native(tmp_path / ".snapshot", 7)
    native(tmp_path / "data", 7)
    assert only(inventory(tmp_path)).directory.path.startswith(str(tmp_path / "data"))
