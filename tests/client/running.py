"""The servers that the client's and the command line's tests run against, by name; every test is the same for all."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import pytest

from tests.rigs.in_process import members_here
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper

KINDS = ["zab", pytest.param("zookeeper", marks=pytest.mark.java)]
KINDS_OF_LONGEST = ["zab", pytest.param("zookeeper", marks=(pytest.mark.java, pytest.mark.longest))]
"""ZooKeeper is tried in `make test-longest` alone."""
_TTLS = {"extendedTypesEnabled": "true"}


class Servers(Protocol):
    """Servers that are only talked to."""

    @property
    def hosts(self) -> str: ...


@contextmanager
def running(kind: str, size: int, configuration: Mapping[str, str | int]) -> Iterator[Servers]:
    """`size` servers of that kind, with TTL znodes switched on. Ours run in this process."""
    if kind == "zab":
        with members_here(size, {**configuration, **_TTLS}) as members:
            yield members
    else:
        with running_processes(kind, size, configuration) as ensemble:
            yield ensemble


@contextmanager
def running_processes(kind: str, size: int, configuration: Mapping[str, str | int]) -> Iterator[ZooKeeperEnsemble]:
    """`size` servers of that kind, each in a process: for tests that kill one, or ask one alone."""
    if kind == "zab":
        with zab_servers(size, configuration={**configuration, **_TTLS}) as ensemble:
            yield ensemble
    else:
        with zookeeper(size, configuration=configuration, properties=_TTLS) as ensemble:
            yield ensemble
