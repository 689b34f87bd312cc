"""A log file of ZooKeeper taken apart into its records, and put together again."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from zlib import adler32

from datatree.record import Txn
from datatree.zookeeper.log import LOG_HEADER, LogReader, decode_payload, encode_record

_FRAME = struct.Struct(">qi")


@dataclass
class Record:
    """One transaction with its whole bytes, checksum to trailer; `offset` as read or as last written."""

    txn: Txn
    digest: int | None
    raw: bytes
    offset: int = 0

    def changed(self, change: Callable[[Txn], Txn]) -> Record:
        """With another transaction and a right checksum; the tree's digest stays what it was."""
        txn = change(self.txn)
        return Record(txn, self.digest, encode_record(txn, self.digest), self.offset)


@functools.cache
def _records_in(data: bytes) -> list[tuple[Txn, int | None, bytes, int]]:
    """What the records of a file are made of. Tests damage one file of many that they copied, and read them all."""
    records = []
    for offset, intact, payload in LogReader([data], "a log").payloads():
        assert intact, offset
        found = decode_payload(payload, "a log", offset)
        raw = _FRAME.pack(adler32(payload), len(payload)) + payload + b"B"
        records.append((found.txn, found.digest, raw, offset))
    return records


@dataclass
class Version2Log:
    """One file; zeros after the records are kept in `padding`."""

    path: Path
    records: list[Record] = field(default_factory=list)
    padding: int = 0

    @classmethod
    def read(cls, path: Path) -> Version2Log:
        """The file must be intact except for its end."""
        data = path.read_bytes()
        log = cls(path, [Record(*found) for found in _records_in(data)])
        log.padding = len(data) - log.end
        return log

    @property
    def end(self) -> int:
        """After the last record."""
        return self.records[-1].offset + len(self.records[-1].raw) if self.records else len(LOG_HEADER)

    def find(self, zxid: int) -> Record:
        return next(record for record in self.records if record.txn.zxid == zxid)

    def write(self) -> None:
        at = len(LOG_HEADER)
        for record in self.records:
            record.offset = at
            at += len(record.raw)
        self.path.write_bytes(b"".join([LOG_HEADER, *(record.raw for record in self.records), bytes(self.padding)]))
