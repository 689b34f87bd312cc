"""Reading a state file piece by piece.

check_state(window, number)     verifies all of it; its header
walk_state(window, header)      the ledgers, then the runs of tombstones, of a file that is verified
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import attrs

from zab.ledger.bookie.ledgers import Ledger
from zab.ledger.bookie.state import (
    HEADER_BYTES,
    LEDGER_BYTES_MAX,
    RUN_BYTES,
    StateHeader,
    parse_ledger,
    parse_run,
    parse_state_header,
)
from zab.ledger.bookie.windows import Window
from zab.ledger.entries.envelope import MalformedEntryError

_CRC: Final = struct.Struct(">I")


class StateDamagedError(Exception):
    """A state file that does not verify."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"at offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


@attrs.frozen
class Run:
    """A run of deleted ledgers."""

    first: int
    last: int


def check_state(window: Window, number: int) -> StateHeader:
    """Its header. Raises StateDamagedError, OSError."""
    header = parse_state_header(window.read(0, HEADER_BYTES), number)
    if header is None:
        raise StateDamagedError(0, "the header does not match its checksum")
    end = window.size - _CRC.size
    if end < HEADER_BYTES:
        raise StateDamagedError(HEADER_BYTES, "the file is cut")
    crc = window.crc(HEADER_BYTES, end)
    if crc is None or _CRC.pack(crc) != window.read(end, _CRC.size):
        raise StateDamagedError(HEADER_BYTES, "the content does not match its checksum")
    for _ in walk_state(window, header):
        pass
    return header


def walk_state(window: Window, header: StateHeader) -> Iterator[Ledger | Run]:
    """Its ledgers and tombstones. Raises StateDamagedError, OSError."""
    at, end = HEADER_BYTES, window.size - _CRC.size
    try:
        for _ in range(header.count):
            data = window.read(at, min(LEDGER_BYTES_MAX, end - at))
            ledger, size = parse_ledger(data, 0)
            if size > len(data):
                raise StateDamagedError(at, "a ledger is cut")
            yield ledger
            at += size
        for _ in range(header.runs):
            run = parse_run(window.read(at, min(RUN_BYTES, end - at)), 0)
            if run is None:
                raise StateDamagedError(at, "a run of tombstones is none")
            yield Run(*run)
            at += RUN_BYTES
    except (struct.error, MalformedEntryError) as error:
        raise StateDamagedError(at, "a ledger or a run of tombstones is cut") from error
    if at != end:
        raise StateDamagedError(at, "there is more in it than its header says")
