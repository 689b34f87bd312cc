"""How declared classes (`declare.py`) are read from bytes and written to them.

    decode(MetadataRequest, 12, reader)     an instance
    encode(instance, 12, out)               appends its bytes

A class is compiled once for each version in which it is used, when it is first used so: into steps, of which each reads
or writes one field, or a run of neighbours of fixed width, which are one `struct.Struct`. In flexible
versions every struct ends with its tagged fields: uvarint count; for each uvarint tag, uvarint size, and its bytes.

Invariants:
- Tags ascend strictly, and a known tag is exactly as long as its size says. Unknown tags are skipped. A tagged field
  that has its default is not written.
- Bytes after a message are left where they are: whether they are an error is for the caller to say. In requests they
  are not; librdkafka sends some.

Errors: ProtocolError, with the names of the fields on the way to the wrong byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any, Final, TypeAlias, TypeVar, cast

from zab.kafka import primitives
from zab.kafka.declare import LAYOUTS, Field, Kind, Layout, Of
from zab.kafka.primitives import ProtocolError, Reader, write_uvarint

T = TypeVar("T")
Read: TypeAlias = Callable[[Reader], Any]
Write: TypeAlias = Callable[[bytearray, Any], None]

_CODES: Final = {
    Kind.BOOLEAN: "?",
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.INT32: "i",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
}
"""Kinds of fixed width, by `struct`'s codes."""

_READERS: Final[dict[Kind, tuple[Read, Read, Read, Read]]] = {
    Kind.STRING: (Reader.string, Reader.nullable_string, Reader.compact_string, Reader.compact_nullable_string),
    Kind.BYTES: (
        Reader.byte_string,
        Reader.nullable_byte_string,
        Reader.compact_byte_string,
        Reader.compact_nullable_byte_string,
    ),
    # No message has records that must not be null.
    Kind.RECORDS: (Reader.nullable_records, Reader.nullable_records) + (Reader.compact_nullable_records,) * 2,
}
"""By kind: plain, nullable, compact, compact and nullable."""

_WRITERS: Final[dict[Kind, tuple[Write, Write, Write, Write]]] = {
    Kind.STRING: (
        primitives.write_string,
        primitives.write_nullable_string,
        primitives.write_compact_string,
        primitives.write_compact_nullable_string,
    ),
    Kind.BYTES: (
        primitives.write_bytes,
        primitives.write_nullable_bytes,
        primitives.write_compact_bytes,
        primitives.write_compact_nullable_bytes,
    ),
}
_WRITERS[Kind.RECORDS] = _WRITERS[Kind.BYTES]


def decode(cls: type[T], version: int, reader: Reader) -> T:
    """The instance whose bytes begin where `reader` is; `reader` is then after it. Raises ProtocolError."""
    made: Any = cls
    flexible = _checked_layout(cls, version).is_flexible(version)
    try:
        return cast(T, struct_reader(made, version, flexible)(reader))
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from None


def encode(message: object, version: int, out: bytearray) -> None:
    """Append the bytes of `message`. Raises ProtocolError if a value cannot be expressed in this version."""
    cls: Any = type(message)
    flexible = _checked_layout(cls, version).is_flexible(version)
    try:
        struct_writer(cls, version, flexible)(out, message)
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from None


def encoded(message: object, version: int) -> bytes:
    """The bytes of `message`. Raises ProtocolError."""
    out = bytearray()
    encode(message, version, out)
    return bytes(out)


def decoded(cls: type[T], version: int, data: bytes | memoryview) -> T:
    """The instance in `data`; bytes after it are ignored. Raises ProtocolError."""
    return decode(cls, version, Reader(data))


def _checked_layout(cls: type, version: int) -> Layout:
    layout = LAYOUTS[cls]
    assert layout.versions is not None, f"{cls.__name__} is only a part of messages"
    if not layout.versions[0] <= version <= layout.versions[1]:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    return layout


