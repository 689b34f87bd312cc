"""Columns out of bytes without a Python step per row: slices of one buffer gathered by Arrow, numbers viewed by numpy.

    slices(buffer, starts, ends)        buffer[starts[k]:ends[k]] as row k of a binary column
    records(buffer, starts, dtype)      the fixed-width record at starts[k], all of them as one array
    pieces(records)                     the reverse: the bytes of each record

A buffer with cut points is already an Arrow column of binary, without a copy: value k lies between the cuts k and
k + 1. `take` of every second value gathers the slices, in C++. Offsets are 32 bits wide, so a buffer stays below
2 GiB; starts and ends rise, and slices do not overlap.

Deliberately not here: what the bytes mean.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["Integers", "nullable", "parents", "pieces", "records", "slices", "text", "timestamps"]

Integers: TypeAlias = NDArray[np.int64]

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
# From the second day of the year 1 to the last but one of 9999: what Python can show in any time zone.
_MS_MIN: Final = -62_135_510_400_000
_MS_MAX: Final = 253_402_127_999_999
_SLASH: Final = ord("/")


def slices(buffer: bytes | memoryview | pa.Buffer, starts: Integers, ends: Integers) -> pa.BinaryArray:
    """Row k is the copy of buffer[starts[k]:ends[k]]."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    data = buffer if isinstance(buffer, pa.Buffer) else pa.py_buffer(buffer)
    between = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), data])
    return between.take(pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32)))


def records(buffer: bytes | memoryview | pa.Buffer, starts: Integers, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The record of `dtype` at each of `starts`, which must lie wholly in the buffer."""
    if not len(starts):
        return np.empty(0, dtype)
    gathered = slices(buffer, starts, starts + dtype.itemsize)
    return np.frombuffer(gathered.buffers()[2], dtype, len(starts))


def pieces(records: NDArray[Any], begin: int = 0) -> Iterator[bytes]:
    """Yield the bytes of each record from `begin` on."""
    size, data = records.dtype.itemsize, records.tobytes()
    return (data[at + begin : at + size] for at in range(0, len(data), size))


def text(values: pa.BinaryArray) -> pa.StringArray:
    """The values as text. Raises pa.ArrowInvalid where they are not UTF-8."""
    return values.cast(pa.string())


def nullable(values: pa.Array, is_null: NDArray[np.bool_]) -> pa.Array:
    """The column with nulls in the rows of the mask."""
    if not is_null.any():
        return values
    return pc.if_else(pa.array(is_null), pa.scalar(None, values.type), values)


def timestamps(times_ms: NDArray[Any]) -> pa.TimestampArray:
    """Times in ms since 1970 as timestamps; a time that no datetime can hold becomes the nearest one that it can."""
    return pa.array(np.clip(times_ms.astype(np.int64), _MS_MIN, _MS_MAX) * 1000, _TIMESTAMP)


def parents(paths: pa.StringArray) -> pa.BinaryArray:
    """The part before the last "/" of each path: "" directly below the root, and for a path without "/"."""
    count = len(paths)
    if not count:
        return pa.array([], pa.binary())
    _, offsets, data = paths.buffers()
    cuts = np.frombuffer(offsets, np.int32, count + 1, 4 * paths.offset).astype(np.int64)
    # The first entry stands for "no slash".
    slashes = np.concatenate(([-1], np.flatnonzero(np.frombuffer(data or b"", np.uint8) == _SLASH)))
    last = slashes[np.searchsorted(slashes, cuts[1:]) - 1]
    return slices(data or b"", cuts[:-1], np.maximum(last, cuts[:-1]))
