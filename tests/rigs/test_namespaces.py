from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.namespaces import IN_A_NAMESPACE, can_part

ROOT = Path(__file__).parents[2]
INSIDE = """
import subprocess, sys
from tests.rigs.namespaces import namespaces

LISTEN = "import socket; s = socket.create_server(('', 2181)); print(flush=True)\\nwhile 1: s.accept()[0].close()"
DIAL = "import socket, sys; socket.create_connection(('10.77.0.1', 2181), float(sys.argv[1]))"

with namespaces(2) as net:
    listener = subprocess.Popen(net.command(1, [sys.executable, "-c", LISTEN]), stdout=subprocess.PIPE)
    listener.stdout.readline()
    def dialled(patience):
        run = net.command(2, [sys.executable, "-c", DIAL, patience])
        return subprocess.run(run, capture_output=True).returncode == 0
    assert dialled("60")
    for sides in ((1, 2), (2, 1)):
        net.cut(*sides)
        assert not dialled("1"), sides
        net.heal()
        assert dialled("60")
    net.part(1, 2)
    assert not dialled("1")
    net.heal()
    assert dialled("60")
    listener.kill()
    listener.wait()
print("done")
"""


@pytest.mark.process
def test_machines_that_are_cut_off_are_not_reached_until_they_are_healed() -> None:
    if not can_part():
        pytest.skip("no namespaces here: ip, unshare and nsenter, and the right to use them, are needed")
    run = [*IN_A_NAMESPACE, sys.executable, "-c", INSIDE]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
