"""`zab ledger-log`: managed ledgers, which are logs without end.

The name is next to `zab ledger` in the help; `zab log` prints the transactions of a member's log.

A log has one owner at a time. `append`, `trim`, `offload`, `terminate`, `delete` and `cursors` take it over for as long
as they run. If another owner is there, they ask for `--take-over`, since it can append nothing more then. `read`,
`tail`, `info` and `list` take nothing over.
"""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from zab.cli.columns import cell, columns
from zab.cli.exits import fail
from zab.cli.json_form import JsonOption, data_fields, json_line
from zab.cli.ledger.caller import perform
from zab.cli.ledger.options import (
    STORE,
    AckOption,
    DigestOption,
    EnsembleOption,
    PasswordFileOption,
    PasswordOption,
    WriteOption,
    digest_of,
    entries_of,
    password_of,
    quorums_of,
    root_of,
)
from zab.cli.ledger.writing import UNDER_WAY_MAX, opened_file, payloads_of
from zab.cli.progress import Told, progress
from zab.cli.terminal import count_of, in_line, say
from zab.ledger.managed.log_info import InvalidLogError, LedgerInfo, check_name, owner_path
from zab.ledger.managed.settings import KEEP_MS
from zab.ledger.writer.settings import ENTRY_BYTES_MAX, WriterSettings
from zab.ledgers import (
    ROOT,
    LogConfig,
    LogInfo,
    LogSettings,
    LogTicket,
    ManagedLog,
    NoSuchLogError,
    OffloadSettings,
    Position,
    StoreSettings,
)
from zab.ledgers.logs import OpeningLog
from zab.ledgers.store import LedgerStore

__all__ = ["ledger_log_app"]

ledger_log_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The log's name.")]
TakeOverOption = Annotated[bool, typer.Option("--take-over", help="Even if another owner is there.")]
AfterOption = Annotated[
    str | None,
    typer.Option("--after", metavar="LEDGER:ENTRY", help="Only what comes after this position.", show_default=False),
]
_STDIN: Final = Path("-")


@ledger_log_app.callback()
def _ledger_log(
    context: typer.Context,
    root: Annotated[str, typer.Option("--root", metavar="PATH", help="The znode that ledgers are below.")] = ROOT,
) -> None:
    """Managed ledgers: named logs without end, with one owner at a time."""
    context.meta[STORE] = StoreSettings(root=root_of(root))


def _named(name: str) -> str:
    try:
        return check_name(name)
    except InvalidLogError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from None


def _position(text: str | None) -> Position | None:
    if text is None:
        return None
    ledger, _, entry = text.partition(":")
    try:
        return Position(int(ledger), int(entry))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not LEDGER:ENTRY", param_hint="--after") from None


def _text(position: Position | None) -> str | None:
    return None if position is None else str(position)


async def _may_take(store: LedgerStore, name: str, take_over: bool) -> None:
    """Refuse if another owner is there; that is a hint, which a crash leaves for one session timeout."""
    path = owner_path(store.settings.logs_root, name)
    if not take_over and await store.zk.exists(path) is not None:
        fail(f"log {name} has an owner, which could append nothing more -> --take-over takes it over all the same")


async def _owned(store: LedgerStore, name: str, take_over: bool, password: bytes, **given: Any) -> OpeningLog:
    await _may_take(store, name, take_over)
    return store.open_log(name, password=password, **given)


# --------------------------------------------------------------------------------------------------- create, append


