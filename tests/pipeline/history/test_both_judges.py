"""The simulator's judge of client histories decides as brute force does, and as the pipeline's judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from attrs import asdict, evolve, fields

from tests.pipeline.rigs.histories import bent, good_history, has_order, without_versions, without_zxids
from zab.pipeline.history.files import table_of
from zab.pipeline.history.operation import WRITES, Operation
from zab.pipeline.jobs.history import check_table
from zab.simulator.ensemble.judges.linearizability import judge
from zab.simulator.ensemble.judges.recorder import Record, Recorder
from zab.simulator.ensemble.judges.znode_order import Interval, order_of, says_something
from zab.simulator.ensemble.simulation import run


def records_of(operations: Sequence[Operation]) -> list[Record]:
    """The operations, by the names of their fields."""
    names = [field.name for field in fields(Record)]
    return [Record(**{name: getattr(one, name) for name in names}) for one in operations]


def has_order_here(operations: Sequence[Operation]) -> bool:
    intervals = []
    for one, record in zip(operations, records_of(operations), strict=True):
        start = one.invoked if one.kind in WRITES else one.since
        if says_something(record):
            intervals.append(Interval(evolve(record, client="c"), -1 if start is None else start))
    return order_of(intervals) is None


VIEWS: tuple[Callable[[Sequence[Operation]], list[Operation]], ...] = (list, without_zxids, without_versions)


@pytest.mark.parametrize("view", VIEWS, ids=["all", "values and versions", "values"])
def test_it_decides_as_brute_force_does(view: Callable[[Sequence[Operation]], list[Operation]]) -> None:
    wrong_count = 0
    for seed in range(1000):
        rng = Random(seed)
        operations = good_history(rng, rng.randint(3, 6), sets_only=rng.random() < 0.4)
        assert has_order_here(view(operations)), f"seed {seed}: a right history"
        broken = view(bent(rng, operations))
        is_right = has_order_here(broken)
        assert is_right == has_order(broken), f"seed {seed}"
        wrong_count += not is_right
    assert 50 < wrong_count < 900


def test_long_right_histories_with_many_writes_without_a_reply_are_decided() -> None:
    for seed in range(20):
        assert has_order_here(good_history(Random(seed), 400, sets_only=True)), f"seed {seed}"
        assert has_order_here(good_history(Random(seed), 60)), f"seed {seed}"


def recorded(seed: int) -> list[Record]:
    recorder = Recorder()
    run(seed, None, recorder)
    return recorder.records


def other_judge(records: Sequence[Record]) -> list[str]:
    """What `zab pipeline history` finds."""
    table = check_table(table_of((Operation(**asdict(record)) for record in records), "run"))
    return [f"{row['kind']} {row['path']}: {row['sentence']}" for row in table.to_pylist()]


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.long
def test_both_judges_pass_what_is_right_and_refuse_one_changed_answer() -> None:
    """This one refuses more: it knows that znodes began absent, and joins them by their zxids."""
    counts = {"passed": 0, "refused": 0, "refused here alone": 0}
    for seed in range(20):
        records, rng = recorded(seed), Random(seed)
        assert judge(records) == []
        assert other_judge(records) == []
        paths = sorted({record.path for record in records})
        for path in rng.sample(paths, min(5, len(paths))):
            here = [Operation(**asdict(record)) for record in records if record.path == path]
            if len(here) < 2:
                continue
            broken = [record for record in records if record.path != path] + records_of(bent(rng, here))
            is_refused, is_refused_there = bool(judge(broken)), bool(other_judge(broken))
            assert is_refused or not is_refused_there, f"seed {seed}, {path}: {other_judge(broken)}"
            what = "refused" if is_refused_there else "refused here alone" if is_refused else "passed"
            counts[what] += 1
    assert counts["refused"] > 10
    assert counts["refused here alone"] < counts["refused"]
