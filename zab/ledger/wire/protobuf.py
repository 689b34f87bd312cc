"""Messages of protocol buffers, declared by tables in code: there is no generated file, and no compiler.

A field is declared as "name number type", then `opt` or `rep` unless it is required. The types are `int32`, `int64`,
`uint32`, `uint64`, `bytes`, and the names of messages and enums of the same table. Text is declared as `bytes`, which
is the same on the wire: `text_of` decodes it, so that what is no UTF-8 is refused here and not on some later access.

`parse` refuses what is not a whole message with ProtocolError: cut bytes, lengths that lie, missing fields. A message
keeps fields that are not declared, and writes them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from zab.ledger.wire.frames import ProtocolError

MessageClass: TypeAlias = Any
"""A class of the protobuf package; its fields are known at run time only."""

_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_LABELS: Final = {"opt": _FIELD.LABEL_OPTIONAL, "rep": _FIELD.LABEL_REPEATED, "req": _FIELD.LABEL_REQUIRED}
_TYPES: Final = {
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "uint32": _FIELD.TYPE_UINT32,
    "uint64": _FIELD.TYPE_UINT64,
    "bytes": _FIELD.TYPE_BYTES,
}


def message_classes(
    package: str, messages: Mapping[str, Iterable[str]], enums: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, MessageClass]:
    """The class of each message of the table, by its name."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    names_of_enums = frozenset(enums or ())
    for name, values in (enums or {}).items():
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for line in fields:
            field, number_text, kind, *label = line.split()
            added = message.field.add(name=field, number=int(number_text), label=_LABELS[label[0] if label else "req"])
            if kind in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type = _FIELD.TYPE_ENUM if kind in names_of_enums else _FIELD.TYPE_MESSAGE
                added.type_name = f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def parse(message_class: MessageClass, data: bytes) -> Any:
    """The message in these bytes. Raises ProtocolError."""
    try:
        message = message_class.FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"not a {message_class.DESCRIPTOR.name}: {error}") from None
    if not message.IsInitialized():
        missing = ", ".join(message.FindInitializationErrors())
        raise ProtocolError(f"a {message_class.DESCRIPTOR.name} without {missing}")
    return message


def text_of(value: bytes, what: str) -> str:
    """The text of a field. Raises ProtocolError."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolError(f"the {what} is not UTF-8") from None


def undeclared_fields(message: Any) -> bytes:
    """The fields of a message that its class does not declare, as they were read. They can be added to a message of the
    same kind by `MergeFromString`."""
    rest = type(message)()
    rest.CopyFrom(message)
    for field in message.DESCRIPTOR.fields:
        rest.ClearField(field.name)
    left: bytes = rest.SerializePartialToString()
    return left