def _runs(fields: list[Field]) -> list[list[Field]]:
    """The fields, in order, with neighbours of fixed width together."""
    found: list[list[Field]] = []
    is_open = False
    for field in fields:
        is_fixed = field.of in _CODES and not field.is_array
        if is_fixed and is_open:
            found[-1].append(field)
        else:
            found.append([field])
        is_open = is_fixed
    return found


def _split(cls: type, version: int) -> tuple[list[Field], dict[int, Field], list[Field]]:
    """The fields of a version that are always there; those that are tagged, by tag; those that the version lacks."""
    fields = LAYOUTS[cls].fields
    present = [field for field in fields if field.is_in(version)]
    tagged = {field.tag: field for field in sorted(present, key=lambda field: field.tag or 0) if field.tag is not None}
    return [field for field in present if field.tag is None], tagged, [f for f in fields if not f.is_in(version)]


def _struct_of(run: list[Field]) -> Struct:
    return Struct(">" + "".join(_CODES[cast(Kind, field.of)] for field in run))


# ----------------------------------------------------------------------------------------------------------------- read


@cache
def struct_reader(cls: Any, version: int, flexible: bool) -> Read:
    """Reads an instance. Compiled from source, as constructors of attrs are: a loop over steps takes twice the time."""
    plain, tagged, absent = _split(cls, version)
    assert flexible or not tagged, f"{cls.__name__} has tagged fields in version {version}, which is not flexible"
    names: dict[str, Any] = {"new": cls.__new__, "cls": cls, "located": _located, "ProtocolError": ProtocolError}
    names["order"] = [field.name for field in plain]
    lines = ["def read(reader):", "    item = new(cls)", "    try:"]
    for number, run in enumerate(_runs(plain)):
        if len(run) == 1:
            names[f"read_{number}"] = _value_reader(run[0], version, flexible)
            lines.append(f"        item.{run[0].name} = read_{number}(reader)")
        else:
            packed = _struct_of(run)
            names[f"unpack_{number}"] = packed.unpack_from
            lines += [
                "        at = reader.at",
                f"        end = at + {packed.size}",
                "        if end > reader.end:",
                f"            raise reader.short('fields from {run[0].name} to {run[-1].name}', {packed.size})",
                "        reader.at = end",
                f"        {', '.join(f'item.{field.name}' for field in run)} = unpack_{number}(reader.data, at)",
            ]
    for field in (*absent, *tagged.values()):
        names[f"default_{field.name}"] = field.default
        lines.append(f"        item.{field.name} = default_{field.name}")
    if flexible:
        names["read_tags"] = _read_tags
        names["tags"] = {tag: (field.name, _value_reader(field, version, True)) for tag, field in tagged.items()}
        lines += [
            "        count = reader.uvarint()",
            "        if count:",
            "            read_tags(reader, count, item, tags)",
        ]
    lines += [
        "    except ProtocolError as error:",
        "        raise located(item, order, error) from None",
        "    return item",
    ]
    exec("\n".join(lines), names)
    return cast(Read, names["read"])


def maker(cls: type[T], *names: str) -> Callable[..., T]:
    """A constructor that takes these fields by position, and gives the others their defaults: in a third of the time
    that the class's own takes. For what is made by hand, very often."""
    made: Any = cls
    scope: dict[str, Any] = {"new": made.__new__, "cls": cls}
    lines = [f"def make({', '.join(names)}):", "    item = new(cls)"]
    for field in LAYOUTS[cls].fields:
        scope[f"default_{field.name}"] = field.default
        lines.append(f"    item.{field.name} = {field.name if field.name in names else f'default_{field.name}'}")
    exec("\n".join([*lines, "    return item"]), scope)
    return cast("Callable[..., T]", scope["make"])


def _located(item: object, order: list[str], error: ProtocolError) -> ProtocolError:
    """The error, with the name of the first field that has not been read."""
    name = next((name for name in order if not hasattr(item, name)), "tagged fields")
    return ProtocolError(f"{name}: {error}")


