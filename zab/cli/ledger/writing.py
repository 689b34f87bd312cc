"""`zab ledger create`, `append`, `close`, `recover`, `delete`.

A ledger has one writer, which is the one that creates it. `append` without a ledger creates one; with a ledger it takes
one that `create` has made and that nobody has appended to. At its end the ledger is closed, also when it ends early:
what was not acknowledged then is not in it.

Limits: an entry has at most 5 MiB. What is not acknowledged is bounded by the settings of the writer; then the next
line is read when there is room.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import IO, Annotated, Final

import trio
import typer
from attrs import evolve

from zab.cli.exits import fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.ledger.caller import perform
from zab.cli.ledger.options import (
    STORE,
    AckOption,
    CustomOption,
    DigestOption,
    EnsembleOption,
    LedgerArgument,
    PasswordFileOption,
    PasswordOption,
    WriteOption,
    custom_of,
    digest_of,
    entries_of,
    password_of,
    quorums_of,
)
from zab.cli.progress import Told, progress
from zab.cli.terminal import in_line, say
from zab.ledger.managed.sweep import LOG_KEY
from zab.ledger.writer.settings import ENTRY_BYTES_MAX, WriterSettings
from zab.ledgers import LedgerWriter, NoSuchLedgerError, Ticket
from zab.ledgers.store import LedgerStore
from zab.ledgers.tools import reserve, take_reserved

UNDER_WAY_MAX: Final = 1_000
"""So many appends are under way at most."""
PREFIX_BYTES: Final = 4

_STDIN: Final = Path("-")


def create_command(
    context: typer.Context,
    ensemble: EnsembleOption = 3,
    write: WriteOption = 3,
    ack: AckOption = 2,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    digest: DigestOption = "CRC32C",
    custom: CustomOption = None,
    json: JsonOption = False,
) -> None:
    """Create a ledger for one `zab ledger append`, and print its id."""
    quorums = quorums_of(ensemble, write, ack)
    key, kind, kept = password_of(password, password_file), digest_of(digest), custom_of(custom)

    async def work(store: LedgerStore) -> None:
        ledger = await reserve(store, **quorums, password=key, digest=kind, custom=kept)
        say(json_line({"ledger": ledger}) if json else str(ledger))

    perform(context, work)


def append_command(
    context: typer.Context,
    ledger: Annotated[
        int | None,
        typer.Argument(
            metavar="[LEDGER]",
            min=0,
            help="A ledger that `create` has made; without it, a new one.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="- is standard input.")] = _STDIN,
    is_prefixed: Annotated[
        bool, typer.Option("--length-prefixed", help="Before each entry are 4 bytes with its size, big-endian.")
    ] = False,
    ensemble: EnsembleOption = 3,
    write: WriteOption = 3,
    ack: AckOption = 2,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    digest: DigestOption = "CRC32C",
    custom: CustomOption = None,
    json: JsonOption = False,
) -> None:
    """Append each line as an entry, then close the ledger.

    Ends early with an error, or an interrupt: it says how many entries were acknowledged, and the ledger is closed
    after these.
    """
    quorums = quorums_of(ensemble, write, ack)
    key, kind, kept = password_of(password, password_file), digest_of(digest), custom_of(custom)
    settings = context.meta[STORE]
    context.meta[STORE] = evolve(settings, writer=WriterSettings(entry_bytes_max=ENTRY_BYTES_MAX))

    async def work(store: LedgerStore) -> None:
        if ledger is None:
            writer = await store.new_ledger(**quorums, password=key, digest=kind, custom=kept)
        else:
            writer = await take_reserved(store, ledger, key)
        with opened_file(file) as lines, progress("acknowledged", "append", tells_end=False) as told:
            is_done = False
            try:
                async with writer:
                    await _append_all(writer, lines, told, is_prefixed=is_prefixed)
                is_done = True
            finally:
                told.end()
                if not is_done:
                    say(f"zab: not finished: ledger {writer.id}: {told}", sys.stderr, flush=True)
        last = writer.last_confirmed
        if json:
            say(json_line({"ledger": writer.id, "count": last + 1, "last": last, "length": writer.length}))
        else:
            say(f"{entries_of(last + 1)} in ledger {writer.id}")

    perform(context, work)


async def _append_all(writer: LedgerWriter, lines: IO[bytes], told: Told, *, is_prefixed: bool) -> None:
    under_way: list[Ticket] = []
    async for payload in payloads_of(lines, is_prefixed):
        if len(under_way) >= UNDER_WAY_MAX:
            await under_way[-1].done()
            told.add(len(under_way))
            under_way.clear()
        under_way.append(writer.append_nowait(payload))
    await writer.flush()
    told.add(len(under_way))


async def payloads_of(lines: IO[bytes], is_prefixed: bool) -> AsyncGenerator[bytes]:
    """Read in a thread: the ledger goes on while a line is waited for."""
    while True:
        read = _prefixed if is_prefixed else _line
        payload = await trio.to_thread.run_sync(read, lines, abandon_on_cancel=True)
        if payload is None:
            return
        yield payload


def _line(lines: IO[bytes]) -> bytes | None:
    line = lines.readline(ENTRY_BYTES_MAX + 2)
    return line.removesuffix(b"\n") if line else None


def _prefixed(lines: IO[bytes]) -> bytes | None:
    size = lines.read(PREFIX_BYTES)
    if not size:
        return None
    count = int.from_bytes(size, "big")
    if len(size) < PREFIX_BYTES or count > ENTRY_BYTES_MAX:
        raise ValueError(f"an entry of {count} bytes: more than {ENTRY_BYTES_MAX}, or its size is cut off")
    payload = lines.read(count)
    if len(payload) < count:
        raise ValueError(f"the last entry has {len(payload)} of {count} bytes")
    return payload


@contextlib.contextmanager
def opened_file(file: Path) -> Iterator[IO[bytes]]:
    if file == _STDIN:
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file}: it cannot be read: {error.strerror}", param_hint="--file") from None
    with opened:
        yield opened


def recover_command(context: typer.Context, ledger: LedgerArgument, json: JsonOption = False) -> None:
    """Close a ledger: find its end, copy its last entries to enough bookies, and write the end down.

    A writer that is still there can append nothing more. `close` and `recover` are the same: a ledger has one writer,
    and every other client closes it by recovering it.
    """

    async def work(store: LedgerStore) -> None:
        metadata = await store.recover(ledger)
        if json:
            say(json_line({"ledger": ledger, "last": metadata.last, "length": metadata.length}))
        else:
            say(f"Ledger {ledger} is closed, with {entries_of(metadata.last + 1)}, {metadata.length} bytes")

    perform(context, work)


def delete_command(
    context: typer.Context,
    ledgers: Annotated[list[int], typer.Argument(metavar="LEDGER…", show_default=False)],
    force: Annotated[
        bool, typer.Option("--force", help="Delete also ledgers of a log, which loses their entries.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Delete closed ledgers. Bookies remove the entries later. One that is not there is deleted already.

    A ledger of a log is deleted only with --force: `zab ledger-log trim` and `delete` keep the log whole.
    """
    if any(each < 0 for each in ledgers):
        fail("the id of a ledger is not negative", 2)

    async def work(store: LedgerStore) -> None:
        for ledger in ledgers:
            log = None if force else await _log_of(store, ledger)
            if log is not None:
                instead = "trim or delete that (zab ledger-log), or use --force"
                fail(f"ledger {ledger} belongs to log {in_line(log)}: {instead}")
            await store.delete(ledger)
            say(json_line({"ledger": ledger}) if json else f"Deleted ledger {ledger}")

    perform(context, work)


async def _log_of(store: LedgerStore, ledger: int) -> str | None:
    """The name of the log that has made this ledger; None if it is of no log, or not there."""
    try:
        name = (await store.metadata(ledger)).custom.get(LOG_KEY)
    except NoSuchLedgerError:
        return None
    return None if name is None else name.decode("utf-8", "replace")
