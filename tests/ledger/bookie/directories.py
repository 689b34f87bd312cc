"""Directories of bookies, as bookies leave them: written by the bookie's own core, on a real disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import evolve

from tests.ledger.bookie.kit import SMALL, Bench
from zab.host.storage.disk import RealDisk
from zab.ledger.bookie.config import BookieConfig, Identity
from zab.ledger.bookie.cookie_check import LocalCookie, write_local_cookie
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.cookies import Cookie, encode_cookie
from zab.ledger.wire.messages import AddEntry, ReadEntry, WriteLac
from zab.ledger.wire.status import Status

__all__ = ["BookieDirectory", "rich_directory"]

PAYLOAD = b"payload %d"
INSTANCE = b"i" * 16
INSTANCE_ID = "69696969-6969-6969-6969-696969696969"


class Disk(RealDisk):
    """A real disk that no other process uses, and that has room."""

    capacity_bytes = 1 << 50

    def free_bytes(self) -> int:
        return self.capacity_bytes


class BookieDirectory:
    """One bookie and its directory. Nothing is flushed before `flush`."""

    def __init__(self, root: Path, bookie: str = "bookie-1", config: BookieConfig = SMALL) -> None:
        root.mkdir(parents=True)
        self.root = root
        self.bookie = BookieId(bookie)
        self.disk = Disk(str(root), lock=False)
        uuid = bookie.encode().ljust(16, b"u")[:16]
        cookie = Cookie(self.bookie, (str(root),), (str(root),), INSTANCE_ID)
        write_local_cookie(self.disk, LocalCookie(encode_cookie(cookie), uuid))
        self.bench = Bench(config, self.disk, Identity(INSTANCE, uuid))  # type: ignore[arg-type]

    def add(self, *requests: AddEntry) -> None:
        """Have them stored, durably, in the journal."""
        for request in requests:
            (number,) = self.bench.ask(request)
            self.bench.store()
            assert self.bench.answers[number].status is Status.OK, self.bench.answers[number]

    def append(self, ledger: int, entries: Iterable[int], digest: Digest, payload: bytes = PAYLOAD) -> None:
        """Entries of a ledger, the payload with the number of the entry in it, and the length as a writer counts it."""
        for entry in entries:
            self.append_again(ledger, entry, entry - 1, digest, payload)

    def append_again(
        self,
        ledger: int,
        entry: int,
        lac: int,
        digest: Digest,
        payload: bytes = b"payload %d",
        *,
        recovers: bool = False,
    ) -> None:
        """An entry with this LAC, as BookKeeper's recovery makes it again."""
        content = payload % entry
        length = sum(len(payload % each) for each in range(entry + 1))
        envelope = digest.pack(Entry(ledger, entry, lac, length, content))
        self.add(AddEntry(ledger, entry, digest.master_key, envelope, is_recovery=recovers))

    def flush(self) -> None:
        self.bench.flush()

    def close(self) -> None:
        """End in good order, without a checkpoint."""
        self.bench.journal_files.close()

    def file(self, path: str) -> Path:
        return self.root / path

    def segments(self) -> list[Path]:
        return sorted((self.root / "entries").glob("?" * 16))

    def journals(self) -> list[Path]:
        return sorted((self.root / "journal").glob("?" * 16))

    def states(self) -> list[Path]:
        return sorted((self.root / "state").glob("?" * 16))


def rich_directory(root: Path, bookie: str = "bookie-1", **limits: int) -> BookieDirectory:
    """A bookie with everything that a bookie has: two segments and a journal after them; entries with gaps, and twice;
    a fence, an explicit LAC, deleted ledgers.

    | ledger | first segment | second segment | journal |
    |---|---|---|---|
    | 1 | 0–9 | 10–14 | 15–17 |
    | 2 | 0, 3, 6 | 1, 3 | 6, 9 |
    | 3 | – | 0–4 | – |, fenced
    | 5 | 0–2 | – | – |, deleted
    | 7 | – | – | 0 |, with an explicit LAC
    """
    made = BookieDirectory(root, bookie, evolve(SMALL, **limits))
    digest = Digest(DigestType.CRC32C, b"")
    made.append(1, range(10), digest)
    made.append(2, (0, 3, 6), digest)
    made.append(5, range(3), digest)
    made.flush()
    made.append(1, range(10, 15), digest)
    made.append(2, (1,), digest)
    made.append_again(2, 3, 1, digest, recovers=True)
    made.append(3, range(5), digest)
    made.bench.answer(ReadEntry(3, 0, digest.master_key, is_fencing=True))
    made.flush()
    made.append(1, range(15, 18), digest)
    made.append_again(2, 6, 4, digest, recovers=True)
    made.append(2, (9,), digest)
    made.append(7, (0,), digest)
    made.bench.answer(WriteLac(7, 0, digest.master_key, digest.pack_lac(7, 0)))
    made.bench.bookie.deletion.add([5])
    made.bench.step()
    made.bench.store()
    return made
