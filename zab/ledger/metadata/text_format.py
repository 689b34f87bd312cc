"""Protocol buffers as text: what BookKeeper keeps in cookies, in records of under-replication, and in the metadata of
older ledgers.

Fields that are not declared are refused, as BookKeeper refuses them: they could not be written again. So are escapes
that are none, and those of more than 8 bits, which the protobuf package would take. Compare values, never bytes:
printers differ in order and escapes.
"""

from __future__ import annotations

import re
from typing import Any, Final

from google.protobuf import text_format

from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.wire.frames import ProtocolError
from zab.ledger.wire.protobuf import MessageClass, parse, text_of

_ESCAPES: Final = re.compile(r"""\\(?:(?P<wrong>[4-7][0-7]{2}|[^abfnrtv\\'"xuU0-7]|\Z)|.)""", re.DOTALL)


def print_text(message: Any) -> bytes:
    """A message as text, one field a line."""
    text: str = text_format.MessageToString(message)
    return text.encode("ascii")


def parse_text(message_class: MessageClass, data: bytes) -> Any:
    """The message in a text. Raises InvalidMetadataError."""
    message = message_class()
    name = message_class.DESCRIPTOR.name
    try:
        text = data.decode("utf-8")
        if any(escape["wrong"] is not None for escape in _ESCAPES.finditer(text)):
            raise InvalidMetadataError(f"the text of a {name} has an escape that is none")
        text_format.Parse(text, message)
    except InvalidMetadataError:
        raise
    except (text_format.ParseError, ValueError) as error:
        raise InvalidMetadataError(f"not the text of a {name}: {error}") from None
    if not message.IsInitialized():
        raise InvalidMetadataError(f"a {name} without {', '.join(message.FindInitializationErrors())}")
    return message


def parse_binary(message_class: MessageClass, data: bytes) -> Any:
    """The message in these bytes. Raises InvalidMetadataError."""
    try:
        return parse(message_class, data)
    except ProtocolError as error:
        raise InvalidMetadataError(str(error)) from None


def string_of(value: bytes, what: str) -> str:
    """The text of a field. Raises InvalidMetadataError."""
    try:
        return text_of(value, what)
    except ProtocolError as error:
        raise InvalidMetadataError(str(error)) from None
