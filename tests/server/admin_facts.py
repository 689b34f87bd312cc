"""What the admin server says, as it is asked."""

import httpx

from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from tests.tidy.sources import ROOT
from zab.member.settings.commands import PROMETHEUS

FACTS = ROOT / "tests" / "testdata" / "metrics"

SUPER_DIGEST = "super:VWtk8RlLl86/uVG5FIHgpHieL2Q="
"""Of super:wire."""


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
