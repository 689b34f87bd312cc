"""The settings of a service: one frozen attrs class of blocks, whose fields say which key of the file sets them.

    @frozen(kw_only=True)
    class JournalSettings:
        level: str = setting("level", "info", choice(...), "level", "What is below it is not in the journal.")

    @frozen(kw_only=True)
    class Config:
        journal: JournalSettings = block(JournalSettings, "log.")      # config.journal.level, `log.level=info`

A block knows no other one. A service chooses the prefix of a block's keys in its file.

    settings_of(Config) -> tuple[Setting, ...]      every key with the field that it sets
    built(Config, {setting: value}, **others)       a Config of these values and of the defaults

Not here: which fields there are (each service has its own), the files' syntax (`properties`), rules between fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import attrs
from attrs import frozen

from zab.configuration.properties import parse_properties

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


def host_name(text: str) -> str:
    """A host name or address; brackets around an IPv6 address are taken off."""
    return text_of(text.removeprefix("[").removesuffix("]"))


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
    """A field that a key sets. A key that ends in `*` stands for all keys that begin so; the field has their values.

    key: without the prefix of its block.

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


def block(kind: type[attrs.AttrsInstance], prefix: str = "", **keys: str) -> Any:
    """A field of a service's settings that is a block of them.

    prefix: what the keys of the block begin with. keys: whole keys of fields that have another one here.
    """
    return attrs.field(factory=kind, metadata={_BLOCK: kind, "prefix": prefix, "keys": keys})


_BLOCK: Final = "block"


@frozen
class Setting:
    """A key of the file, and the field that it sets."""

    key: str
    block: str
    """The name of the block in the settings of the service."""
    name: str
    """The name of the field in the block."""
    default: object
    read: Read
    unit: str
    reason: str
    shown: str
    """The default, as the documentation writes it."""
    raised_to: int | None
    is_secret: bool

    def of(self, settings: object) -> Any:
        """Its value in these settings."""
        return getattr(getattr(settings, self.block), self.name)


@cache
def settings_of(kind: type[attrs.AttrsInstance]) -> tuple[Setting, ...]:
    """Everything that a key sets, block by block, in the order of the classes."""
    return tuple(
        _setting(of_block, attribute)
        for of_block in attrs.fields(kind)
        if _BLOCK in of_block.metadata
        for attribute in attrs.fields(of_block.metadata[_BLOCK])
    )


def _setting(of_block: attrs.Attribute[Any], attribute: attrs.Attribute[Any]) -> Setting:
    details = attribute.metadata
    key = of_block.metadata["keys"].get(attribute.name, of_block.metadata["prefix"] + details["key"])
    return Setting(
        key=key,
        block=of_block.name,
        name=attribute.name,
        default=attribute.default,
        read=details["read"],
        unit=details["unit"],
        reason=details["reason"],
        shown=details["shown"],
        raised_to=details["raised_to"],
        is_secret=not attribute.repr,
    )


_Settings = TypeVar("_Settings", bound=attrs.AttrsInstance)


def built(kind: type[_Settings], values: Mapping[Setting, object], **others: object) -> _Settings:
    """Settings with these values; what is not among them has its default.

    others: fields of the class itself, which are no blocks.
    """
    blocks: dict[str, dict[str, object]] = {}
    for setting_, value in values.items():
        blocks.setdefault(setting_.block, {})[setting_.name] = value
    made = {name: attrs.fields_dict(kind)[name].metadata[_BLOCK](**chosen) for name, chosen in blocks.items()}
    return kind(**made, **others)


def read(kind: type[_Settings], text: str) -> _Settings:
    """Settings from a file of properties that has keys of `kind` alone. Raises ValueError, with the line."""
    known = {each.key: each for each in settings_of(kind)}
    values: dict[Setting, object] = {}
    for entry in parse_properties(text):
        if entry.key not in known:
            raise ValueError(f"line {entry.line}: {entry.key} is unknown")
        try:
            values[known[entry.key]] = known[entry.key].read(entry.value)
        except ValueError as error:
            raise ValueError(f"line {entry.line}: {entry.key}: {error}") from error
    return built(kind, values)
