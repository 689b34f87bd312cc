"""The jars of the real Kafka, with its tools, in a cache outside the repository (`tests.downloads.environments`).

Maven gets them from Maven Central, once. Where there is no Maven or no Java, or Maven Central cannot be reached, the
test is skipped with the reason.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.downloads.environments import cache, once
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS

VERSION = "3.9.1"
CLIENT_VERSIONS = (VERSION, "4.1.0")
_DOWNLOAD_SECONDS = 1200.0
_POM = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>zab</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_PARTS = ("groupId", "artifactId", "version", "classifier")


def kafka_jars() -> Path:
    """The directory with the jars of the broker and its tools. Skips the test where they cannot be had."""
    return jars(
        f"kafka-tools-{VERSION}", f"org.apache.kafka:kafka_2.13:{VERSION}", f"org.apache.kafka:kafka-tools:{VERSION}"
    )


def client_jars(version: str) -> Path:
    """The directory with the jars of Kafka's client in Java. Skips the test where they cannot be had."""
    return jars(f"kafka-clients-{version}", f"org.apache.kafka:kafka-clients:{version}", "org.slf4j:slf4j-nop:1.7.36")


def stream_jars(version: str) -> Path:
    """The directory with the jars of Kafka Streams. Skips the test where they cannot be had."""
    return jars(f"kafka-streams-{version}", f"org.apache.kafka:kafka-streams:{version}", "org.slf4j:slf4j-nop:1.7.36")


def require_maven() -> None:
    """Skips the test where there is no Java or no Maven."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def jars(name: str, *artifacts: str) -> Path:
    """The directory with these artifacts, each `group:artifact:version` or `group:artifact:version:classifier`, and
    what they need."""
    dependencies = "".join(map(_dependency, artifacts))
    require_maven()

    def make(place: Path) -> None:
        place.mkdir()
        (place / "pom.xml").write_text(_POM.format(dependencies=dependencies), encoding="utf-8")
        options = ("--quiet", "--batch-mode", f"-Dmaven.repo.local={cache() / 'maven'}", "-DincludeScope=runtime")
        command = ["mvn", *options, "-DoutputDirectory=jars", "dependency:copy-dependencies"]
        try:
            subprocess.run(command, cwd=place, capture_output=True, check=True, text=True, timeout=_DOWNLOAD_SECONDS)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"mvn: {next(iter((error.stdout or error.stderr).strip().splitlines()), error)}")
        except subprocess.TimeoutExpired as error:
            pytest.skip(str(error))

    place = cache() / name
    once(place, make)
    return place / "jars"


def _dependency(artifact: str) -> str:
    parts = zip(_PARTS, artifact.split(":"), strict=False)
    return f"\n    <dependency>{''.join(f'<{part}>{text}</{part}>' for part, text in parts)}</dependency>"


def kafka_tool(main_class: str, *arguments: str) -> str:
    """What one of Kafka's tools prints, complaints included; it has to succeed."""
    command = ["java", "-Xmx256m", *QUICK, "-classpath", f"{kafka_jars()}/*", main_class, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG_PATIENCE_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr
