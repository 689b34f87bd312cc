"""What clients have written down is read back as it was, also of one that was killed in the middle of a line."""

from __future__ import annotations

from math import inf
from pathlib import Path

from attrs import evolve

from tests.chaos.ledgers.good_history import INFO, good_history
from tests.chaos.ledgers.recording import Recorded, Recording


def test_a_history_is_read_back(tmp_path: Path) -> None:
    history = good_history()
    recordings = {name: Recording(name, tmp_path / f"{name}.jsonl") for name in ("w", "o1", "o2", "t", "r", "last")}
    for append in history.appends:
        recordings[append.client].add(evolve(append, outcome=INFO, place=None, end=inf))
        recordings[append.client].add(append)
    for operation in (*history.reads, *history.begins, *history.ends):
        recordings[operation.client].add(operation)
    found = Recorded(tmp_path).history(history.finals)
    assert sorted(found.appends, key=str) == sorted(history.appends, key=str)
    assert sorted(found.reads, key=str) == sorted(history.reads, key=str)
    assert (found.begins, found.ends, found.finals) == (history.begins, history.ends[::-1], history.finals)


def test_what_a_client_had_begun_when_it_was_killed_is_known(tmp_path: Path) -> None:
    recording = Recording("w", tmp_path / "w.jsonl")
    recording.created(7)
    begun = evolve(good_history().appends[0], outcome=INFO, place=None, end=inf)
    recording.add(begun)
    recording.met(OSError())
    recording.complain("so not")
    with (tmp_path / "w.jsonl").open("a") as file:
        file.write('["Append", {"clie')
    recorded = Recorded(tmp_path)
    assert recorded.history({}).appends == (begun,)
    assert (recorded.ledgers, recorded.errors, recorded.complaints) == ([7], {"OSError": 1}, ["so not"])
    assert (recorded.acknowledged_count, recorded.read_count) == (0, 0)
