"""Values of attrs classes as JSON and back, by their annotations: how brokers write what the controller's rooms define.

    dumps(value)        bytes
    loads(kind, data)   a value of that kind; MessageError for anything else

An attrs object is an array: the name of its class, then its fields in order. A mapping is an array of pairs, so that
its keys can be tuples. Kinds: attrs classes and unions of them, named tuples, tuples, mappings, integers of 64 bits,
enums of integers, text, booleans, and each of these or None. A `Hashable` is a name that the sender has for its
question; it does not travel.

Everything is checked once, here: types are exact, counts of fields are exact, nothing is converted.

Not here: what values mean; how long the bytes may be (`messages`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import attrs

from zab.wire.records import INT64, MessageError

_SIMPLE: Final = (NoneType, bool, int, str)
Reader = Callable[[Any], Any]


def dumps(value: object) -> bytes:
    """The value as JSON."""
    return json.dumps(_plain(value), separators=(",", ":")).encode()


def loads(kind: Any, data: bytes) -> Any:
    """The value of this kind that the bytes are. Raises MessageError."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"not JSON: {error}") from None
    return _reader(kind)(value)


def _plain(value: Any) -> Any:
    if type(value) in _SIMPLE:
        return value
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(each)] for key, each in value.items()]
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    kind: Any = type(value)
    return [kind.__name__, *(_plain(getattr(value, name)) for name, _ in _fields(kind))]


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The names and kinds of the fields that travel."""
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in attrs.fields(kind) if hints[field.name] is not Hashable)


@cache
def _reader(kind: Any) -> Reader:
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of(of)
    if origin is tuple:
        return _all(of[0]) if of[1:] == (Ellipsis,) else _row(of, tuple)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*of)
    if kind in _SIMPLE:
        return _exactly(kind)
    if issubclass(kind, IntEnum):
        return _enum(kind)
    if issubclass(kind, tuple):
        return _row(tuple(get_type_hints(kind).values()), lambda values: kind(*values))
    assert attrs.has(kind), kind
    return _object(kind)


def _exactly(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind or (kind is int and not INT64(value)):
            raise MessageError(f"{_shown(value)} where {kind.__name__} should be")
        return value

    return read


def _enum(kind: type[IntEnum]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is int and value in kind._value2member_map_:
            return kind(value)
        raise MessageError(f"{_shown(value)} where {kind.__name__} should be")

    return read


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise MessageError(f"{_shown(value)} where an array should be")
    return value


def _all(kind: Any) -> Reader:
    one = _reader(kind)
    return lambda value: tuple(map(one, _list(value)))


def _row(kinds: tuple[Any, ...], made: Callable[[Any], Any]) -> Reader:
    readers = tuple(map(_reader, kinds))

    def read(value: Any) -> Any:
        if len(_list(value)) != len(readers):
            raise MessageError(f"{len(value)} values where {len(readers)} should be")
        return made([one(each) for one, each in zip(readers, value, strict=True)])

    return read


def _mapping(key: Any, value: Any) -> Reader:
    pair = _row((key, value), tuple)
    return lambda given: dict(map(pair, _list(given)))


def _object(kind: type[attrs.AttrsInstance]) -> Reader:
    fields = _fields(kind)
    names, row = [name for name, _ in fields], _row(tuple(each for _, each in fields), list)
    unsent = [field.name for field in attrs.fields(kind) if field.name not in names]

    def read(value: Any) -> Any:
        if not _list(value) or value[0] != kind.__name__:
            raise MessageError(f"{_shown(value)} where {kind.__name__} should be")
        return kind(**dict.fromkeys(unsent), **dict(zip(names, row(value[1:]), strict=True)))

    return read


def _one_of(kinds: tuple[Any, ...]) -> Reader:
    """None, objects by their names, or one other kind."""
    objects = {kind.__name__: kind for kind in kinds if attrs.has(kind)}
    [other] = [kind for kind in kinds if kind is not NoneType and not attrs.has(kind)] or [None]
    takes_none = NoneType in kinds

    def read(value: Any) -> Any:
        if value is None and takes_none:
            return None
        if other is not None:
            return _reader(other)(value)
        kind = objects.get(value[0]) if _list(value) and type(value[0]) is str else None
        if kind is None:
            raise MessageError(f"{_shown(value)} where one of {', '.join(objects)} should be")
        return _reader(kind)(value)

    return read


def _shown(value: object) -> str:
    return repr(value)[:40]
