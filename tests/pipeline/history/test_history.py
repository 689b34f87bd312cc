"""The checker of client histories: right ones pass, each kind of broken one is found with its smallest witness."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from attrs import asdict, evolve
from typer.testing import CliRunner

from tests.pipeline.rigs.histories import (
    BADVERSION,
    NODEEXISTS,
    NONODE,
    PATH,
    bent,
    good_history,
    has_order,
    without_versions,
    without_zxids,
)
from zab.cli.servers.simulate import simulate_command
from zab.pipeline.errors import PipelineError
from zab.pipeline.history.files import HISTORY, HistoryWriter, read_history, write_history
from zab.pipeline.history.operation import (
    CREATE,
    DELETE,
    EXISTS,
    FAILED,
    GET,
    OK,
    SET,
    SYNC,
    UNKNOWN,
    WRITES,
    Operation,
)
from zab.pipeline.history.search import SearchLimitError, linearize, smallest
from zab.pipeline.history.znode import SHOWN_MAX, UNDECIDED, check_znode
from zab.pipeline.jobs.history import check_table, history, read_histories
from zab.simulator.ensemble.judges.recorder import Record, Recorder
from zab.simulator.ensemble.simulation import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B = 0xA, 0xB


def op(session: int, number: int, kind: str, time: int, value: bytes | None = None, **more: object) -> Operation:
    """An answered operation that takes from `time` to `time` + 1."""
    fields = {"status": OK, "invoked": time, "returned": time + 1, "client": f"c{session:x}", **more}
    return Operation(session, number, kind, PATH, value=value, **fields)  # type: ignore[arg-type]


def right() -> list[Operation]:
    """Two sessions, every kind of operation; one write of unknown outcome that happened, and one that did not."""
    return [
        op(A, 1, CREATE, 0, b"0", version=0, zxid=1),
        op(A, 2, SET, 2, b"1", version=1, zxid=2),
        op(B, 1, GET, 2, b"0", version=0, zxid=1, mzxid=1),
        op(B, 2, SYNC, 4, zxid=2),
        op(B, 3, GET, 6, b"1", version=1, zxid=2, mzxid=2),
        op(A, 3, SET, 8, b"2", status=UNKNOWN, returned=None),
        op(A, 4, SET, 8, b"2b", status=UNKNOWN, returned=None),
        op(B, 4, GET, 10, b"2", version=2, zxid=4, mzxid=3),
        op(B, 5, SET, 12, b"no", status=FAILED, expected=7, error=BADVERSION, zxid=5),
        op(A, 5, SET, 14, b"3", version=3, expected=2, zxid=6),
        op(A, 6, DELETE, 16, expected=3, zxid=7),
        op(B, 6, EXISTS, 18, status=FAILED, error=NONODE, zxid=7),
        op(A, 7, SET, 20, b"no znode", status=FAILED, error=NONODE, zxid=8),
        op(A, 8, CREATE, 22, b"4", version=0, zxid=9),
        op(B, 7, CREATE, 24, b"twice", status=FAILED, error=NODEEXISTS, zxid=10),
        op(B, 8, EXISTS, 26, version=0, zxid=10, mzxid=9),
    ]


def table_of(operations: Sequence[Operation], name: str = "run") -> pa.Table:
    rows = [{column.name: getattr(one, column.name) for column in HISTORY} | {"history": name} for one in operations]
    from zab.pipeline.schema import arrow_schema

    return pa.Table.from_pylist(rows, arrow_schema(HISTORY))


def found(operations: Sequence[Operation]) -> list[tuple[str, list[tuple[int, int]]]]:
    """(kind, the session and number of each operation in its witness) of every violation."""
    result = []
    for row in check_table(table_of(operations)).to_pylist():
        words = [line.split() for line in row["witness"]]
        result.append((row["kind"], [(int(word[2], 16), int(word[3].lstrip("#").partition(".")[0])) for word in words]))
    return sorted(result)


def changed(session: int, number: int, **changes: object) -> list[Operation]:
    """The right history with one operation changed."""
    history = right()
    (place,) = [place for place, one in enumerate(history) if (one.session, one.operation) == (session, number)]
    history[place] = evolve(history[place], **changes)
    return history


def test_a_right_history_has_no_violation_in_whatever_order_it_was_recorded() -> None:
    for seed in range(20):
        operations = right()
        Random(seed).shuffle(operations)
        assert found(operations) == []
        assert found(without_zxids(operations)) == []
        assert found(without_versions(operations)) == []


@pytest.mark.parametrize(
    ("kind", "operations", "witness"),
    [
        # An acknowledged write is gone: the next one makes its version again; a later reply does not show it.
        ("lost write", changed(A, 5, version=2, expected=None), [(A, 3), (A, 5)]),
        ("lost write", changed(B, 4, value=b"1", version=1, mzxid=2, zxid=6), [(A, 5), (B, 4)]),
        # The deleted znode is there again; the created one is not.
        ("lost write", changed(B, 6, status=OK, error=None, version=3, mzxid=6), [(A, 6), (B, 6)]),
        ("lost write", changed(B, 8, status=FAILED, error=NONODE, version=None, mzxid=None), [(A, 8), (B, 8)]),
        # Two writes in the wrong order: by time, by session.
        ("write order", changed(A, 8, invoked=0, returned=1), [(A, 2), (A, 8)]),
        ("write order", changed(A, 5, operation=20), [(A, 8), (A, 20)]),
        # A read after a sync that does not show what was known when the sync was sent.
        ("stale synced read", changed(B, 3, value=b"0", version=0, mzxid=1, zxid=1), [(A, 2), (B, 3)]),
        # A session is shown the past: after a read, after its own write.
        ("non-monotonic read", changed(B, 1, operation=9), [(B, 8), (B, 9)]),
        # Nobody wrote this; it shows the future; there are versions that nobody made.
        ("phantom value", changed(B, 4, value=b"9"), [(B, 4)]),
        ("phantom value", changed(B, 4, zxid=2), [(B, 4)]),
        ("phantom value", changed(A, 5, version=5, expected=None), [(A, 3), (A, 5)]),
        # A refused value is there.
        ("refused write seen", changed(B, 4, value=b"no", mzxid=5, zxid=5), [(B, 4), (B, 5)]),
        # One zxid, two states; one write, two zxids.
        ("two states", changed(B, 3, value=b"x"), [(A, 2), (B, 3)]),
        ("two states", changed(B, 3, version=7), [(A, 2), (B, 3)]),
        ("two states", changed(A, 5, zxid=7), [(A, 5), (A, 6)]),
        ("two states", changed(B, 3, value=b"2", version=2, mzxid=5, zxid=5), [(A, 3), (B, 3)]),
        # Refused without a reason.
        ("unjustified refusal", changed(B, 5, expected=2), [(A, 3), (B, 5)]),
        ("unjustified refusal", changed(A, 7, zxid=10), [(A, 7), (A, 8)]),
        ("unjustified refusal", changed(B, 7, zxid=8), [(A, 6), (B, 7)]),
    ],
)
def test_a_broken_promise_is_found_with_the_operations_that_show_it(
    kind: str, operations: list[Operation], witness: list[tuple[int, int]]
) -> None:
    assert (kind, sorted(witness)) in [(each, sorted(shown)) for each, shown in found(operations)]


@pytest.mark.parametrize("sets_only", [True, False])
def test_right_histories_with_many_writes_of_unknown_outcome_pass(sets_only: bool) -> None:
    for seed in range(600, 800):
        assert check_znode(PATH, good_history(Random(seed), 80, sets_only=sets_only)) == [], f"seed {seed}"


def test_replies_of_a_session_that_go_back_are_found_across_znodes() -> None:
    operations = right()
    operations.append(evolve(op(B, 9, GET, 28, b"1", version=0, zxid=9, mzxid=1), path="/other"))
    assert found(operations) == [("non-monotonic read", [(B, 8), (B, 9)])]


def test_a_sync_that_failed_promises_nothing() -> None:
    stale = changed(B, 3, value=b"0", version=0, mzxid=1, zxid=1)
    without_sync = [evolve(one, status=UNKNOWN, zxid=None) if one.kind == SYNC else one for one in stale]
    assert found(without_sync) == []


def test_what_was_there_before_the_history_may_be_read() -> None:
    before = [
        op(B, 1, GET, 0, b"old", version=4, zxid=4, mzxid=3),
        op(B, 2, GET, 2, b"older", version=6, zxid=7, mzxid=5),
        op(A, 1, SET, 4, b"new", version=9, zxid=8),
        op(B, 3, GET, 6, b"new", version=9, zxid=8, mzxid=8),
    ]
    assert found(before) == []
    assert [kind for kind, _ in found([*before, op(A, 2, GET, 8, b"old", version=4, zxid=8, mzxid=3)])] == [
        "lost write",
        "non-monotonic read",
    ]


def test_what_the_ensemble_did_by_itself_has_no_time_and_no_client() -> None:
    operations = [
        op(A, 1, CREATE, 0, b"0", version=0, zxid=1),
        op(0, 0, DELETE, 0, zxid=3, invoked=None, returned=None, client=None),
        op(A, 2, CREATE, 4, b"1", version=0, zxid=5),
    ]
    assert found(operations) == []
    assert [kind for kind, _ in found([operations[0], operations[2]])] == ["lost write"]


def test_the_parts_of_a_multi_share_a_zxid() -> None:
    operations = [
        op(A, 1, CREATE, 0, b"0", version=0, zxid=1),
        op(A, 2, SET, 2, b"1", version=1, zxid=2, part=0),
        op(A, 2, SET, 2, b"2", version=2, zxid=2, part=1),
        op(B, 1, GET, 4, b"2", version=2, zxid=2, mzxid=2),
    ]
    assert found(operations) == []
    assert [kind for kind, _ in found([*operations[:3], evolve(operations[3], value=b"1")])] == ["two states"]


def test_an_absurd_version_takes_no_memory() -> None:
    (violation,) = check_znode(
        PATH, [op(A, 1, CREATE, 0, b"", version=0, zxid=1), op(A, 2, SET, 2, version=2**31 - 1, zxid=2)]
    )
    assert violation.kind == "phantom value"


def test_of_each_kind_only_the_first_violations_are_shown() -> None:
    reads = [op(B, number, GET, 2 * number, b"?%d" % number, mzxid=1, zxid=1) for number in range(1, 3 * SHOWN_MAX)]
    phantoms = [evolve(one, mzxid=10 + one.operation, zxid=90) for one in reads]
    result = check_znode(PATH, [op(A, 1, CREATE, 0, b"0", version=0, zxid=1), *phantoms])
    assert [one.kind for one in result].count("phantom value") == SHOWN_MAX


# ------------------------------------------------------------------------------------------------- the search, the twin


def test_the_search_finds_the_smallest_witness_where_no_zxid_says_the_order() -> None:
    noise = [op(A, 10 + number, SET, 10 * number, b"n%d" % number) for number in range(12)]
    stale = [
        op(A, 1, CREATE, -20, b"first"),
        op(A, 2, SET, -10, b"second"),
        op(B, 1, SYNC, 200),
        evolve(op(B, 2, GET, 202, b"second"), since=200),
    ]
    witness = smallest([*stale, *noise])
    assert linearize([*stale[:-1], *noise]) is not None
    assert linearize([*stale, *noise]) is None
    # The read, the write that it shows, and one that was in between.
    assert len(witness) == 3
    assert {one.value for one in witness if one.value} >= {b"second"}
    (violation,) = check_znode(PATH, [*stale, *noise])
    assert violation.kind == "not linearizable"
    assert len(violation.witness) == 3


def test_a_set_without_a_reply_may_be_what_a_delete_without_one_needed() -> None:
    """Neither of both is seen, and only both together explain that the znode could be created again."""
    operations = [
        op(A, 1, CREATE, 0, b"0", version=0, zxid=1),
        op(A, 2, SET, 2, b"1", version=1, zxid=2),
        op(B, 1, SET, 4, b"2", expected=-1, status=UNKNOWN, returned=None),
        op(B, 2, DELETE, 6, expected=2, status=UNKNOWN, returned=None),
        op(A, 3, CREATE, 8, b"3", version=0, zxid=5),
    ]
    assert check_znode(PATH, operations) == []
    assert [one.kind for one in check_znode(PATH, [*operations[:2], *operations[3:]])] == ["not linearizable"]


def test_a_hopeless_search_is_given_up_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many writes at one time, and a value that is read, replaced and read again."""
    writes = [op(100 + number, 1, SET, 2, b"%d" % number, returned=9) for number in range(16)]
    reads = [evolve(op(B, 1 + at, GET, 10 + 2 * at, b"%d" % value), since=9) for at, value in enumerate((0, 1, 0))]
    operations = [op(A, 1, CREATE, 0, b"first"), *writes, *reads]
    monkeypatch.setattr("zab.pipeline.history.search.STEPS_MAX", 1000)
    with pytest.raises(SearchLimitError):
        linearize(operations)
    (violation,) = check_znode(PATH, operations)
    assert violation.kind == UNDECIDED
    (row,) = check_table(table_of(operations)).to_pylist()
    assert not row["violation"]


