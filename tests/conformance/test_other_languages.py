"""Clients of other languages, unmodified: ZooKeeper's in C, one in JavaScript, and Curator's recipes in Java.

Each has one program in `clients`, and beside it the lines that it prints. It prints them against three of our members,
and against three of the real ZooKeeper, some of which are killed meanwhile. What a machine lacks for it is said by the
reason of the skip.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import CONFIGURATION, PROPERTIES
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.client_programs import run_client
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, java_command, tool_options, zookeeper

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).with_name("clients")
NODE_MODULES = Path(sys.prefix, "share", "zab", "clients", "node_modules")
"""Where `make clients` puts what client.js needs."""
DEBIAN = "apt-get install libzookeeper-mt-dev zookeeper-bin"
DEBIAN_BIN = "/usr/lib/zookeeper/bin"
CURATOR = ("curator", "guava", "failureaccess")
"""Jars beside ZooKeeper's own."""

OVER_TLS = ("mutex", "leader latch", "curator cache", "atomic long", "queue", "killed leader", "lost session")
"""Recipes; between them, all that a connection is used for."""

BATCHES = ("create /cli", "create +s /cli/s-", "set /cli two", "get /cli", "ls2 /cli", "create /cli", "delete /cli")
BATCHES += ("delete /cli/s-0000000000", "delete /cli", "get /cli", "ls /cli")


@pytest.fixture(scope="module")
def three_of_theirs() -> Iterator[ZooKeeperEnsemble]:
    """The `theirs` that all share is one, and quiet."""
    with zookeeper(3, configuration=CONFIGURATION, properties=PROPERTIES) as ensemble:
        yield ensemble


@pytest.fixture(params=["ours", pytest.param("three_of_theirs", marks=pytest.mark.java)])
def ensemble(request: pytest.FixtureRequest) -> ZooKeeperEnsemble:
    """Asked for after a client's own fixture: where that is missing, no server starts."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, ZooKeeperEnsemble)
    return found


def lines_of(program: str) -> list[str]:
    return (CLIENTS / f"{program}.txt").read_text(encoding="utf-8").splitlines()


@contextlib.contextmanager
def ensemble_over_tls(directory: Path) -> Iterator[tuple[ZooKeeperEnsemble, Path]]:
    """Three members that serve nobody without a certificate (each has one port, for TLS and without), and a client's
    directory."""
    certificates = Certificates(directory / "certificates")
    stores = client_store_lines(certificates.member("localhost", "127.0.0.1"))
    required = {"enforce.auth.enabled": "true", "enforce.auth.schemes": "x509"}
    lines = {**CONFIGURATION, **PROPERTIES, "client.portUnification": "true", **required, **stores}
    with zab_servers(3, configuration=lines) as ensemble:
        yield ensemble, certificates.client("alice")
        assert all("TLS handshake failed" not in member.log_text() for member in ensemble.members)


# ------------------------------------------------------------------------------------------------------------------- C


def compiled(directory: Path, *flags: str, source: str = "client.c") -> str | None:
    """The program; None where the library is there, but without TLS."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler is there: apt-get install gcc libc6-dev")
    include = "#include <zookeeper/zookeeper.h>\n"
    found = subprocess.run([compiler, "-E", "-"], input=include, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"ZooKeeper's C client is not there: {DEBIAN}")
    program = directory / "client"
    options = ("-O1", "-std=c11", "-Wall", "-Wextra", "-Werror", "-DTHREADED", *flags, "-o", str(program))
    libraries = ("-lzookeeper_mt", "-lpthread")
    command = [compiler, *options, str(CLIENTS / source), *libraries]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if "undefined reference to `zookeeper_init_ssl'" in made.stderr:
        return None
    assert made.returncode == 0, made.stderr
    return str(program)


