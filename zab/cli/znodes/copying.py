"""`zab touch`, `zab cp` and `zab mv`.

A copy has the data and the ACLs of all znodes of the subtree. It lacks what servers do not tell clients: containers and
TTL znodes become plain ones, and sequence numbers below them start again, since they count creations.

    one transaction     it checks the versions of all znodes that are copied, or deletes them with their versions: so
                        they have the versions that were read, or nothing is done
    several             the same in each; changes made meanwhile may be missing in the copy

Changes that do not alter the version go undetected: a new ACL, or a znode that was deleted, created again and set as
often since.

`cp` uses several if the subtree does not fit in one. `mv` refuses that without `--not-atomic`. With it, the whole
subtree is copied first, and then deleted, the deepest znodes first, each with the version that was copied: znodes that
were changed or created meanwhile stay at the source, and the command ends with an error. In any case it reports its
progress.

An ephemeral cannot be copied into another session: it is refused, or left out with `--skip-ephemerals`. Znodes that
`mv` leaves out stay, and so do all znodes above them.

An ACL that the server sends without its passwords, since the client may not administer the znode, cannot be copied.
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Final, NamedTuple

import typer

from zab.cli.json_form import JsonOption, hexadecimal, json_line
from zab.cli.progress import Told, progress
from zab.cli.terminal import count_of, say
from zab.cli.znodes.batches import Batches, part_bytes
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.options import DestinationArgument, PathArgument, SourceArgument
from zab.cli.znodes.walking import LeftOut, patient, read_along, walk_znodes
from zab.client import (
    Acl,
    BadArgumentsError,
    BadVersionError,
    Client,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    Part,
    Stat,
    Transaction,
)
from zab.client.znodes import Znodes

__all__ = [
    "Ephemerals",
    "ParentsOption",
    "SkipOption",
    "Source",
    "cp_command",
    "mv_command",
    "read_source",
    "read_subtree",
    "touch_command",
]

ATOMIC_PARTS_MAX: Final = 10_000
"""Parts of the one transaction; zab servers refuse more, unless `multiMaxParts` allows them."""

SkipOption = Annotated[bool, typer.Option("--skip-ephemerals", help="Leave ephemerals out, instead of refusing.")]
ParentsOption = Annotated[bool, typer.Option("-p", "--parents", help="Create missing parents of DST too.")]


def touch_command(
    context: typer.Context,
    path: PathArgument,
    no_create: Annotated[bool, typer.Option("-c", "--no-create", help="Fail if the znode does not exist.")] = False,
) -> None:
    """Sets the data to what it is, so that its time and version change, and its watches fire. Creates it if missing."""

    async def work(zk: Client, _caller: Caller) -> None:
        while not await _touch(zk, path, no_create=no_create):
            pass

    perform(context, work)


async def _touch(zk: Client, path: str, *, no_create: bool) -> bool:
    """Whether it was changed, by this client or by another. False if it was created or deleted just now."""
    try:
        data, stat = await zk.get(path)
        await zk.set(path, data, stat.version)
    except BadVersionError:
        return True
    except NoNodeError:
        if no_create:
            raise
        try:
            await zk.create(path)
        except NodeExistsError:
            return False
    return True


class Source(NamedTuple):
    """A znode as it was read."""

    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    stat: Stat


class _NothingLeftOut(LeftOut):
    """A znode that may not be read is an error."""

    def tell(self, error: NoAuthError, what: str = "") -> None:
        raise error


async def read_source(zk: Znodes, path: str) -> Source:
    """Raises NoAuthError if data or ACL cannot be read in full."""
    data, stat = await zk.get(path)
    acl, _ = await zk.get_acl(path)
    if any(entry.scheme == "digest" and entry.id.endswith(":x") for entry in acl):
        raise NoAuthError(path, detail="its ACL is told without the passwords to who has not the permission ADMIN")
    return Source(path, data, acl, stat)


async def read_subtree(zk: Znodes, path: str, left_out: str | None = None) -> AsyncGenerator[Source, None]:
    """The subtree, each znode before those below it, without the subtree of `without`. Raises NoAuthError as above."""
    strict = _NothingLeftOut()
    walked = walk_znodes(zk, path, strict, without=left_out)
    async with aclosing(read_along(walked, partial(read_source, zk), strict)) as found:
        async for _, source in found:
            yield source


class Ephemerals:
    """The ephemerals of a subtree, which only their sessions can own: they are refused, or skipped."""

    def __init__(self, *, skip: bool) -> None:
        self._skip = skip
        self._count = 0

    def is_one(self, found: Source) -> bool:
        """Whether the znode is an ephemeral to be skipped. Raises BadArgumentsError if ephemerals are refused."""
        if not found.stat.ephemeral_owner:
            return False
        if not self._skip:
            owner = hexadecimal(found.stat.ephemeral_owner)
            detail = f"it is ephemeral, of the session {owner}; --skip-ephemerals leaves such out"
            raise BadArgumentsError(found.path, detail=detail)
        self._count += 1
        return True

    def tell(self) -> None:
        """Prints how many were skipped, if any were."""
        if self._count:
            sys.stdout.flush()
            say(f"zab: {count_of(self._count, 'ephemeral')} left out", sys.stderr, flush=True)


class _Copy:
    """The copy of one subtree, in progress. kept: the paths of the source that a `mv` does not delete."""

    def __init__(self, source: str, destination: str, ephemerals: Ephemerals) -> None:
        self.source = source
        self.destination = destination
        self.ephemerals = ephemerals
        self.copied: list[tuple[str, int]] = []
        self.kept: set[str] = set()

    def takes(self, found: Source) -> bool:
        """Whether it is to be copied. Raises what `Ephemerals.is_one` raises."""
        if not self.ephemerals.is_one(found):
            return True
        above = found.path.rpartition("/")[0]
        while len(above) >= len(self.source):
            self.kept.add(above)
            above = above.rpartition("/")[0]
        return False

    def place(self, path: str) -> str:
        return self.destination + path[len(self.source) :]

    def create(self, found: Source, transaction: Transaction) -> Part[str]:
        return transaction.create(self.place(found.path), found.data, found.acl)


def _check(source: Source, transaction: Transaction) -> Part[None]:
    return transaction.check(source.path, source.stat.version)


def _delete(path: str, version: int, transaction: Transaction) -> Part[None]:
    return transaction.delete(path, version)


def _copy_of(source: str, destination: str, skip_ephemerals: bool) -> _Copy:
    """Raises BadParameter if one is within the other."""
    if source == "/" or destination == "/":
        raise typer.BadParameter("the root can be neither copied nor replaced; name what is below it")
    if destination == source or destination.startswith(f"{source}/"):
        raise typer.BadParameter(f"{destination} is within {source}")
    return _Copy(source, destination, Ephemerals(skip=skip_ephemerals))


def cp_command(
    context: typer.Context,
    source: SourceArgument,
    destination: DestinationArgument,
    skip_ephemerals: SkipOption = False,
    parents: ParentsOption = False,
    json: JsonOption = False,
) -> None:
    """DST is the path of the copy, and must not exist. One transaction if the subtree fits in it, else several."""

    async def work(zk: Client, caller: Caller) -> None:
        copy = _copy_of(source, destination, skip_ephemerals)
        _tell(copy, await _carry_out(zk, caller, copy, parents=parents), json=json)

    perform(context, work)


def mv_command(
    context: typer.Context,
    source: SourceArgument,
    destination: DestinationArgument,
    skip_ephemerals: SkipOption = False,
    parents: ParentsOption = False,
    not_atomic: Annotated[
        bool, typer.Option("--not-atomic", help="Copy, then delete, if it does not fit in one transaction.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """DST is the new path, and must not exist. One transaction: no client sees both paths, or neither."""

    async def work(zk: Client, caller: Caller) -> None:
        copy = _copy_of(source, destination, skip_ephemerals)
        count = await _carry_out(zk, caller, copy, parents=parents, is_move=True, may_be_several=not_atomic)
        _tell(copy, count, json=json)

    perform(context, work)


async def _carry_out(
    zk: Client, caller: Caller, copy: _Copy, *, parents: bool, is_move: bool = False, may_be_several: bool = True
) -> int:
    """Returns the number of transactions."""
    reading, bytes_max = patient(zk), caller.options.jute_maxbuffer_bytes
    found = await _read_for_one(reading, copy, bytes_max)
    if found is None and not may_be_several:
        detail = "it has no room in one transaction; --not-atomic copies it, and deletes it after that"
        raise BadArgumentsError(copy.source, detail=detail)
    if parents:
        await reading.ensure_path(copy.destination.rpartition("/")[0] or "/")
    if found is not None:
        await _commit_one(reading, copy, found, is_move=is_move)
        return 1
    batches = Batches(reading, bytes_max)
    with progress("copied", tells_end=False) as told:
        await _copy_in_several(reading, copy, batches, told)
    if is_move:
        with progress("deleted", tells_end=False) as told:
            await _delete_in_several(copy, batches, told)
    return batches.transaction_count


async def _read_for_one(zk: Znodes, copy: _Copy, bytes_max: int) -> list[Source] | None:
    """The subtree, if it fits in one transaction. No more than that is read."""
    found: list[Source] = []
    # The bytes of a request besides its parts.
    room = bytes_max - 100
    async with aclosing(read_subtree(zk, copy.source)) as sources:
        async for source in sources:
            if not copy.takes(source):
                continue
            parts = zk.transaction()
            room -= part_bytes(copy.create(source, parts))
            room -= part_bytes(parts.delete(source.path, 0))
            found.append(source)
            if room < 0 or 2 * len(found) > ATOMIC_PARTS_MAX:
                return None
    return found


async def _commit_one(zk: Znodes, copy: _Copy, found: list[Source], *, is_move: bool) -> None:
    transaction = zk.transaction()
    for source in found:
        copy.create(source, transaction)
        if not is_move:
            _check(source, transaction)
        copy.copied.append((source.path, source.stat.version))
    if is_move:
        for path, version in reversed(copy.copied):
            if path in copy.kept:
                transaction.check(path, version)
            else:
                transaction.delete(path, version)
    await transaction.commit()


async def _copy_in_several(zk: Znodes, copy: _Copy, batches: Batches, told: Told) -> None:
    is_done = False
    try:
        async with aclosing(read_subtree(zk, copy.source)) as sources:
            async for source in sources:
                if not copy.takes(source):
                    continue
                await batches.add(partial(_check, source), partial(copy.create, source))
                copy.copied.append((source.path, source.stat.version))
                told.reach(batches.done_count // 2)
        await batches.finish()
        is_done = True
    finally:
        if not is_done:
            sys.stdout.flush()
            made = count_of(batches.done_count // 2, "znode")
            more = f"; zab delete -R {copy.destination} removes them" if batches.done_count else ""
            say(f"zab: the copy is not whole: {made} made at {copy.destination}{more}", sys.stderr, flush=True)


async def _delete_in_several(copy: _Copy, batches: Batches, told: Told) -> None:
    copied_count = batches.done_count
    try:
        for path, version in reversed(copy.copied):
            if path not in copy.kept:
                await batches.add(partial(_delete, path, version))
                told.reach(batches.done_count - copied_count)
        await batches.finish()
    finally:
        gone = batches.done_count - copied_count
        left = len(copy.copied) - len(copy.kept) - gone
        if left:
            sys.stdout.flush()
            say(
                f"zab: {copy.destination} is a whole copy, but of {copy.source} {count_of(left, 'znode')} "
                f"that were copied may be left",
                sys.stderr,
                flush=True,
            )


def _tell(copy: _Copy, transaction_count: int, *, json: bool) -> None:
    count = len(copy.copied)
    if json:
        say(json_line({"path": copy.destination, "count": count, "transactions": transaction_count}))
    else:
        several = "" if transaction_count == 1 else f" in {transaction_count} transactions"
        say(f"{count_of(count, 'znode')} at {copy.destination}{several}")
    copy.ephemerals.tell()
