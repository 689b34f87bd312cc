"""Describes events, effects, messages and requests for a trace: short, and the same in each run."""

from enum import Enum
from typing import Any

import attrs

from datatree.log.batch import Batch, BatchError, parse
from zab.member.clients.connection import ClientConnection
from zab.protocol.message import Proposal
from zab.protocol.states import Holds, Phase, State

BYTES_SHOWN = 24


def described(item: Any) -> str:
    """A short description of an event, effect, message or request."""
    if isinstance(item, Proposal):
        return f"Proposal({', '.join(map(_proposed, item.batches))})"
    if isinstance(item, Batch):
        return f"[{item.first:x}+{item.count}]"
    if isinstance(item, bytes):
        shown = item[:BYTES_SHOWN]
        return repr(shown) + (f"…{len(item)}" if len(item) > BYTES_SHOWN else "")
    if isinstance(item, int) and not isinstance(item, bool) and abs(item) >= 1 << 31:
        return f"{item:#x}"
    if isinstance(item, (State, Phase, Holds)):
        return repr(item.value)
    if isinstance(item, (list, tuple)):
        return "[" + ", ".join(map(described, item)) + "]"
    if isinstance(item, ClientConnection):
        return f"client {item.id}"
    if attrs.has(type(item)):
        fields = [(field.name, getattr(item, field.name)) for field in attrs.fields(type(item)) if field.repr]
        return f"{type(item).__name__}({', '.join(f'{name}={described(value)}' for name, value in fields)})"
    # The default text of an object has its address, which differs in each run.
    return repr(item) if isinstance(item, (str, int, float, dict, Enum, type(None))) else type(item).__name__


def _proposed(raw: bytes) -> str:
    try:
        return described(parse(raw))
    except BatchError as error:
        return f"[no batch: {error}]"
