"""A server that was down while all others of its file were replaced, as real processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.rigs.growing import growing

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_it_learns_what_is_in_force_and_is_a_majority_with_one_of_the_new_ones(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(os.urandom(32).hex() + "\n")
    secret.chmod(0o600)
    with growing("zab", **{"quorum.secretFile": str(secret), "syncLimit": 10}) as servers:
        old = [servers.line(sid) for sid in (1, 2, 3)]
        for sid in (1, 2, 3):
            servers.start(sid, *old)
        servers.wait(1, 2, 3)
        servers.work(1)
        servers.kill(3)
        for sid in (4, 5):
            servers.start(sid, *old, servers.line(sid))
        servers.wait(4, 5)
        new = [servers.line(sid) for sid in (3, 4, 5)]
        servers.reconfig(4, members=",".join(new))
        servers.show(new, 4, 5)
        servers.kill(1, 2)
        servers.members[3].start()
        servers.wait(3)
        servers.kill(5)
        servers.work(3, 4)
