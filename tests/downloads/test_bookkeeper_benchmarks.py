"""BookKeeper's own benchmarks, unmodified, on bookies of ours: they come to their end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.downloads.bookies import zab_bookies
from tests.downloads.bookkeeper import benchmark_jars, java, ran
from tests.downloads.java_client import java_client
from tests.rigs.bookie import BookieProcess
from tests.rigs.zab_server import zab_servers

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

BENCHMARKS = "org.apache.bookkeeper.benchmark."


@attrs.frozen
class Rig:
    directory: Path
    hosts: str
    bookies: list[BookieProcess]

    def run(self, name: str, *options: object) -> str:
        """What the benchmark prints."""
        told = (BENCHMARKS.rstrip("."),)
        command = java(self.directory, benchmark_jars(), BENCHMARKS + name, *map(str, options), told=told)
        return ran([*command, "-zookeeper", self.hosts])


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    root: Path = tmp_path_factory.mktemp("benchmarks")
    with (
        zab_servers(1, directory=root / "member") as ensemble,
        java_client(root / "client", ensemble.hosts) as program,
    ):
        assert program.shell("initnewcluster").code == 0
        with zab_bookies(root, 3, ensemble.hosts) as bookies:
            yield Rig(root, ensemble.hosts, bookies)


@pytest.mark.parametrize("options", [(), ("-useV2",)], ids=["v3", "v2"])
def test_throughput_and_latency(rig: Rig, options: tuple[str, ...]) -> None:
    """Case 20."""
    said = rig.run(
        "BenchThroughputLatency",
        *("-entrysize", 1024, "-ensemble", 3, "-quorum", 2, "-ackQuorum", 2, "-ledgers", 1),
        *("-time", 5, "-throttle", 200, "-sendlimit", 2000, "-skipwarmup", *options),
        *("-latencyFile", rig.directory / "latencies"),
    )
    completed = re.search(r"(\d+) completions in", said)
    assert completed is not None, said
    assert int(completed[1]) > 0, said
    assert "Failed to write" not in said


def test_one_bookie_alone(rig: Rig) -> None:
    """Case 20: a key of zeros, and digests that are none."""
    bookie = rig.bookies[0]
    said = rig.run(
        "BenchBookie",
        *("-host", "127.0.0.1", "-port", bookie.port, "-size", 1024),
        *("-warmupCount", 50, "-latencyCount", 50, "-throughputCount", 500),
    )
    assert "Throughput" in said