def _read_tags(reader: Reader, count: int, item: object, tags: dict[int, tuple[str, Read]]) -> None:
    last = -1
    end = reader.end
    for _ in range(count):
        tag = reader.uvarint()
        if tag <= last:
            raise reader.error(f"tag {tag} after tag {last}")
        last = tag
        size = reader.uvarint()
        if size > end - reader.at:
            raise reader.short(f"tag {tag}", size)
        if tag not in tags:
            reader.at += size
            continue
        name, read = tags[tag]
        reader.end = reader.at + size
        try:
            setattr(item, name, read(reader))
        except ProtocolError as error:
            raise ProtocolError(f"{name}: {error}") from None
        if reader.at != reader.end:
            raise reader.error(f"{name} ends before its {size} bytes do,")
        reader.end = end


def _value_reader(field: Field, version: int, flexible: bool) -> Read:
    nullable = field.is_nullable(version)
    if field.is_array:
        return _array_reader(field.of, version, flexible, nullable)
    if isinstance(field.of, Kind):
        return _kind_reader(field.of, flexible, nullable)
    read_struct = struct_reader(field.of, version, flexible)
    if not nullable:
        return read_struct

    def read(reader: Reader) -> Any:
        mark = reader.int8()
        if mark not in (-1, 1):
            raise reader.error(f"a struct is marked {mark}, neither null nor present,")
        return read_struct(reader) if mark == 1 else None

    return read


def _kind_reader(kind: Kind, flexible: bool, nullable: bool) -> Read:
    if kind in _READERS:
        return _READERS[kind][2 * flexible + nullable]
    return cast(Read, getattr(Reader, kind.value))


def _array_reader(of: Of, version: int, flexible: bool, nullable: bool) -> Read:
    count_of = Reader.compact_count if flexible else Reader.count
    least = _least_bytes(of, version, flexible)
    if isinstance(of, Kind) and of in _CODES:
        code = _CODES[of]

        def read_elements(reader: Reader, count: int) -> Any:
            at = reader.at
            reader.at = at + count * least
            return struct.unpack_from(f">{count}{code}", reader.data, at)

    else:
        read_one = _kind_reader(of, flexible, False) if isinstance(of, Kind) else struct_reader(of, version, flexible)

        def read_elements(reader: Reader, count: int) -> Any:
            return tuple([read_one(reader) for _ in range(count)])

    def read(reader: Reader) -> Any:
        count = count_of(reader, least)
        if count > 0:
            return read_elements(reader, count)
        if count < 0:
            if not nullable:
                raise reader.error("an array must not be null")
            return None
        return ()

    return read


@cache
def _least_bytes(of: Of, version: int, flexible: bool) -> int:
    """How many bytes a value has at least."""
    if isinstance(of, Kind):
        if of in _CODES:
            return struct.calcsize(">" + _CODES[of])
        if of is Kind.UUID:
            return primitives.UUID_BYTES
        return 1 if flexible else 2 if of is Kind.STRING else 4
    plain, _, _ = _split(of, version)
    total = int(flexible)
    for field in plain:
        if field.is_array:
            total += 1 if flexible else 4
        elif isinstance(field.of, type) and field.is_nullable(version):
            total += 1
        else:
            total += _least_bytes(field.of, version, flexible)
    assert total, f"{of.__name__} has no bytes in version {version}"
    return total


# ---------------------------------------------------------------------------------------------------------------- write


@cache
def struct_writer(cls: Any, version: int, flexible: bool) -> Write:
    """Appends the bytes of an instance; compiled once. Raises ProtocolError."""
    plain, _, _ = _split(cls, version)
    steps = tuple(_write_step(run, version, flexible) for run in _runs(plain))
    write_tail = tail_writer(cls, version, flexible)

    def write(out: bytearray, item: Any) -> None:
        name = ""
        try:
            for step in steps:
                name, get, write_value = step
                write_value(out, get(item))
        except (ProtocolError, struct.error) as error:
            raise ProtocolError(f"{name}: {error}") from None
        write_tail(out, item)

    return write