def with_stats(operations: Sequence[Operation]) -> list[Operation]:
    """What a client keeps that sees Stats alone: zxids of creates, sets and reads that found the znode."""
    return [
        evolve(one, zxid=None, mzxid=one.zxid if one.kind in (CREATE, SET) and one.status == OK else one.mzxid)
        for one in operations
    ]


VIEWS: tuple[Callable[[Sequence[Operation]], list[Operation]], ...] = (
    list,
    with_stats,
    without_zxids,
    without_versions,
)


@pytest.mark.parametrize("view", VIEWS, ids=["all", "stats", "values and versions", "values"])
def test_the_checker_agrees_with_brute_force_on_small_random_histories(
    view: Callable[[Sequence[Operation]], list[Operation]],
) -> None:
    wrong_count = 0
    for seed in range(1000):
        rng = Random(seed)
        operations = good_history(rng, rng.randint(3, 6), sets_only=rng.random() < 0.4)
        assert not check_znode(PATH, view(operations)), f"seed {seed}: a right history"
        broken = view(bent(rng, operations))
        violations = check_znode(PATH, broken)
        assert bool(violations) != has_order(broken), f"seed {seed}"
        assert all(one.witness for one in violations)
        wrong_count += bool(violations)
    assert 50 < wrong_count < 900