@ledger_log_app.command("create")
def create_command(
    context: typer.Context,
    name: NameArgument,
    ensemble: EnsembleOption = 3,
    write: WriteOption = 3,
    ack: AckOption = 2,
    digest: DigestOption = "CRC32C",
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Create a log. Refused if there is one of this name."""
    quorums, kind, key = quorums_of(ensemble, write, ack), digest_of(digest), password_of(password, password_file)
    config = LogConfig(
        ensemble_size=quorums["ensemble"],
        write_quorum=quorums["write"],
        ack_quorum=quorums["ack"],
        digest_type=kind,
    )

    async def work(store: LedgerStore) -> None:
        try:
            await store.log_info(_named(name))
        except NoSuchLogError:
            async with store.open_log(name, create=True, config=config, password=key):
                pass
            say(json_line({"log": name}) if json else f"Created log {in_line(name)}")
            return
        fail(f"there is a log {name} already")

    perform(context, work)


@ledger_log_app.command("append")
def append_command(
    context: typer.Context,
    name: NameArgument,
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="- is standard input.")] = _STDIN,
    is_prefixed: Annotated[
        bool, typer.Option("--length-prefixed", help="Before each entry are 4 bytes with its size, big-endian.")
    ] = False,
    take_over: TakeOverOption = False,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Take a log over, and append each line as an entry."""
    key = password_of(password, password_file)
    writer = WriterSettings(entry_bytes_max=ENTRY_BYTES_MAX)

    async def work(store: LedgerStore) -> None:
        opening = await _owned(store, _named(name), take_over, key, settings=LogSettings(writer=writer))
        with opened_file(file) as lines, progress("acknowledged", "append", tells_end=False) as told:
            count, is_done = 0, False
            try:
                async with opening as log:
                    count = await _append_all(log, lines, told, is_prefixed)
                    last = log.last_confirmed
                is_done = True
            finally:
                told.end()
                if not is_done:
                    say(f"zab: not finished: log {in_line(name)}: {told}", sys.stderr, flush=True)
        if json:
            say(json_line({"log": name, "count": count, "last": _text(last)}))
        else:
            say(f"{entries_of(count)} appended to log {in_line(name)}" + (f", up to {last}" if count else ""))

    perform(context, work)


async def _append_all(log: ManagedLog, lines: Any, told: Told, is_prefixed: bool) -> int:
    under_way: list[LogTicket] = []
    count = 0
    async with aclosing(payloads_of(lines, is_prefixed)) as payloads:
        async for payload in payloads:
            if len(under_way) >= UNDER_WAY_MAX:
                await log.flush()
                told.add(len(under_way))
                under_way.clear()
            under_way.append(log.append_nowait(payload))
            count += 1
    await log.flush()
    told.add(len(under_way))
    return count


# ------------------------------------------------------------------------------------------------------ read, tail


@ledger_log_app.command("read")
def read_command(
    context: typer.Context,
    name: NameArgument,
    after: AfterOption = None,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Print the payloads of entries, each on a line, up to the last one that is known to be confirmed."""
    _print_entries(context, name, after, password_of(password, password_file), json=json, follow=False)


@ledger_log_app.command("tail")
def tail_command(
    context: typer.Context,
    name: NameArgument,
    after: AfterOption = None,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Print entries as they are confirmed, over all owners, until the log is terminated, or Ctrl-C."""
    _print_entries(context, name, after, password_of(password, password_file), json=json, follow=True)


def _print_entries(
    context: typer.Context, name: str, after: str | None, key: bytes, *, json: bool, follow: bool
) -> None:
    first = _position(after)

    async def work(store: LedgerStore) -> None:
        async for entry in store.read_log(_named(name), first, follow=follow, password=key):
            if json:
                say(json_line({"position": str(entry.position), **data_fields(entry.payload)}))
            elif sys.stdout.isatty():
                say(entry.payload.decode("utf-8", "backslashreplace"))
            else:
                sys.stdout.flush()
                sys.stdout.buffer.write(entry.payload + b"\n")
            if follow:
                sys.stdout.flush()

    perform(context, work)


# ------------------------------------------------------------------------------------------------------ list, info


@ledger_log_app.command("list")
def list_command(context: typer.Context, json: JsonOption = False) -> None:
    """Print the names of all logs."""

    async def work(store: LedgerStore) -> None:
        for name in await store.logs():
            say(json_line({"log": name}) if json else in_line(name))

    perform(context, work)


@ledger_log_app.command("info")
def info_command(context: typer.Context, name: NameArgument, json: JsonOption = False) -> None:
    """Print the list of a log's ledgers, and who owns it."""

    async def work(store: LedgerStore) -> None:
        info = await store.log_info(_named(name))
        if json:
            say(json_line(_shown(name, info)))
            return
        config = info.config
        quorums = f"{config.ensemble_size}/{config.write_quorum}/{config.ack_quorum}"
        say(f"{in_line(name)}: {info.state.value}, owner {info.epoch}, {quorums}")
        rows = [
            (str(each.id), cell(each.entries), cell(None if each.entries is None else each.length), _places(each))
            for each in info.ledgers
        ]
        for text in columns([("ledger", "entries", "bytes", "where"), *rows]):
            say(text)

    perform(context, work)


def _places(each: LedgerInfo) -> str:
    """Where a ledger is."""
    if each.offload is None or not each.offload.is_done:
        return "bookies"
    return "bookies, objects" if each.is_on_bookies else "objects"


def _shown(name: str, info: LogInfo) -> dict[str, Any]:
    config = info.config
    return {
        "log": name,
        "state": info.state.value,
        "epoch": info.epoch,
        "ensemble": config.ensemble_size,
        "write": config.write_quorum,
        "ack": config.ack_quorum,
        "digest_type": config.digest_type.name,
        "terminated": _text(info.terminated),
        "trimmed": _text(info.trimmed),
        "ledgers": [
            {
                "ledger": each.id,
                "count": each.entries,
                "length": None if each.entries is None else each.length,
                "is_on_bookies": each.is_on_bookies,
                "offload": None if each.offload is None else each.offload.state.value,
                "uri": None if each.offload is None else each.offload.uri,
            }
            for each in info.ledgers
        ],
    }


# ------------------------------------------------------------------------------------------- trim, terminate, delete


@ledger_log_app.command("trim")
def trim_command(
    context: typer.Context,
    name: NameArgument,
    retention_ms: Annotated[
        int | None, typer.Option("--retention-ms", min=0, help="Keep what is younger.", show_default=False)
    ] = None,
    retention_bytes: Annotated[
        int | None, typer.Option("--retention-bytes", min=0, help="Keep no more than that.", show_default=False)
    ] = None,
    take_over: TakeOverOption = False,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Delete the first ledgers, as far as every cursor has consumed them. Give at least one limit."""
    if retention_ms is None and retention_bytes is None:
        raise typer.BadParameter("give --retention-ms or --retention-bytes", param_hint="--retention-ms")
    key = password_of(password, password_file)
    settings = LogSettings(retention_ms=retention_ms, retention_bytes=retention_bytes)

    async def work(store: LedgerStore) -> None:
        before = len((await store.log_info(_named(name))).ledgers)
        async with await _owned(store, name, take_over, key, settings=settings) as log:
            first = (await log.trim()).first
        count = before - len((await store.log_info(name)).ledgers)
        if json:
            say(json_line({"log": name, "count": count, "first": _text(first)}))
        else:
            rest = f", it begins after {first}" if count else ""
            say(f"{count_of(count, 'ledger')} of log {in_line(name)} deleted{rest}")

    perform(context, work)


@ledger_log_app.command("offload")
def offload_command(
    context: typer.Context,
    name: NameArgument,
    uri: Annotated[
        str,
        typer.Option("--to", metavar="URI", help="The object store: a path, or a URI as s3://bucket/prefix?region=…"),
    ],
    keep_ms: Annotated[
        int, typer.Option("--keep-ms", min=0, help="Bookies have a ledger for so long after it was copied.")
    ] = KEEP_MS,
    take_over: TakeOverOption = False,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Copy all closed ledgers to an object store; bookies drop those that have been there for long."""
    key = password_of(password, password_file)
    try:
        offload = OffloadSettings(uri=uri, keep_ms=keep_ms)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to") from None

    async def work(store: LedgerStore) -> None:
        before = await store.log_info(_named(name))
        async with await _owned(store, name, take_over, key, offload=offload) as log:
            count = await log.offload()
            dropped = _on_bookies(before) - _on_bookies(log.info)
            trouble = log.offload_trouble
        if json:
            say(json_line({"log": name, "count": count, "dropped": len(dropped)}))
        else:
            say(f"{count} ledgers of log {in_line(name)} are copied, bookies dropped {len(dropped)}")
        if trouble:
            say(f"zab: leftovers were not removed: {in_line(trouble)}", sys.stderr)

    perform(context, work)


def _on_bookies(info: LogInfo) -> set[int]:
    return {each.id for each in info.ledgers if each.is_on_bookies}


@ledger_log_app.command("terminate")
def terminate_command(
    context: typer.Context,
    name: NameArgument,
    take_over: TakeOverOption = False,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """End a log, for ever: it can be read, and nobody appends to it."""
    key = password_of(password, password_file)

    async def work(store: LedgerStore) -> None:
        async with await _owned(store, _named(name), take_over, key) as log:
            last = await log.terminate()
        where = f"ends with {last}" if last.ledger >= 0 else "ends without an entry"
        say(json_line({"log": name, "last": _text(last)}) if json else f"Log {in_line(name)} {where}")

    perform(context, work)


@ledger_log_app.command("delete")
def delete_command(
    context: typer.Context,
    name: NameArgument,
    take_over: TakeOverOption = False,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Delete a log, with its ledgers and cursors."""
    key = password_of(password, password_file)

    async def work(store: LedgerStore) -> None:
        await _may_take(store, _named(name), take_over)
        await store.delete_log(name, key)
        say(json_line({"log": name}) if json else f"Deleted log {in_line(name)}")

    perform(context, work)


@ledger_log_app.command("cursors")
def cursors_command(
    context: typer.Context,
    name: NameArgument,
    take_over: TakeOverOption = False,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Print the cursors of a log: up to where everything is consumed, and how much is not."""
    key = password_of(password, password_file)

    async def work(store: LedgerStore) -> None:
        rows = []
        async with await _owned(store, _named(name), take_over, key) as log:
            for each in log.cursors:
                cursor = await log.cursor(each)
                if json:
                    say(json_line({"cursor": each, "mark": str(cursor.mark), "backlog": cursor.backlog}))
                rows.append((in_line(each), str(cursor.mark), str(cursor.backlog)))
        if rows and not json:
            for text in columns([("cursor", "mark", "backlog"), *rows]):
                say(text)

    perform(context, work)
