"""Brokers of the real Pulsar as processes on loopback, whose metadata and bookies are ours.

Pulsar's tree of artifacts takes Maven 3.8 hours, so Maven Central also gives a newer Maven. Its jars are those of the
broker, without what speaks to etcd and to the service of tables.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.downloads.bookkeeper import logging_option, ran
from tests.downloads.environments import cache, once
from tests.downloads.kafka import require_maven
from tests.downloads.programs import PROGRAMS
from tests.rigs.processes import GuardedProcess
from tests.rigs.quick_java import QUICK
from zab.testing.kit.ports import HOST, free_ports

VERSION = "3.0.7"
_BOOKKEEPER = "4.16.6"
_MAVEN = "3.9.9"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_DOWNLOAD_SECONDS = 2400.0
_CENTRAL = """<settings><mirrors><mirror><id>central-alone</id><mirrorOf>*</mirrorOf>
<url>https://repo.maven.apache.org/maven2</url></mirror></mirrors></settings>
"""
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
<exclusions>{}</exclusions></dependency>
"""
_EXCLUSION = "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>zab</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencyManagement><dependencies><dependency><groupId>org.apache.pulsar</groupId><artifactId>pulsar</artifactId>
<version>{}</version><type>pom</type><scope>import</scope></dependency></dependencies></dependencyManagement>
<dependencies>{}</dependencies></project>
"""
_TABLES = ("service-impl", "service-api", "proto", "api", "common", "server")
"""Parts of BookKeeper's service of tables whose classes the setup of a cluster names."""
_OPENED = (
    *("java.base/java.lang", "java.base/java.util", "java.base/java.nio", "java.base/sun.net"),
    *("java.base/jdk.internal.misc", "java.base/jdk.internal.platform", "java.management/sun.management"),
    "jdk.management/com.sun.management.internal",
)
_BROKER = """\
metadataStoreUrl=zk:{hosts}
configurationMetadataStoreUrl=zk:{hosts}
clusterName=zab
advertisedAddress=127.0.0.1
bindAddress=127.0.0.1
brokerServicePort={port}
webServicePort={web_port}
zooKeeperSessionTimeoutMillis=6000
metadataStoreSessionTimeoutMillis=6000
managedLedgerDefaultEnsembleSize=2
managedLedgerDefaultWriteQuorum=2
managedLedgerDefaultAckQuorum=2
managedLedgerCacheSizeMB=16
loadBalancerEnabled=false
functionsWorkerEnabled=false
transactionCoordinatorEnabled=false
systemTopicEnabled=false
topicLevelPoliciesEnabled=false
numIOThreads=2
numHttpServerThreads=8
"""


def pulsar_jars() -> Path:
    """The directory with the jars of the broker and the client. Skips the test where they cannot be had."""
    require_maven()

    def make(place: Path) -> None:
        place.mkdir()
        (place / "settings.xml").write_text(_CENTRAL, encoding="utf-8")
        (place / "pom.xml").write_text(_pom(), encoding="utf-8")
        options = ("-q", "-B", "-s", "settings.xml", f"-Dmaven.repo.local={cache() / 'maven'}")
        archive = f"org.apache.maven:apache-maven:{_MAVEN}:tar.gz:bin"
        _run(place, "mvn", *options, f"{_PLUGIN}:copy", f"-Dartifact={archive}", "-DoutputDirectory=.")
        _run(place, "tar", "xzf", f"apache-maven-{_MAVEN}-bin.tar.gz")
        options = (*options, "-Daether.dependencyCollector.impl=bf", "-DincludeScope=runtime", "-DoutputDirectory=jars")
        _run(place, f"apache-maven-{_MAVEN}/bin/mvn", *options, f"{_PLUGIN}:copy-dependencies")

    place = cache() / f"pulsar-broker-{VERSION}"
    once(place, make)
    return place / "jars"


def _pom() -> str:
    left_out = ("org.apache.pulsar", "jetcd-core-shaded"), ("org.apache.bookkeeper", "stream-storage-server")
    exclusions = "".join(_EXCLUSION.format(*each) for each in left_out)
    broker = _DEPENDENCY.format("org.apache.pulsar", "pulsar-broker", VERSION, exclusions)
    alone = _EXCLUSION.format("*", "*")
    tables = (
        _DEPENDENCY.format("org.apache.bookkeeper", f"stream-storage-{each}", _BOOKKEEPER, alone) for each in _TABLES
    )
    return _POM.format(VERSION, "".join((broker, *tables)))


def _run(place: Path, *command: str) -> None:
    try:
        subprocess.run(command, cwd=place, capture_output=True, check=True, text=True, timeout=_DOWNLOAD_SECONDS)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{command[0]}: {next(iter((error.stdout or error.stderr).strip().splitlines()), error)}")
    except subprocess.TimeoutExpired as error:
        pytest.skip(str(error))


def java(directory: Path, *arguments: str) -> list[str]:
    """The command that runs a main class or a source file with Pulsar's jars. directory: for its settings."""
    return [
        *("java", "-Xmx512m", "-XX:MaxDirectMemorySize=256m", *QUICK, "-Djava.net.preferIPv4Stack=true"),
        *(word for each in _OPENED for word in ("--add-opens", f"{each}=ALL-UNNAMED")),
        *("-Dio.netty.tryReflectionSetAccessible=true", logging_option(directory, ("org.apache.pulsar",))),
        *("-classpath", f"{pulsar_jars()}/*", *arguments),
    ]


class PulsarBroker(GuardedProcess):
    """One broker."""

    def __init__(self, directory: Path, hosts: str) -> None:
        """hosts: connection string of the ensemble."""
        directory.mkdir(parents=True)
        self._directory = directory
        self.port, self.web_port = free_ports(2)
        file = directory / "broker.conf"
        file.write_text(_BROKER.format(hosts=hosts, port=self.port, web_port=self.web_port))
        self.command = java(directory, "org.apache.pulsar.PulsarBrokerStarter", "-c", str(file))

    @property
    def journal(self) -> Path:
        return self._directory / "broker.log"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def serve(self) -> None:
        """Start it, and wait until it says that it serves."""
        self.start()
        self.wait_until(lambda: re.search(r"messaging service is ready", self.log_text()))


def set_up(directory: Path, hosts: str, broker: PulsarBroker) -> None:
    """Write what a cluster needs before its first broker, ledgers included."""
    options = {
        "--cluster": "zab",
        "--metadata-store": f"zk:{hosts}",
        "--configuration-metadata-store": f"zk:{hosts}",
        "--web-service-url": f"http://{HOST}:{broker.web_port}",
        "--broker-service-url": f"pulsar://{broker.address}",
        "--initial-num-transaction-coordinators": "1",
    }
    words = [word for pair in options.items() for word in pair]
    ran(java(directory, "org.apache.pulsar.PulsarClusterMetadataSetup", *words))


def client(directory: Path, brokers: Sequence[PulsarBroker], *words: object) -> None:
    """Run `clients/PulsarProgram.java` with these words after the addresses; it has to succeed."""
    url = "pulsar://" + ",".join(broker.address for broker in brokers)
    assert "done" in ran(java(directory, str(PROGRAMS / "PulsarProgram.java"), url, *map(str, words)))
