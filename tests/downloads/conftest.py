"""A broker of ours and one of Kafka's, for programs that print the same lines on both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.downloads.kafka_brokers import real_brokers
from tests.rigs.kafka_broker import kafka_broker
from tests.rigs.zab_server import zab_servers

AUTHORIZER = ("authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS")
"""Access lists may be changed, and everybody may do everything."""


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker."""
    with kafka_broker(tmp_path_factory.mktemp("ours"), settings=AUTHORIZER) as broker:
        yield broker.address


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker of Kafka 3.9.1, whose ZooKeeper is a member of ours."""
    root = tmp_path_factory.mktemp("theirs")
    with (
        zab_servers(1, directory=root / "member") as ensemble,
        real_brokers(root, 1, ensemble.hosts, settings=AUTHORIZER) as [broker],
    ):
        yield broker.address
