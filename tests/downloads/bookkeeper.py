"""The jars of the real BookKeeper, in a cache outside the repository, and programs that run with them.

`BOOKKEEPER_VERSIONS` is every version that the tests run with; `VERSION` the one of those that need one only.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.downloads.kafka import jars
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS

VERSION = "4.17.3"
BOOKKEEPER_VERSIONS = (VERSION, "4.18.0")
MEMORY = ("-Xms32m", "-Xmx192m", "-XX:MaxDirectMemorySize=96m")
"""The memory that a bookie, a client or a shell may use."""
_IPV4 = "-Djava.net.preferIPv4Stack=true"
_GROUP = "org.apache.bookkeeper"
_JUNIT = ("org.junit.platform:junit-platform-launcher:1.10.2", "org.junit.jupiter:junit-jupiter-engine:5.10.2")
_TEST_LIBRARIES = (
    *_JUNIT,
    "org.junit.jupiter:junit-jupiter-params:5.10.2",
    "org.junit.vintage:junit-vintage-engine:5.10.2",
    "org.mockito:mockito-inline:4.11.0",
    "org.hamcrest:hamcrest-all:1.3",
    "org.assertj:assertj-core:3.25.3",
    "org.awaitility:awaitility:4.2.0",
    "org.xerial.snappy:snappy-java:1.1.10.5",
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
)
_ZOOKEEPER = {VERSION: "3.9.3", "4.18.0": "3.9.5"}
_LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %m %X%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
TOLD_BY_THE_SHELL = (
    "org.apache.bookkeeper.bookie.BookieShell",
    "org.apache.bookkeeper.client.BookKeeperAdmin",
    "org.apache.bookkeeper.tools.cli",
)
"""Whose log is what the shell prints."""
ALL = ("org.apache.bookkeeper",)


def server_jars(version: str = VERSION) -> Path:
    """The directory with the jars of bookies, clients and the shell. Skips the test where they cannot be had."""
    return jars(f"bookkeeper-server-{version}", f"{_GROUP}:bookkeeper-server:{version}")


def benchmark_jars(version: str = VERSION) -> Path:
    """The directory with the jars of BookKeeper's benchmarks. Skips the test where they cannot be had."""
    return jars(f"bookkeeper-benchmark-{version}", f"{_GROUP}:bookkeeper-benchmark:{version}")


def own_test_jars(version: str = VERSION) -> Path:
    """The directory with BookKeeper's own test classes and what they need. Skips the test where they cannot be had."""
    return jars(
        f"bookkeeper-tests-{version}",
        f"{_GROUP}:bookkeeper-server:{version}",
        f"{_GROUP}:bookkeeper-server:{version}:tests",
        f"{_GROUP}:bookkeeper-common:{version}:tests",
        f"{_GROUP}:testtools:{version}",
        f"{_GROUP}.stats:prometheus-metrics-provider:{version}",
        f"{_GROUP}.http:vertx-http-server:{version}",
        f"org.apache.zookeeper:zookeeper:{_ZOOKEEPER[version]}:tests",
        *_TEST_LIBRARIES,
    )


def logging_option(directory: Path, told: Sequence[str] = ()) -> str:
    """The option of a JVM that prints its log as bare messages: warnings, and of these packages also what is no
    warning."""
    lines = [f"logger.{n}.name = {name}\nlogger.{n}.level = info\n" for n, name in enumerate(told)]
    file = directory / "log4j2.properties"
    file.write_text(_LOGGING + "".join(lines), encoding="utf-8")
    return f"-Dlog4j2.configurationFile={file}"


def java(
    directory: Path, place: Path, *arguments: str, told: Sequence[str] = (), options: Sequence[str] = ()
) -> list[str]:
    """The command that runs a main class or a source file with the jars of `place`. directory: for its settings."""
    logging = logging_option(directory, told)
    return ["java", _IPV4, *MEMORY, *QUICK, *options, logging, "-classpath", f"{place}/*", *arguments]


def ran(command: Sequence[str], said: str = "", seconds: float = LONG_PATIENCE_SECONDS) -> str:
    """What a program prints, complaints included; it has to succeed."""
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
