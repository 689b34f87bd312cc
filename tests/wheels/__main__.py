"""Built wheels, installed into an empty environment of each Python: what they bring works there without this checkout.

    python -m tests.wheels python3.11 python3.12 python3.13      # `make wheels`

Each Python has a wheel for each architecture of Linux, and they are left in `dist`. Those for this machine are tried;
auditwheel has looked at the others (`building`). The first Python has one more wheel, built without a compiler, which
is tried, too.

It takes the index of packages, so it is no part of `make test`. A Python that is not there is told and passed over; at
least one has to be there. Without Zig and auditwheel, each Python has only a wheel for this machine, which its own
compiler makes. In each environment, from an empty directory: the client on trio, asyncio and threads and a recipe
against a member of the test kit, the command line, and tests with the fixtures. And beside the sources: the tests of
the native parts, with those of the wheel.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

from tests.native.compiling import TESTS as NATIVE_TESTS
from tests.wheels.building import ARCHITECTURES, ROOT, TOOLS, built, built_for, run
from zab.native import PARTS
from zab.service.version import VERSION

DIST = ROOT / "dist"

PROGRAM = """
import asyncio, subprocess, sys
from importlib.metadata import version
from pathlib import Path
import trio
import zab
from zab.client import aio, connect, sync
from zab.client.recipes import Lock
from zab.client.sync import recipes
from zab.service.version import VERSION
from zab.testing import Ensemble, simulate

assert "site-packages" in zab.__file__, zab.__file__
assert version("zab") == VERSION, (version("zab"), VERSION)

async def with_lock(zk):
    async with Lock(zk, "/lock") as held:
        assert held.is_held

async def on_trio(hosts):
    async with connect(hosts) as zk:
        await with_lock(zk)

async def on_asyncio(hosts):
    async with aio.connect(hosts) as zk:
        await with_lock(zk)

async def simulated(e):
    async with e.connect() as zk:
        await with_lock(zk)

with Ensemble(3) as e:
    trio.run(on_trio, e.hosts)
    asyncio.run(on_asyncio(e.hosts))
    with sync.connect(e.hosts) as zk:
        with recipes.Lock(zk, "/lock") as held:
            assert held.is_held
        zk.create("/a", b"hello")
    zab_command = str(Path(sys.executable).parent / "zab")
    said = subprocess.run([zab_command, "-s", e.hosts, "get", "/a"], check=True, capture_output=True, text=True)
    assert said.stdout == "hello\\n", said
simulate(simulated, seed=1)
print("works")
"""

TESTS = """
from zab.client import sync

def test_plain(zab_server):
    with sync.connect(zab_server.hosts) as zk:
        assert zk.create("/a") == "/a"

def test_client(zab_client):
    with zab_client() as zk:
        assert zk.create("/a") == "/a"
"""


def check(python: str, directory: Path, wheel: Path, parts: tuple[str, ...]) -> None:
    """Try a wheel of this machine. The directory has its sources."""
    place = directory / "environment"
    run(python, "-m", "venv", place, cwd=directory)
    own = place / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", f"{wheel}[testing]", cwd=directory)
    empty = place / "empty"
    empty.mkdir()
    (empty / "test_it.py").write_text(TESTS)
    native = ", ".join(parts) or "none"
    said = run(place / "bin" / "zab", "--version", cwd=empty)
    if said != f"zab {VERSION}, native: {native}\n":
        raise SystemExit(f"{wheel.name} has other native parts than {native}: {said}")
    run(own, "-c", PROGRAM, cwd=empty)
    run(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=empty)
    version = run(own, "--version", cwd=empty).strip()
    what = "the clients, the command line and the test kit"
    if parts:
        what += f", and {try_native_parts(own, directory / 'source', wheel)} of the native parts,"
    print(f"{version}: {what} work out of {wheel.name}, {said.strip()}", flush=True)


def try_native_parts(own: Path, source: Path, wheel: Path) -> str:
    """How many of their tests passed, beside the sources: all that there are."""
    with ZipFile(wheel) as archive:
        archive.extractall(source, [name for name in archive.namelist() if name.endswith(".so")])
    run(own, "-m", "pip", "install", "--quiet", "hypothesis", "pytest-timeout", "pytest-trio", cwd=source)
    # Without the fixtures of all tests, which need more packages.
    command = (
        own,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile=ci",
        "--confcutdir=tests/native",
        "-k",
        "native",
    )
    said = run(*command, *NATIVE_TESTS, cwd=source)
    if "skipped" in said:
        raise SystemExit(f"{wheel.name}: {said}")
    return said.splitlines()[-1].partition(" passed")[0] + " tests"


def is_there(python: str) -> bool:
    """A name may be one that a chooser of versions answers, without having that one."""
    return shutil.which(python) is not None and not subprocess.call(
        [python, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def architectures() -> tuple[str, ...]:
    """What can be built for with Zig."""
    if sys.platform != "linux" or platform.machine() not in ARCHITECTURES:
        print("Zig builds on Linux, for the same family of machines: only a wheel for this machine")
        return ()
    missing = [tool for tool in TOOLS if importlib.util.find_spec(tool) is None]
    if missing:
        print(f"{' and '.join(missing)} not there: only a wheel for this machine, by its own compiler")
    return () if missing else ARCHITECTURES


def wheels_of(python: str, made: Path) -> None:
    for architecture in architectures() or (None,):
        directory = made / (architecture or "own")
        directory.mkdir(parents=True)
        if architecture is None:
            wheel = built(python, directory)
        else:
            wheel = built_for(architecture, python, sys.executable, directory)
        if architecture in (None, platform.machine()):
            check(python, directory, wheel, PARTS)
        else:
            print(f"{wheel.name}: its native parts are for {architecture}", flush=True)
        shutil.copy(wheel, DIST)


def main(pythons: list[str]) -> None:
    found = [python for python in pythons if is_there(python)]
    for python in pythons:
        if python not in found:
            print(f"{python} is not there: passed over")
    if not found:
        raise SystemExit("no Python to install it into")
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        for python in found:
            wheels_of(python, Path(made, Path(python).name))
        directory = Path(made, "without a compiler")
        directory.mkdir()
        check(found[0], directory, built(found[0], directory, CC="/bin/false"), ())
    print(f"the wheels are in {DIST}")


if __name__ == "__main__":
    main(sys.argv[1:])
