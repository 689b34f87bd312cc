"""`zab simulate --both-judges`: `zab pipeline history` judges what clients were told, too."""

from collections.abc import Callable

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner, Result

from zab.cli.servers import simulate
from zab.cli.servers.simulate import SAFETY, UNDECIDED
from zab.simulator.ensemble.judges import linearizability
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.judges.recorder import Recorder


@pytest.fixture
def invoke() -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(simulate.simulate_command)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, list(words))


def bend_the_values_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for an order is deaf, and one value that was read is another one in the history."""
    finish = Recorder.finish

    def bent(recorder: Recorder, history: History) -> None:
        finish(recorder, history)
        next(one for one in recorder.records if one.kind == "get" and one.status == "ok").value = b"never written"

    monkeypatch.setattr(Recorder, "finish", bent)
    monkeypatch.setattr(linearizability, "judge", lambda records: [])


def test_both_judges_judge_a_run(invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("--seed", "10", "--both-judges").exit_code == 0
    bend_the_values_that_are_read(monkeypatch)
    assert invoke("--seed", "10").exit_code == 0
    done = invoke("--seed", "10", "--both-judges")
    assert done.exit_code == SAFETY
    assert "never written" in done.output
    assert "zab simulate --seed 10 --trace --both-judges" in done.output
    assert "NOT REPEATABLE" not in done.output


def test_undecided_is_no_pass(invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"violation": False, "kind": "undecided", "path": "/x", "sentence": "too many orders", "witness": []}
    table = pa.Table.from_pylist([row])
    monkeypatch.setattr("zab.pipeline.jobs.history.check_table", lambda history: table)
    done = invoke("--seed", "10", "--both-judges")
    assert done.exit_code == UNDECIDED
    assert "undecided: /x: too many orders" in done.output
