"""Members are killed at random under load; what the clients were told has to hold: `chaos`, `checker`.

For some twenty seconds in the suite, with a seed of the day; `make chaos` goes on for minutes.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.chaos import SECONDS_A_KILL_MAX, Report, run
from tests.chaos.patience import TICK, TRIES
from tests.chaos.records import judged
from tests.chaos.survival import tree_of
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperError

pytestmark = pytest.mark.long

SHORT_SECONDS = 3.0


def violations_in_history(report: Report, path: Path) -> list[str]:
    """What `zab pipeline history` has to say of the run, recorded as Parquet."""
    # The pipeline's extra: without it these tests can still be collected.
    from tests.pipeline.rigs.recording import record, violations

    record(path, report.operations, report.replicas)
    return violations(path)


@pytest.mark.slow
def test_members_killed_under_load_lose_nothing_and_agree(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seconds = pytestconfig.getoption("--chaos-seconds")
    seed = random.SystemRandom().randrange(1_000_000)
    with zab_servers(3, directory=tmp_path, configuration=TICK) as ensemble:
        report = run(ensemble, seconds=seconds, seed=seed, tree_of=tree_of)
        logs = "\n".join(f"--- server {member.server_id}\n{member.log_text()[-3000:]}" for member in ensemble.members)
    assert not report.violations, f"seed {seed}: {report}\n{logs}"
    assert not report.complaints, f"seed {seed}: {report}\n{logs}"
    assert violations_in_history(report, tmp_path / "history.parquet") == []
    assert judged(report.operations, report.replicas) == []
    assert len(report.kills) >= seconds / SECONDS_A_KILL_MAX, report
    assert report.acknowledged_count >= 100 * seconds, report


@pytest.mark.slow
def test_with_members_that_acknowledge_before_they_have_written_the_same_run_finds_lost_writes(tmp_path: Path) -> None:
    """On a busy machine a kill may find nothing that is acknowledged and not written: then it is tried again."""
    reports = (early_acknowledgers(tmp_path / str(seed), seed) for seed in range(1, TRIES + 1))
    found = (report for report in reports if report is not None)
    report = next((each for each in found if "lost" in {violation.rule for violation in each.violations}), None)
    assert report is not None, f"{TRIES} runs found nothing"
    assert any(text.startswith("lost write") for text in violations_in_history(report, tmp_path / "history.parquet"))
    assert any("undecided" not in text for text in judged(report.operations, report.replicas))


def early_acknowledgers(directory: Path, seed: int) -> Report | None:
    """None: a member has noticed by itself that something committed is lost, and has ended."""
    program = ("-m", "tests.chaos.early_ack")
    with zab_servers(3, directory=directory, configuration=TICK, program=program) as ensemble:
        try:
            report = run(ensemble, seconds=SHORT_SECONDS, seed=seed, victims={"all": 1})
        except ZooKeeperError as error:
            if "this member must not go on" in str(error):
                return None
            raise
    assert report.acknowledged_count > 0, report
    return report
