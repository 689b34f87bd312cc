"""Ports for servers: free ones, and no two workers draw the same."""

from __future__ import annotations

import pytest

from zab.testing.kit.ports import _own_ports, free_ports


def test_workers_draw_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    for worker in ("gw0", "gw1", "gw2"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        drawn += _own_ports()
    assert len(drawn) == len(set(drawn)) == 21_000
    assert len(set(free_ports(50))) == 50
