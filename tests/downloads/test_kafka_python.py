"""kafka-python's own integration suite, unmodified, against our broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.downloads.environments import environment, sources
from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.processes import ended
from tests.rigs.zab_server import zab_servers

pytestmark = [pytest.mark.downloads, pytest.mark.process, pytest.mark.slow]

KAFKA_PYTHON = "kafka-python==3.0.12"
NEEDED = (
    "kafka-python[crc32c,lz4,snappy,zstd]==3.0.12",
    "pytest==9.0.2",
    "pytest-mock==3.15.1",
    "pytest-timeout==2.4.0",
)
SERVICE = Path(__file__).parent / "clients" / "kafka_python_service.py"
ROOMS = ("producer", "consumer", "admin")
VERSION = "3.7"
"""What the suite expects: this is the version that the client finds out by itself."""
SETTINGS = (
    "num.partitions=4",
    "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
    "super.users=User:ANONYMOUS",
)
PASSED = 49
FAIL = {
    "test_describe_configs_broker_resource_returns_configs": "advertised.listeners is not to be changed while it runs",
    "test_alter_replica_log_dirs": "a broker has one directory: AlterReplicaLogDirs is not listed",
}
"""Each that fails, and why: docs/reference/kafka-clients.md has the same."""


def suite() -> tuple[Path, Path]:
    """The Python of its environment, and the directory of its sources."""
    python = environment("kafka-python", *NEEDED)
    place = sources("kafka_python", python, KAFKA_PYTHON)
    for each in ("test", "test/integration"):
        (place / each / "__init__.py").touch()
    shutil.copy(SERVICE, place / "test" / "service.py")
    return python, place


def outcomes(python: Path, place: Path, broker: KafkaBroker, directory: Path, *names: str) -> dict[str, str]:
    """What becomes of the tests with these names, of all of them without a name: PASSED, FAILED, ERROR, and what was
    printed under the name ''."""
    ran = subprocess.run(
        [
            *(python, "-m", "pytest", "--quiet", "-rA", "-p", "no:cacheprovider", "--show-capture=no"),
            *(f"test/integration/test_{room}_integration.py" for room in ROOMS),
            *(("-k", " or ".join(names)) if names else ()),
        ],
        cwd=place,
        # The fixture takes host and port of the broker out of both.
        env={
            **os.environ,
            "KAFKA_VERSION": VERSION,
            "KAFKA_URI": f"kafka://{broker.address}",
            "ZOOKEEPER_URI": f"zk://{broker.address}",
            "KAFKA_ROOT": str(directory),
            "TMPDIR": str(directory),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    # Last is worst: a test that passed may fail when it is taken down.
    found = re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\S+)", ran.stdout, re.MULTILINE)
    return {"": ran.stdout[-8000:], **{name: state for state, name in sorted(found, reverse=True)}}


def test_its_own_suite_passes_but_for_what_is_not_there(tmp_path: Path) -> None:
    python, place = suite()
    with zab_servers(1, directory=tmp_path / "member") as ensemble:
        broker = KafkaBroker(tmp_path / "broker", ensemble.hosts, settings=SETTINGS, broker_id=0)
        with ended([broker]):
            broker.serve()
            states = outcomes(python, place, broker, tmp_path)
            # Some allow two seconds for what takes longer on a machine that does other work: once more, alone.
            for name in [name for name, state in states.items() if state in ("FAILED", "ERROR") and name not in FAIL]:
                states |= outcomes(python, place, broker, tmp_path, name.partition("[")[0])
    printed = states.pop("")
    assert {name for name, state in states.items() if state != "PASSED"} == set(FAIL), printed
    assert len([name for name, state in states.items() if state == "PASSED"]) == PASSED
