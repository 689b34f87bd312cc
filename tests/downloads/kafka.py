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

VERSION = "3.9.1"
_DOWNLOAD_SECONDS = 1200.0
_RUN_SECONDS = 120.0
_POM = f"""
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>zab</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def kafka_jars() -> Path:
    """The directory with the jars. Skips the test where they cannot be had."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")

    def make(place: Path) -> None:
        place.mkdir()
        (place / "pom.xml").write_text(_POM, encoding="utf-8")
        options = ("--quiet", "--batch-mode", f"-Dmaven.repo.local={cache() / 'maven'}", "-DincludeScope=runtime")
        command = ["mvn", *options, "-DoutputDirectory=jars", "dependency:copy-dependencies"]
        try:
            subprocess.run(command, cwd=place, capture_output=True, check=True, text=True, timeout=_DOWNLOAD_SECONDS)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"mvn: {next(iter((error.stdout or error.stderr).strip().splitlines()), error)}")
        except subprocess.TimeoutExpired as error:
            pytest.skip(str(error))

    place = cache() / f"kafka-tools-{VERSION}"
    once(place, make)
    return place / "jars"


def kafka_tool(main_class: str, *arguments: str) -> str:
    """What one of Kafka's tools prints, complaints included; it has to succeed."""
    command = ["java", "-Xmx256m", *QUICK, "-classpath", f"{kafka_jars()}/*", main_class, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr
