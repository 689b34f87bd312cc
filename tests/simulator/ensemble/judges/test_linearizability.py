"""The judge of client histories: broken ones are refused. Beside the other judge it is in `tests/pipeline`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from attrs import evolve

from tests.simulator.ensemble.broken_variants import apply_twice, sync_without_asking_the_quorum
from tests.simulator.ensemble.hunting import only
from tests.tidy.import_closure import closure
from tests.tidy.sources import MODULES
from zab.cli.servers.simulate import SAFETY, UNDECIDED, attempt
from zab.simulator.ensemble.judges import linearizability
from zab.simulator.ensemble.judges.linearizability import Finding, judge
from zab.simulator.ensemble.judges.recorder import Record, Recorder

A, B, C = 0xA, 0xB, 0xC
NONODE, BADVERSION, NODEEXISTS = -101, -103, -110


def asked(session: int, number: int, kind: str, time: int, value: bytes | None = None, **more: object) -> Record:
    """An operation on /x that takes from `time` to `time` + 1, and was carried out."""
    told = {"status": "ok", "invoked": time, "returned": time + 1, "value": value, "part": None, "path": "/x", **more}
    return Record(f"c{session:x}", session, number, kind=kind, **told)  # type: ignore[arg-type]


def right() -> list[Record]:
    """Two sessions, every kind of operation; one write without a reply that happened, and one that did not."""
    return [
        asked(A, 1, "create", 0, b"0", version=0, zxid=1),
        asked(A, 2, "set", 2, b"1", version=1, zxid=2),
        asked(B, 1, "get", 2, b"0", version=0, zxid=1, mzxid=1),
        asked(B, 2, "sync", 4, path="/", zxid=2),
        asked(B, 3, "get", 6, b"1", version=1, zxid=2, mzxid=2),
        asked(A, 3, "set", 8, b"2", status="unknown", returned=None),
        asked(A, 4, "set", 8, b"2b", status="unknown", returned=None),
        asked(B, 4, "get", 10, b"2", version=2, zxid=4, mzxid=3),
        asked(B, 5, "set", 12, b"no", status="failed", expected=7, error=BADVERSION, zxid=5),
        asked(A, 5, "set", 14, b"3", version=3, expected=2, zxid=6),
        asked(A, 6, "delete", 16, expected=3, zxid=7),
        asked(B, 6, "exists", 18, status="failed", error=NONODE, zxid=7),
        asked(A, 7, "set", 20, b"none", status="failed", error=NONODE, zxid=8),
        asked(A, 8, "create", 22, b"4", version=0, zxid=9),
        asked(B, 7, "create", 24, b"twice", status="failed", error=NODEEXISTS, zxid=10),
        asked(B, 8, "exists", 26, version=0, zxid=10, mzxid=9),
    ]


def changed(session: int, number: int, **changes: object) -> list[Record]:
    return [
        evolve(record, **changes) if (record.session, record.operation) == (session, number) else record
        for record in right()
    ]


def test_a_right_history_is_right_in_whatever_order_it_was_recorded() -> None:
    for seed in range(20):
        records = right()
        Random(seed).shuffle(records)
        assert judge(records) == []
        assert judge([evolve(record, zxid=None, mzxid=None) for record in records]) == []


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(changed(A, 5, version=2, expected=None), id="a write is lost: its version is made again"),
        pytest.param(changed(B, 4, value=b"1", version=1, mzxid=2, zxid=6), id="a write is lost: it is not shown"),
        pytest.param(changed(B, 6, status="ok", error=None, version=3, mzxid=6), id="the deleted znode is there"),
        pytest.param(changed(B, 8, status="failed", error=NONODE), id="the created znode is not there"),
        pytest.param(changed(A, 8, invoked=0, returned=1), id="a write is before what was answered before it"),
        pytest.param(changed(A, 5, operation=20), id="a write is before what its session had asked for earlier"),
        pytest.param(changed(B, 3, value=b"0", version=0, mzxid=1, zxid=1), id="a read after a sync is stale"),
        pytest.param(changed(B, 2, zxid=1), id="a sync returns below what was told before it"),
        pytest.param(changed(B, 1, operation=9), id="a session is shown less than before"),
        pytest.param(changed(B, 4, value=b"9"), id="nobody wrote what is read"),
        pytest.param(changed(B, 4, zxid=2), id="a reply shows what is above its zxid"),
        pytest.param(changed(A, 5, version=5, expected=None), id="nobody made the version"),
        pytest.param(changed(B, 4, value=b"no", mzxid=5, zxid=5), id="what was refused is there"),
        pytest.param(changed(B, 3, version=7), id="one zxid, two versions"),
        pytest.param(changed(A, 5, zxid=7), id="one zxid, two writes"),
        pytest.param(changed(B, 5, expected=2), id="refused with BADVERSION, and it was that version"),
        pytest.param(changed(A, 7, zxid=10), id="refused with NONODE, and it was there"),
        pytest.param(changed(B, 7, zxid=8), id="refused with NODEEXISTS, and it was not there"),
        pytest.param([*right(), asked(B, 9, "get", 28, b"old", path="/y", zxid=9)], id="backwards on another znode"),
        pytest.param(
            [*right(), asked(A, 9, "create", 30, b"y", path="/y", version=0, zxid=8)],
            id="a write on another znode is before what was told before it",
        ),
        pytest.param(
            [*right(), asked(A, 9, "create", 30, b"a", zxid=11, path="/m", part=0, version=0),
             asked(A, 9, "set", 30, b"b", zxid=11, path="/m", part=1, version=1),
             asked(B, 9, "get", 32, b"a", path="/m", zxid=11, mzxid=11, version=0)],
            id="half a multi is shown",
        ),
    ],
)  # fmt: skip
def test_a_broken_promise_is_refused(records: list[Record]) -> None:
    found = judge(records)
    assert found
    assert not any(finding.is_undecided for finding in found)


def test_what_the_ensemble_did_by_itself_has_no_time() -> None:
    own = Record(None, 0, 0, None, "delete", "/x", "ok", zxid=3)
    records = [asked(A, 1, "create", 0, b"0", version=0, zxid=1), asked(A, 2, "create", 4, b"1", version=0, zxid=5)]
    assert judge([*records, own]) == []
    assert judge(records)


def test_a_sync_without_a_reply_promises_nothing() -> None:
    stale = changed(B, 3, value=b"0", version=0, mzxid=1, zxid=1)
    assert judge([evolve(one, status="unknown", zxid=None) if one.kind == "sync" else one for one in stale]) == []


@pytest.mark.parametrize(
    ("variant", "faults", "focus", "seed"),
    [
        (apply_twice, {"kill": 3, "power": 1}, "", 0),
        (sync_without_asking_the_quorum, {"depose": 4, "partition": 2}, "deposing", 84),
    ],
    ids=["apply", "sync"],
)
@pytest.mark.hunt
@pytest.mark.slow
def test_what_clients_of_a_broken_service_were_told_is_refused(
    variant: Callable[[pytest.MonkeyPatch], None],
    faults: dict[str, int],
    focus: str,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only(faults, focus, monkeypatch)
    variant(monkeypatch)
    for each in (seed, *range(200)):
        recorder = Recorder()
        if attempt(each, None, recorder).failure is not None and judge(recorder.records):
            return
    pytest.fail("200 runs were judged to be right")


# ------------------------------------------------------------------------------------------------------ bound, verdict


def hopeless() -> list[Record]:
    """Many writes at one time, and a value that is read, replaced and read again."""
    writes = [asked(100 + number, 1, "set", 2, b"%d" % number, returned=9) for number in range(16)]
    reads = []
    for at, value in enumerate((0, 1, 0)):
        reads += [asked(B, 1 + 2 * at, "sync", 10 + 2 * at, path="/")]
        reads += [asked(B, 2 + 2 * at, "get", 11 + 2 * at, b"%d" % value)]
    return [asked(A, 1, "create", 0, b"first"), *writes, *reads]


def with_many_unknown(*, version: int) -> list[Record]:
    """An ensemble that answers seldom: of many writes nobody knows whether they happened, except for the version of the
    value of one of them, and that of the write that was answered next."""
    unknown = {"status": "unknown", "returned": None}
    writes = [asked(100 + number, 1, "set", 2 + number, b"%d" % number, **unknown) for number in range(30)]
    others = [asked(200 + number, 1, "set", 3, b"no", expected=number % 4, **unknown) for number in range(12)]
    others += [asked(300 + number, 1, "delete", 4 + number, **unknown) for number in range(4)]
    others += [asked(400 + number, 1, "create", 5 + number, b"no", **unknown) for number in range(6)]
    told = [
        asked(B, 1, "get", 50, b"20", version=version, zxid=60, mzxid=50),
        asked(B, 2, "set", 60, b"last", version=25, zxid=70),
    ]
    return [asked(A, 1, "create", 0, b"first", version=0, zxid=1), *writes, *others, *told]


def test_writes_without_a_reply_are_ordered_by_the_versions_that_were_told() -> None:
    assert judge(with_many_unknown(version=15), steps_max=200) == []
    (wrong,) = judge(with_many_unknown(version=25), steps_max=2000)
    assert wrong.path == "/x"


def test_a_write_without_a_reply_has_the_zxid_that_a_read_shows() -> None:
    refused = asked(C, 1, "create", 49, b"too late", status="failed", error=NODEEXISTS, zxid=55)
    assert judge([*with_many_unknown(version=15), refused], steps_max=200) == []


def test_a_write_without_a_reply_may_come_after_what_its_session_sent_later() -> None:
    records = [
        asked(A, 1, "create", 0, b"0", version=0, zxid=1),
        asked(A, 2, "set", 2, b"late", status="unknown", returned=None),
        asked(A, 3, "set", 4, b"1", version=1, zxid=2),
        asked(A, 4, "get", 6, b"late", version=2, zxid=3, mzxid=3),
    ]
    assert judge(records) == []
    (finding,) = judge([*records, asked(B, 1, "get", 8, b"late", version=2, zxid=3, mzxid=4)])
    assert not finding.is_undecided


def test_a_hopeless_search_is_undecided_and_not_a_pass() -> None:
    (finding,) = judge(hopeless(), steps_max=1000)
    assert finding.is_undecided
    assert "undecided: too many orders of 20 operations" in str(finding)


@pytest.mark.parametrize(("is_undecided", "code"), [(False, SAFETY), (True, UNDECIDED)])
def test_a_run_fails_by_what_the_judge_finds(is_undecided: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Record] = []

    def refuse(records: list[Record]) -> list[Finding]:
        judged.extend(records)
        return [Finding("/x", is_undecided, "is wrong")]

    monkeypatch.setattr(linearizability, "judge", refuse)
    failure = attempt(4).failure
    assert judged
    assert failure is not None
    assert failure.code == code
    assert "/x: is wrong" in failure.text


def test_it_shares_no_code_with_the_other_judge() -> None:
    theirs = [module for module in MODULES if module.startswith(("zab.pipeline.history.", "zab.pipeline.jobs.history"))]
    assert len(theirs) > 5
    for module in theirs:
        assert not closure(module) & closure("zab.simulator.ensemble.judges.linearizability")
