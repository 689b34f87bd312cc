"""How the brokers of a test are configured: `server.properties` of each, in memory.

Kafka's defaults are for many brokers and long lives. Here the internal topics have few partitions, groups do not wait
for more members, and who does not answer is given up soon. Whoever sets a key has it so; what the kit decides for
itself (ids, ports, directories, the ensemble) cannot be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from attrs import frozen

from zab.configuration.properties import escaped
from zab.partition.settings.broker_config import BrokerConfig, BrokerConfigError, read_config
from zab.testing.kit.ports import HOST

COUNT_MAX: Final = 9
"""Brokers of a test; more than that is no test any more, but a load on this machine."""
REPLICAS_MAX: Final = 3
"""Replicas of a partition by default, where there are so many brokers."""

Value: TypeAlias = str | int | bool

DEFAULTS: Final[Mapping[str, Value]] = {
    "zookeeper.session.timeout.ms": 2000,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 400,
    "controlled.shutdown.max.retries": 1,
    "controlled.shutdown.retry.backoff.ms": 100,
}
_REPLICATION: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
_OWN: Final = frozenset(
    {
        *("broker.id", "listeners", "advertised.listeners", "listener.security.protocol.map", "log.dir", "log.dirs"),
        *("zookeeper.connect", "broker.secretFile"),
    }
)


@frozen
class BrokerPlace:
    """Where one broker listens, and where its data is."""

    broker_id: int
    port: int
    directory: Path
    secret_path: Path | None = None
    """What several brokers have in common; None: it is alone."""


def check_count(count: int) -> None:
    """Raises ValueError for so many brokers as there cannot be."""
    if not 1 <= count <= COUNT_MAX:
        raise ValueError(f"there are 1 to {COUNT_MAX} brokers, not {count}")


def refuse_own_keys(keys: Mapping[str, Value]) -> None:
    """Raises ValueError for a key that the kit sets itself."""
    for key in keys:
        if key in _OWN:
            raise ValueError(f"{key} is for the kit to decide: it cannot be set")


def broker_configuration(place: BrokerPlace, count: int, hosts: str, keys: Mapping[str, Value]) -> BrokerConfig:
    """The configuration of one of `count` brokers, with the connection string of the ensemble. Raises ValueError for
    what cannot be."""
    lines: dict[str, Value] = {
        **DEFAULTS,
        **dict.fromkeys(_REPLICATION, min(count, REPLICAS_MAX)),
        **keys,
        "broker.id": place.broker_id,
        "listeners": f"PLAINTEXT://{HOST}:{place.port}",
        "log.dirs": str(place.directory),
        "zookeeper.connect": hosts,
    }
    if place.secret_path is not None:
        lines["broker.secretFile"] = str(place.secret_path)
    text = "".join(f"{key}={escaped(_text(value))}\n" for key, value in lines.items())
    try:
        config = read_config(text)
    except BrokerConfigError as error:
        raise ValueError(f"the configuration of broker {place.broker_id}, {error}") from None
    for warning in config.warnings:
        if "unknown" in warning:
            # A broker passes over it, for the sake of files that were written for others. Here it is a mistake.
            raise ValueError(f"the configuration of broker {place.broker_id}, {warning}")
    return config


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
