"""`zab simulate`: what it prints and how it exits."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.cli.commands import Run, run
from zab.cli.servers import simulate
from zab.cli.servers.simulate import CRASH, LIVENESS, SAFETY, UNDECIDED
from zab.member.sessions.touches import Touches
from zab.member.turn_end import TurnEnd
from zab.simulator.world.verdict import LivenessError, SafetyError, UndecidedError

__all__ = ["run"]


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
    def fail(seed: int, sink: Callable[[str], None] | None = None, *_: object) -> None:
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

    def fail(seed: int, sink: Callable[[str], None] | None = None, *_: object) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(simulate, "run", fail)
    assert "NOT REPEATABLE" in invoke("--seed", "9").output


@pytest.mark.process
def test_a_block_is_run_and_counted(invoke: Callable[..., Result]) -> None:
    done = invoke("--seed", "0", "--seeds", "4", "--jobs", "2", "--counts")
    assert done.exit_code == 0
    assert "seeds 0 to 3: 4 good, 0 failed" in done.output
    assert "writes acknowledged" in done.output


def test_without_mercy_a_run_is_another_one_and_its_failure_is_replayed_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("simulate", "--seed", 4, "--members", 3, "--faults", "kill") == 0
    with_mercy = run.out
    assert run("simulate", "--seed", 4, "--members", 3, "--faults", "kill", "--no-mercy") == 0
    assert run.out != with_mercy

    def fail(*what: object) -> None:
        raise SafetyError("agreement", f"they differ in {what[-1]}")

    monkeypatch.setattr(simulate, "run", fail)
    assert run("simulate", "--seed", 9, "--no-mercy", "--no-shrink") == SAFETY
    assert "mercy=False" in run.out
    assert "zab simulate --seed 9 --no-mercy --trace" in run.out


def test_a_run_on_both_ways_is_told_if_it_differs_and_is_replayed_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("simulate", "--seed", 4, "--members", 3, "--faults", "kill", "--both-ways") == 0
    monkeypatch.setattr(TurnEnd, "is_due", False)
    assert run("simulate", "--seed", 12, "--focus", "reshaping", "--both-ways", "--no-shrink") == SAFETY
    assert "safety: both ways of a message lead to the same run: " in run.out
    assert "zab simulate --seed 12 --focus reshaping --both-ways --trace" in run.out


@pytest.mark.process
def test_hours_go_on_with_the_next_seeds_and_count_those_that_were_done(run: Run) -> None:
    assert run("simulate", "--seed", 3, "--hours", 1e-6, "--jobs", 1, "--members", 3, "--faults", "none") == 0
    assert run.out == "seeds 3 to 3: 1 good, 0 failed\n"


def test_members_and_faults_are_those_that_are_asked_for(run: Run) -> None:
    assert run("simulate", "--seed", 4, "--members", 7, "--faults", "kill, pause", "--counts") == 0
    assert "seed 4: good; 7 voters" in run.out
    assert {line.split(": ")[1] for line in run.out.splitlines() if "fault: " in line} <= {"kill", "pause"}
    assert run("simulate", "--seed", 4, "--faults", "none", "--counts") == 0
    assert "fault: " not in run.out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--seeds", 2, "--trace"), "--trace is for one seed"),
        (("--hours", 1, "--trace"), "--trace is for one seed"),
        (("--seeds", 2, "--keep", "t1 f"), "--keep is for one seed"),
        (("--hours", 1, "--seeds", 2), "give one of them"),
        (("--hours", 0), "0 hours is no time"),
        (("--hours", "nan"), "nan hours is no time"),
        (("--members", 4), "4 members cannot be simulated: an odd number from 3 to 15 can"),
        (("--faults", "kill,flood"), "no fault is named 'flood'; there are bit_flip, blackout,"),
        (("--faults", ""), "no fault is named ''; there are bit_flip, blackout,"),
        (("--keep", "f3"), "how many ticks"),
        (("--keep", "everything"), "'everything' is none of"),
    ],
)
def test_wrong_values_are_refused_with_the_reason(run: Run, words: tuple[object, ...], reason: str) -> None:
    assert run("simulate", *words) == 2
    assert reason in " ".join(run.err.replace("│", " ").split())


def test_a_failing_run_is_shrunk_to_a_command_that_repeats_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule G1: what learners hear of sessions does not reach the leader, in a run of seed after seed."""
    monkeypatch.setattr(Touches, "learner_touched", lambda sessions, rows, now: None)
    seed = next(seed for seed in range(50) if run("simulate", "--seed", seed, "--no-shrink") == SAFETY)
    assert "shrunk" not in run.out
    assert run("simulate", "--seed", seed) == SAFETY
    assert f"lines of the trace of seed {seed}, shrunk" in run.out
    command, sentence = run.out.splitlines()[-1], run.out.splitlines()[-2].partition("it fails with: ")[2]
    name, *words = shlex.split(command.removeprefix("replay that with: "))
    assert (name, words[:3]) == ("zab", ["simulate", "--seed", str(seed)])
    assert run(*words) == SAFETY
    assert f"seed {seed}: safety: {sentence}\n" in run.out
    assert run.out.endswith(f"{command.removeprefix('replay that with: ')}\n"), "it is as short as it can be"


