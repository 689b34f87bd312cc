"""The real disk, by its system calls: what each method syncs, and in which order, before it returns.

The methods are called in a process of their own, under the recorder of `tests.rigs.power_cut`. Beside the calls stands
what they are for: the same record, with the power cut at its end, keeps what `datatree.log.disk.Disk` promises.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.rigs.power_cut import Machine, build_recorder, needs_recorder
from zab.host.storage.disk import RealDisk

pytestmark = needs_recorder

ROOT = Path(__file__).parents[3]
D = "version-1/"
SEEDS = 12

PROGRAM = """
import json, os, sys
from zab.host.storage.disk import RealDisk

root, record = sys.argv[1:]
disk = RealDisk(root)
file = disk.open_append("version-1/log.1", create=True)
methods = {
    "write": lambda: file.write(b"w" * 700),
    "write_durable": lambda: file.write_durable(b"d" * 700),
    "write_of_a_whole_file": lambda: file.write(b"s" * 700),
    "sync": lambda: file.sync(),
    "close": lambda: file.close(),
    "replace": lambda: disk.replace("version-1/member", b"m" * 700),
    "overwrite": lambda: disk.overwrite("version-1/committed", b"c" * 36),
    "overwrite_again": lambda: disk.overwrite("version-1/committed", b"C" * 36),
    "preallocate": lambda: disk.preallocate("version-1/log.spare", 8192),
    "rename": lambda: disk.rename("version-1/log.spare", "version-1/log.2"),
    "sync_directory": lambda: disk.sync_directory("version-1"),
    "open_preallocated": lambda: globals().update(file=disk.open_append("version-1/log.2", create=False)),
    "write_durable_into_it": lambda: file.write_durable(b"e" * 700),
    "close_of_a_preallocated_file": lambda: file.close(),
    "truncate": lambda: disk.truncate("version-1/log.2", 100),
    "remove": lambda: disk.remove("version-1/log.1"),
    "sync_of_the_top": lambda: disk.sync_directory(""),
}
sizes = {"open": os.path.getsize(record)}
for name, call in methods.items():
    call()
    sizes[name] = os.path.getsize(record)
print(json.dumps(sizes))
"""

CALLS = {
    "open": ["mkdir version-1", "open version-1/lock", "syncdir", "open version-1/log.1"],
    "write": ["write version-1/log.1 0 700"],
    # One system call an append, and these bytes are durable when it returns.
    "write_durable": ["durable version-1/log.1 700 700"],
    "write_of_a_whole_file": ["write version-1/log.1 1400 700"],
    "sync": ["fdatasync version-1/log.1"],
    # A file that was not preallocated has nothing to give back.
    "close": [],
    # The content before the name, the name before the directory.
    "replace": [
        "open version-1/member.tmp",
        "write version-1/member.tmp 0 700",
        "fsync version-1/member.tmp",
        "rename version-1/member.tmp version-1/member",
        "syncdir version-1",
    ],
    "overwrite": ["open version-1/committed", "write version-1/committed 0 36"],
    "overwrite_again": ["write version-1/committed 0 36"],
    "preallocate": ["open version-1/log.spare", "allocate version-1/log.spare 8192", "fsync version-1/log.spare"],
    "rename": ["rename version-1/log.spare version-1/log.2"],
    "sync_directory": ["syncdir version-1"],
    "open_preallocated": ["open version-1/log.2"],
    "write_durable_into_it": ["durable version-1/log.2 0 700"],
    "close_of_a_preallocated_file": ["truncate version-1/log.2 700"],
    "truncate": ["open version-1/log.2", "truncate version-1/log.2 100", "fsync version-1/log.2"],
    "remove": ["unlink version-1/log.1"],
    "sync_of_the_top": ["syncdir"],
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_recorder(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def recorded(library: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The record of all methods, and how long it was after each."""
    directory = tmp_path_factory.mktemp("recorded")
    machine = Machine(library, directory / "data", directory / "record")
    machine.root.mkdir()
    return machine.record, json.loads(run(machine, PROGRAM))


