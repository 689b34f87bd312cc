"""Chooses the snapshot to begin with: the newest one that is whole, among those of an ensemble's members.

A snapshot is whole if all of it can be read and every checksum is right. Snapshots are read newest first until one is
whole; the others are reported, each as a `Problem`. To build a state on it, a snapshot of ZooKeeper also has to be
exact at or below the requested zxid, because it may hold effects of later transactions.

Deliberately not here: the logs after a snapshot.
"""

from collections.abc import Iterable, Sequence

from attrs import frozen

from zab.pipeline.decoding.snapshot_rows import Examined, Label, SnapshotDamageError, SnapshotRows, open_snapshot
from zab.pipeline.member_files import MemberFiles, SnapshotFile

__all__ = ["Choice", "Chosen", "Problem", "choose", "examine", "opened"]


@frozen
class Problem:
    """A snapshot that cannot be read: member, file, offset and reason."""

    member: MemberFiles
    file: SnapshotFile
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file.place}: offset {self.offset}: {self.reason}"


@frozen
class Chosen:
    """A whole snapshot and whose it is."""

    member: MemberFiles
    file: SnapshotFile
    examined: Examined

    @property
    def label(self) -> Label:
        """The label of its rows."""
        return Label(self.member.ensemble, self.member.member, self.file.name, self.file.zxid)


@frozen
class Choice:
    """The chosen snapshot (None if there is none), and the newer ones that cannot be read."""

    chosen: Chosen | None
    problems: tuple[Problem, ...]


def opened(file: SnapshotFile) -> SnapshotRows:
    """The content of a file, read on demand; the file is open until the last reference to the result is gone.

    Raises SnapshotDamageError, also if the file cannot be opened or read."""
    place = file.place

    def refused(error: OSError, offset: int) -> SnapshotDamageError:
        return SnapshotDamageError(str(place), offset, f"it cannot be read: {error.strerror or error}")

    try:
        source = place.open()
    except OSError as error:
        raise refused(error, 0) from None

    def read(offset: int, length: int) -> bytes:
        try:
            return source.read(offset, length)
        except OSError as error:
            raise refused(error, offset) from None

    return open_snapshot(read, str(place))


def examine(member: MemberFiles, file: SnapshotFile) -> Chosen | Problem:
    """Read all of a snapshot, to find out whether it is whole."""
    try:
        return Chosen(member, file, opened(file).examine())
    except SnapshotDamageError as error:
        return Problem(member, file, error.offset, error.reason)


def choose(members: Sequence[MemberFiles], zxid: int | None = None, *, exact: bool = False) -> Choice:
    """Choose the newest whole snapshot at or below `zxid` (None: the newest). With `exact`, it has no effects of
    transactions above `zxid`."""
    problems: list[Problem] = []
    for member, file in _newest_first(members, zxid):
        found = examine(member, file)
        if isinstance(found, Problem):
            problems.append(found)
        elif not exact or zxid is None or found.examined.exact_from <= zxid:
            return Choice(found, tuple(problems))
    return Choice(None, tuple(problems))


def _newest_first(members: Iterable[MemberFiles], zxid: int | None) -> list[tuple[MemberFiles, SnapshotFile]]:
    found = [
        (member, file)
        for member in members
        for file in member.snapshots
        if (zxid is None or file.zxid <= zxid)
        and not (file.lineage and member.lineage and file.lineage != member.lineage)
    ]
    return sorted(found, key=lambda item: item[1].zxid, reverse=True)
