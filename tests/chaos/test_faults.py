"""Real members under load whose network, disks and configuration go wrong: `faults`; judged as in `test_kill`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.faults import (
    Disturbances,
    FullDisk,
    NetworkTrouble,
    Partitions,
    can_mount,
    damage,
    reconfigure,
    restart_in_turn,
    small_disk,
)
from tests.chaos.prompt import PROMPT
from tests.chaos.survival import survived
from tests.rigs.namespaces import IN_A_NAMESPACE, can_disturb, can_part
from tests.rigs.relay import network
from tests.rigs.zab_server import zab_servers
from zab.testing.kit.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[2]

OPEN = {**PROMPT, "reconfigEnabled": "true", "skipACL": "yes"}
ROLLING = {**PROMPT, "preAllocSize": 64, "snapCount": 400}
# Files stay until they are read through: with four snapshots a second they would be gone before.
SCRUBBED = {
    **ROLLING,
    "scrub.intervalSeconds": 1,
    "scrub.maxBytesPerSecond": 100 << 20,
    "autopurge.snapRetainCount": 1000,
}
DISK_MIB = 24
SMALL = {**ROLLING, "diskLowBytes": 4 << 20, "diskReserveBytes": 4 << 20}


@pytest.fixture
def seconds(pytestconfig: pytest.Config) -> float:
    """Half of what others have: these are many."""
    return 0.5 * float(pytestconfig.getoption("--chaos-seconds"))


def with_client_ports(size: int) -> list[dict[str, str | int]]:
    """Lines of each member: the server lines say where clients connect, as `zab lead` wants to know."""
    ports = free_ports(3 * size)
    lines = {
        f"server.{n + 1}": "127.0.0.1:{}:{}:participant;127.0.0.1:{}".format(*ports[3 * n : 3 * n + 3])
        for n in range(size)
    }
    return [{**lines, "clientPort": ports[3 * n + 2]} for n in range(size)]


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.longest
def test_links_that_are_cut_flap_and_are_slow(tmp_path: Path, seconds: float, size: int) -> None:
    found = free_ports(2 * size)
    ports = {sid: (found[2 * sid - 2], found[2 * sid - 1]) for sid in range(1, size + 1)}
    with network(ports) as net:
        each = [net.lines(sid) for sid in ports]
        with zab_servers(size, directory=tmp_path, configuration=PROMPT, each=each) as ensemble:
            report = survived(ensemble, seconds, NetworkTrouble(net))
    kinds = {text.partition(":")[0] for text in report.kills}
    assert kinds == {"one_way", "isolated", "bridge", "flapping", "slow", "lossy", "broken"}
    assert net.carried_bytes > 100 * report.acknowledged_count, "what members say to each other goes through it"


@pytest.mark.longest
def test_members_leave_and_join_while_others_are_killed(tmp_path: Path, seconds: float) -> None:
    with zab_servers(5, directory=tmp_path, configuration=OPEN) as ensemble:
        survived(ensemble, seconds, reconfigure)


@pytest.mark.longest
def test_members_are_restarted_in_turn_and_the_lead_is_handed_over(tmp_path: Path, seconds: float) -> None:
    with zab_servers(3, directory=tmp_path, configuration=OPEN, each=with_client_ports(3)) as ensemble:
        report = survived(ensemble, seconds, restart_in_turn)
    assert any(text.endswith(": done") for text in report.kills), report


@pytest.mark.longest
def test_bits_of_files_change_of_members_that_are_down_and_of_those_that_run(tmp_path: Path, seconds: float) -> None:
    with zab_servers(3, directory=tmp_path, configuration=SCRUBBED) as ensemble:
        survived(ensemble, seconds, damage)


@pytest.mark.longest
def test_disk_of_a_member_fills_up(tmp_path: Path, seconds: float) -> None:
    place = tmp_path / "server2"
    if not can_mount(place):
        pytest.skip("no file system may be mounted here")
    with small_disk(place, DISK_MIB), zab_servers(3, directory=tmp_path, configuration=SMALL) as ensemble:
        report = survived(ensemble, seconds, FullDisk(2, place))
    assert len(report.kills) >= 2, report


def survived_on_machines(directory: Path, seconds: float, kinds: tuple[str, ...], *options: str) -> None:
    given = ["--directory", str(directory), "--seconds", str(seconds), *options]
    run = [*IN_A_NAMESPACE, sys.executable, "-m", "tests.chaos.parted", *given]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in kinds:
        assert f"{kind}: server" in done.stdout


def test_machines_that_do_not_reach_each_other(tmp_path: Path, seconds: float) -> None:
    """The kernel drops what they say: connections stay, and TCP hears nothing."""
    if not can_part():
        pytest.skip("no namespaces here: ip, unshare and nsenter, and the right to use them, are needed")
    survived_on_machines(tmp_path, seconds, Partitions.kinds)


def test_machines_whose_packets_are_late_and_lost(tmp_path: Path, seconds: float) -> None:
    if not can_disturb():
        pytest.skip("no netem here: tc, and a kernel that has it, are needed besides namespaces")
    survived_on_machines(tmp_path, seconds, Disturbances.kinds, "--disturbed")
