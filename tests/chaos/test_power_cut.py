"""The power of three real members is cut under load, alone and together: what the clients were told has to hold.

As `test_kill`, but of what was written and not synced a part is lost, as a seed decides: `tests.rigs.power_cut`. What
is left is looked at before the members start again: others repair what is damaged, so nothing would be seen afterwards.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from datatree.recovery.recover import examine
from tests.chaos.chaos import SECONDS_A_KILL_MAX, ChaosError, Report, TreeOf, run
from tests.chaos.patience import TICK, TRIES
from tests.chaos.recorded import machine_of
from tests.chaos.survival import tree_of
from tests.rigs.power_cut import build_recorder, needs_recorder
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperError, ZooKeeperMember
from zab.host.storage.disk import RealDisk

pytestmark = [pytest.mark.slow, needs_recorder, pytest.mark.long]

SHORT_SECONDS = 3.0
# Whatever is lost by one member alone, the others still have.
VICTIMS = {"leader": 2, "one": 1, "all": 4}
# Logs roll, snapshots are taken and files are preallocated while the power goes.
CONFIGURATION = {**TICK, "preAllocSize": 64, "snapCount": 400}


class DamageError(Exception):
    """A power cut has taken something that was promised to be durable."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_recorder(tmp_path_factory.mktemp("recorder"))


def cut_power(
    directory: Path,
    library: Path,
    module: str,
    seed: int,
    seconds: float,
    *,
    victims: Mapping[str, int] = VICTIMS,
    trees: TreeOf | None = None,
) -> Report:
    """Three members of this module under load; the power of those that are killed is cut before they start again.

    Raises DamageError.
    """
    source = random.Random(seed)
    program = ("-m", "tests.chaos.recorded", str(library), module)
    with zab_servers(3, directory=directory, configuration=CONFIGURATION, program=program, wait=False) as ensemble:
        machines = {member.server_id: machine_of(library, member.directory / "zoo.cfg") for member in ensemble.members}
        ensemble.wait()

        def cut(member: ZooKeeperMember) -> None:
            machines[member.server_id].cut(source)
            with contextlib.closing(RealDisk(str(member.data_directory))) as disk:
                damage = examine(disk).damage
            if damage:
                raise DamageError(f"seed {seed}, server {member.server_id}: {', '.join(map(str, damage))}")

        report = run(ensemble, seconds=seconds, seed=seed, victims=victims, tree_of=trees, while_down=cut)
        assert all(machine.calls() for machine in machines.values()), "the members were not recorded"
    return report


def test_members_that_lose_their_power_under_load_lose_nothing_that_was_acknowledged(
    library: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seconds = pytestconfig.getoption("--chaos-seconds")
    seed = random.SystemRandom().randrange(1_000_000)
    report = cut_power(tmp_path, library, "zab.server", seed, seconds, trees=tree_of)
    assert not report.violations, f"seed {seed}: {report}"
    assert not report.complaints, f"seed {seed}: {report}"
    assert report.acknowledged_count > 0, report
    assert len(report.kills) >= seconds / SECONDS_A_KILL_MAX, report


def test_of_members_that_never_sync_the_same_cuts_leave_too_little(library: Path, tmp_path: Path) -> None:
    """Writes that were acknowledged are gone; or what is left is damaged, as recovery sees it."""
    assert any(is_found(library, tmp_path / str(seed), seed) for seed in range(TRIES)), f"{TRIES} runs found nothing"


def is_found(library: Path, directory: Path, seed: int) -> bool:
    try:
        report = cut_power(directory, library, "tests.chaos.unsynced", seed, SHORT_SECONDS, victims={"all": 1})
    except DamageError:
        return True
    except (ChaosError, ZooKeeperError):
        return False  # that nothing goes on is too cheap a find
    return "lost" in {violation.rule for violation in report.violations}
