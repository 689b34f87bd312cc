"""`zab simulate`: what it prints and how it exits."""

from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner, Result

from zab.cli.servers import simulate
from zab.cli.servers.simulate import CRASH, LIVENESS, SAFETY, UNDECIDED
from zab.simulator.world.verdict import LivenessError, SafetyError, UndecidedError


@pytest.fixture
def invoke() -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(simulate.simulate_command)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, list(words))


def test_a_good_run_is_told_with_its_hash(invoke: Callable[..., Result]) -> None:
    first, second = invoke("--seed", "4"), invoke("--seed", "4")
    assert first.exit_code == 0
    assert "seed 4: good" in first.output
    assert first.output == second.output


def test_the_trace_is_printed_line_by_line(invoke: Callable[..., Result]) -> None:
    done = invoke("--seed", "4", "--trace")
    assert done.exit_code == 0
    assert done.output.count("\n") > 500
    assert "is established by" in done.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SafetyError("agreement", "they differ"), SAFETY),
        (LivenessError("nobody leads"), LIVENESS),
        (UndecidedError("too many orders"), UNDECIDED),
        (AssertionError("a bug"), CRASH),
        (KeyError("a bug"), CRASH),
    ],
)
def test_a_failure_says_how_to_replay_it_and_has_its_own_exit_code(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail(seed: int, sink: Callable[[str], None] | None = None) -> None:
        if sink is not None:
            sink("the last thing that happened")
        raise error

    monkeypatch.setattr(simulate, "run", fail)
    done = invoke("--seed", "9")
    assert done.exit_code == code
    assert "the last thing that happened" in done.output
    assert "zab simulate --seed 9 --trace" in done.output
    assert "NOT REPEATABLE" not in done.output


def test_a_run_that_fails_once_is_not_repeatable(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [SafetyError("agreement", "they differ"), SafetyError("agreement", "otherwise")]

    def fail(seed: int, sink: Callable[[str], None] | None = None) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(simulate, "run", fail)
    assert "NOT REPEATABLE" in invoke("--seed", "9").output


@pytest.mark.process
def test_a_block_is_run_and_counted(invoke: Callable[..., Result]) -> None:
    done = invoke("--seed", "0", "--seeds", "4", "--jobs", "2", "--counts")
    assert done.exit_code == 0
    assert "seeds 0 to 3: 4 good, 0 failed" in done.output
    assert "writes acknowledged" in done.output


def test_a_trace_of_many_seeds_is_wrong_usage(invoke: Callable[..., Result]) -> None:
    assert invoke("--seeds", "2", "--trace").exit_code == 2
