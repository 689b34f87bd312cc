"""New members' directories: the `--to` of a command, what is written there, and what is printed about it.

    DIR/myid                                                                unless it is there
    DIR/version-1/snapshot.<zxid>, acceptedEpoch, currentEpoch, member      Format.NATIVE
    DIR/version-2/snapshot.<zxid>, acceptedEpoch, currentEpoch              Format.VERSION_2, for ZooKeeper

All members that one call makes are one ensemble, with a new lineage. Everything is written aside and synced. The
directory gets its name at the end, so that what has it is whole.

Deliberately not here: which state is written (`zab restore`, `zab recover`, `zab pipeline state`), and the content of
the files (`zab.pipeline.state.snapshot_output`), which needs the extra zab[backup].
"""

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from attrs import frozen

from zab.cli.json_form import hexadecimal, time_text
from zab.cli.terminal import count_of

if TYPE_CHECKING:
    from zab.pipeline.state.moment import Moment
    from zab.pipeline.state.snapshot_output import State, Written

__all__ = [
    "EPOCH_MAX",
    "Format",
    "Target",
    "asides",
    "moment_lines",
    "new_targets",
    "own_id",
    "restored_zxid",
    "sync_path",
    "write_members",
    "written_fields",
    "written_lines",
]

EPOCH_MAX: Final = (1 << 31) - 2
"""The restored state has one of its own after it, and so has the first leader."""
_TARGET: Final = re.compile(r"([0-9]{1,9})=(.+)", re.DOTALL)
_MY_ID: Final = re.compile(r"[0-9]{1,9}")
_ASIDE: Final = ".restore"
_LINEAGE_BYTES: Final = 16


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


def restored_zxid(moment: "Moment") -> int:
    """The zxid of the restored state: the first of the epoch after all that the old files tell of.

    Raises PipelineError when there is none."""
    from zab.pipeline.errors import PipelineError

    if moment.last_epoch >= EPOCH_MAX:
        raise PipelineError(f"the old files tell of epoch {moment.last_epoch}, and no epoch comes after it")
    return (moment.last_epoch + 1) << 32 | 1


def write_members(
    targets: list[Target], output: Format, state_in: Callable[[Path], "State"]
) -> tuple["Written", bytes]:
    """Make all the directories. Returns the snapshot's content and the new lineage. Raises PipelineError and OSError.

    state_in: gives the state. It may write to the directory that it is given, which is removed at the end.
    After an error none of the directories has been made, unless the error came while they got their names."""
    from zab.host.storage.disk import RealDisk
    from zab.pipeline.state import snapshot_output as files

    lineage = secrets.token_bytes(_LINEAGE_BYTES)
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
    """A place to write to in each directory. Removed at the end, with directories that were made and stayed empty.

    Meanwhile what is made is for its owner alone."""
    umask = os.umask(0o077)
    made = [directory for target in targets for directory in _missing(target.directory)]
    try:
        for target in targets:
            (target.aside / output.directory).mkdir(parents=True)
        yield
    finally:
        os.umask(umask)
        for target in targets:
            shutil.rmtree(target.aside, ignore_errors=True)
        for directory in sorted(made, reverse=True):
            with contextlib.suppress(OSError):
                directory.rmdir()


def _missing(directory: Path) -> list[Path]:
    """The directory and those above it, as far as they do not exist."""
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


def moment_lines(moment: "Moment") -> tuple[str, str]:
    """Which moment it is, and what its state is put together from."""
    when = "" if moment.time is None else f", {moment.time.isoformat(timespec='milliseconds')}"
    begun = "nothing" if moment.base is None else f"{moment.base.file.name} of member {moment.base.member.member}"
    return (
        f"ensemble {moment.ensemble} at zxid {moment.zxid:#x}{when}",
        f"from {begun} and {count_of(moment.txn_count, 'transaction')}",
    )


def moment_notes(moment: "Moment") -> list[str]:
    """Further lines for the user: snapshots that cannot be read, and what is left out."""
    notes = [f"passed over {problem}" for problem in moment.problems]
    if moment.logged:
        goes = f"the logs of {moment.ensemble} go on up to {moment.logged:#x}"
        notes.append(f"{goes}, and nothing says that what is after {moment.zxid:#x} is committed: it is left out")
    return notes


def written_fields(moment: "Moment", written: "Written", lineage: bytes, targets: list[Target]) -> dict[str, Any]:
    """Which moment, and what was written where, for JSON."""
    time = None if moment.time is None else time_text(round(moment.time.timestamp() * 1000))
    return {
        "ensemble": moment.ensemble,
        "zxid": hexadecimal(moment.zxid),
        "time": time,
        "restored_zxid": hexadecimal(restored_zxid(moment)),
        "lineage": lineage.hex(),
        "znode_count": written.znode_count,
        "session_count": written.session_count,
        "digest": hexadecimal(written.digest),
        "members": [{"member": target.server_id, "path": str(target.directory / written.path)} for target in targets],
    }


def written_lines(written: "Written", lineage: bytes, targets: list[Target], output: Format) -> Iterator[str]:
    """What was written where."""
    counts = count_of(written.znode_count, "znode"), count_of(written.session_count, "session")
    yield f"{', '.join(counts)}, digest {written.digest:016x}"
    if output is Format.NATIVE:
        yield f"lineage {lineage.hex()}"
    for target in targets:
        yield f"member {target.server_id}: {target.directory / written.path}"
