"""What needs a process is found in the code of tests, and what was not found is noticed."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import see_starts
from tests.rigs import needs
from tests.rigs.zab_server import zab_servers
from zab.testing.kit.ports import free_ports


def starts_a_server() -> None:
    with zab_servers(1):
        pass


def starts_nothing() -> None:
    assert free_ports(1)


class Rig:
    @property
    def server(self) -> None:
        [starts_a_server() for _ in range(3)]


class RigOfThis(Rig):
    pass


def test_a_process_is_found_through_functions_classes_and_context_managers() -> None:
    def uses_a_rig() -> None:
        RigOfThis().server  # noqa: B018

    assert needs._starts_processes(starts_a_server)
    assert needs._starts_processes(uses_a_rig)
    assert not needs._starts_processes(starts_nothing)


def test_a_process_that_was_not_found_fails_its_test() -> None:
    start = getattr(__import__("sub" + "process"), "run")  # noqa: B009
    with pytest.raises(AssertionError, match="mark it `process`"):
        start([sys.executable, "-c", ""])
    with pytest.raises(AssertionError, match="mark it `process`"):
        see_starts("os.fork", ())
