"""Listeners of a broker: what is read, and what is refused."""

import attrs
import pytest

from zab.configuration.fields import block, read
from zab.partition.settings.broker_settings import BrokerSettings
from zab.partition.settings.listeners import NAMES_ARE_PROTOCOLS, Endpoint, endpoints_in, is_loopback, protocols_in


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


def test_a_map_says_what_is_spoken_and_replaces_the_names():
    found = protocols_in(" internal:PLAINTEXT, out-side:ssl")
    assert (found.of("INTERNAL"), found.of("OUT-SIDE")) == ("PLAINTEXT", "SSL")
    assert protocols_in(str(found)) == found
    with pytest.raises(ValueError, match="SSL is not supported: it is none of INTERNAL, OUT-SIDE"):
        found.of("SSL")
    assert NAMES_ARE_PROTOCOLS.of("SSL") == "SSL"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not NAME:PROTOCOL"),
        ("a", "'a' is not NAME:PROTOCOL"),
        ("a:b:c", "is not NAME:PROTOCOL"),
        ("a:QUIC", "QUIC is not supported"),
        ("a:SSL,A:PLAINTEXT", "several protocols of A"),
    ],
)
def test_a_map_that_is_wrong_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        protocols_in(text)


def test_only_addresses_of_this_machine_are_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.8.9.10", "::1", "localhost")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "10.0.0.1", "broker", "127.0.0.1.example.com")))
