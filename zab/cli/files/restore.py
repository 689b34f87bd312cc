"""`zab restore`: new members' directories that begin with the state of some moment in the past.

    zab restore /backup/zab --at 2026-01-02T03:04:05Z --to 1=/data/1 --to 2=/data/2 --to 3=/data/3

What is read may be directories of ours or of ZooKeeper, of one member or of several, on disks or in object stores; they
are not changed. Each `--to` is the data directory of one member, `ID=DIR` or DIR with a `myid` in it (else the first is
1, the second 2, ...). It must not hold data yet.

The restored ensemble is a new one, with a new lineage: none of its members takes part in the old one, and none of the
old in it. So all directories of one ensemble come from one call: two calls make two ensembles. They may be made on one
machine and copied to the others, each to the member whose id it has. At least a majority has to be restored; what
further members there are begin with empty directories and are synchronized.

Restoring is the one transaction of an epoch behind all that the old files tell of: so no zxid comes a second time, and
clients that have seen the last of the old ensemble may connect. Sessions of that moment are there, with their
ephemerals; they expire unless somebody goes on with them, which for an ensemble of ours nobody can, since the passwords
follow from the lineage.

    DIR/myid                                                                unless it is there
    DIR/version-1/snapshot.<zxid>, acceptedEpoch, currentEpoch, member      --as native
    DIR/version-2/snapshot.<zxid>, acceptedEpoch, currentEpoch              --as version-2, for ZooKeeper

Everything is written aside and synced; the directory gets its name at the end, so that what has it is whole.

Needs the extra zab[pipeline], but neither Java nor Spark: memory has to hold the tree, as that of its members has.

Exit codes: 0; 1 it cannot be done, and the reason; 2 wrong usage.
"""

import contextlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer
from attrs import frozen

from zab.cli.pipeline.options import parse_moment

if TYPE_CHECKING:
    from zab.pipeline.state.moment import Moment
    from zab.pipeline.state.snapshot_output import State, Written

__all__ = [
    "Format",
    "Target",
    "asides",
    "count_of",
    "moment_lines",
    "new_targets",
    "own_id",
    "restore_command",
    "sync_path",
    "write_members",
    "written_lines",
    "zxid_behind",
]

LINEAGE_BYTES: Final = 16
EPOCH_MAX: Final = (1 << 31) - 2
"""The restored state has one of its own behind it, and so has the first leader."""
_TARGET: Final = re.compile(r"([0-9]{1,9})=(.+)", re.DOTALL)
_MY_ID: Final = re.compile(r"[0-9]{1,9}")
_ASIDE: Final = ".restore"


class Format(Enum):
    """What the directories are for."""

    NATIVE = "native"
    VERSION_2 = "version-2"

    @property
    def directory(self) -> str:
        return "version-1" if self is Format.NATIVE else "version-2"


@frozen
class Target:
    """The data directory of one member."""

    server_id: int
    directory: Path

    @property
    def aside(self) -> Path:
        return self.directory / _ASIDE


def restore_command(
    dirs: Annotated[list[str], typer.Argument(metavar="DIRS...", help="What to read: paths, URIs, NAME=DIR.")],
    to: Annotated[
        list[str], typer.Option("--to", metavar="[ID=]DIR", help="A new member's data directory; once for each member.")
    ],
    at: Annotated[
        str | None, typer.Option("--at", metavar="ZXID|TIME", help="The moment; without it, the end of the logs.")
    ] = None,
    output: Annotated[Format, typer.Option("--as", help="For members of ours, or of ZooKeeper.")] = Format.NATIVE,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Count transactions that a majority may not have had.")
    ] = False,
) -> None:
    """Make new members' directories out of backups, with the state of any moment."""
    targets = new_targets(to, output)
    moment_wanted = None if at is None else parse_moment(at)
    try:
        from zab.pipeline.errors import PipelineError
        from zab.pipeline.state.local_state import local_moment, local_state
        from zab.pipeline.state.snapshot_output import State
    except ModuleNotFoundError as error:
        _fail(str(error))
    try:
        moment = local_moment(dirs, moment_wanted, uncommitted=uncommitted)
        for problem in moment.problems:
            print(f"zab: passed over {problem}", file=sys.stderr)
        found = local_state(moment, uncommitted=uncommitted)
        znodes = found.znodes
        paths = sorted(znodes)
        state = State(zxid_behind(moment), found.sessions, lambda: (znodes[path] for path in paths))
        written, lineage = write_members(targets, output, lambda _: state)
    except PipelineError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename or targets[0].directory}: {error.strerror or error}")
    _report(moment, written, lineage, targets, output)


def zxid_behind(moment: "Moment") -> int:
    """The zxid that the restored state has: the first of the epoch behind all that the old files tell of.

    Raises PipelineError when there is none."""
    from zab.pipeline.errors import PipelineError

    if moment.last_epoch >= EPOCH_MAX:
        raise PipelineError(f"the old files tell of epoch {moment.last_epoch}, and no epoch comes behind it")
    return (moment.last_epoch + 1) << 32 | 1


