"""The generator of load for brokers, and the page of the benchmark of brokers. How fast anything is, is not tested."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers import moments
from bench.brokers.cells import ONE_BROKER, THREE_BROKERS, Cell, Result
from bench.brokers.page import PAGE
from bench.moments import Moments
from bench.rivals import Comparison, Measured
from tests.bench.generator import compile_program, needs_compiler
from zab.testing import Brokers

TOPIC = "load"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("records", tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with Brokers() as found:
        found.create_topic(TOPIC, 2)
        found.create_topic(moments.TOPIC, 1)
        yield found


def records(program: Path, brokers: Brokers, words: str) -> subprocess.CompletedProcess[str]:
    address = brokers.bootstrap_servers
    command = [program, "--topic", TOPIC, "--leaders", f"{address}/0,{address}/1", "--warmup", "0"]
    return subprocess.run([*command, *words.split()], capture_output=True, text=True, check=False, timeout=120)


@needs_compiler
def test_what_was_produced_is_there_and_what_is_fetched_is_counted(program: Path, brokers: Brokers) -> None:
    made = records(program, brokers, "--op produce --connections 3 --flight 4 --records 5 --operations 10")
    assert made.returncode == 0, made.stderr
    result = json.loads(made.stdout)
    assert (result["operations"], result["errors"], result["connections"]) == (30, 0, 3)
    found = list(brokers.records(TOPIC))
    assert len(found) == 150
    assert {len(record.value or b"") for record in found} == {100}
    fetched = records(program, brokers, "--op fetch --operations 20 --step 5 --end 50 --bytes 100")
    assert fetched.returncode == 0, fetched.stderr
    again = json.loads(fetched.stdout)
    assert (again["operations"], again["errors"]) == (20, 0)
    # A whole batch comes in any case, with some 50 bytes before it.
    batch_bytes = result["bytes"] / 30
    assert 20 * batch_bytes < again["bytes"] < 20 * (batch_bytes + 100)


@needs_compiler
def test_errors_are_counted(program: Path, brokers: Brokers) -> None:
    """There is no partition 7."""
    words = ["--op", "produce", "--operations", "3", "--leaders", f"{brokers.bootstrap_servers}/7"]
    command = [program, "--topic", TOPIC, "--warmup", "0", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout)["errors"] == 3


@needs_compiler
@pytest.mark.parametrize(
    "words", ["", "--op consume", "--op produce --acks 0", "--op fetch --step 0", "--op fetch --end"]
)
def test_wrong_options_are_refused(program: Path, brokers: Brokers, words: str) -> None:
    done = records(program, brokers, words)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: records")


def test_the_moment_of_a_write_is_found(brokers: Brokers) -> None:
    assert moments.first_write([brokers.bootstrap_servers], 0) > 0
    assert not moments.is_written(brokers.bootstrap_servers, 5)


def test_cells_have_names_of_their_own() -> None:
    cells = [*ONE_BROKER, *THREE_BROKERS]
    assert len({cell.key for cell in cells}) == len({cell.title + str(cell.replicas) for cell in cells}) == len(cells)


def test_ratios_are_those_of_the_same_round() -> None:
    measured = Measured(Cell("produce", 148, 8, 16))
    for theirs, ours in ((100, 200), (1000, 500), (10, 30)):
        measured.theirs.append(Result(theirs, 1e6, 10, 20, 1.0, 0))
        measured.ours.append(Result(ours, 2e6, 5, 15, 0.5, 0))
    started = Moments("start", "s", [10.0, 12.0, 14.0], [1.0, 1.2, 6.0])
    text = PAGE.markdown(Comparison(["machine"], [measured], [started]))
    row = next(line for line in text.splitlines() if "produce" in line)
    assert row == (
        "| produce 148 x 100 B a request, 8 x 16 | 100 | 200 | **2.00** (1.25-2.50) | 1 · 2 | **4.00** | 10 · 5 "
        "| 20 · 15 |"
    )
    assert "| start | 12.000 s | 1.200 s | **0.10** |" in text
