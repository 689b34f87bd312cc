"""The fields of a service's settings: one frozen attrs class, whose fields carry what a key of the file means for them.

    clientPort: int = setting("clientPort", None, integer(0, 65535), "port", "Where clients connect.")

The metadata of such a field is `key`, `read`, `unit`, `reason`, `shown` and `raised_to`: a parser reads the value with
it, and the table in the documentation is compared with it. A field without a key comes from elsewhere.

Not here: which fields there are (each service has its own), the files' syntax (`properties`), rules between fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
from attrs import frozen

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


@frozen
class ConfigWarning:
    """Something in a file that does not do what its author may think; the server starts all the same."""

    file: str
    line: int
    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.reason}"


Read = Callable[[str], object]


def integer(low: int, high: int) -> Read:
    """A whole number in [low, high], decimal or 0x hexadecimal."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+|0[xX][0-9a-fA-F]+", text, re.ASCII):
            raise ValueError(f"{text!r} is not a whole number")
        value = int(text, 16 if text[:2] in ("0x", "0X") else 10)
        if not low <= value <= high:
            raise ValueError(f"{value} is not between {low} and {high}")
        return value

    return read


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    if not re.fullmatch(r"[0-9]*\.?[0-9]+", text, re.ASCII) or float(text) > 1:
        raise ValueError(f"{text!r} is not a number from 0 to 1")
    return float(text)


def choice(**values: object) -> Read:
    """One of the given words, in any case."""

    def read(text: str) -> object:
        if text.lower() not in values:
            raise ValueError(f"{text!r} is neither {' nor '.join(values)}")
        return values[text.lower()]

    return read


def text_of(text: str) -> str:
    """Any text that is not empty."""
    if not text:
        raise ValueError("the value is empty")
    return text


def words(text: str) -> frozenset[str]:
    """Words between commas; `*` is every one."""
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def whole_numbers(low: int, high: int) -> Read:
    """Whole numbers in [low, high] between commas, in their order."""
    number = integer(low, high)
    return lambda text: tuple(number(word.strip()) for word in text.split(","))


BOOLEAN = choice(true=True, false=False)
YES_NO = choice(yes=True, no=False)
COUNT = integer(1, INT_MAX)
COUNT_OR_0 = integer(0, INT_MAX)
BYTES = integer(1, LONG_MAX)


def setting(
    key: str,
    default: object,
    read: Read,
    unit: str,
    reason: str,
    *,
    shown: str | None = None,
    raised_to: int | None = None,
    secret: bool = False,
) -> Any:
    """A field that a key sets; one that ends in `*` stands for all keys that begin so, and its field has their values.

    shown: the default as the documentation writes it. raised_to: smaller values are lifted to it, with a warning,
    because ZooKeeper does. secret: no text that is made of the settings has it.
    """
    if shown is None:
        shown = _shown(default)
    details = {"key": key, "read": read, "unit": unit, "reason": reason, "shown": shown, "raised_to": raised_to}
    return attrs.field(default=default, metadata=details, repr=not secret)


def derived(compute: Callable[[Any], object]) -> Any:
    """A default that follows from other fields."""
    return attrs.Factory(compute, takes_self=True)


def _shown(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, frozenset):
        return ", ".join(sorted(default))
    return str(default)


def fields_with_keys(settings: type[attrs.AttrsInstance]) -> list[attrs.Attribute[Any]]:
    """The fields of a class of settings that a key sets, in their order; its own come before those it inherits."""
    fields = sorted(attrs.fields(settings), key=lambda attribute: attribute.inherited)
    return [attribute for attribute in fields if "key" in attribute.metadata]
