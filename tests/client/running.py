"""The servers that the client's and the command line's tests run against, by name; every test is the same for all."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper

KINDS = ["zab", pytest.param("zookeeper", marks=pytest.mark.java)]


@contextmanager
def running(kind: str, size: int, configuration: Mapping[str, str | int]) -> Iterator[ZooKeeperEnsemble]:
    """`size` servers of that kind, with TTL znodes switched on."""
    if kind == "zab":
        with zab_servers(size, configuration={**configuration, "extendedTypesEnabled": "true"}) as ensemble:
            yield ensemble
    else:
        with zookeeper(size, configuration=configuration, properties={"extendedTypesEnabled": "true"}) as ensemble:
            yield ensemble
