"""Programs with clients of Kafka: what they print, and where they are."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.rigs.waiting import LONG_PATIENCE_SECONDS

PROGRAMS = Path(__file__).parent / "clients"


def lines_of(command: Sequence[str], address: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """What the program prints on the broker at this address."""
    ran = subprocess.run(
        [*command, address], capture_output=True, text=True, timeout=LONG_PATIENCE_SECONDS, check=False, env=environment
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()
