"""Random instances of declared classes, as a version can express them."""

from __future__ import annotations

from random import Random
from typing import Any

from zab.kafka.declare import LAYOUTS, Field, Kind
from zab.kafka.primitives import Uuid

_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
TEXTS = ("", "a", "topic-1", "Gr\u00fc\u00dfe", "\U0001f600", "x" * 126, "y" * 127, "z" * 300)


def instance(cls: Any, version: int, random: Random) -> Any:
    """Fields that the version lacks have their default; tagged fields have it half of the time."""
    values = {}
    for field in LAYOUTS[cls].fields:
        is_absent = not field.is_in(version) or (field.tag is not None and random.random() < 0.5)
        values[field.name] = field.default if is_absent else _value(field, version, random)
    return cls(**values)


def _value(field: Field, version: int, random: Random) -> Any:
    if field.is_nullable(version) and random.random() < 0.25:
        return None
    if field.is_array:
        return tuple(_one(field.of, version, random) for _ in range(random.choice((0, 1, 1, 2, 3))))
    return _one(field.of, version, random)


def _one(of: Any, version: int, random: Random) -> Any:
    if not isinstance(of, Kind):
        return instance(of, version, random)
    if of is Kind.BOOLEAN:
        return random.random() < 0.5
    if of is Kind.UUID:
        return Uuid(bytes(random.randrange(256) for _ in range(16)))
    if of is Kind.FLOAT64:
        return random.choice((0.0, -1.5, 1e300, random.random()))
    if of is Kind.STRING:
        return random.choice(TEXTS)
    if of in (Kind.BYTES, Kind.RECORDS):
        return random.choice(TEXTS).encode() * random.choice((1, 1, 60))
    bound = 1 << _BITS[of] - 1
    return random.choice((0, -1, 1, -bound, bound - 1, random.randrange(-bound, bound)))
