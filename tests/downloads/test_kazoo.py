"""kazoo's own tests on its own harness, which starts members of ours by the `java` of docs/how-to/migrate.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.downloads.environments import environment
from tests.rigs.kazoo_harness import java_of_the_page
from zab.testing.kit.ports import free_ports_in_a_row

pytestmark = [pytest.mark.downloads, pytest.mark.process, pytest.mark.slow]

# Later versions of pyOpenSSL lack what the harness makes its certificates with.
NEEDED = ("kazoo==2.11.0", "pyjks==20.0.0", "pyOpenSSL==23.3.0", "pure-sasl==0.6.2", "objgraph==3.7.0", "pytest==9.0.2")
PORTS = 25
OTHERWISE = {
    "test_create_large_value": "a request that is too large is an error, and not the end of the connection (D102)",
    "test_no_super_auth": "it adds a server 999, and ids end at 255: BADARGUMENTS comes before NOAUTH",
}


@pytest.mark.parametrize(
    ("rooms", "jaas", "passed_min"),
    [
        (("client", "sasl", "connection"), "", 120),
        (("sasl",), "digest", 3),
        (("barrier", "cache", "counter", "election", "interrupt", "lease", "lock", "party"), "", 60),
        (("partitioner", "queue", "watchers"), "", 30),
    ],
)
def test_its_own_tests_pass(rooms: tuple[str, ...], jaas: str, passed_min: int, tmp_path: Path) -> None:
    python = environment("kazoo", *NEEDED)
    java = java_of_the_page(tmp_path)
    places = [str(java.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    command = [
        str(python),
        *("-W", "ignore", "-m", "pytest", "--quiet", "-o", f"cache_dir={tmp_path / 'cache'}"),
        *("-k", " and ".join(f"not {name}" for name in OTHERWISE)),
        *("--pyargs", *(f"kazoo.tests.test_{room}" for room in rooms)),
    ]
    environ = {
        **os.environ,
        "PATH": os.pathsep.join(places),
        "TMPDIR": str(tmp_path),
        "ZOOKEEPER_VERSION": "3.9.5",
        "ZOOKEEPER_PATH": "/nowhere",
        "ZOOKEEPER_PORT_OFFSET": str(free_ports_in_a_row(PORTS)),
        "ZOOKEEPER_JAAS_AUTH": jaas,
    }

    def ran(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *more], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=900, check=False
        )

    done = ran()
    passed = int(re.findall(r"(\d+) passed", done.stdout)[0])
    if done.returncode == 1:
        # Some give a member five seconds to start again, which a loaded machine may not have: those run once more.
        done = ran("--last-failed", "--last-failed-no-failures=none")
        passed += int(re.findall(r"(\d+) passed", done.stdout)[0])
    assert done.returncode == 0, done.stdout[-4000:]
    assert passed >= passed_min
