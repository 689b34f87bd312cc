"""`zab restore`: makes directories of new members with a state of the past, or gives that state to running members.

    zab restore /backup/zab --at 2026-01-02T03:04:05Z --to 1=/data/1 --to 2=/data/2 --to 3=/data/3
    zab restore /backup/zab --at 2026-01-02T03:04:05Z --into 10.0.0.1:8080 --into 10.0.0.2:8080 --into 10.0.0.3:8080

It reads directories of zab or of ZooKeeper, of one member or several, on disks or in object stores, and does not change
them. Each `--to` is the data directory of one member, `ID=DIR` or a DIR with a `myid` (otherwise the first is 1, the
second 2, ...). It must not have data yet.

The restored ensemble is a new one, with a new lineage: its members and those of the old ensemble take no part in each
other's. So all directories of one ensemble must come from one call. They may be made on one machine and copied to the
others, each to the member with its id. At least a majority has to be restored. Further members begin with empty
directories and are synchronized.

The restore is the only transaction of an epoch above all those in the old files. So no zxid is used twice, and clients
that have seen the end of the old ensemble may connect. Sessions of that moment exist, with their ephemerals, and expire
unless their clients resume them. For an ensemble of zab no client can, since the passwords depend on the lineage.

`zab.cli.new_members` writes the files. With `--into` each member gets the snapshot over its admin port, one after the
other, and restarts with it (`datatree.recovery.restoring`).

Needs the extra zab[backup], but neither Java nor Spark. The tree has to fit into memory, as on a member.

Exit codes: 0; 1 it cannot be done, and the reason; 2 wrong usage; 3 a member cannot be reached, or refuses.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from zab.cli.exits import UNREACHABLE, USAGE, fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.moments import parse_moment
from zab.cli.new_members import (
    Format,
    Target,
    moment_lines,
    moment_notes,
    new_targets,
    restored_zxid,
    write_members,
    written_fields,
    written_lines,
)
from zab.cli.operations.options import PlainOption, admin_ports, refuse_plain
from zab.cli.operations.restoring import NotGivenError, ask, give
from zab.cli.progress import progress
from zab.cli.znodes.caller import options_of
from zab.operations.admin_client import AdminPort
from zab.operations.backup.stores import Store, StoreUnusableError, open_store
from zab.operations.backup.taking import catalogue_of
from zab.operations.backup.verifying import checked_files
from zab.operations.verdicts.catalogue import CatalogueError

if TYPE_CHECKING:
    from zab.pipeline.state.moment import Moment
    from zab.pipeline.state.snapshot_output import Written

__all__ = ["restore_command"]


def restore_command(
    context: typer.Context,
    dirs: Annotated[list[str], typer.Argument(metavar="DIRS...", help="What to read: paths, URIs, NAME=DIR.")],
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="[ID=]DIR",
            help="A new member's data directory. Repeat it for each member.",
            show_default=False,
        ),
    ] = None,
    into: Annotated[
        list[str] | None,
        typer.Option(
            "--into",
            metavar="[http[s]://]HOST:PORT",
            help="The admin port of a running member, which takes over the state. Repeat it for each member.",
            show_default=False,
        ),
    ] = None,
    rest: Annotated[
        bool, typer.Option("--rest", help="With --into: the other members have the state already.")
    ] = False,
    at: Annotated[
        str | None, typer.Option("--at", metavar="ZXID|TIME", help="The moment; without it, the end of the logs.")
    ] = None,
    output: Annotated[Format, typer.Option("--as", help="Write native files, or ZooKeeper's.")] = Format.NATIVE,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Include transactions that a majority may not have.")
    ] = False,
    plain: PlainOption = False,
    json: JsonOption = False,
) -> None:
    if bool(to) == bool(into) or (into and output is not Format.NATIVE) or (rest and not into):
        fail("either --to, for new directories, or --into, for running members of ours", USAGE)
    targets = new_targets(to or [], output)
    ports = admin_ports(into, options_of(context), shows_who=True)
    refuse_plain(ports, plain=plain)
    _check_backups(dirs)
    moment_wanted = None if at is None else parse_moment(at, "--at")
    try:
        from zab.pipeline.errors import PipelineError
        from zab.pipeline.state.local_state import local_moment, local_state
        from zab.pipeline.state.snapshot_output import State
    except ModuleNotFoundError as error:
        fail(f"zab restore needs {error.name}: pip install 'zab[backup]'")
    try:
        if ports:
            ask(ports, is_rest=rest)
        moment = local_moment(dirs, moment_wanted, uncommitted=uncommitted)
        for note in moment_notes(moment):
            print(f"zab: {note}", file=sys.stderr)
        found = local_state(moment)
        with progress("read", tells_errors=False) as told:
            state = State(restored_zxid(moment), found.sessions, lambda: told.over(found.batches))
            written, lineage = give(ports, state) if ports else write_members(targets, output, lambda _: state)
    except PipelineError as error:
        fail(error)
    except OSError as error:
        place = targets[0].directory if targets else "the snapshot that is sent"
        fail(f"{error.filename or place}: {error.strerror or error}")
    except NotGivenError as error:
        fail(error, UNREACHABLE)
    _report(moment, written, lineage, targets, ports, output, json=json)


def _check_backups(dirs: list[str]) -> None:
    """Report damaged files in a directory of backups. The reader refuses those that it needs."""
    for text in dirs:
        place = text.partition("=")[2] if "=" in text.partition("/")[0] else text
        try:
            for fault in _faults(open_store(place)):
                print(f"zab: {fault}", file=sys.stderr)
        except StoreUnusableError as error:
            print(f"zab: {error}", file=sys.stderr)


def _faults(store: Store) -> Iterator[str]:
    try:
        catalogue = catalogue_of(store)
        for fault in () if catalogue is None else checked_files(store, catalogue.files):
            yield f"{store}: {fault}"
    except CatalogueError as error:
        yield f"{store}: {error}"
    except OSError as error:
        yield f"{store}: {error.strerror or error}"


def _report(
    moment: "Moment",
    written: "Written",
    lineage: bytes,
    targets: list[Target],
    ports: list[AdminPort],
    output: Format,
    *,
    json: bool,
) -> None:
    if written.orphan_count:
        shown = ", ".join(map(printable, written.orphans))
        more = ", …" if written.orphan_count > len(written.orphans) else ""
        print(f"zab: left out, because their sessions do not exist: {shown}{more}", file=sys.stderr)
    if json:
        print(json_line({**written_fields(moment, written, lineage, targets), "given": [str(port) for port in ports]}))
        return
    for line in (*moment_lines(moment), *written_lines(written, lineage, targets, output)):
        print(line)
    for port in ports:
        print(f"given: {port}")


def printable(path: str) -> str:
    """A path for a terminal: those of hostile files may have control characters."""
    return path if path.isprintable() else ascii(path)
