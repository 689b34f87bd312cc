"""JSON in znodes: how it is read, key by key, and how it is written.

Keys that nobody asks for are ignored, so newer and older writers may share a cluster. What is malformed raises
MalformedError with path and reason. Not here: which znode has which keys (`znodes`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["LONG_MAX", "MalformedError", "Reader", "ids_in", "list_in", "number_in", "written"]

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class MalformedError(Exception):
    """A znode cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Reader:
    """An object of JSON, and where it is from."""

    def __init__(self, path: str, value: object) -> None:
        self.path = path
        if not isinstance(value, dict):
            raise MalformedError(path, "not an object")
        self.value: dict[str, Any] = value

    @classmethod
    def of(cls, path: str, data: bytes) -> Reader:
        try:
            return cls(path, json.loads(data))
        except (ValueError, RecursionError) as error:
            raise MalformedError(path, f"not JSON: {error}") from error

    def get(self, key: str, kind: type, default: object = None) -> Any:
        """The value of a key; a missing one has the default, unless that is None."""
        value = self.value.get(key, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise MalformedError(self.path, f"{key!r} is {value!r}")
        return value

    def number(self, key: str, low: int, default: int | None = None, high: int = INT_MAX) -> int:
        value: int = self.get(key, int, default)
        if not low <= value <= high:
            raise MalformedError(self.path, f"{key!r} is {value}")
        return value

    def ids(self, key: str, default: list[int] | None = None) -> tuple[int, ...]:
        return ids_in(self.path, key, self.get(key, list, default))

    def objects(self, key: str) -> list[Reader]:
        return [Reader(self.path, item) for item in self.get(key, list)]


def ids_in(path: str, key: str, values: list[object]) -> tuple[int, ...]:
    """Broker ids without duplicates."""
    found = tuple(
        value for value in values if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT_MAX
    )
    if len(found) != len(values) or len(set(found)) != len(found):
        raise MalformedError(path, f"{key!r} is {values!r}")
    return found


def written(value: Mapping[str, object]) -> bytes:
    """An object, as short as it can be written."""
    return json.dumps(value, separators=(",", ":")).encode()


def number_in(path: str, data: bytes) -> int:
    """A whole number as text. Raises MalformedError."""
    try:
        return int(data.decode("ascii"))
    except ValueError as error:
        raise MalformedError(path, f"{data[:40]!r} is not a number") from error


def list_in(path: str, value: object) -> list[object]:
    """A list. Raises MalformedError."""
    if not isinstance(value, list):
        raise MalformedError(path, f"{value!r} is no list")
    return value
