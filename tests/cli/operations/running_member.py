"""A member that backups are taken of."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest
from kazoo.client import KazooClient

from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from tests.server.admin_facts import lines_of
from zab.testing.kit.ports import free_ports


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
    ports = free_ports(6)
    each = [lines_of(*pair) for pair in zip(ports[:3], ports[3:], strict=True)]
    with zab_servers(3, each=each) as servers:
        client = KazooClient(servers.hosts)
        client.start()
        yield Running(servers, client, ports[:3], str(auth))
        client.stop()
        client.close()