@pytest.fixture(scope="module")
def c_client(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = compiled(tmp_path_factory.mktemp("c"))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def c_client_with_tls(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = compiled(tmp_path_factory.mktemp("c"), "-DHAVE_OPENSSL_H")
    if found is None:
        paths = "CPATH, LIBRARY_PATH and LD_LIBRARY_PATH"
        pytest.skip(f"ZooKeeper's C client is built without TLS here: build it with OpenSSL, and name it in {paths}")
    return found


@pytest.fixture(scope="module")
def c_command_line() -> str:
    found = shutil.which("cli_mt", path=os.pathsep.join((os.environ.get("PATH", os.defpath), DEBIAN_BIN)))
    if found is None:
        pytest.skip(f"the command line in C is not there: {DEBIAN}")
    return found


@pytest.mark.long
def test_the_client_in_c(c_client: str, ensemble: ZooKeeperEnsemble, request: pytest.FixtureRequest) -> None:
    said = run_client([c_client], ensemble)
    if request.node.callspec.params["ensemble"] == "three_of_theirs":
        # ZooKeeper's sync asks no quorum: on a busy machine a read after it was late once.
        said = [re.sub(r"(?<=late after a sync: )\d+$", "0", line) for line in said]
    assert said == lines_of("client.c")


def test_the_client_in_c_over_tls(c_client_with_tls: str, tmp_path: Path) -> None:
    with ensemble_over_tls(tmp_path) as (ensemble, alice):
        key_store = alice / "keystore.pem"
        shown = ",".join(map(str, (alice / "truststore.pem", key_store, key_store)))
        # Anyone who shows a certificate is somebody by it alone.
        known = {"acl: digest bob:fyVmFCwVbTJYrznoSu1koqYEYF0= 31": "acl: x509 CN=alice 31"}
        known["set as nobody: not authenticated"] = "set as nobody: ok"
        expected = [known.pop(line, line) for line in lines_of("client.c")]
        assert run_client([c_client_with_tls, shown], ensemble) == expected
        assert not known


@pytest.mark.long
def test_more_watches_than_a_frame_holds_are_set_again(tmp_path: Path, ours: ZooKeeperEnsemble) -> None:
    """ZooKeeper closes the connection of who sends them at once, again and again."""
    program = compiled(tmp_path, source="watches.c")
    assert program is not None
    assert run_client([program], ours) == lines_of("watches.c")


@pytest.mark.java
@pytest.mark.long
def test_the_command_line_in_c(
    c_command_line: str, ours: ZooKeeperEnsemble, three_of_theirs: ZooKeeperEnsemble
) -> None:
    """What it prints of each command is the same here and there, except for times, sessions and zxids."""
    for batch in BATCHES:
        mine, other = (printed_of(c_command_line, each, batch) for each in (ours, three_of_theirs))
        assert mine == other
        assert re.search(r"rc = -?\d+", mine), mine


def printed_of(program: str, ensemble: ZooKeeperEnsemble, batch: str) -> str:
    # Always the same member, which has what it was told before.
    command = [program, "-h", ensemble.members[0].host, "-c", batch]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60.0, check=True)
    printed = re.sub(r"(?m)^time = .*\n|^Watcher .*\n|^Got a new session .*\n", "", done.stdout + done.stderr)
    return re.sub(r"(time ?= ?|zxid=).*", r"\1…", printed)


# ---------------------------------------------------------------------------------------------------------- JavaScript


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not there: apt-get install nodejs npm, then make clients")
    if not (NODE_MODULES / "node-zookeeper-client").is_dir():
        pytest.skip("node-zookeeper-client is not there: make clients")
    return found


@pytest.mark.longest
def test_the_client_in_javascript(node: str, ensemble: ZooKeeperEnsemble) -> None:
    environment = {**os.environ, "NODE_PATH": str(NODE_MODULES)}
    printed = run_client([node, str(CLIENTS / "client.js")], ensemble, environment=environment)
    assert printed == lines_of("client.js")


# ------------------------------------------------------------------------------------------------------------- Curator


def curator(directory: Path, *recipes: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs these recipes, or all."""
    source = str(CLIENTS / "CuratorRecipes.java")
    return java_command(source, *recipes, options=[*tool_options(directory), *options], jars=CURATOR)


@pytest.fixture(scope="module")
def java_with_compiler() -> None:
    java, *_ = java_command("")
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler" not in modules:
        pytest.skip(f"{java} compiles nothing: apt-get install openjdk-17-jdk-headless, or set JAVA_HOME to a JDK")


@pytest.mark.java
@pytest.mark.longest
def test_the_recipes_of_curator(java_with_compiler: None, ensemble: ZooKeeperEnsemble, tmp_path: Path) -> None:
    assert run_client(curator(tmp_path), ensemble) == lines_of("CuratorRecipes.java")


@pytest.mark.java
@pytest.mark.longest
def test_the_recipes_of_curator_over_tls(java_with_compiler: None, tmp_path: Path) -> None:
    with ensemble_over_tls(tmp_path) as (ensemble, alice):
        options = (
            "-Dzookeeper.client.secure=true",
            "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
            *(f"-Dzookeeper.{key}={value}" for key, value in client_store_lines(alice, "p12").items()),
        )
        lines = [line.partition(": ") for line in lines_of("CuratorRecipes.java")]
        expected = ["".join(line) for line in lines if line[0] in (*OVER_TLS, "the end")]
        assert run_client(curator(tmp_path, *OVER_TLS, options=options), ensemble) == expected