def run(machine: Machine, program: str) -> str:
    command = [sys.executable, "-c", program, str(machine.root), str(machine.record)]
    environment = {**os.environ, **machine.environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def after(recorded: tuple[Path, dict[str, int]], method: str, library: Path, directory: Path) -> Machine:
    """A machine of which nothing is known but the record up to the end of one method."""
    record, sizes = recorded
    root = directory / "data"
    root.mkdir(parents=True)
    shortened = directory / "record"
    shortened.write_bytes(record.read_bytes()[: sizes[method]])
    return Machine(library, root, shortened)


@pytest.mark.parametrize("method", CALLS)
def test_each_method_of_the_disk_makes_these_calls_in_this_order(
    method: str, recorded: tuple[Path, dict[str, int]], library: Path, tmp_path: Path
) -> None:
    order = list(CALLS)
    calls = after(recorded, method, library, tmp_path / "to").calls()
    before = order[order.index(method) - 1] if method != order[0] else None
    earlier = len(after(recorded, before, library, tmp_path / "from").calls()) if before else 0
    assert calls[earlier:] == CALLS[method]


def left(recorded: tuple[Path, dict[str, int]], method: str, library: Path, directory: Path, seed: int) -> RealDisk:
    machine = after(recorded, method, library, directory / str(seed))
    machine.cut(Random(seed))
    return RealDisk(str(machine.root), lock=False)


def test_what_a_method_promises_survives_the_power(
    recorded: tuple[Path, dict[str, int]], library: Path, tmp_path: Path
) -> None:
    for seed in range(SEEDS):
        assert left(recorded, "replace", library, tmp_path / "replace", seed).read(D + "member") == b"m" * 700
        log = left(recorded, "sync_directory", library, tmp_path / "directory", seed)
        assert log.read(D + "log.1") == b"w" * 700 + b"d" * 700 + b"s" * 700
        assert log.read(D + "log.2") == bytes(8192)
        cut = left(recorded, "truncate", library, tmp_path / "truncate", seed)
        assert cut.read(D + "log.2") == b"e" * 100


def test_what_no_method_promises_may_be_lost(
    recorded: tuple[Path, dict[str, int]], library: Path, tmp_path: Path
) -> None:
    """Were nothing ever lost, the test above would hold of any disk."""
    seen = set()
    for seed in range(4 * SEEDS):
        written = left(recorded, "write", library, tmp_path / "written", seed)
        seen.add(("a new name", written.exists(D + "log.1")))
        removed = left(recorded, "sync_of_the_top", library, tmp_path / "removed", seed)
        seen.add(("a removed name", removed.exists(D + "log.1")))
        overwritten = left(recorded, "sync_directory", library, tmp_path / "overwritten", seed)
        seen.add(("overwritten bytes", overwritten.read(D + "committed") == b"C" * 36))
    assert seen == {(what, is_so) for what, _ in seen for is_so in (False, True)}


def test_a_log_elsewhere_is_synced_where_it_is(library: Path, tmp_path: Path) -> None:
    """dataLogDir: both directories are synced, since either may have new names."""
    machine = Machine(library, tmp_path, tmp_path / "record")
    (tmp_path / "data").mkdir()
    (tmp_path / "logs").mkdir()
    run(
        machine,
        "import sys\nfrom zab.host.storage.disk import RealDisk\n"
        "disk = RealDisk(sys.argv[1] + '/data', sys.argv[1] + '/logs')\n"
        "disk.open_append('version-1/log.1', create=True).write_durable(b'x')\ndisk.sync_directory('version-1')\n",
    )
    calls = machine.calls()
    assert calls[:6] == [
        *("mkdir data/version-1", "open data/version-1/lock", "syncdir data"),
        *("mkdir logs/version-1", "open logs/version-1/lock", "syncdir logs"),
    ]
    assert calls[6:] == [
        *("open logs/version-1/log.1", "durable logs/version-1/log.1 0 1"),
        *("syncdir data/version-1", "syncdir logs/version-1"),
    ]
