"""One broker for all clients."""

from collections.abc import Iterator

import pytest

from tests.rigs.kafka_broker import KafkaBroker, kafka_broker


@pytest.fixture(scope="session")
def running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker, as a process."""
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as found:
        yield found
