"""Some of BookKeeper's own test classes, with a member of ours as their ZooKeeper (`tests.downloads.own_tests`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.downloads.own_tests import run_class

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

QUICK_CLASSES = {
    "client.ListLedgersTest": 3,
    "discover.TestZkRegistrationManager": 1,
    "meta.TestZkLedgerIdGenerator": 1,
    "meta.ZkLedgerLayoutTest": 1,
    "replication.TestLedgerUnderreplicationManager": 1,
    "util.TestZkUtils": 1,
}
"""How many tests each has at least."""


@pytest.mark.parametrize("name", QUICK_CLASSES)
def test_a_class_passes(name: str, tmp_path: Path) -> None:
    result = run_class(tmp_path, name)
    assert (result.failed, result.is_whole) == ({}, True)
    assert len(result.passed) >= QUICK_CLASSES[name]