@pytest.mark.parametrize("view", VIEWS, ids=["all", "stats", "values and versions", "values"])
def test_a_long_right_history_passes_and_one_lost_write_in_it_is_found(
    view: Callable[[Sequence[Operation]], list[Operation]],
) -> None:
    for seed in range(4):
        operations = good_history(Random(seed), 400, sets_only=True)
        assert check_znode(PATH, view(operations)) == []
        shown = {one.value for one in operations if one.kind == GET}
        acknowledged = [one for one in operations if one.kind == SET and one.status == OK and one.value in shown]
        lost = acknowledged[len(acknowledged) // 2]
        refused = evolve(lost, status=FAILED, error=BADVERSION, expected=None, version=None)
        violations = check_znode(PATH, view([refused if one is lost else one for one in operations]))
        assert violations, f"seed {seed}: the write of {lost.value!r} was lost unseen"
        assert min(len(one.witness) for one in violations) <= 3


# -------------------------------------------------------------------------------------------------------------- files


def test_a_history_comes_back_from_its_file_as_it_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run one.parquet"
    write_history(path, right())
    table = read_history([path])
    assert table.column("history").unique().to_pylist() == ["run one"]
    assert table.column_names == [column.name for column in HISTORY]
    assert table.to_pylist() == table_of(right(), "run one").to_pylist()
    assert sorted(tmp_path.iterdir()) == [path]


def test_many_operations_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.pipeline.history.files.ROWS_PER_GROUP", 5)
    path = tmp_path / "run.parquet"
    write_history(path, right(), name="n")
    assert pq.ParquetFile(path).num_row_groups == 4
    assert read_history([path]).num_rows == 16


def test_a_recorder_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), HistoryWriter(tmp_path / "run.parquet") as writer:  # noqa: PT012
        writer.extend(right())
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PipelineError, match="cannot be written"):
        write_history(tmp_path / "missing" / "run.parquet", right())


