"""A backup, and the tree that it restores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datatree.zookeeper.histories import history, states
from zab.host.storage.disk import RealDisk

TXNS, TREE = history(2, 300)

STATE = states(TXNS)[-1]

ZXID = 5 << 32 | 300

RESTORED = 7 << 32 | 1


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A member's directory with a snapshot, without logs; its epoch files say 6."""
    # The pipeline's extra: without it these tests can still be collected.
    from tests.pipeline.rigs.trees import as_state
    from zab.pipeline.state.snapshot_output import found_native, write_native

    directory = tmp_path / "backup"
    (directory / "version-1").mkdir(parents=True)
    disk = RealDisk(str(directory), lock=False)
    state = as_state(ZXID, STATE.sessions, (STATE.znodes[path] for path in sorted(STATE.znodes)))
    write_native(disk, state, bytes(range(16)))
    found_native(disk, bytes(range(16)), 1, 6)
    return directory