def test_brokers_are_simulated_in_place_of_an_ensemble(invoke: Callable[..., Result]) -> None:
    first, second = (invoke("--partitions", "--members", "1", "--seed", "4", "--faults", "kill") for _ in range(2))
    assert first.exit_code == 0
    assert "seed 4: good; 1 brokers" in first.output
    assert "records acknowledged" in first.output
    assert first.output == second.output


def test_ledgers_are_simulated_in_place_of_an_ensemble(invoke: Callable[..., Result]) -> None:
    first, second = (invoke("--ledgers", "--members", "3", "--seed", "4", "--faults", "kill") for _ in range(2))
    assert first.exit_code == 0
    assert "seed 4: good; 3 bookies" in first.output
    assert "entries acknowledged" in first.output
    assert first.output == second.output


def test_a_focus_of_ledgers_is_a_managed_ledger(invoke: Callable[..., Result]) -> None:
    done = invoke("--ledgers", "--focus", "logs", "--seed", "12", "--counts")
    assert done.exit_code == 0
    assert "LogOpened" in done.output


def test_a_run_of_ledgers_is_told_as_json(invoke: Callable[..., Result]) -> None:
    done = invoke("--ledgers", "--seed", "4", "--json")
    told = json.loads(done.output)
    assert told["result"] == "good"
    assert told["ledgers"] > 0
    assert told["replay"] == "zab simulate --seed 4 --ledgers --trace"


def test_a_failed_run_of_ledgers_says_how_to_replay_it(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SafetyError("G4", "there is a gap")

    monkeypatch.setattr(simulate, "run_ledgers", fail)
    done = invoke("--ledgers", "--members", "3", "--seed", "9", "--no-shrink")
    assert done.exit_code == SAFETY
    assert "zab simulate --seed 9 --ledgers --members 3 --trace" in done.output


def test_brokers_and_ledgers_are_two_simulations(invoke: Callable[..., Result]) -> None:
    done = invoke("--ledgers", "--partitions")
    assert done.exit_code == 2
    assert "two simulations" in done.output


def test_a_failed_run_of_brokers_says_how_to_replay_it(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SafetyError("no duplicates", "there are two")

    monkeypatch.setattr(simulate.brokers, "run", fail)
    done = invoke("--partitions", "--members", "3", "--seed", "9", "--no-shrink")
    assert done.exit_code == SAFETY
    assert "zab simulate --seed 9 --partitions --members 3 --trace" in done.output


@pytest.mark.parametrize("words", [("--both-judges",), ("--both-ways",)])
def test_what_only_ensembles_have_is_refused_for_brokers(invoke: Callable[..., Result], words: tuple[str, ...]) -> None:
    done = invoke("--partitions", *words)
    assert done.exit_code == 2
    assert "is for ensembles" in done.output


WITHOUT_LEDGERS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("crc32c", "google.protobuf"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from zab.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 0, "seed 3: good"),
        (["--ledgers"], 1, "--ledgers needs protobuf: pip install 'zab[ledgers]'"),
        (["--partitions"], 1, "--partitions: crc32c is not installed: pip install 'zab[broker]'"),
    ],
)
def test_only_ledgers_and_brokers_need_their_extras(options: list[str], code: int, said: str) -> None:
    command = [sys.executable, "-c", WITHOUT_LEDGERS, "simulate", "--seed", "3", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
