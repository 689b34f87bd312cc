"""Directories of several bookies with ledgers, and the metadata of these as `zab export` prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from tests.ledger.bookie.directories import BookieDirectory
from tests.ledger.bookie.kit import SMALL
from tests.ledger.metadata.ledgers import ledger as metadata_of
from zab.cli.znodes.subtree_lines import Entry, entry_line, first_line, last_line
from zab.ledger.entries.envelope import Digest
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import encode_metadata
from zab.ledger.quorums.write_sets import write_set
from zab.pipeline.ledgers.options import LedgerOptions
from zab.pipeline.ledgers.planning import plan_ledgers
from zab.pipeline.ledgers.rows import piece_rows

__all__ = ["BOOKIES", "PAYLOAD", "Bookies", "export", "exported", "length_of", "rows_of"]

BOOKIES = ("a", "b", "c", "d")
PAYLOAD = b"entry %d"


def length_of(entry: int) -> int:
    """The payload bytes up to this entry."""
    return sum(len(PAYLOAD % each) for each in range(entry + 1))


class Bookies:
    """Bookies with these names, each with its directory below `root`, and the metadata of their ledgers."""

    def __init__(self, root: Path, names: Sequence[str] = BOOKIES) -> None:
        self.root = root
        config = evolve(SMALL, flush_bytes=1 << 20, cache_bytes_max=2 << 20)
        self.named = {name: BookieDirectory(root / f"dir-{name}", name, config) for name in names}
        self.metadata: dict[int, LedgerMetadata] = {}

    def ledger(
        self, number: int, count: int, *, without: Mapping[str, Sequence[int]] | None = None, **differs: Any
    ) -> None:
        """A closed ledger with so many entries, each on its write set, except for those that a bookie is `without`."""
        closed = metadata_of(**differs)
        if "state" not in differs and count:
            closed = closed.closed_at(count - 1, length_of(count - 1))
        self.metadata[number] = closed
        digest = Digest(closed.digest_type, closed.password)
        for entry in range(count):
            ensemble = closed.fragment_of(entry).ensemble
            for index in write_set(entry, closed.ensemble_size, closed.write_quorum):
                if entry not in (without or {}).get(ensemble[index], ()):
                    self.named[ensemble[index]].append_again(number, entry, entry - 1, digest, PAYLOAD)

    def flush(self) -> None:
        for each in self.named.values():
            each.flush()

    def export(self) -> Path:
        return export(self.root / "ledgers.json", self.metadata)

    @property
    def dirs(self) -> list[Path]:
        return [each.root for each in self.named.values()]


def export(path: Path, metadata: Mapping[int, LedgerMetadata]) -> Path:
    """The output of `zab export --skip-ephemerals /ledgers`."""
    znodes = {"/ledgers": b"", "/ledgers/available": b""}
    znodes |= {ledger_path("/ledgers", number): encode_metadata(each) for number, each in metadata.items()}
    return exported(path, "/ledgers", znodes)


def exported(path: Path, root: str, znodes: Mapping[str, bytes]) -> Path:
    """The output of `zab export` for these znodes."""
    lines = [first_line(root), *(entry_line(Entry(name, data, ())) for name, data in znodes.items())]
    path.write_text("".join(f"{line}\n" for line in (*lines, last_line(len(znodes)))))
    return path


def rows_of(
    dirs: Sequence[Path],
    columns: Sequence[str] = ("ledger", "entry", "bookie"),
    task_bytes: int = 1 << 20,
    **options: str,
) -> list[dict[str, Any]]:
    """The rows of a read, without Spark."""
    given = {"dirs": json.dumps([str(each) for each in dirs]), **options}
    tasks = plan_ledgers(LedgerOptions.parse(given), task_bytes=task_bytes)
    pieces = [piece for task in tasks for piece in task.pieces]
    return [row for piece in pieces for found in piece_rows(piece, columns) for row in found.to_pylist()]