@cache
def tail_writer(cls: Any, version: int, flexible: bool) -> Write:
    """Appends the tagged fields of an instance, with which it ends, and refuses what this version cannot express.
    Raises ProtocolError."""
    _, tagged, absent = _split(cls, version)
    assert flexible or not tagged, f"{cls.__name__} has tagged fields in version {version}, which is not flexible"
    unsendable = tuple((attrgetter(field.name), field) for field in absent if not field.ignorable)
    tags = tuple(
        (tag, field, attrgetter(field.name), _value_writer(field, version, flexible)) for tag, field in tagged.items()
    )

    def write(out: bytearray, item: Any) -> None:
        for get, field in unsendable:
            if get(item) != field.default:
                raise ProtocolError(f"{field.name}: not in this version")
        if tags:
            _write_tags(out, item, tags)
        elif flexible:
            out.append(0)

    return write


def _write_step(run: list[Field], version: int, flexible: bool) -> tuple[str, Callable[[Any], Any], Write]:
    names = [field.name for field in run]
    get = attrgetter(*names)
    if len(run) == 1:
        return names[0], get, _value_writer(run[0], version, flexible)
    pack = _struct_of(run).pack

    def write(out: bytearray, values: Any) -> None:
        out += pack(*values)

    return names[0], get, write


def _write_tags(out: bytearray, item: object, tags: tuple[tuple[int, Field, Callable[[Any], Any], Write], ...]) -> None:
    there = [tag for tag in tags if tag[2](item) != tag[1].default]
    write_uvarint(out, len(there))
    for number, field, get, write in there:
        data = bytearray()
        try:
            write(data, get(item))
        except (ProtocolError, struct.error) as error:
            raise ProtocolError(f"{field.name}: {error}") from None
        write_uvarint(out, number)
        write_uvarint(out, len(data))
        out += data


def _value_writer(field: Field, version: int, flexible: bool) -> Write:
    nullable = field.is_nullable(version)
    if field.is_array:
        return _array_writer(field.of, version, flexible, nullable)
    if isinstance(field.of, Kind):
        write = _kind_writer(field.of, flexible, nullable)
        # In another version it may be null, so its type does not exclude it.
        return _not_null(write) if field.nullable_since is not None and not nullable else write
    return (
        _nullable_struct_writer(field.of, version, flexible) if nullable else struct_writer(field.of, version, flexible)
    )


def _nullable_struct_writer(cls: type, version: int, flexible: bool) -> Write:
    write_struct = struct_writer(cls, version, flexible)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            write_struct(out, value)

    return write


def _not_null(write_value: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            raise ProtocolError("it must not be null in this version")
        write_value(out, value)

    return write


def _kind_writer(kind: Kind, flexible: bool, nullable: bool) -> Write:
    if kind in _WRITERS:
        return _WRITERS[kind][2 * flexible + nullable]
    if kind is Kind.UUID:
        return primitives.write_uuid
    pack = Struct(">" + _CODES[kind]).pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def _array_writer(of: Of, version: int, flexible: bool, nullable: bool) -> Write:
    write_count = primitives.write_compact_count if flexible else primitives.write_count
    if isinstance(of, Kind) and of in _CODES:
        code = _CODES[of]

        def write_elements(out: bytearray, values: Any) -> None:
            out += struct.pack(f">{len(values)}{code}", *values)

    else:
        write_one = _kind_writer(of, flexible, False) if isinstance(of, Kind) else struct_writer(of, version, flexible)

        def write_elements(out: bytearray, values: Any) -> None:
            for value in values:
                write_one(out, value)

    def write(out: bytearray, values: Any) -> None:
        if values is None:
            if not nullable:
                raise ProtocolError("an array must not be null in this version")
            write_count(out, -1)
            return
        write_count(out, len(values))
        if values:
            write_elements(out, values)

    return write
