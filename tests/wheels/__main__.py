"""A built wheel, installed into an empty environment of each Python: what it brings works there without this checkout.

    python -m tests.wheels python3.11 python3.12 python3.13      # `make wheels`

Each Python has a wheel of its own, with the native parts; the first one has a second wheel, built without a compiler.
It takes the index of packages, so it is no part of `make test`. A Python that is not there is told and passed over; at
least one has to be there. In each environment, from an empty directory: the client on trio, asyncio and threads and a
recipe against a member of the test kit, the command line, and tests with the fixtures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from zab.service.version import VERSION

ROOT = Path(__file__).parents[2]

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


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    words, variables = [*map(str, command)], {**os.environ, **environment}
    done = subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(python: str, directory: Path, **environment: str) -> Path:
    """A wheel for this Python."""
    # Not in the checkout: what the build leaves there would be part of the next wheel.
    source = directory / "source"
    run("git", "clone", "--quiet", "--local", ROOT, source, cwd=directory)
    command = (python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", directory, source)
    run(*command, cwd=directory, **environment)
    [wheel] = directory.glob("zab-*.whl")
    if wheel.name.split("-")[1] != VERSION:
        raise SystemExit(f"{wheel.name} is not of version {VERSION}")
    return wheel


def check(python: str, directory: Path, wheel: Path, native: str) -> None:
    place = directory / "environment"
    run(python, "-m", "venv", place, cwd=directory)
    own = place / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", f"{wheel}[testing]", cwd=directory)
    empty = place / "empty"
    empty.mkdir()
    (empty / "test_it.py").write_text(TESTS)
    said = run(place / "bin" / "zab", "--version", cwd=empty)
    if said != f"zab {VERSION}, native: {native}\n":
        raise SystemExit(f"{wheel.name} has other native parts than {native}: {said}")
    run(own, "-c", PROGRAM, cwd=empty)
    run(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=empty)
    version = run(own, "--version", cwd=empty).strip()
    print(
        f"{version}: the clients, the command line and the test kit work out of {wheel.name}, {said.strip()}",
        flush=True,
    )


def is_there(python: str) -> bool:
    """A name may be one that a chooser of versions answers, without having that one."""
    return shutil.which(python) is not None and not subprocess.call(
        [python, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def main(pythons: list[str]) -> None:
    found = [python for python in pythons if is_there(python)]
    for python in pythons:
        if python not in found:
            print(f"{python} is not there: passed over")
    if not found:
        raise SystemExit("no Python to install it into")
    with tempfile.TemporaryDirectory() as made:
        for python in found:
            directory = Path(made, Path(python).name)
            directory.mkdir()
            check(python, directory, built(python, directory), "durable")
        directory = Path(made, "without a compiler")
        directory.mkdir()
        check(found[0], directory, built(found[0], directory, CC="/bin/false"), "none")


if __name__ == "__main__":
    main(sys.argv[1:])
