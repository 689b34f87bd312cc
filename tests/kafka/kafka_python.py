"""kafka-python's classes, as a second opinion on bytes: they are made from Kafka's own schemas.

The package reads those in a way that Python 3.11 and 3.12 warn of."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from typing import Any
from uuid import UUID

from zab.kafka.declare import LAYOUTS

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
    from kafka.protocol.schemas import load_json

    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate_stubs" not in module.name:
            importlib.import_module(module.name)

__all__ = ["ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "differences", "schema", "theirs"]


@cache
def _classes() -> dict[str, Any]:
    found = {}
    pending = list(ApiMessage.__subclasses__())
    while pending:
        cls = pending.pop()
        found[cls.__name__] = cls
        pending += cls.__subclasses__()
    return found


def theirs(name: str, version: int) -> Any | None:
    """The class of a message, or None if there is none, or not in this version."""
    cls = _classes().get(name)
    return cls if cls is not None and version <= cls.max_version else None


def schema(name: str) -> dict[str, Any] | None:
    """Kafka's schema of a message, as it is in the package, with its common structs in their places."""
    if _classes().get(name) is None:
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
        found: dict[str, Any] = load_json(name)
    return found


def differences(ours: Any, other: Any, version: int, path: str = "") -> list[str]:
    """The fields of this version in which an instance of ours and one of theirs differ."""
    found = []
    for field in LAYOUTS[type(ours)].fields:
        if not field.is_in(version):
            continue
        if field.name.endswith("authorized_operations"):
            # Theirs are sets, by other names; their bytes are compared.
            continue
        name = f"{path}.{field.name}"
        a = getattr(ours, field.name)
        names = (field.name, f"v3_and_below_{field.name}", f"{field.name}_v3_and_below")
        b = next(getattr(other, name) for name in names if hasattr(other, name))
        if field.tag is not None and a == field.default:
            # Theirs has None in place of a struct that is not there.
            found += [] if b is None or _plain(b) == _plain(a) else [f"{name}: {a!r} and {b!r}"]
        elif field.is_array and isinstance(a, tuple) and isinstance(b, list) and type(field.of) is type:
            found += [] if len(a) == len(b) else [f"{name}: {len(a)} and {len(b)} elements"]
            for number, (one, another) in enumerate(zip(a, b, strict=False)):
                found += differences(one, another, version, f"{name}[{number}]")
        elif type(field.of) is type and not field.is_array and a is not None:
            found += differences(a, b, version, name)
        elif _plain(a) != _plain(b):
            found.append(f"{name}: {a!r} and {b!r}")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
