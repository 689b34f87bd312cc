"""A `zab` command as a process of its own, for tests that talk to it while it runs."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """`zab WORDS` with pipes. It does not outlive the block, whatever happens in it."""
    command = [sys.executable, "-m", "zab.cli.main", *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=dict(os.environ), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()
