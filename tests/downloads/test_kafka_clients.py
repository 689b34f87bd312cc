"""Clients of Kafka in other languages, unmodified: a program for each, which prints the same lines on our broker and on
Kafka's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.downloads.environments import cache
from tests.downloads.kafka import CLIENT_VERSIONS, client_jars
from tests.downloads.node import node, node_modules
from tests.downloads.programs import PROGRAMS, lines_of
from tests.rigs.quick_java import QUICK
from tests.rigs.waiting import LONG_PATIENCE_SECONDS

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

NODE_MODULES = Path(sys.prefix, "share", "zab", "clients", "node_modules")
"""Where `make clients` puts kafkajs."""
PLATFORMATIC = "1.35.0"
"""The last one for Node 20."""


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_java(ours: str, theirs: str, version: str) -> None:
    program = PROGRAMS / "KafkaProgram.java"
    command = ["java", "-Xmx256m", *QUICK, "-classpath", f"{client_jars(version)}/*", str(program)]
    expected = lines_of(command, theirs)
    assert len(expected) > 30
    assert f"client: {version}" in expected
    assert lines_of(command, ours) == expected


def test_kafkajs(ours: str, theirs: str) -> None:
    program = node()
    if not (NODE_MODULES / "kafkajs").is_dir():
        pytest.skip("kafkajs is not there: make clients")
    environment = {**os.environ, "NODE_PATH": str(NODE_MODULES), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    command = [program, str(PROGRAMS / "kafkajs.js")]
    expected = lines_of(command, theirs, environment)
    assert len(expected) >= 17
    assert lines_of(command, ours, environment) == expected


def test_platformatic(ours: str, theirs: str) -> None:
    modules = node_modules("@platformatic/kafka", PLATFORMATIC)
    environment = {**os.environ, "NODE_PATH": str(modules)}
    command = [node(), str(PROGRAMS / "platformatic.mjs")]
    expected = lines_of(command, theirs, environment)
    assert len(expected) >= 14
    assert lines_of(command, ours, environment) == expected


@pytest.mark.parametrize("client", ["franz", "sarama"])
def test_go(ours: str, theirs: str, tmp_path: Path, client: str) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not there")
    program = tmp_path / client
    environment = {**os.environ, "GOPATH": str(cache() / "go"), "GOFLAGS": "-modcacherw"}
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=PROGRAMS / client,
        capture_output=True,
        text=True,
        timeout=LONG_PATIENCE_SECONDS,
        check=False,
        env=environment,
    )
    if built.returncode and "main.go:" not in built.stderr:
        # Nothing that the compiler says: modules that cannot be had, or this Go is older than they ask for.
        pytest.skip(built.stderr.splitlines()[0])
    assert built.returncode == 0, built.stderr
    expected = lines_of([str(program)], theirs)
    assert len(expected) >= 17
    assert lines_of([str(program)], ours) == expected


def test_krafka(ours: str, theirs: str) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not there")
    target = cache() / "krafka-target"
    options = ("--locked", "--quiet", "--target-dir", str(target))
    try:
        built = subprocess.run(
            [cargo, "build", *options],
            cwd=PROGRAMS / "krafka",
            capture_output=True,
            text=True,
            timeout=LONG_PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        # What is compiled by now is there for the next time.
        pytest.skip(str(error))
    if built.returncode and "src/main.rs" not in built.stderr:
        # Nothing that the compiler says: crates that cannot be had, or this Rust is older than they ask for.
        pytest.skip(built.stderr[-300:])
    assert built.returncode == 0, built.stderr
    expected = lines_of([str(target / "debug" / "in-krafka")], theirs)
    assert len(expected) >= 8
    assert lines_of([str(target / "debug" / "in-krafka")], ours) == expected
