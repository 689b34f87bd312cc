"""What the page says of the machine and the code that was measured, and what a run says while it goes on."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_REPOSITORY = Path(__file__).parents[1]


def system() -> str:
    """Cores, memory and kernel, in a line."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    kernel = f"{platform.system()} {platform.release()}"
    return f"{os.cpu_count()} cores{f' ({model})' if model else ''}, {memory_gib:.0f} GiB, {kernel}; all on loopback"


def versions() -> str:
    """Of what runs on both sides."""
    # The pipeline's; whoever starts no Java can use the rest.
    from zab.pipeline.java import find_java

    java = subprocess.run([str(find_java()), "-version"], capture_output=True, text=True, check=False).stderr
    return f"Python {platform.python_version()}; {java.splitlines()[0] if java else 'no Java'}"


def commit() -> str:
    """Which one is checked out, and whether a file differs from it."""
    changes = _git("status", "--porcelain", "-uno")
    return f"commit {_git('rev-parse', '--short', 'HEAD')}{' with changes' if changes else ''}"


def command(module: str, rounds: int, seconds: float) -> str:
    """The command of this run, and what its figures are."""
    line = " ".join([f"python -m {module}", *sys.argv[1:]])
    return f"`{line}`: medians of {rounds} alternating rounds of {seconds:g} s a cell"


def raise_descriptors() -> int:
    """Lets this process, and those that it starts, have as many descriptors as is allowed; how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _lines(path: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from Path(path).read_text().splitlines()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()
