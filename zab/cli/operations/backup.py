"""`zab backup`: backups of a running ensemble, without stopping a member.

    zab backup take DIR --admin HOST:PORT       takes a snapshot, or the log since the last backup
    zab backup list DIR                         lists backups
    zab backup verify DIR                       checks that files are intact, and that backups lead to their states
    zab backup prune DIR --keep N               only applies retention

Exit codes: 0 done; 1 it cannot be done, or a backup is damaged; 2 wrong usage; 3 no named member provides a backup.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

import typer
from attrs import frozen

from datatree.log.zxid import Zxid
from zab.cli.exits import REFUSED, UNREACHABLE, USAGE, fail
from zab.cli.json_form import JsonOption, hexadecimal, json_line, time_text
from zab.cli.operations.durations import duration_ms
from zab.cli.operations.options import AdminOption, PlainOption, admin_ports, refuse_plain
from zab.cli.progress import Told, progress
from zab.cli.terminal import count_of, say
from zab.cli.znodes.caller import options_of
from zab.operations.admin_client import AdminError, AdminPort
from zab.operations.backup.stores import Store, StoreUnusableError, open_store
from zab.operations.backup.taking import BackupError, LogPage, LogTooYoungError, Taken, catalogue_of, prune, take
from zab.operations.backup.verifying import Fault, checked_files, fault_of, restored
from zab.operations.verdicts.catalogue import Backup, Catalogue, CatalogueError, needed

__all__ = ["backup_app"]

SILENCE_SECONDS: Final = 660.0
"""How long a member may be silent: it takes up to ten minutes for a snapshot (docs/how-to/monitor.md)."""
_GONE: Final = 410

backup_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

DirArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="DIR", help="A directory, or a URI such as s3://bucket/prefix.", show_default=False)
]
KeepOption: TypeAlias = Annotated[
    int | None, typer.Option("--keep", metavar="N", min=1, help="Keep the newest N backups.", show_default=False)
]
KeepForOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--keep-for", metavar="DURATION", help="Keep the backups of the last 7d, 12h, …", show_default=False),
]


@frozen
class _Member:
    """`zab.operations.backup.taking.Source` over the admin port of a member."""

    port: AdminPort
    told: Told

    @property
    def name(self) -> str:
        return str(self.port)

    def snapshot(self, path: str) -> int:
        headers = self.port.stream("snapshot", path, SILENCE_SECONDS, self.told.add)
        return _zxid(headers, "last_zxid")

    def log(self, after: int) -> LogPage:
        try:
            page = self.port.read("log", SILENCE_SECONDS, after=f"{after:#x}")
        except AdminError as error:
            if error.status == _GONE:
                raise LogTooYoungError(str(error), error.headers.get("lineage")) from None
            raise
        headers = page.headers
        self.told.add(len(page.value))
        try:
            previous = Zxid(_zxid(headers, "previous_zxid")), bytes.fromhex(headers["previous_chain"])
            digest = _zxid(headers, "digest") if headers.get("digest") else None
            lineage = bytes.fromhex(headers["lineage"])
        except (KeyError, ValueError):
            raise AdminError(f"{self.port}: what it answers to log is none: is that an admin port of zab?") from None
        return LogPage(lineage, previous, page.value, _zxid(headers, "applied_zxid"), digest)


def _zxid(headers: Mapping[str, str], name: str) -> int:
    try:
        return int(headers[name], 16)
    except (KeyError, ValueError):
        raise AdminError(f"the answer has no {name}: is that an admin port of zab?") from None


@backup_app.command("take")
def take_command(
    context: typer.Context,
    directory: DirArgument,
    admin: AdminOption = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="DURATION",
            help="Repeat at this interval, such as 1h or 30m, until Ctrl-C.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Take a new snapshot.")] = False,
    full_every: Annotated[
        str,
        typer.Option(
            "--full-every", metavar="DURATION", help="Take a new snapshot if the last one is older than this."
        ),
    ] = "1d",
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Read the backup back, and rebuild its state.")
    ] = True,
    plain: PlainOption = False,
    keep: KeepOption = None,
    keep_for: KeepForOption = None,
    json: JsonOption = False,
) -> None:
    """Takes it from the first of the admin ports (127.0.0.1:8080 without --admin) that gives one. The member asks who
    it is: zab --auth with an identity of the scheme digest that has all permissions on /.
    """
    ports = admin_ports(admin or ["127.0.0.1:8080"], options_of(context), shows_who=True)
    refuse_plain(ports, plain=plain)
    pause_ms = None if every is None else duration_ms(every, "--every")
    keep_for_ms = None if keep_for is None else duration_ms(keep_for, "--keep-for")
    full_every_ms = duration_ms(full_every, "--full-every")
    store = _store(directory)

    def once(member: _Member) -> Taken:
        return take(
            store,
            member,
            time.time_ns() // 1_000_000,
            full=full,
            full_every_ms=full_every_ms,
            verified=verify,
            keep=keep,
            keep_for_ms=keep_for_ms,
        )

    while True:
        began = time.monotonic()
        code = _from_one_of(ports, once, json=json)
        if code == UNREACHABLE and admin is None:
            say("zab: --admin HOST:PORT names the port of a member's admin server", sys.stderr)
        sys.stdout.flush()
        if pause_ms is None:
            raise typer.Exit(code)
        time.sleep(max(0.0, began + pause_ms / 1000 - time.monotonic()))


def _from_one_of(ports: list[AdminPort], once: Callable[[_Member], Taken], *, json: bool) -> int:
    """Take a backup from the first member that provides one, and return the exit code. The others are named."""
    for port in ports:
        try:
            with progress("received", "byte") as told:
                taken = once(_Member(port, told))
        except AdminError as error:
            say(f"zab: {error}", sys.stderr)
        except (BackupError, CatalogueError, StoreUnusableError) as error:
            say(f"zab: {error}", sys.stderr)
            return REFUSED
        except OSError as error:
            say(f"zab: {error.filename}: {error.strerror or error}" if error.filename else f"zab: {error}", sys.stderr)
            return REFUSED
        else:
            for line in _taken_lines(taken, json=json):
                say(line)
            return 0
    return UNREACHABLE


def _taken_lines(taken: Taken, *, json: bool) -> Iterator[str]:
    if json:
        fields: dict[str, Any] = {
            "type": "taken",
            "zxid": None,
            "bytes": 0,
            "files": [],
            "removed": list(taken.removed),
        }
        if taken.backup is not None:
            fields["zxid"] = hexadecimal(taken.backup.zxid)
        fields["bytes"] = sum(each.size for each in taken.new_files)
        fields["files"] = [each.name for each in taken.new_files]
        fields["has_gap"] = taken.has_gap
        yield json_line(fields)
        return
    if taken.has_gap:
        yield "the log of the member begins after the last backup: moments between the two cannot be had"
    if taken.backup is None:
        yield f"nothing has happened since {taken.catalogue.end:#x}"
    else:
        size = sum(each.size for each in taken.new_files)
        kind = "snapshot and log" if any(each.is_snapshot for each in taken.new_files) else "log"
        files = count_of(len(taken.new_files), "file")
        yield f"backup up to zxid {taken.backup.zxid:#x}: {kind}, {size} bytes in {files}"
    if taken.removed:
        yield f"removed: {', '.join(taken.removed)}"


@backup_app.command("list")
def list_command(directory: DirArgument, json: JsonOption = False) -> None:
    """The oldest first."""
    _, catalogue = _catalogue(directory)
    for backup in catalogue.backups:
        say(json_line(_fields(catalogue, backup)) if json else _line(catalogue, backup))


def _fields(catalogue: Catalogue, backup: Backup) -> dict[str, Any]:
    files = needed(catalogue, backup)
    return {
        "type": "backup",
        "zxid": hexadecimal(backup.zxid),
        "time": time_text(backup.time_ms),
        "snapshot": hexadecimal(backup.snapshot),
        "digest": hexadecimal(backup.digest),
        "znode_count": backup.znode_count,
        "session_count": backup.session_count,
        "bytes": sum(each.size for each in files),
        "files": [each.name for each in files],
        "member": backup.member,
    }


def _line(catalogue: Catalogue, backup: Backup) -> str:
    files = needed(catalogue, backup)
    size = sum(each.size for each in files)
    return (
        f"{hexadecimal(backup.zxid)}  {time_text(backup.time_ms)}  {count_of(backup.znode_count, 'znode')}  "
        f"{size} bytes in {count_of(len(files), 'file')}"
    )


@backup_app.command("verify")
def verify_command(
    directory: DirArgument,
    states: Annotated[
        bool,
        typer.Option("--states/--bytes", help="Rebuild the state of each backup, or only compare the files."),
    ] = True,
    json: JsonOption = False,
) -> None:
    """Exit code 1: something is not what was written. Each line that names a file says which backups need it."""
    store, catalogue = _catalogue(directory)
    bad = False
    try:
        for fault, backups in _faults(store, catalogue, states=states):
            bad = True
            lost = [hexadecimal(each.zxid) for each in backups]
            fields = {"type": "fault", "file": fault.name or None, "reason": fault.reason, "backups": lost}
            say(json_line(fields) if json else f"{fault}; needed by {', '.join(lost)}")
    except OSError as error:
        fail(f"{store}: {error.strerror or error}")
    count = len(catalogue.backups)
    if json:
        say(json_line({"type": "verified", "count": count, "is_whole": not bad}))
    elif not bad:
        say(f"{count_of(count, 'backup')} in {count_of(len(catalogue.files), 'file')}: whole")
    if bad:
        raise typer.Exit(REFUSED)


def _faults(store: Store, catalogue: Catalogue, *, states: bool) -> Iterator[tuple[Fault, list[Backup]]]:
    damaged = set()
    for fault in checked_files(store, catalogue.files):
        damaged.add(fault.name)
        named = [each for each in catalogue.backups if fault.name in {file.name for file in needed(catalogue, each)}]
        yield fault, named
    for backup in catalogue.backups if states else ():
        if damaged.isdisjoint(file.name for file in needed(catalogue, backup)):
            fault_of_state = fault_of(restored(store, catalogue, backup), backup)
            if fault_of_state is not None:
                yield fault_of_state, [backup]


@backup_app.command("prune")
def prune_command(
    directory: DirArgument, keep: KeepOption = None, keep_for: KeepForOption = None, json: JsonOption = False
) -> None:
    """No file goes that a kept backup needs, and the newest backup is always kept."""
    if keep is None and keep_for is None:
        raise typer.BadParameter("say what is kept", param_hint="--keep, --keep-for")
    keep_for_ms = None if keep_for is None else duration_ms(keep_for, "--keep-for")
    store = _store(directory)
    try:
        taken = prune(store, time.time_ns() // 1_000_000, keep=keep, keep_for_ms=keep_for_ms)
    except (BackupError, CatalogueError, StoreUnusableError) as error:
        fail(error)
    except OSError as error:
        fail(f"{store}: {error.strerror or error}")
    if json:
        fields = {"type": "pruned", "count": len(taken.catalogue.backups), "removed": list(taken.removed)}
        say(json_line(fields))
    else:
        say(f"{count_of(len(taken.catalogue.backups), 'backup')} kept, {count_of(len(taken.removed), 'file')} removed")


def _store(directory: str) -> Store:
    try:
        return open_store(directory)
    except StoreUnusableError as error:
        fail(error, USAGE)


def _catalogue(directory: str) -> tuple[Store, Catalogue]:
    store = _store(directory)
    try:
        catalogue = catalogue_of(store)
    except StoreUnusableError as error:
        fail(error)
    except CatalogueError as error:
        fail(f"{store}: {error}")
    except OSError as error:
        fail(f"{store}: {error.strerror or error}")
    if catalogue is None:
        fail(f"{store} has no catalogue of backups")
    return store, catalogue
