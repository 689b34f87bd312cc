"""Reads a field at many offsets of a buffer at once, and finds the records in it (for slices: `decoding.slices`).

    gather       one field of fixed width at each offset, as an array
    walk         the offsets of consecutive records, each of which contains its length, in many regions at once

Invariants: no Python code runs for each record, except where `walk` has too few regions to go through side by side. An
offset outside of the buffer is the caller's mistake and raises IndexError; nothing outside of the buffer is read.
Buffers are smaller than 2 GiB, because Arrow's offsets have 32 bits.
"""

import struct
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Integers", "Mask", "gather", "integers", "text_or_none", "walk"]

Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_ABREAST_MIN: Final = 24
"""With fewer regions than this, one after the other is faster than side by side."""
_LENGTH: Final = struct.Struct(">I")
_LENGTH_ARRAY: Final = np.dtype(">u4")


def gather(data: bytes, at: Integers, dtype: str | npt.DTypeLike) -> npt.NDArray[Any]:
    """The value of `dtype` (with its byte order, such as ">i8", or "V50") at each offset."""
    field = np.dtype(dtype)
    count = len(data) - field.itemsize + 1
    if not len(at):
        return np.empty(0, dtype=field)
    if count <= 0:
        raise IndexError(f"{field.itemsize} bytes in a buffer of {len(data)}")
    view: npt.NDArray[Any] = np.ndarray((count,), dtype=field, buffer=data, strides=(1,))
    found: npt.NDArray[Any] = view[at]
    return found


def integers(data: bytes, at: Integers, dtype: str) -> Integers:
    """The integer of `dtype` at each offset, widened to 64 bits in native byte order."""
    return gather(data, at, dtype).astype(np.int64)


def text_or_none(found: pa.Array) -> pa.Array | None:
    """The binary array as strings; None if one of them is not UTF-8."""
    texts = pa.Array.from_buffers(pa.string(), len(found), found.buffers(), found.null_count, found.offset)
    values = found.buffers()[2]
    if values is None or not values.size or int(np.frombuffer(values, np.uint8).max()) < 0x80:
        return texts
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return texts


def walk(
    data: bytes, starts: Integers, ends: Integers, length_at: int, overhead: int
) -> tuple[Integers, Integers, Integers]:
    """Find the records in each region of `data`: (offset of each, its region, where each region's walk stopped).

    A record is `overhead` bytes longer than the 4-byte length at its offset + `length_at`. The walk through a region
    stops at its end, or at the first record that has length 0 or does not fit into the region."""
    steps: list[tuple[Integers, Integers]] = []
    stops = starts.copy()
    active = np.flatnonzero(starts + overhead <= ends)
    at, end = starts[active], ends[active]
    while len(active) >= _ABREAST_MIN:
        after = at + overhead + gather(data, at + length_at, _LENGTH_ARRAY)
        fits = (after <= end) & (after > at + overhead)
        if not fits.all():
            active, at, after, end = active[fits], at[fits], after[fits], end[fits]
        steps.append((active, at))
        stops[active] = after
        goes_on = after + overhead <= end
        if goes_on.all():
            at = after
        else:
            active, at, end = active[goes_on], after[goes_on], end[goes_on]
    singly: list[tuple[int, list[int]]] = []
    for region, first, last in zip(active.tolist(), at.tolist(), end.tolist(), strict=True):
        offsets, stops[region] = _walk_one(data, first, last, length_at, overhead)
        singly.append((region, offsets))
    return (*_in_order(len(starts), steps, singly), stops)


def _in_order(
    count: int, steps: list[tuple[Integers, Integers]], singly: list[tuple[int, list[int]]]
) -> tuple[Integers, Integers]:
    """Sort what was found by region: the parallel steps found the n-th record of each, the rest came one by one."""
    if len(steps) == 1 and not singly:
        return steps[0][1], steps[0][0]
    counts = np.zeros(count, dtype=np.int64)
    for active, _ in steps:
        counts[active] += 1
    for region, offsets in singly:
        counts[region] += len(offsets)
    firsts = np.cumsum(counts) - counts
    found = np.empty(int(counts.sum()), dtype=np.int64)
    for number, (active, at) in enumerate(steps):
        found[firsts[active] + number] = at
    for region, offsets in singly:
        if offsets:
            end = firsts[region] + counts[region]
            found[end - len(offsets) : end] = offsets
    return found, np.repeat(np.arange(count), counts)


def _walk_one(data: bytes, at: int, end: int, length_at: int, overhead: int) -> tuple[list[int], int]:
    offsets: list[int] = []
    add, unpack = offsets.append, _LENGTH.unpack_from
    last = end - overhead
    while at <= last:
        after = at + overhead + unpack(data, at + length_at)[0]
        if after > end or after == at + overhead:
            break
        add(at)
        at = after
    return offsets, at
