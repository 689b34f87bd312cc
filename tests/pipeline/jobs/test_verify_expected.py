"""Members that a history names and that were not given are said, and how: no deviation, as a lag is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from datatree.log.batch import RECONFIG, Batch, Position, build, genesis
from datatree.opcodes import OpCode
from datatree.paths import CONFIG
from datatree.record import Txn, encode
from datatree.snapshot import SnapshotWriter
from datatree.tree import DataTree
from tests.datatree.histories import LINEAGE
from tests.pipeline.rigs.log_builder import in_batches, write_native, write_version2
from tests.pipeline.rigs.member_logs import found, member
from zab.host.storage.disk import RealDisk
from zab.pipeline.member_files import SnapshotFile
from zab.pipeline.places import open_place
from zab.pipeline.verify.expected import configuration_in
from zab.pipeline.verify.findings import Finding

FIRST = 1 << 32 | 1
TEXT = b"\n".join(b"server.%d=h%d:1:2:participant" % (number, number) for number in (1, 2, 3)) + b"\nversion=100000002"
OTHER = bytes(range(16, 32))


def write(zxid: int) -> Txn:
    return Txn(zxid, 0, 5, 1, OpCode.SET_DATA, 1, b"/x", b"", None)


def reconfiguration(zxid: int, text: bytes = TEXT) -> Txn:
    return Txn(zxid, 0, 0, 0, OpCode.RECONFIG, -1, CONFIG, text, None)


def batches(*txns: Txn, lineage: bytes = LINEAGE) -> list[Batch]:
    made: list[Batch] = []
    position: Position = (0, genesis(lineage))  # type: ignore[assignment]
    for txn in txns:
        flags = RECONFIG if txn.type == OpCode.RECONFIG else 0
        places = {"epoch": 1, "first": txn.zxid, "count": 1, "mark": position[0], "applied": position[0]}
        made.append(build(position[1], time=0, flags=flags, digest=7, body=encode(txn), **places))
        position = made[-1].zxid, made[-1].chain
    return made


RECONFIGURED = batches(write(FIRST), reconfiguration(FIRST + 1), write(FIRST + 2))


def expected(directories: list[Path]) -> list[Finding]:
    return [one for one in found(directories) if one.kind == "expected"]


@pytest.mark.parametrize(("given", "missing"), [((1, 2, 3), ""), ((1, 3), "member 2"), ((2,), "members 1, 3")])
@pytest.mark.parametrize("kind", ["native", "version-2"])
def test_who_is_named_and_was_not_given_is_said(
    tmp_path: Path, kind: str, given: tuple[int, ...], missing: str
) -> None:
    for number in given:
        if kind == "native":
            member(tmp_path / str(number), number, RECONFIGURED)
        else:
            txns = [write(FIRST), reconfiguration(FIRST + 1), write(FIRST + 2)]
            write_version2(tmp_path / str(number), [txns], member=number)
    said = expected([tmp_path / str(number) for number in given])
    assert [(one.deviation, one.zxid, one.sentence) for one in said] == (
        [(False, FIRST + 1, f"the configuration names 3 servers; no files of {missing} were given")] if missing else []
    )


def test_the_newest_configuration_counts(tmp_path: Path) -> None:
    fewer = b"server.1=h:1:2:participant\nversion=100000003"
    member(tmp_path / "1", 1, batches(write(FIRST), reconfiguration(FIRST + 1), reconfiguration(FIRST + 2, fewer)))
    assert expected([tmp_path / "1"]) == []


def test_who_was_given_without_a_number_may_be_any(tmp_path: Path) -> None:
    txns = [write(FIRST), reconfiguration(FIRST + 1)]
    for name in ("a", "b", "c"):
        write_version2(tmp_path / name, [txns])
    assert expected([tmp_path / name for name in "abc"]) == []
    assert len(expected([tmp_path / name for name in "ab"])) == 1


def test_a_snapshot_has_it_where_the_logs_do_not(tmp_path: Path) -> None:
    tree = DataTree()
    tree.apply(reconfiguration(FIRST + 1))
    writer = SnapshotWriter(RealDisk(str(tmp_path), lock=False), tree.begin_snapshot(), LINEAGE, bytes(16))
    (tmp_path / "version-1").mkdir(exist_ok=True)
    writer.write()
    (path,) = (tmp_path / "version-1").glob("snapshot.*")
    file = SnapshotFile(open_place(str(path)), "native", FIRST + 1, path.stat().st_size)
    assert configuration_in(file) == (FIRST + 1, TEXT)
    path.write_bytes(path.read_bytes()[:100])
    assert configuration_in(file) is None


def test_members_of_two_ensembles_are_said_to_be(tmp_path: Path) -> None:
    member(tmp_path / "1", 1, batches(write(FIRST)))
    assert expected([tmp_path / "1"]) == []
    write_native(tmp_path / "2", [in_batches([write(FIRST)], 1)], member=2, lineage=OTHER)
    said = {one.ensemble: one.sentence for one in expected([tmp_path])}
    text = "1 of the members given; the others belong to another ensemble: "
    assert said == {LINEAGE.hex(): text + OTHER.hex(), OTHER.hex(): text + LINEAGE.hex()}
