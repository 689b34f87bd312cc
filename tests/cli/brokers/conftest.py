"""One broker for the commands that talk to brokers."""

from collections.abc import Iterator

import pytest

from tests.cli.commands import Run
from tests.rigs.kafka_broker import KafkaBroker, kafka_broker


@pytest.fixture(scope="session")
def running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker, as a process."""
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as found:
        yield found


@pytest.fixture
def zab(running_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Commands for this broker, in this process."""
    monkeypatch.setenv("ZAB_BOOTSTRAP_SERVER", running_broker.address)
    return Run(capsys)
