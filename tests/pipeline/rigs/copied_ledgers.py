"""Copies of the ledgers of `Bookies` in an object store, and the lists of managed ledgers that name them."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from tests.pipeline.rigs.bookie_files import PAYLOAD, Bookies, exported, length_of
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Offload, OffloadState, encode_log, log_path
from zab.ledger.managed.objects import (
    BlockBuilder,
    CopyIndex,
    data_name,
    decode_index,
    directory,
    index_name,
    index_of,
)
from zab.ledgers.objects import open_objects

__all__ = ["LOG", "UID", "CopiedLedgers"]

LOG = "orders"
UID = "a1"


class CopiedLedgers:
    """The copies of one log, below `uri`."""

    def __init__(self, bookies: Bookies, uri: str) -> None:
        self.bookies = bookies
        self.uri = directory(uri, "instance", LOG)
        self.objects = open_objects(self.uri)
        self.ledgers: dict[int, LedgerInfo] = {}

    def copy(
        self, ledger: int, *, block_bytes: int = 150, payload: bytes = PAYLOAD, is_on_bookies: bool = True
    ) -> None:
        """A copy of a closed ledger, as its owner makes it. Not on bookies: it has no metadata there either."""
        metadata = self.bookies.metadata[ledger]
        builder = BlockBuilder(ledger, Digest(metadata.digest_type, metadata.password), block_bytes)
        data = b""
        for entry in range(metadata.last + 1):
            data += builder.add(Entry(ledger, entry, entry - 1, length_of(entry), payload % entry)) or b""
        data += builder.finish() or b""
        index = index_of(ledger, UID, metadata, builder)
        self.put(data_name(ledger, UID), data)
        self.put(index_name(ledger, UID), index.encode())
        offload = Offload(state=OffloadState.DONE, uid=UID, uri=self.uri, is_on_bookies=is_on_bookies)
        self.ledgers[ledger] = LedgerInfo(
            id=ledger, entries=index.entries, length=metadata.length, closed_ms=0, offload=offload
        )
        if not is_on_bookies:
            del self.bookies.metadata[ledger]

    def put(self, name: str, data: bytes) -> None:
        new = self.objects.create(name)
        new.write(data)
        new.commit()

    def get(self, name: str) -> bytes:
        return self.objects.read(name, 0, self.objects.size(name))

    def index(self, ledger: int) -> CopyIndex:
        return decode_index(self.get(index_name(ledger, UID)), ledger, UID)

    def flip(self, name: str, offset: int) -> None:
        """One bit of an object is another."""
        content = bytearray(self.get(name))
        content[offset] ^= 1
        self.put(name, bytes(content))

    def offload(self, ledger: int, **differs: object) -> None:
        """The list says something else about the copy of this ledger."""
        info = self.ledgers[ledger]
        assert info.offload is not None
        self.ledgers[ledger] = evolve(info, offload=evolve(info.offload, **differs))

    def export(self) -> Path:
        """The output of `zab export --skip-ephemerals /logs`."""
        info = LogInfo(owner="x", ledgers=tuple(each for _, each in sorted(self.ledgers.items())))
        path = log_path("/logs", LOG)
        znodes = {"/logs": b"", path: encode_log(info), f"{path}/cursors": b"", f"{path}/cursors/billing": b"{}"}
        return exported(self.bookies.root / "logs.json", "/logs", znodes)
