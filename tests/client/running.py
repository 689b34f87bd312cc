"""The servers that the client's and the command line's tests run against, by name; every test is the same for all."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.zookeeper_server import ZooKeeperEnsemble, zookeeper

KINDS = [pytest.param("zookeeper", marks=pytest.mark.java)]


@contextmanager
def running(kind: str, size: int, configuration: Mapping[str, str | int]) -> Iterator[ZooKeeperEnsemble]:
    """`size` servers of that kind, with TTL znodes switched on."""
    assert kind == "zookeeper"
    with zookeeper(size, configuration=configuration, properties={"extendedTypesEnabled": "true"}) as ensemble:
        yield ensemble
