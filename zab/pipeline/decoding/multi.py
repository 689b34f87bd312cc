"""The parts of multis as rows of their own.

A multi is one transaction that does all of its operations or none. In the rows of the pipeline each part is a row, with
the zxid, time, session, cxid and checksum of the multi, and its own type, path and so on; `part` counts from 0.
ZooKeeper logs a refused multi with the parts before the refused one as if they had been done, although nothing was. So
every part of it becomes an error here, with RUNTIMEINCONSISTENCY where the part itself was fine, which is also the
error that clients get for the parts after the refused one. An empty multi stays one row, of type 14.

Multis are decoded one by one, because their parts have no fixed layout.
"""

from typing import Any, Final

import numpy as np
from attrs import define

from datatree.errors import ErrorCode
from datatree.opcodes import Effect, OpCode, types_with
from datatree.record import Part
from zab.pipeline.decoding.acl_text import acl_text
from zab.pipeline.decoding.arrays import Integers

__all__ = ["PartRows", "unpack"]

_CREATES: Final = types_with(Effect.CREATE)
_SET_ACLS: Final = types_with(Effect.SET_ACL)
_VERSIONED: Final = _CREATES | _SET_ACLS | types_with(Effect.SET_DATA, Effect.NOTHING)
_OF_ANOTHER: Final = int(ErrorCode.RUNTIMEINCONSISTENCY)
_NAMES: Final = ("type", "part", "path", "data", "version", "acl", "owner", "timeout", "error", "paths")


@define(eq=False)
class PartRows:
    """How n transactions and their parts become rows.

    `columns` has the columns in which a part differs from its multi, with the values of all parts. In these columns,
    row k of the result is row `order[k]` of the transactions followed by the parts; in all others, it is row `base[k]`
    of the transactions."""

    columns: dict[str, list[Any]]
    base: Integers
    order: Integers


def unpack(multis: dict[int, tuple[Part, ...]], count: int) -> PartRows | None:
    """The rows of `count` transactions, of which these are multis; None if none of them has parts."""
    filled = {row: parts for row, parts in sorted(multis.items()) if parts}
    if not filled:
        return None
    columns: dict[str, list[Any]] = {name: [] for name in _NAMES}
    counts = np.ones(count, dtype=np.int64)
    for row, parts in filled.items():
        counts[row] = len(parts)
        _add(columns, parts)
    columns["operation"] = columns["type"]
    base = np.repeat(np.arange(count, dtype=np.int64), counts)
    order = base.copy()
    is_part = np.zeros(count, dtype=np.bool_)
    is_part[list(filled)] = True
    order[is_part[base]] = count + np.arange(len(columns["type"]))
    return PartRows(columns, base, order)


def _add(columns: dict[str, list[Any]], parts: tuple[Part, ...]) -> None:
    is_refused = any(kind == OpCode.ERROR for kind, *_ in parts)
    for index, (kind, number, path, data, rest) in enumerate(parts):
        if is_refused:
            # For a part that was fine, ZooKeeper leaves bytes of the operation where the code would be.
            error = number if kind == OpCode.ERROR and number < 0 else _OF_ANOTHER
            values: tuple[Any, ...] = (OpCode.ERROR, index, _text(path), None, None, None, None, None, error, None)
        else:
            is_create = kind in _CREATES
            acl = acl_text(rest[0]) if is_create or kind in _SET_ACLS else None
            owner = rest[1] if is_create else None
            version = number if kind in _VERSIONED else None
            values = (kind, index, _text(path), data, version, acl, owner, None, 0, None)
        for name, value in zip(_NAMES, values, strict=True):
            columns[name].append(value)


def _text(path: bytes) -> str | None:
    return path.decode() if path else None
