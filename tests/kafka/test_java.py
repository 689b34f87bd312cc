"""Bytes that Kafka's own classes have written, and the values that they say are in them: for what kafka-python lacks.

The lines of `tests/testdata/kafka/java.txt` are class, version, bytes and values. They were made with kafka-clients and
the coordinators of Kafka 3.9.1 and, for the heartbeat of KIP-848 and the values of transactions, of 4.0.0; for the
records and the description of KIP-848's groups, of 4.1.0. Each class read random bytes, and wrote them again
and as JSON.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.kafka_python import theirs
from zab.kafka import consumer_group_records, coordinator_records
from zab.kafka.apis import APIS
from zab.kafka.codec import decoded, encoded
from zab.kafka.declare import LAYOUTS, Kind
from zab.kafka.primitives import uuid_text

FILE = Path(__file__).parents[1] / "testdata" / "kafka" / "java.txt"
CLASSES: dict[str, Any] = {cls.__name__: cls for api in APIS.values() for cls in (api.request, api.response)}
RECORDS = {coordinator_records.__name__, consumer_group_records.__name__}
CLASSES |= {cls.__name__: cls for cls in LAYOUTS if cls.__module__ in RECORDS}
LINES = [line.split(" ", 3) for line in FILE.read_text(encoding="utf-8").splitlines()]


def json_of(one: Any, version: int) -> dict[str, Any]:
    """The form of Kafka's JSON converters, which leave out tagged fields that have their default."""
    return {
        camel(field.name): _json_value(field.of, getattr(one, field.name), version)
        for field in LAYOUTS[type(one)].fields
        if field.is_in(version) and (field.tag is None or getattr(one, field.name) != field.default)
    }


def camel(name: str) -> str:
    first, *others = name.replace("kraft", "k_raft").split("_")
    return first + "".join(map(str.capitalize, others))


def _json_value(of: Any, value: Any, version: int) -> Any:
    if isinstance(value, tuple):
        return [_json_value(of, each, version) for each in value]
    if value is None:
        return None
    if of is Kind.UUID:
        return uuid_text(value)
    if of is Kind.BYTES:
        return b64encode(value).decode()
    return value if isinstance(of, Kind) else json_of(value, version)


@pytest.mark.parametrize("name", sorted({line[0] for line in LINES}))
def test_the_values_and_the_bytes_are_the_same(name: str) -> None:
    cls = CLASSES[name]
    for _, version, data, values in (line for line in LINES if line[0] == name):
        one = decoded(cls, int(version), bytes.fromhex(data))
        assert json_of(one, int(version)) == json.loads(values)
        assert encoded(one, int(version)).hex() == data


def test_every_class_and_version_is_there() -> None:
    expected = {
        (name, version)
        for name, cls in CLASSES.items()
        if LAYOUTS[cls].versions is not None
        for version in range(LAYOUTS[cls].versions[0], LAYOUTS[cls].versions[1] + 1)
        if theirs(name, version) is None
    }
    assert {(name, int(version)) for name, version, *_ in LINES} == expected
