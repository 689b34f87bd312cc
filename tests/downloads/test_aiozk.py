"""aiozk's own test suite, against our members."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.downloads.environments import environment, sources
from tests.rigs.zab_server import zab_servers

pytestmark = [pytest.mark.downloads, pytest.mark.process, pytest.mark.slow]

AIOZK = "aiozk==0.32.0"
TESTS_COUNT = 85


def test_its_own_suite_passes() -> None:
    python = environment("aiozk", AIOZK, "pytest==9.0.2", "pytest-asyncio==1.3.0")
    suite = sources("aiozk", python, AIOZK)
    with zab_servers(1) as ensemble:
        (member,) = ensemble.members
        ran = subprocess.run(
            [python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--override-ini=addopts=", "aiozk/test"],
            cwd=suite,
            env={**os.environ, "ZK_HOST": "127.0.0.1", "ZK_PORT": str(member.client_port)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert f"{TESTS_COUNT} passed" in ran.stdout, ran.stdout[-4000:]
    assert ran.returncode == 0
