"""`zab import`: creates a subtree from what `zab export` wrote.

The whole file is read and checked before anything is written, also whether each znode fits in a request; then it is
read again. For that, standard input is kept in a private file.

                 the root exists        znodes that exist                   others below the root
    (nothing)    refused                –                                   –
    --merge      accepted               get the file's data and ACL         stay
    --replace    accepted               get the file's data and ACL         are deleted, at the end

Existing znodes keep their kind. They get the ACL before the data, so that the data is never readable under the old ACL;
a client that may not write under the new ACL is refused then. They are changed with the version that was compared:
BADVERSION if another client was faster. Ephemerals belong to a session, and are refused. Writes are done in several
transactions, parents first. In any case it reports its progress; run again with `--merge`, it continues from there.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, Final, NamedTuple

import typer
from attrs import define, field

from zab.cli.arguments import ConnectionOptions
from zab.cli.exits import fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.progress import Told, progress
from zab.cli.terminal import say
from zab.cli.znodes.batches import Batches, Write, fits
from zab.cli.znodes.caller import Caller, exit_code, options_of, perform
from zab.cli.znodes.copying import ParentsOption, Source, read_source
from zab.cli.znodes.exporting import servers_own
from zab.cli.znodes.options import OtherPathArgument
from zab.cli.znodes.subtree_directory import directory_entries, directory_header
from zab.cli.znodes.subtree_lines import Entry, SubtreeFileError, checked_header, entries_of, line_bytes_max, loaded
from zab.cli.znodes.walking import READ_BYTES_MAX, WINDOW_COUNT, LeftOut, patient, together, walk_znodes
from zab.client import (
    BadArgumentsError,
    Client,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    Part,
    Stat,
    Transaction,
    ZabError,
)
from zab.client.znodes import Znodes

__all__ = ["import_command"]

_STDIN: Final = Path("-")
_REFUSED: Final = "it is there already; --merge changes what is there, --replace makes it as the file is"


class _Subtree:
    """The content of a file or directory; `entries` can be called repeatedly."""

    def __init__(self, name: str, file: BinaryIO | None, request_bytes_max: int) -> None:
        self._name = name
        self._file = file
        self._request_bytes_max = request_bytes_max
        if file is None:
            self.root, _ = directory_header(Path(name))
        else:
            _, first = next(self._lines(), (name, b""))
            self.root = checked_header(loaded(first, self._place(1)), self._place(1))

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """The znodes, each with its place. Raises SubtreeFileError."""
        if self._file is None:
            yield from directory_entries(Path(self._name), self._request_bytes_max)
            return
        lines = self._lines()
        next(lines, None)
        yield from entries_of(lines, self.root)

    def _place(self, number: int) -> str:
        return f"{self._name}: line {number}"

    def _lines(self) -> Iterator[tuple[str, bytes]]:
        assert self._file is not None
        self._file.seek(0)
        longest = line_bytes_max(self._request_bytes_max)
        number = 1
        while line := self._file.readline(longest + 1):
            if len(line) > longest:
                raise SubtreeFileError(self._place(number), f"it is longer than {longest:,} bytes")
            yield self._place(number), line
            number += 1


@contextmanager
def _opened(path: Path, request_bytes_max: int) -> Iterator[_Subtree]:
    if path.is_dir():
        yield _Subtree(str(path), None, request_bytes_max)
        return
    name = "standard input" if path == _STDIN else str(path)
    with ExitStack() as stack:
        try:
            source: BinaryIO = stack.enter_context(
                os.fdopen(os.dup(sys.stdin.fileno()), "rb") if path == _STDIN else path.open("rb")
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SubtreeFileError(name, f"it cannot be read: {reason}") from None
        if not source.seekable():
            kept: BinaryIO = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(source, kept)
            source = kept
        yield _Subtree(name, source, request_bytes_max)


class _Places(NamedTuple):
    """Where the znodes of a file will be. root: that of the file. target: the path that it becomes."""

    root: str
    target: str

    @property
    def parent(self) -> str:
        return self.target.rpartition("/")[0] or "/"

    def of(self, path: str) -> str:
        below = path if self.root == "/" else path[len(self.root) :]
        return ("" if self.target == "/" else self.target) + below or "/"


@define
class _Count:
    """How many znodes were changed in which way, or would be."""

    created: int = 0
    changed: int = 0
    acls: int = 0
    deleted: int = 0
    same: int = 0


@define
class _Import:
    """One import in progress."""

    zk: Znodes
    batches: Batches
    places: _Places
    takes_existing: bool
    dry_run: bool
    count: _Count = field(factory=_Count)
    acl_count: int = 0
    """How many ACLs were changed: no transaction changes one."""

    def note(self, what: str, path: str) -> None:
        if self.dry_run:
            say(f"{what} {path}")

    async def write(self, entries: list[Entry]) -> None:
        found: list[Source | ZabError]
        paths = [self.places.of(entry.path) for entry in entries]
        if self.takes_existing:
            found = await together([partial(read_source, self.zk, path) for path in paths])
        else:
            found = [NoNodeError(path) for path in paths]
        for path, entry, existing in zip(paths, entries, found, strict=True):
            if isinstance(existing, NoNodeError):
                self.count.created += 1
                self.note("create", path)
                await self._add(partial(_create, path, entry))
            elif isinstance(existing, ZabError):
                raise existing
            else:
                await self._change(path, entry, existing)

    async def _change(self, path: str, entry: Entry, existing: Source) -> None:
        if existing.stat.ephemeral_owner:
            raise BadArgumentsError(path, detail="an ephemeral is there, which belongs to its session")
        is_same = True
        if set(existing.acl) != set(entry.acl):
            is_same = False
            self.count.acls += 1
            self.note("acl", path)
            if not self.dry_run:
                await self.zk.set_acl(path, entry.acl, existing.stat.aversion)
                self.acl_count += 1
        if existing.data != entry.data:
            is_same = False
            self.count.changed += 1
            self.note("set", path)
            await self._add(partial(_set, path, entry, existing.stat.version))
        self.count.same += is_same

    async def delete(self, path: str, version: int) -> None:
        self.count.deleted += 1
        self.note("delete", path)
        await self._add(partial(_delete, path, version))

    async def _add(self, write: Write) -> None:
        if not self.dry_run:
            await self.batches.add(write)


def _create(path: str, entry: Entry, transaction: Transaction) -> Part[str]:
    return transaction.create(path, entry.data, entry.acl, container=entry.container, ttl_ms=entry.ttl_ms)


def _set(path: str, entry: Entry, version: int, transaction: Transaction) -> Part[Stat]:
    return transaction.set(path, entry.data, version)


def _delete(path: str, version: int, transaction: Transaction) -> Part[None]:
    return transaction.delete(path, version)


def import_command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Of zab export; a directory of its --dir; - is stdin.")],
    path: OtherPathArgument = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Overwrite existing znodes; keep those that only exist there.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Like --merge, and delete znodes that only exist there.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    parents: ParentsOption = False,
    json: JsonOption = False,
) -> None:
    """PATH is the path that the root of the file gets; without it, its path in the file."""
    if merge and replace:
        raise typer.BadParameter("give either --merge or --replace")
    try:
        with _opened(file, options_of(context).jute_maxbuffer_bytes) as subtree:
            places = _Places(subtree.root, path or subtree.root)
            kept = _checked(subtree, places, options_of(context))

            async def work(zk: Client, caller: Caller) -> None:
                reading = patient(zk)
                batches = Batches(reading, caller.options.jute_maxbuffer_bytes)
                act = _Import(reading, batches, places, merge or replace, dry_run)
                await _check_target(act, parents=parents)
                only_there: list[tuple[str, int]] = []
                if replace:
                    own = servers_own(places.target, caller.options.hosts)
                    only_there = await _only_there(reading, places.target, kept, own)
                if parents and not dry_run:
                    await reading.ensure_path(places.parent)
                with progress("read", prints_lines=act.dry_run, tells_end=False) as told:
                    await _carry_out(act, subtree, only_there, told)
                _tell(act, json=json)

            perform(context, work)
    except SubtreeFileError as error:
        fail(error, exit_code(error))


def _checked(subtree: _Subtree, places: _Places, options: ConnectionOptions) -> set[str]:
    """The paths that the znodes will have. Raises SubtreeFileError for znodes that must not be imported."""
    own = servers_own(places.target, options.hosts)
    chroot = options.hosts.partition("/")[2]
    prefix = f"/{chroot}" if chroot else ""
    bytes_max = options.jute_maxbuffer_bytes
    kept = set()
    for place, entry in subtree.entries():
        path = places.of(entry.path)
        # Its descendants would come after it.
        if path == own:
            raise SubtreeFileError(place, f"{path} is the servers' own")
        if not fits((prefix + path).encode(), entry.data, entry.acl, entry.ttl_ms, bytes_max):
            reason = f"the znode has no room in a request of {bytes_max:,} bytes; --jute-maxbuffer allows more"
            raise SubtreeFileError(place, reason)
        kept.add(path)
    return kept


async def _check_target(act: _Import, *, parents: bool) -> None:
    """Checks that the root can be created, or changed."""
    target, parent = act.places.target, act.places.parent
    if await _is_there(act.zk, target):
        if not act.takes_existing:
            raise NodeExistsError(target, detail=_REFUSED)
    elif not parents and not await _is_there(act.zk, parent):
        raise NoNodeError(parent, detail="what is imported would be below it; -p makes it")


async def _is_there(zk: Znodes, path: str) -> bool:
    try:
        return await zk.exists(path) is not None
    except NoAuthError:
        # A missing znode is never refused for its permissions.
        return True


async def _only_there(zk: Znodes, target: str, kept: set[str], own: str | None) -> list[tuple[str, int]]:
    """The znodes below the target that the file does not have, with versions; parents before children."""
    found: list[tuple[str, int]] = []
    left_out = LeftOut()
    try:
        async with aclosing(walk_znodes(zk, target, left_out, without=own)) as walked:
            async for seen in walked:
                if seen.stat.ephemeral_owner:
                    raise BadArgumentsError(seen.path, detail="an ephemeral is there, which belongs to its session")
                if seen.path not in kept:
                    found.append((seen.path, seen.stat.version))
    except NoNodeError as error:
        if error.path != target:
            raise
    if left_out.count:
        raise NoAuthError(target, detail="not all that is below it may be read, so it cannot be replaced")
    return found


async def _carry_out(act: _Import, subtree: _Subtree, only_there: list[tuple[str, int]], told: Told) -> None:
    is_done = False
    try:
        for window in _windows(subtree.entries()):
            await act.write(window)
            told.add(len(window))
        for path, version in reversed(only_there):
            await act.delete(path, version)
            told.add()
        await act.batches.finish()
        is_done = True
    finally:
        if not is_done and not act.dry_run:
            sys.stdout.flush()
            done = act.batches.done_count + act.acl_count
            say(f"zab: the import is not finished: of its writes {done} are done", sys.stderr, flush=True)


def _windows(entries: Iterator[tuple[str, Entry]]) -> Iterator[list[Entry]]:
    window: list[Entry] = []
    size = 0
    for _, entry in entries:
        if window and (len(window) == WINDOW_COUNT or size > READ_BYTES_MAX):
            yield window
            window, size = [], 0
        window.append(entry)
        size += len(entry.data or b"")
    if window:
        yield window


def _tell(act: _Import, *, json: bool) -> None:
    count = act.count
    if json:
        fields = {"created": count.created, "changed": count.changed, "acls": count.acls}
        say(json_line({"path": act.places.target, **fields, "deleted": count.deleted, "same": count.same}))
        return
    verb = "would be " if act.dry_run else ""
    say(
        f"{act.places.target}: {count.created} {verb}created, {count.changed} changed, {count.acls} with another ACL, "
        f"{count.deleted} deleted, {count.same} the same"
    )
