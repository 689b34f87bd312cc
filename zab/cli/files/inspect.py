"""What is in a file: `zab snapshot FILE` and `zab log FILE`; `zab log DIR` for all logs of a member of ours, and
`zab log DIR DIR DIR` for the members of a ZooKeeper.

A file is native or ZooKeeper's, as its first bytes say. The text is that of ZooKeeper's own formatters
(`zab.cli.files.formatters`), znodes in the order of the file and sessions by id. A snapshot is verified as a whole
before anything of it is printed. A log is printed as far as it is readable.

On standard error come damage, with file and offset, and notes beside the content. If that is a terminal, and standard
output is not, it has a progress bar for files above 32 MiB.

Exit codes: 0; 1 the file is damaged, or no such file of ours or ZooKeeper's; 2 wrong usage.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer
from attrs import define
from rich.console import Console
from rich.progress import Progress

from datatree.cursor import SnapshotCursor
from datatree.snapshot import SnapshotError, SnapshotLoader
from datatree.zookeeper.files import ZooKeeperFileError, chunks_of, parse_file_name
from datatree.zookeeper.snappy import MAGIC as SNAPPY_MAGIC
from datatree.zookeeper.snapshot import SnapshotReader, SnapshotZnode, cursor_znodes, uncompressed
from zab.cli.exits import REFUSED, fail
from zab.cli.files.formatters import (
    difference_text,
    java_text,
    ncdu_pieces,
    session_json,
    session_line,
    summary_text,
    txn_json,
    txn_line,
    znode_block,
    znode_json,
)
from zab.cli.files.history import History, is_of_member
from zab.cli.files.log_copies import copied_text, copy_log
from zab.cli.files.log_files import Damage, Entry, Event, NativeLog, UnreadableError, ZooKeeperLog, open_log
from zab.cli.files.member_logs import MemberLogs, open_members
from zab.cli.files.summaries import compare, summary, totals
from zab.cli.json_form import JsonOption, hexadecimal, json_line
from zab.cli.terminal import on_terminal
from zab.host.storage.disk import RealDisk

__all__ = ["log_command", "snapshot_command"]

PROGRESS_BYTES_MIN: Final = 32 << 20
PROGRESS_EVERY_COUNT: Final = 4096
POLL_SECONDS: Final = 0.2
# What a znode takes in a native snapshot beside path and data.
_ZNODE_BYTES: Final = 93
_NATIVE_SNAPSHOT: Final = b"ZSNP"
_LOGS: Final = (b"ZLOG", b"ZKLG")
# As it is, and compressed with gzip and snappy.
_ZOOKEEPER_SNAPSHOTS: Final = (b"ZKSN", b"\x1f\x8b", SNAPPY_MAGIC[:4])

_File = Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)]
_Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE|DIR",
        exists=True,
        readable=True,
        help="A log, the data directory of a member, or those of several members of ZooKeeper.",
    ),
]
_Log: TypeAlias = NativeLog | History | ZooKeeperLog | MemberLogs


@define
class SnapshotContent:
    """The contents of a snapshot; `znodes` reads them again at each call."""

    znodes: Callable[[], Iterable[SnapshotZnode]]
    sessions: dict[int, int]
    count: int
    ephemeral_counts: Counter[int]
    last_zxid: int


def snapshot_command(
    file: _File,
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="[OTHER]",
            exists=True,
            dir_okay=False,
            readable=True,
            help="Another snapshot: print the differences.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[bool, typer.Option("--data", "-d", help="Print each znode's data, as base64.")] = False,
    as_json: JsonOption = False,
    as_ncdu: Annotated[bool, typer.Option("--ncdu", help="The tree with its sizes, in the format of ncdu.")] = False,
    as_summary: Annotated[
        bool, typer.Option("--summary", help="How many descendants and bytes each znode with children has.")
    ] = False,
    path: Annotated[str | None, typer.Option("--path", metavar="PATH", help="With --summary: where to begin.")] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="N", min=0, help="With --summary: how many levels; 0 means all.")
    ] = None,
) -> None:
    """With two of them, what is not the same: `-` only the first has it, `+` only the second, `~` it differs. Then the
    exit code is 1 if there is anything.
    """
    if data + as_json + as_ncdu > 1:
        raise typer.BadParameter("--data, --json and --ncdu exclude each other")
    if as_summary + data + as_ncdu + (other is not None) > 1:
        raise typer.BadParameter("--summary, --data, --ncdu and a second snapshot exclude each other")
    if not as_summary and (path is not None or depth is not None):
        raise typer.BadParameter("--path and --depth are for --summary")
    out = _writer()
    has_difference = False
    try:
        with _progress(file) as moved_to:
            content = _read_snapshot(file, moved_to)
        if other is not None:
            second = _read_snapshot(other, lambda _: None)
            for difference in compare(content.znodes(), second.znodes()):
                has_difference = True
                out(difference_text(difference, as_json=as_json))
        elif as_summary:
            for text in _summary_pieces(content, path or "/", depth or 0, as_json=as_json):
                out(text)
        else:
            for text in _pieces(content, data=data, as_json=as_json, as_ncdu=as_ncdu):
                out(text)
    except (ZooKeeperFileError, SnapshotError) as error:
        fail(error)
    sys.stdout.flush()
    if has_difference:
        raise typer.Exit(REFUSED)


def log_command(
    files: _Files,
    as_json: JsonOption = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new transactions until Ctrl-C.")
    ] = False,
    uncommitted: Annotated[
        bool,
        typer.Option("--uncommitted", help="Follow one member of ZooKeeper, whose log does not say what is committed."),
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Copy the log to this directory; used with the next two options.",
        ),
    ] = None,
    chop: Annotated[
        str | None, typer.Option("--chop", metavar="ZXID", help="Truncate the copy after this zxid.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write new checksums in the copy, up to where it is readable.")
    ] = False,
) -> None:
    """`uncommitted` marks those above the high-water mark. Of a directory of ours, all that the member has logged and
    kept is printed; of several members of ZooKeeper, what a majority of them has.
    """
    if to is not None or chop is not None or repair:
        if to is None or len(files) != 1 or files[0].is_dir() or not (chop or repair) or follow or uncommitted:
            raise typer.BadParameter("only one file can be copied: FILE --to DIR, with --chop ZXID, --repair, or both")
        _copy(files[0], to, None if chop is None else _zxid(chop), repairs=repair, as_json=as_json)
        return
    try:
        log = _open(files)
    except UnreadableError as error:
        fail(error)
    _check_uncommitted(log, follow=follow, uncommitted=uncommitted)
    show = LogOutput(as_json=as_json)
    show.title(log)
    try:
        with _progress(files[0]) as moved_to:
            for event in log.dump():
                show.event(event)
                if not show.txn_count % PROGRESS_EVERY_COUNT and not isinstance(log, MemberLogs):
                    moved_to(log.position)
        while follow:
            sys.stdout.flush()
            time.sleep(POLL_SECONDS)
            for event in log.poll():
                show.event(event)
    except UnreadableError as error:
        fail(error)
    if isinstance(log, MemberLogs):
        for note in log.rest():
            show.event(note)
    show.end()
    if show.damage_count:
        raise typer.Exit(REFUSED)


def _zxid(text: str) -> int:
    try:
        return int(text, 16 if text[:2] in ("0x", "0X") else 10)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no zxid", param_hint="--chop") from None


def _copy(file: Path, directory: Path, upto: int | None, *, repairs: bool, as_json: bool) -> None:
    try:
        copied = copy_log(file, directory, upto, repairs=repairs)
    except UnreadableError as error:
        fail(error)
    except OSError as error:
        fail(f"{error.filename or file}: {error.strerror or error}")
    print(copied_text(copied, as_json=as_json))
    if copied.ends_because is not None:
        print(f"zab: {copied.ends_because}: nothing after that is in it", file=sys.stderr)
        raise typer.Exit(REFUSED)


def _open(files: Sequence[Path]) -> _Log:
    """Raises UnreadableError."""
    [first, *others] = files
    if others or not first.is_dir():
        return open_members(files) if others else open_log(first)
    return History(first) if is_of_member(first) else open_members(files)


def _check_uncommitted(log: _Log, *, follow: bool, uncommitted: bool) -> None:
    """Nothing that a change of leader could take away is shown unless asked for."""
    is_untold = isinstance(log, ZooKeeperLog) or (isinstance(log, MemberLogs) and log.is_alone)
    if follow and is_untold and not uncommitted:
        raise typer.BadParameter(
            "one log of ZooKeeper does not say which transactions are committed; give the directories of all members, "
            "or --uncommitted, which shows all of them",
            param_hint="--follow",
        )
    if uncommitted and isinstance(log, MemberLogs) and not log.is_alone:
        raise typer.BadParameter(
            "of several members, what a majority has is shown; give one member to see all that it has",
            param_hint="--uncommitted",
        )


class LogOutput:
    """Prints the events of a log; counts transactions and damage."""

    def __init__(self, *, as_json: bool) -> None:
        self.txn_count = 0
        self.damage_count = 0
        self._as_json = as_json
        self._out = _writer()

    def title(self, log: _Log) -> None:
        if not self._as_json:
            self._out(f"{log.title}\n")

    def event(self, event: Event) -> None:
        if isinstance(event, Entry):
            self.txn_count += 1
            self._out(self._json(event) if self._as_json else self._line(event))
        elif isinstance(event, Damage):
            self.damage_count += 1
            sys.stdout.flush()
            print(f"zab: {event}", file=sys.stderr)
        else:
            sys.stdout.flush()
            print(f"zab: {event.text}", file=sys.stderr)

    def end(self) -> None:
        if not self._as_json:
            self._out(f"EOF reached after {self.txn_count} txns.\n")
        sys.stdout.flush()

    def _line(self, entry: Entry) -> str:
        wrong = "" if entry.intact else "CRC ERROR - "
        mark = "uncommitted - " if entry.committed is False else ""
        return f"{wrong}{mark}{txn_line(entry.txn)}\n"

    def _json(self, entry: Entry) -> str:
        text = txn_json(entry.txn, committed=entry.committed, digest=entry.digest, intact=entry.intact)
        return f"{text}\n"


def _read_snapshot(file: Path, moved_to: Callable[[int], None]) -> SnapshotContent:
    with file.open("rb") as opened:
        magic = opened.read(4)
    if magic in _LOGS:
        fail(f"{file}: a log, not a snapshot: zab log {file}")
    disk = RealDisk(".", lock=False)
    if not magic.startswith((_NATIVE_SNAPSHOT, *_ZOOKEEPER_SNAPSHOTS)):
        begins = f"it begins with {magic!r}" if magic else "it is empty"
        fail(f"{file}: neither a snapshot of zab nor one of ZooKeeper ({begins})")
    if magic == _NATIVE_SNAPSHOT:
        return _native_snapshot(SnapshotLoader(disk, str(file)), moved_to)

    def reader() -> SnapshotReader:
        return SnapshotReader(uncompressed(_counted(chunks_of(disk, str(file)), moved_to), str(file)), str(file))

    return _zookeeper_snapshot(reader, file)


def _native_snapshot(loader: SnapshotLoader, moved_to: Callable[[int], None]) -> SnapshotContent:
    tree = loader.tree
    while not loader.load_chunk():
        # The content of the znodes alone, so the bar lags a little.
        moved_to(tree.data_bytes + tree.path_bytes + _ZNODE_BYTES * tree.znode_count)
    counts = Counter({session: len(paths) for session, paths in tree.ephemerals.items()})

    def znodes() -> Iterator[SnapshotZnode]:
        cursor: SnapshotCursor = tree.begin_snapshot()
        yield from cursor_znodes(cursor)
        cursor.close()

    return SnapshotContent(znodes, tree.sessions, tree.znode_count, counts, loader.header.zxid)


def _zookeeper_snapshot(open_reader: Callable[[], SnapshotReader], file: Path) -> SnapshotContent:
    """Read everything once, so that a damaged file is not printed at all."""
    reader = open_reader()
    name = parse_file_name(file.name)
    last_zxid = 0 if name is None else name.zxid
    counts: Counter[int] = Counter()
    count = 0
    for znode in reader:
        count += 1
        last_zxid = max(last_zxid, znode.mzxid, znode.pzxid)
        if znode.owner in reader.sessions:
            counts[znode.owner] += 1
    return SnapshotContent(open_reader, reader.sessions, count, counts, last_zxid)


def _summary_pieces(content: SnapshotContent, path: str, depth: int, *, as_json: bool) -> Iterator[str]:
    found = totals(content.znodes())
    if path.encode() not in found:
        fail(f"{path}: there is no such znode in it")
    for level, each, total in summary(found, path.encode(), depth):
        yield summary_text(level, each, total, as_json=as_json)


def _pieces(content: SnapshotContent, *, data: bool, as_json: bool, as_ncdu: bool) -> Iterator[str]:
    if as_json:
        return _json_pieces(content)
    return _ncdu_pieces(content) if as_ncdu else _snapshot_pieces(content, data)


def _snapshot_pieces(content: SnapshotContent, with_data: bool) -> Iterator[str]:
    # ZooKeeper's formatter counts the root twice: under its path and under the empty one.
    yield f"ZNode Details (count={content.count + 1}):\n"
    for znode in content.znodes():
        yield znode_block(znode, with_data=with_data)
    yield "----\nSession Details (sid, timeout, ephemeralCount):\n"
    for session in sorted(content.sessions):
        yield session_line(session, content.sessions[session], content.ephemeral_counts[session])
    yield f"----\nLast zxid: 0x{content.last_zxid:x}\n"


def _json_pieces(content: SnapshotContent) -> Iterator[str]:
    for znode in content.znodes():
        yield f"{znode_json(znode)}\n"
    for session in sorted(content.sessions):
        yield f"{session_json(session, content.sessions[session], content.ephemeral_counts[session])}\n"
    counts = {"znode_count": content.count, "session_count": len(content.sessions)}
    yield json_line({"type": "snapshot", "zxid": hexadecimal(content.last_zxid), **counts}) + "\n"


def _ncdu_pieces(content: SnapshotContent) -> Iterator[str]:
    sizes = {java_text(znode.path): len(znode.data or b"") for znode in content.znodes()}
    now_ms = time.time_ns() // 1_000_000
    yield from ncdu_pieces(sizes, program="zab snapshot", version=version("zab"), timestamp_ms=now_ms)
    yield "\n"


def _writer() -> Callable[[str], object]:
    """Writes to standard output; on a terminal, control characters are made visible."""
    out = sys.stdout
    if out.isatty():
        return lambda text: out.write(on_terminal(text))
    return out.write


@contextmanager
def _progress(file: Path) -> Iterator[Callable[[int], None]]:
    """A function to call with how much of the file was read, in bytes."""
    size_bytes = file.stat().st_size if file.is_file() else 0
    if size_bytes < PROGRESS_BYTES_MIN or not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda _: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(file.name, total=size_bytes)
        yield lambda position: bar.update(task, completed=position)


def _counted(chunks: Iterable[bytes], moved_to: Callable[[int], None]) -> Iterator[bytes]:
    position = 0
    for chunk in chunks:
        position += len(chunk)
        moved_to(position)
        yield chunk
