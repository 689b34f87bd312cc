"""Listeners of a broker: what is read, and what is refused."""

import attrs
import pytest

from zab.configuration.fields import block, read
from zab.partition.settings.broker_settings import BrokerSettings
from zab.partition.settings.listeners import Endpoint, endpoints_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", Endpoint("PLAINTEXT", "", 9092)),
        ("plaintext://localhost:0", Endpoint("PLAINTEXT", "localhost", 0)),
        (" PLAINTEXT://[::1]:65535 ", Endpoint("PLAINTEXT", "::1", 65535)),
    ],
)
def test_a_listener_is_read_and_written(text, expected):
    assert endpoints_in(text) == (expected,)
    assert endpoints_in(str(expected)) == (expected,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no listener"),
        ("localhost:9092", "is not NAME://HOST:PORT"),
        ("PLAINTEXT://localhost", "is not NAME://HOST:PORT"),
        ("PLAINTEXT://localhost:65536", "is no port"),
        ("SSL://localhost:9093", "SSL is not supported"),
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", "several listeners PLAINTEXT"),
    ],
)
def test_what_is_wrong_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        endpoints_in(text)


def test_a_broker_listens_on_loopback_unless_its_file_says_otherwise():
    @attrs.frozen(kw_only=True)
    class Config:
        broker: BrokerSettings = block(BrokerSettings)

    assert read(Config, "").broker.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    config = read(Config, "listeners=PLAINTEXT://:9\nadvertised.listeners=PLAINTEXT://a:1\nbroker.id=3\n")
    assert config.broker.listeners == (Endpoint("PLAINTEXT", "", 9),)
    assert config.broker.advertised_listeners == (Endpoint("PLAINTEXT", "a", 1),)
    assert config.broker.broker_id == 3
