"""The servers that all conformance tests share: an ensemble of ours, and the real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper

SUPER = "super:wire"
SUPER_DIGEST = "super:VWtk8RlLl86/uVG5FIHgpHieL2Q="
"""The hashed id of SUPER."""

CONFIGURATION: dict[str, str | int] = {"tickTime": 500, "maxSessionTimeout": 40_000}
PROPERTIES: dict[str, str | int] = {
    "extendedTypesEnabled": "true",
    "enforceQuota": "true",
    "znode.container.checkIntervalMs": 3_600_000,
    "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
}
"""Keys of our zoo.cfg, system properties of ZooKeeper."""


@pytest.fixture(scope="session")
def ours() -> Iterator[ZooKeeperEnsemble]:
    """Three of our members. Tests may kill and restart them, and leave sessions to expire."""
    with zab_servers(3, configuration={**CONFIGURATION, **PROPERTIES}) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def quiet() -> Iterator[ZooKeeperEnsemble]:
    """Three of our members on which nothing happens but what one test at a time asks for, and asks `theirs` for, too:
    both have the same past, as far as a stat shows it."""
    with zab_servers(3, configuration={**CONFIGURATION, **PROPERTIES}) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def theirs() -> Iterator[ZooKeeperEnsemble]:
    """The real ZooKeeper, quiet as well. One server: in an ensemble, a write whose body cannot be decoded is neither
    proposed nor dropped, and the followers wait for it for ever (3.9.5)."""
    with zookeeper(configuration=CONFIGURATION, properties=PROPERTIES) as ensemble:
        yield ensemble