def write_members(
    targets: list[Target], output: Format, state_in: Callable[[Path], "State"]
) -> tuple["Written", bytes]:
    """Make all the directories; the snapshot's content, and the new lineage. Raises PipelineError and OSError.

    state_in: gives the state; what it writes to the directory that it is given goes away at the end.
    After an error none of the directories has been made, unless the error came while they got their names."""
    from zab.host.disk import RealDisk
    from zab.pipeline.state import snapshot_output as files

    lineage = secrets.token_bytes(LINEAGE_BYTES)
    with asides(targets, output):
        first, *others = targets
        state = state_in(first.aside)
        epoch = state.zxid >> 32
        disk = RealDisk(str(first.aside), lock=False)
        written = (
            files.write_native(disk, state, lineage) if output is Format.NATIVE else files.write_version_2(disk, state)
        )
        for other in others:
            _copy(first.aside / written.path, other.aside / written.path)
        for target in targets:
            disk = RealDisk(str(target.aside), lock=False)
            if output is Format.NATIVE:
                files.found_native(disk, lineage, target.server_id, epoch)
            else:
                files.found_version_2(disk, epoch)
        for target in targets:
            _write_my_id(target)
            os.rename(target.aside / output.directory, target.directory / output.directory)
            sync_path(target.directory)
    return written, lineage


@contextlib.contextmanager
def asides(targets: list[Target], output: Format) -> Iterator[None]:
    """A place to write to in each directory; gone at the end, with directories that were made and stayed empty."""
    made = [directory for target in targets for directory in _missing(target.directory)]
    try:
        for target in targets:
            (target.aside / output.directory).mkdir(parents=True)
        yield
    finally:
        for target in targets:
            shutil.rmtree(target.aside, ignore_errors=True)
        for directory in sorted(made, reverse=True):
            with contextlib.suppress(OSError):
                directory.rmdir()


def _missing(directory: Path) -> list[Path]:
    """Those of a directory and the ones above it that do not exist."""
    return [each for each in (directory, *directory.parents) if not each.exists()]


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    sync_path(target)
    sync_path(target.parent)


def _write_my_id(target: Target) -> None:
    """The id that the records name, where the directory does not say it yet."""
    file = target.directory / "myid"
    if not file.exists():
        aside = target.aside / "myid"
        aside.write_text(f"{target.server_id}\n")
        sync_path(aside)
        os.rename(aside, file)


def sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_targets(texts: list[str], output: Format) -> list[Target]:
    """The members to make. Raises BadParameter for what contradicts itself or holds data."""
    targets: list[Target] = []
    for number, text in enumerate(texts, 1):
        named = _TARGET.fullmatch(text)
        directory = Path(named[2] if named is not None else text).expanduser().absolute()
        own = own_id(directory)
        server_id = int(named[1]) if named is not None else number if own is None else own
        if own is not None and own != server_id:
            raise _wrong(f"{directory / 'myid'} says {own}, not {server_id}")
        for other in targets:
            if other.server_id == server_id:
                raise _wrong(f"{other.directory} and {directory} would both be member {server_id}; say ID=DIR")
            if other.directory == directory:
                raise _wrong(f"{directory} is named twice")
        if directory.exists() and not directory.is_dir():
            raise _wrong(f"{directory} is a file")
        for version in ("version-1", "version-2"):
            if (directory / version).is_dir() and any((directory / version).iterdir()):
                raise _wrong(
                    f"{directory / version} holds data already; a restored member begins in a directory without"
                )
        if (directory / output.directory).is_file() or (directory / _ASIDE).exists():
            raise _wrong(f"{directory} holds something named {output.directory} or {_ASIDE}; remove it")
        targets.append(Target(server_id, directory))
    return targets


def own_id(directory: Path) -> int | None:
    """What `myid` says, None without one. Raises BadParameter."""
    try:
        text = (directory / "myid").read_text("latin-1").partition("\n")[0].strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _wrong(f"{directory / 'myid'} cannot be read: {error.strerror or error}") from error
    if _MY_ID.fullmatch(text) is None:
        raise _wrong(f"{directory / 'myid'} holds no number")
    return int(text)


def _wrong(reason: str) -> typer.BadParameter:
    return typer.BadParameter(reason, param_hint="--to")


def _report(moment: "Moment", written: "Written", lineage: bytes, targets: list[Target], output: Format) -> None:
    if written.orphan_count:
        shown = ", ".join(map(printable, written.orphans))
        more = ", …" if written.orphan_count > len(written.orphans) else ""
        print(f"zab: left out, because their sessions do not exist: {shown}{more}", file=sys.stderr)
    for line in (*moment_lines(moment), *written_lines(written, lineage, targets, output)):
        print(line)


def printable(path: str) -> str:
    """A path for a terminal: those of hostile files may hold control characters."""
    return path if path.isprintable() else ascii(path)


def moment_lines(moment: "Moment") -> tuple[str, str]:
    """Which moment it is, and what its state is put together from."""
    when = "" if moment.time is None else f", {moment.time.isoformat(timespec='milliseconds')}"
    begun = "nothing" if moment.base is None else f"{moment.base.file.name} of member {moment.base.member.member}"
    return (
        f"ensemble {moment.ensemble} at zxid {moment.zxid:#x}{when}",
        f"from {begun} and {count_of(moment.txn_count, 'transaction')}",
    )


def written_lines(written: "Written", lineage: bytes, targets: list[Target], output: Format) -> Iterator[str]:
    """What was written where."""
    counts = count_of(written.znode_count, "znode"), count_of(written.session_count, "session")
    yield f"{', '.join(counts)}, digest {written.digest:016x}"
    if output is Format.NATIVE:
        yield f"lineage {lineage.hex()}"
    for target in targets:
        yield f"member {target.server_id}: {target.directory / written.path}"


def count_of(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _fail(text: str) -> NoReturn:
    print(f"zab: {text}", file=sys.stderr)
    raise typer.Exit(1)
