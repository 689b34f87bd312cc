"""The catalogue of a directory of backups: which backups there are, of which files each is made, and which may go.

    catalogue.json              this
    version-1/snapshot.<zxid>   the tree at that zxid, as a member wrote it
    version-1/log.<first zxid>  batches after the end of the previous file, as they are in every member's log
    version-1/committed         up to which zxid all of it is committed

So the directory is one that `zab restore`, `zab log` and `zab pipeline` read as they read a member's. The files of the
log follow one another, and a snapshot is a place to begin at. A *backup* is a moment whose state was verified: the
newest snapshot at or below it, and the log from there on. Every moment between two backups can be had as well.

Invariants: a file that the catalogue names is whole and never written again; no file goes that a kept backup needs; the
newest backup is always kept. Text is JSON with a checksum over all of it.

Pure. Not here: where the files are (`zab.operations.backup.stores`), and whether they are what the catalogue says
(`zab.operations.backup.verifying`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import attrs
from attrs import field, frozen

__all__ = ["CATALOGUE", "Backup", "BackupFile", "Catalogue", "CatalogueError", "kept", "needed", "pruned"]

CATALOGUE: Final = "catalogue.json"
_FORMAT: Final = 1


class CatalogueError(Exception):
    """It is not a catalogue, or was changed since it was written."""


@frozen
class BackupFile:
    """One file. name: below the directory. before: the zxid after which its log begins; None for a snapshot. last:
    where its log ends, or the zxid of the snapshot."""

    name: str
    size: int
    sha256: str
    before: int | None
    last: int

    @property
    def is_snapshot(self) -> bool:
        return self.before is None


@frozen
class Backup:
    """A moment. zxid: its end; digest: of the tree there; snapshot: the zxid of the one that it begins with; time_ms:
    when it was taken; member: the source."""

    zxid: int
    time_ms: int
    snapshot: int
    digest: int
    znode_count: int
    session_count: int
    member: str


@frozen
class Catalogue:
    """The backups of one lineage. chain: at the end of the log. Both lists are in the order of the history."""

    lineage: str
    end: int
    chain: str
    backups: tuple[Backup, ...] = ()
    files: tuple[BackupFile, ...] = field(default=())

    def dump(self) -> bytes:
        content = attrs.asdict(self)
        return json.dumps({"format": _FORMAT, "checksum": _checksum(content), **content}, indent=1).encode() + b"\n"

    @classmethod
    def load(cls, data: bytes) -> Catalogue:
        """Parse a catalogue. Raises CatalogueError."""
        try:
            content: dict[str, Any] = json.loads(data)
            version, checksum = content.pop("format"), content.pop("checksum")
            if version != _FORMAT:
                raise CatalogueError(f"the catalogue has format {version}, and this reads {_FORMAT}")
            if checksum != _checksum(content):
                raise CatalogueError("the checksum of the catalogue does not match")
            backups = tuple([Backup(**each) for each in content.pop("backups")])
            files = tuple([BackupFile(**each) for each in content.pop("files")])
            return cls(**content, backups=backups, files=files)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CatalogueError("it is no catalogue of backups") from None

    def snapshot_of(self, zxid: int) -> BackupFile | None:
        """The newest backup at or below a zxid."""
        found = [each for each in self.files if each.is_snapshot and each.last <= zxid]
        return max(found, key=lambda each: each.last, default=None)


def _checksum(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def needed(catalogue: Catalogue, backup: Backup) -> tuple[BackupFile, ...]:
    """The files of a backup."""
    return tuple(
        [
            each
            for each in catalogue.files
            if (each.is_snapshot and each.last == backup.snapshot)
            or (each.before is not None and each.last > backup.snapshot and each.before < backup.zxid)
        ]
    )


def kept(catalogue: Catalogue, now_ms: int, *, count: int | None, for_ms: int | None) -> tuple[Backup, ...]:
    """The backups that retention keeps: the newest `count`, and those of the last `for_ms`; all, if neither is given.
    The newest is always kept."""
    if count is None and for_ms is None:
        return catalogue.backups
    newest = catalogue.backups[-max(count or 1, 1) :]
    young = [each for each in catalogue.backups if for_ms is not None and now_ms - each.time_ms <= for_ms]
    return tuple([each for each in catalogue.backups if each in newest or each in young])


def pruned(catalogue: Catalogue, backups: Iterable[Backup]) -> Catalogue:
    """The catalogue reduced to these backups, and the files that they need."""
    left = tuple(backups)
    assert left or not catalogue.backups, "the newest backup is kept"
    names = {each.name for backup in left for each in needed(catalogue, backup)}
    return attrs.evolve(catalogue, backups=left, files=tuple([each for each in catalogue.files if each.name in names]))
