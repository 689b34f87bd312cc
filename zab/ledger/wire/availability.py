"""The list of the entries that a bookie has of a ledger, as bytes.

    0   version: 0, 4 bytes
    4   number of groups, 4
    8   zeros, to byte 64
    64  groups: first start (8), last start (8), size (4), period (4)

A group is `size` consecutive ids from its first start on, repeated every `period` up to its last start; a group that is
not repeated has period 0, and one start. Groups are sorted, and do not overlap.

The writer makes groups without periods, one for each run: BookKeeper's clients report the gaps of a period as missing.
The reader knows periods, and refuses a list of more than `RUNS_MAX` runs: a few bytes can announce any number of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from zab.ledger.entries.ids import ID_MAX
from zab.ledger.wire.frames import ProtocolError

RUNS_MAX: Final = 200_000
"""The limit for the runs of one list. As groups they are 4.8 MB, which is still a frame that everybody takes."""

_VERSION: Final = 0
_HEADER_BYTES: Final = 64
_HEADER: Final = Struct(">ii56x")
_GROUP: Final = Struct(">qqii")
_SIZE_MAX: Final = (1 << 31) - 1


def encode_runs(runs: Sequence[tuple[int, int]]) -> bytes:
    """The list of these sorted runs, each with its first and its last id."""
    groups = []
    for first, last in runs:
        start = first
        while start <= last:
            size = min(last - start + 1, _SIZE_MAX)
            groups.append(_GROUP.pack(start, start, size, 0))
            start += size
    return b"".join((_HEADER.pack(_VERSION, len(groups)), *groups))


def decode_runs(data: bytes) -> tuple[tuple[int, int], ...]:
    """The sorted runs of a list; runs that touch are one. Raises ProtocolError."""
    if len(data) < _HEADER_BYTES:
        raise ProtocolError(f"a list of entries of {len(data)} bytes")
    version, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise ProtocolError(f"a list of entries of version {version}")
    if count < 0 or len(data) != _HEADER_BYTES + count * _GROUP.size:
        raise ProtocolError(f"a list of {count} groups of entries in {len(data)} bytes")
    runs: list[tuple[int, int]] = []
    for first, last, size, period in _GROUP.iter_unpack(memoryview(data)[_HEADER_BYTES:]):
        for start in _starts(first, last, size, period, RUNS_MAX - len(runs)):
            end = start + size - 1
            if runs and start <= runs[-1][1]:
                raise ProtocolError(f"the groups of a list of entries are not sorted at entry {start}")
            if runs and start == runs[-1][1] + 1:
                runs[-1] = (runs[-1][0], end)
            else:
                runs.append((start, end))
    return tuple(runs)


def _starts(first: int, last: int, size: int, period: int, left: int) -> Iterable[int]:
    is_once = first == last
    if size < 1 or first < 0 or last < first or last > ID_MAX - size or is_once != (period == 0) or period < 0:
        raise ProtocolError(f"a group of {size} entries from {first} to {last}, every {period}")
    if is_once:
        count = 1
    elif period < size or (last - first) % period:
        raise ProtocolError(f"a group of {size} entries from {first} to {last}, every {period}")
    else:
        count = (last - first) // period + 1
    if count > left:
        raise ProtocolError(f"a list of entries with more than {RUNS_MAX} runs")
    return range(first, last + 1, period or 1)
