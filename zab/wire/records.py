"""Checked records: the messages between servers, each a CBOR array `[type, field, …]`.

    @attrs.define
    class Commit:
        TYPE: ClassVar[int] = 4
        zxid: int = checked(ZXID)

    CODEC = Codec((Commit, …))

The fields follow the type number in the order of the attributes. A service declares its messages like this, and a codec
for each set of messages that is expected in one place.

Everything that arrives is checked once, here: bytes that are not exactly one known message, with fields of the right
type and range, raise `MessageError`. The reader then closes that connection; nothing else is affected.

Not here: what a message means, and how it travels (`zab.wire.frames`).
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from struct import Struct
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import attrs
import cbor2

from zab.wire import plain


class MessageError(Exception):
    """The bytes are not a message that is expected here."""


Check: TypeAlias = Callable[[object], bool]


@attrs.frozen
class IntRange:
    """Integers from `low` to `high`, the check of most fields. `Codec.decode` tests it inline."""

    low: int
    high: int

    def __call__(self, value: object) -> bool:
        return type(value) is int and self.low <= value <= self.high


def is_int(low: int, high: int) -> IntRange:
    return IntRange(low, high)


@attrs.frozen
class BytesRange:
    """Bytes, at least `low` and at most `high` of them. A list of these is checked as a whole."""

    low: int
    high: int

    def __call__(self, value: object) -> bool:
        return type(value) is bytes and self.low <= len(value) <= self.high

    def holds_for_list(self, values: object) -> bool:
        if type(values) is not list:
            return False
        if len(values) == 1:
            return type(values[0]) is bytes and self.low <= len(values[0]) <= self.high
        return not values or (
            set(map(type, values)) == {bytes}
            and self.low <= min(map(len, values)) <= max(map(len, values)) <= self.high
        )


def is_bytes(low: int, high: int) -> BytesRange:
    return BytesRange(low, high)


def is_list_of(check: Check) -> Check:
    if isinstance(check, BytesRange):
        return check.holds_for_list
    return lambda value: type(value) is list and all(map(check, value))


def is_row(*checks: Check) -> Check:
    """A list with one value for each check, in order."""

    def holds(value: object) -> bool:
        return (
            type(value) is list and len(value) == len(checks) and all(c(v) for c, v in zip(checks, value, strict=True))
        )

    return holds


def is_text(length_max: int) -> Check:
    return lambda value: type(value) is str and len(value) <= length_max


def is_bool(value: object) -> bool:
    return type(value) is bool


# Most integers of messages are below 24, or zxids; this is the shortest form of each.
_DIGITS = [bytes([digit]) for digit in range(plain.SHORT)]
_WIDEST, _WIDEST_MAX = 1 << 32, (1 << 64) - 1
_WIDE_HEAD = 0x1B
_WIDE = Struct(">BQ")

INT32 = is_int(-(1 << 31), (1 << 31) - 1)
INT64 = is_int(-(1 << 63), (1 << 63) - 1)
COUNT = is_int(0, (1 << 63) - 1)
_LOW, _HIGH = INT32.low, INT32.high


def checked(check: Check, kind: Callable[[Any], Any] | None = None, *, is_secret: bool = False) -> Any:
    """An attribute whose value must pass `check` when it arrives, and is then converted to `kind`, such as an enum. A
    secret one does not appear in the text form of the record."""
    return attrs.field(metadata={"check": check}, converter=kind, repr=not is_secret)


class Record(attrs.AttrsInstance, Protocol):
    """An attrs class whose attributes are all `checked`."""

    TYPE: ClassVar[int]


M = TypeVar("M", bound=Record)


class Codec(Generic[M]):
    """Encodes and decodes the messages that are expected in one place."""

    def __init__(self, kinds: Sequence[type[M]]) -> None:
        self._by_type: dict[int, tuple[type[M], tuple[Check, ...], tuple[str, ...]]] = {}
        self._of_integers: dict[bytes, tuple[type[M], list[tuple[int, int]]]] = {}
        """Messages that consist of a few integers, by their first two bytes: the ranges of the integers."""
        self._beginnings: dict[int, bytes] = {}
        """These first bytes, by type number."""
        self._of_byte_strings: dict[type[M], tuple[bytes, Callable[[M], list[bytes]]]] = {}
        """Messages that consist of one list of byte strings: their first two bytes, and how to get the list."""
        self._values: dict[type[M], Callable[[M], Any]] = {}
        for kind in kinds:
            fields = attrs.fields(kind)
            names = tuple(field.name for field in fields)
            assert kind.TYPE not in self._by_type, "two messages share a type number"
            checks = tuple(field.metadata["check"] for field in fields)
            self._by_type[kind.TYPE] = (kind, checks, names)
            ranges = [(check.low, check.high) for check in checks if isinstance(check, IntRange)]
            if 0 < len(ranges) == len(checks) < plain.SHORT - 1 and 0 <= kind.TYPE < plain.SHORT:
                beginning = self._beginnings[kind.TYPE] = cbor2.dumps([kind.TYPE] + [0] * len(checks))[:2]
                self._of_integers[beginning] = (kind, ranges)
            elif len(checks) == 1 and _is_of_byte_strings(checks[0]) and 0 <= kind.TYPE < plain.SHORT:
                self._of_byte_strings[kind] = (cbor2.dumps([kind.TYPE, []])[:2], attrgetter(names[0]))
            self._values[kind] = attrgetter("TYPE", *names)

    def encode(self, message: M) -> bytes:
        """Encode one message as CBOR, without the frame's length. The frequent ones of integers, and of byte strings,
        are written here, byte for byte as cbor2 would."""
        kind = type(message)
        of_byte_strings = self._of_byte_strings.get(kind)
        if of_byte_strings is not None:
            beginning, list_of = of_byte_strings
            byte_strings = list_of(message)
            pieces = [beginning, plain.head(plain.ARRAY, len(byte_strings))]
            for piece in byte_strings:
                pieces += plain.head(plain.BYTES, len(piece)), piece
            return b"".join(pieces)
        values = self._values[kind](message)
        data = self._beginnings.get(values[0])
        if data is None:
            return cbor2.dumps(values)
        for value in values[1:]:
            if 0 <= value < plain.SHORT:
                data += _DIGITS[value]
            elif _WIDEST <= value <= _WIDEST_MAX:
                data += _WIDE.pack(_WIDE_HEAD, value)
            elif 0 <= value < _WIDEST:
                data += plain.head(plain.INTEGER, value)
            else:
                return cbor2.dumps(values)
        return data

    def decode(self, payload: bytes) -> M:
        """Decode one message from the payload of a frame; `MessageError` says what is wrong with it."""
        of_integers = self._of_integers.get(payload[:2])
        if of_integers is not None:
            message = _integers(payload, *of_integers)
            if message is not None:
                return message
        try:
            array = plain.decode(payload)
        except plain.PlainError as error:
            raise MessageError(f"not plain CBOR: {error}") from None
        if type(array) is not list or not array or type(array[0]) is not int or not _LOW <= array[0] <= _HIGH:
            raise MessageError("a message is an array that starts with its type")
        if array[0] not in self._by_type:
            raise MessageError(f"a message of type {array[0]} is not expected here")
        kind, checks, names = self._by_type[array[0]]
        if len(array) - 1 != len(checks):
            raise MessageError(f"{kind.__name__} has {len(checks)} fields, not {len(array) - 1}")
        del array[0]
        for index, value in enumerate(array):
            check = checks[index]
            if type(check) is IntRange:
                is_right = type(value) is int and check.low <= value <= check.high
            else:
                is_right = check(value)
            if not is_right:
                raise MessageError(f"{kind.__name__}.{names[index]} is out of range")
        return kind(*array)


def _is_of_byte_strings(check: Check) -> bool:
    return isinstance(getattr(check, "__self__", None), BytesRange)


def _integers(payload: bytes, kind: type[M], ranges: list[tuple[int, int]]) -> M | None:
    """Decode a message of integers, such as an acknowledgement, in one pass. None if the general decoder has to look at
    it: it is malformed, or has a negative integer."""
    values: list[int] = []
    at = 2
    try:
        for low, high in ranges:
            value = payload[at]
            if value < plain.SHORT:
                at += 1
            else:
                read, length, least = plain.WIDE_COUNTS[value]
                (value,) = read(payload, at)
                if value < least:
                    return None
                at += length
            if not low <= value <= high:
                return None
            values.append(value)
    except (IndexError, KeyError, StructError):
        return None
    return kind(*values) if at == len(payload) else None