def test_what_is_no_history_is_refused_in_one_sentence(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    (tmp_path / "junk.parquet").write_bytes(b"PAR1 junk")
    with pytest.raises(PipelineError, match="is no history: it has no column history, client"):
        read_history([tmp_path / "other.parquet"])
    with pytest.raises(PipelineError, match="cannot be read as Parquet"):
        read_history([tmp_path / "junk.parquet"])
    with pytest.raises(PipelineError, match="cannot be read as Parquet"):
        read_history([tmp_path / "none.parquet"])
    with pytest.raises(PipelineError, match="no history was given"):
        read_history([])


# ---------------------------------------------------------------------------------------------------------- simulator


@pytest.fixture(scope="module")
def simulated() -> list[Record]:
    """What the clients of some runs with much going on asked and were told; each run has its paths for itself."""
    records = []
    for seed in (8, 9, 10):
        recorder = Recorder()
        run(seed, None, recorder)
        for record in recorder.records:
            record.path = f"/{seed}{record.path}"
            record.session += seed
        records += recorder.records
    return records


def operations_of(records: Sequence[Record]) -> list[Operation]:
    return [Operation(**asdict(record)) for record in records]


def test_what_simulated_clients_were_told_is_right(simulated: list[Record]) -> None:
    assert check_table(table_of(operations_of(simulated))).num_rows == 0
    kinds = {(record.kind, record.status) for record in simulated}
    assert kinds >= {("create", "ok"), ("set", "ok"), ("delete", "ok"), ("get", "ok"), ("get", "failed")}
    assert kinds >= {("create", "unknown"), ("create", "failed"), ("sync", "ok"), ("exists", "ok")}
    assert any(record.part for record in simulated), "no multi"
    assert any(record.client is None for record in simulated), "no session ended with ephemerals"


def test_a_simulated_history_with_one_reply_changed_is_found_out(simulated: list[Record]) -> None:
    operations = operations_of(simulated)
    rng = Random(1)
    first_writes: dict[str, int] = {}
    for one in operations:
        if one.kind in WRITES and one.status == OK and one.zxid is not None:
            first_writes[one.path] = min(one.zxid, first_writes.get(one.path, one.zxid))
    # What is read before the first answered write of a znode may be older than the history: that cannot be judged.
    reads = [one for one in operations if one.kind == GET and one.status == OK and one.mzxid is not None]
    judged = [one for one in reads if one.path in first_writes and one.mzxid >= first_writes[one.path]]
    assert len(judged) > len(reads) / 2
    for one in rng.sample(judged, 10):
        wrong = [evolve(one, value=b"never written") if each is one else each for each in operations]
        violations = check_table(table_of(wrong)).to_pylist()
        assert {row["path"] for row in violations} == {one.path}
        assert any(str(evolve(one, value=b"never written")) in row["witness"] for row in violations)


def test_recording_changes_nothing_of_a_run() -> None:
    assert run(8, None, Recorder()).hash == run(8).hash


def test_the_command_writes_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    app = typer.Typer()
    app.command()(simulate_command)
    done = CliRunner().invoke(app, ["--seed", "10", "--history", str(path)])
    assert done.exit_code == 0, done.output
    table = read_history([path])
    assert f"{table.num_rows} operations in {path}" in done.output
    assert table.column("history").unique().to_pylist() == ["seed 10"]
    assert check_table(table).num_rows == 0
    several = CliRunner().invoke(app, ["--seed", "10", "--seeds", "2", "--history", str(path)])
    assert several.exit_code == 2
    nowhere = CliRunner().invoke(app, ["--seed", "10", "--history", str(tmp_path / "none" / "run.parquet")])
    assert nowhere.exit_code == 1
    assert "cannot be written" in nowhere.output


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys, importlib.util as u; real = u.find_spec; "
        "u.find_spec = lambda name, *more: None if name == 'pyarrow' else real(name, *more); "
        "from zab.cli.main import main; sys.argv[1:] = 'simulate --seed 4 --history x'.split(); sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "zab: --history: zab.pipeline needs pyarrow: pip install 'zab[pipeline]'" in done.stderr


# -------------------------------------------------------------------------------------------------------------- Spark


@pytest.mark.spark
def test_spark_finds_the_same_as_one_process(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(6):
        rng = Random(seed)
        operations = []
        for number in range(12):
            one = good_history(rng, 30)
            broken = bent(rng, one) if number % 3 == 0 else one
            operations += [evolve(each, path=f"/x{number}", session=each.session + 10 * number) for each in broken]
        write_history(tmp_path / f"{seed}.parquet", operations)
    table = read_history(sorted(tmp_path.glob("*.parquet")))
    expected = sorted((row["history"], row["path"], row["kind"]) for row in check_table(table).to_pylist())
    rows = history(read_histories(spark, [str(tmp_path)])).collect()
    assert sorted((row.history, row.path, row.kind) for row in rows) == expected
    assert len({name for name, _, _ in expected}) > 3
    assert all(row.witness for row in rows)


@pytest.mark.spark
def test_spark_refuses_what_is_no_history(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(PipelineError, match="is no history"):
        read_histories(spark, [str(tmp_path / "other.parquet")])
    with pytest.raises(PipelineError, match="no history can be read from"):
        read_histories(spark, [str(tmp_path / "none")])
    with pytest.raises(PipelineError, match="no history was given"):
        read_histories(spark, [])
