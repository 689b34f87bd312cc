"""`--client-config FILE`: Kafka's client properties, read into the settings of kafka-python.

    security.protocol=SASL_SSL
    ssl.truststore.location=truststore.p12
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";

One file serves every command: what is for producers alone is not told to consumers. A key that is not known is refused
with its line, and so is a value that cannot be read. A file with a secret must be inaccessible to others. Stores are
PEM, PKCS#12 or JKS, as for Kafka's own clients; relative paths are beside the file. Values are never printed.

Not here: how clients are made (`clients.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from zab.configuration.properties import PropertiesError, parse_properties
from zab.tls.private import why_not_private

if TYPE_CHECKING:
    import ssl

__all__ = ["KEYS", "ClientConfig", "ClientConfigError", "read_client_config"]

BYTES_MAX: Final = 65536
"""The largest file."""

_ALL: Final = "all"
_PRODUCER: Final = "producer"
_CONSUMER: Final = "consumer"
_INT_MAX: Final = 2**31 - 1
_STORES: Final = {"PEM": "pem", "PKCS12": "pkcs12", "JKS": "jks"}
_LOGIN: Final = re.compile(
    r"org\.apache\.kafka\.common\.security\.(?P<module>plain\.Plain|scram\.Scram)LoginModule\s+required"
    r'(?P<options>(?:\s+\w+\s*=\s*"(?:[^"\\]|\\.)*")*)\s*;?',
    re.DOTALL,
)
_OPTION: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)


class ClientConfigError(ValueError):
    """The file cannot be used; the text says which line of it, and why. It never shows a value."""


@frozen
class ClientConfig:
    """Settings by the names of kafka-python: for every client, and those for producers and consumers alone."""

    common: Mapping[str, Any] = field(factory=dict, repr=False)
    producer: Mapping[str, Any] = field(factory=dict)
    consumer: Mapping[str, Any] = field(factory=dict)


# -------------------------------------------------------------------------------------------------------------- values


def _text(value: str) -> str:
    if not value:
        raise ValueError("there is no value")
    return value


def _number(low: int, high: int = _INT_MAX) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,10}", value) or not low <= int(value) <= high:
            raise ValueError(f"it is a whole number from {low} to {high}")
        return int(value)

    return read


def _flag(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("it is true or false")
    return value == "true"


def _one_of(*values: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in values:
            raise ValueError(f"it is one of {', '.join(values)}")
        return value

    return read


def _acks(value: str) -> int:
    found = {"all": -1, "-1": -1, "0": 0, "1": 1}
    if value not in found:
        raise ValueError("it is one of all, 0, 1")
    return found[value]


def _codec(value: str) -> str | None:
    return None if value == "none" else _one_of("none", "gzip", "snappy", "lz4", "zstd")(value)


def _checks_host(value: str) -> bool:
    if value.lower() not in ("", "https"):
        raise ValueError("it is https, or empty for certificates of any host")
    return bool(value)


def _login(value: str) -> tuple[str, str]:
    """User and password."""
    found = _LOGIN.fullmatch(value)
    options = {} if found is None else {name: re.sub(r"\\(.)", r"\1", each) for name, each in _OPTION.findall(found[2])}
    if options.keys() != {"username", "password"}:
        raise ValueError('it is a PlainLoginModule or ScramLoginModule, `required username="…" password="…";`')
    return options["username"], options["password"]


@frozen
class _Key:
    """setting: of kafka-python; without one, several keys make one setting (`_tls_of`, `_login`)."""

    kind: str
    read: Callable[[str], Any]
    setting: str | None = None
    is_secret: bool = False


_MS: Final = _number(0)

KEYS: Final = {
    "client.id": _Key(_ALL, _text, "client_id"),
    "request.timeout.ms": _Key(_ALL, _number(1), "request_timeout_ms"),
    "retry.backoff.ms": _Key(_ALL, _MS, "retry_backoff_ms"),
    "security.protocol": _Key(_ALL, _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), "security_protocol"),
    "ssl.truststore.location": _Key(_ALL, _text),
    "ssl.truststore.type": _Key(_ALL, _one_of(*_STORES)),
    "ssl.truststore.password": _Key(_ALL, _text, is_secret=True),
    "ssl.keystore.location": _Key(_ALL, _text),
    "ssl.keystore.type": _Key(_ALL, _one_of(*_STORES)),
    "ssl.keystore.password": _Key(_ALL, _text, is_secret=True),
    "ssl.endpoint.identification.algorithm": _Key(_ALL, _checks_host),
    "sasl.mechanism": _Key(_ALL, _one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), "sasl_mechanism"),
    "sasl.jaas.config": _Key(_ALL, _login, is_secret=True),
    "acks": _Key(_PRODUCER, _acks, "acks"),
    "batch.size": _Key(_PRODUCER, _number(0), "batch_size"),
    "compression.type": _Key(_PRODUCER, _codec, "compression_type"),
    "delivery.timeout.ms": _Key(_PRODUCER, _number(1), "delivery_timeout_ms"),
    "enable.idempotence": _Key(_PRODUCER, _flag, "enable_idempotence"),
    "linger.ms": _Key(_PRODUCER, _MS, "linger_ms"),
    "max.request.size": _Key(_PRODUCER, _number(1, 100_000_000), "max_request_size"),
    "fetch.max.bytes": _Key(_CONSUMER, _number(1), "fetch_max_bytes"),
    "fetch.max.wait.ms": _Key(_CONSUMER, _MS, "fetch_max_wait_ms"),
    "fetch.min.bytes": _Key(_CONSUMER, _number(1), "fetch_min_bytes"),
    "heartbeat.interval.ms": _Key(_CONSUMER, _number(1), "heartbeat_interval_ms"),
    "isolation.level": _Key(_CONSUMER, _one_of("read_uncommitted", "read_committed"), "isolation_level"),
    "max.partition.fetch.bytes": _Key(_CONSUMER, _number(1), "max_partition_fetch_bytes"),
    "max.poll.interval.ms": _Key(_CONSUMER, _number(1), "max_poll_interval_ms"),
    "session.timeout.ms": _Key(_CONSUMER, _number(1), "session_timeout_ms"),
}
"""The keys that a file may have."""

_ELSEWHERE: Final = {
    "bootstrap.servers": "--bootstrap-server says it",
    "group.id": "--group says it",
    "auto.offset.reset": "--from says it",
    "transactional.id": "only zab changes has transactions, and its --feed is the id",
}


def read_client_config(path: str) -> ClientConfig:
    """The settings of a file. Raises ClientConfigError."""
    text, status = _read(path)
    values: dict[str, Any] = {}
    try:
        for entry in parse_properties(text):
            values[entry.key] = _value(entry.key, entry.value)
    except PropertiesError as error:
        raise ClientConfigError(f"{path}:{error.line}: {error.reason}") from None
    except ValueError as error:
        raise ClientConfigError(f"{path}:{entry.line}: {entry.key}: {error}") from None
    if any(KEYS[key].is_secret for key in values):
        reason = why_not_private(path, status)
        if reason is not None:
            raise ClientConfigError(reason)
    found: dict[str, dict[str, Any]] = {kind: {} for kind in (_ALL, _PRODUCER, _CONSUMER)}
    for key, value in values.items():
        if (setting := KEYS[key].setting) is not None:
            found[KEYS[key].kind][setting] = value
    found[_ALL].update(_security_of(path, values))
    return ClientConfig(found[_ALL], found[_PRODUCER], found[_CONSUMER])


def _read(path: str) -> tuple[str, os.stat_result]:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise ClientConfigError(f"{path}: it has more than {BYTES_MAX} bytes")
        return data.decode(), status
    except OSError as error:
        raise ClientConfigError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ClientConfigError(f"{path}: it is not UTF-8") from None


def _value(key: str, text: str) -> Any:
    if key in KEYS:
        return KEYS[key].read(text)
    if key in _ELSEWHERE:
        raise ValueError(_ELSEWHERE[key])
    from difflib import get_close_matches

    near = get_close_matches(key, KEYS, n=1)
    raise ValueError(f"it is not known{f'; did you mean {near[0]}?' if near else ''}")


def _security_of(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    protocol = values.get("security.protocol", "PLAINTEXT")
    found: dict[str, Any] = {}
    if any(key.startswith("ssl.") for key in values) and "SSL" not in protocol:
        raise ClientConfigError(f"{path}: ssl.*: security.protocol={protocol} has no TLS")
    if "SSL" in protocol:
        found["ssl_context"] = _tls_of(Path(path).parent, values)
    if protocol.startswith("SASL_"):
        if not {"sasl.mechanism", "sasl.jaas.config"} <= values.keys():
            raise ClientConfigError(f"{path}: {protocol} needs sasl.mechanism and sasl.jaas.config")
        found["sasl_plain_username"], found["sasl_plain_password"] = values["sasl.jaas.config"]
    elif any(key.startswith("sasl.") for key in values):
        raise ClientConfigError(f"{path}: sasl.*: security.protocol={protocol} has no login")
    return found


def _tls_of(directory: Path, values: Mapping[str, Any]) -> ssl.SSLContext:
    from zab.tls.contexts import context_of_client
    from zab.tls.stores import Store, StoreError, StoreKeys, kind_of

    def store(name: str) -> Store | None:
        place = values.get(f"ssl.{name}.location")
        if place is None:
            return None
        at = str(directory / place)
        keys = StoreKeys(f"ssl.{name}.location", f"ssl.{name}.password", f"ssl.{name}.type")
        kind = values.get(f"ssl.{name}.type")
        # Kafka's default is JKS, whatever the name of the file says.
        return Store(keys, at, _STORES[kind] if kind else kind_of(at) or "jks", values.get(f"ssl.{name}.password", ""))

    context = context_of_client()
    context.check_hostname = values.get("ssl.endpoint.identification.algorithm", True)
    try:
        trusted, own = store("truststore"), store("keystore")
        if trusted is None:
            context.load_default_certs()
        else:
            trusted.load_trusted(context)
        if own is not None:
            own.load_key(context)
    except StoreError as error:
        raise ClientConfigError(str(error)) from None
    return context
