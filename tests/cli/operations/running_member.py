"""A member that backups are taken of."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest
from kazoo.client import KazooClient

from tests.rigs.admin_servers import administered
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zookeeper_server import ZooKeeperEnsemble


@attrs.define
class Running:
    servers: ZooKeeperEnsemble
    client: KazooClient
    admin: list[int]
    auth: str

    def words(self, command: str, *more: object, members: int = 3) -> list[object]:
        ports = [word for port in self.admin[:members] for word in ("--admin", f"127.0.0.1:{port}")]
        return ["--auth", f"@{self.auth}", "backup", command, *more, *ports]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    auth = tmp_path_factory.mktemp("auth") / "auth"
    auth.write_text("digest:super:wire\n")
    auth.chmod(0o600)
    with administered(3) as found, kazoo_client(found.servers.hosts) as client:
        yield Running(found.servers, client, list(found.admin.values()), str(auth))
