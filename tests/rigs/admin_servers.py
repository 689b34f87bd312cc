"""Members with an admin server and a port of metrics each, and what they say when they are asked."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from tests.tidy.sources import ROOT
from zab.member.settings.commands import PROMETHEUS
from zab.testing.kit.ports import free_ports

FACTS = ROOT / "tests" / "testdata" / "metrics"

SUPER_DIGEST = "super:VWtk8RlLl86/uVG5FIHgpHieL2Q="
"""The digest of super:wire."""


class Ports:
    """The admin servers and ports of metrics of members 1 and up."""

    def __init__(self, admin: list[int], metrics: list[int]) -> None:
        self.admin = dict(enumerate(admin, 1))
        self.metrics = dict(enumerate(metrics, 1))

    def get(self, sid: int, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.admin[sid]}{path}", headers=headers, timeout=60)

    def post(self, sid: int, path: str, body: bytes, **headers: str) -> httpx.Response:
        return httpx.post(f"http://127.0.0.1:{self.admin[sid]}{path}", content=body, headers=headers, timeout=60)

    def scrape(self, sid: int) -> str:
        return httpx.get(f"http://127.0.0.1:{self.metrics[sid]}/metrics", timeout=60).text


class Running(Ports):
    """Servers with these ports."""

    def __init__(self, servers: ZooKeeperEnsemble, admin: list[int], metrics: list[int]) -> None:
        super().__init__(admin, metrics)
        self.servers = servers


@contextlib.contextmanager
def administered(size: int, *, directory: Path | None = None, **lines: str | int) -> Iterator[Running]:
    """Members that serve, with these lines in the file of each."""
    ports = free_ports(2 * size)
    each = [{**lines_of(*pair), **lines} for pair in zip(ports[:size], ports[size:], strict=True)]
    with zab_servers(size, directory=directory, each=each) as servers:
        yield Running(servers, ports[:size], ports[size:])


def lines_of(admin: int, metrics: int) -> dict[str, str | int]:
    return {
        "admin.enableServer": "true",
        "admin.serverPort": admin,
        "admin.rateLimiterIntervalInMS": 1,
        "metricsProvider.className": PROMETHEUS,
        "metricsProvider.httpHost": "127.0.0.1",
        "metricsProvider.httpPort": metrics,
        "admin.hostNames": "zab1.named, other",
        "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
    }


def facts(name: str) -> list[str]:
    lines = (FACTS / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
