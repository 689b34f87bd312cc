"""The changes of files that logs ask for. They take effect in order, and `Confirm` says when.

Paths are those of a `datatree.log.disk.Disk`: `<directory>/<file>`, or a file at the top. What happens to the files of
one directory does not wait for another directory, except that an effect on a file at the top waits for all earlier
effects.

    Append, Create          promise nothing about power loss until a `Sync` or `SyncDirectory`
    Replace, Truncate       durable when done, and done after every earlier effect of the directory
    Confirm                 answered when every earlier effect of the log is done, and what was to be synced is synced
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from zab.partition.log.paths import directory_of

Bytes: TypeAlias = bytes | bytearray | memoryview
"""Bytes that nobody changes any more."""


@attrs.frozen
class Token:
    """Which request for confirmation of which log, by its directory, an answer belongs to."""

    directory: str
    number: int


@attrs.frozen
class Create:
    """Create an empty file, and its directory, which is durable then. There is no such file."""

    path: str

    @property
    def directory(self) -> str:
        return directory_of(self.path)


@attrs.frozen
class Append:
    """Write at the end of a file, which is at `position`."""

    path: str
    position: int
    data: Bytes

    @property
    def directory(self) -> str:
        return directory_of(self.path)


@attrs.frozen
class Sync:
    """Make the content of a file durable, once for all that ask for it together."""

    path: str

    @property
    def directory(self) -> str:
        return directory_of(self.path)


@attrs.frozen
class SyncDirectory:
    """Make the names in a directory durable."""

    directory: str


@attrs.frozen
class Replace:
    """Replace the content of a file, all or nothing, durably."""

    path: str
    data: bytes

    @property
    def directory(self) -> str:
        return directory_of(self.path)


@attrs.frozen
class Truncate:
    """Cut a file down to `size` bytes, durably."""

    path: str
    size: int

    @property
    def directory(self) -> str:
        return directory_of(self.path)


@attrs.frozen
class Rename:
    """Rename a file within its directory, if it is there."""

    old: str
    new: str

    @property
    def directory(self) -> str:
        return directory_of(self.old)


@attrs.frozen
class Remove:
    """Remove a file, if it is there."""

    path: str

    @property
    def directory(self) -> str:
        return directory_of(self.path)


@attrs.frozen
class RenameDirectory:
    """Rename a directory, durably."""

    directory: str
    new: str


@attrs.frozen
class RemoveDirectory:
    """Remove a directory and its files."""

    directory: str


@attrs.frozen
class Confirm:
    """Answer with the token: `Confirmed` or `Failed`."""

    token: Token

    @property
    def directory(self) -> str:
        return self.token.directory


FileEffect: TypeAlias = (
    Create
    | Append
    | Sync
    | SyncDirectory
    | Replace
    | Truncate
    | Rename
    | Remove
    | RenameDirectory
    | RemoveDirectory
    | Confirm
)


@attrs.frozen
class Confirmed:
    """Every earlier effect of the log took effect, and what was to be synced is durable."""

    token: Token


@attrs.frozen
class Failed:
    """The storage of this log failed, and is not used until the log is recovered."""

    token: Token
    reason: str


Answer: TypeAlias = Confirmed | Failed
