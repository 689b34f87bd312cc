"""A copy of one log file: `zab log FILE --to DIR` with `--chop ZXID`, `--repair`, or both. FILE is not changed.

    --chop      leaves out what comes after that zxid, like ZooKeeper's LogChopper. A log of zab keeps whole batches:
                the last one ends at that zxid or before it
    --repair    ZooKeeper's log: writes a new checksum for each record, like TxnLogToolkit -r; where no record can be
                found, the copy ends. zab's log: the copy has all readable batches that follow each other by number and
                chain, in new frames; an unreadable batch is never made up, so the copy ends there

The copy has the name of the file, which says where it begins, and never replaces a file.

Not here: whole directories of members (`zab restore`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import adler32

from attrs import define

from datatree.log.batch import Batch, BatchError, Position, continues, follows, parse
from datatree.log.frame import FRAME_HEADER_BYTES, Bad, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, read_segment_header
from datatree.log.transaction_log import pack_segment
from datatree.zookeeper.files import ZooKeeperFileError, parse_file_name
from datatree.zookeeper.log import LOG_HEADER, LogReader, pack_record, zxid_of
from zab.cli.files.log_files import UnreadableError
from zab.cli.json_form import hexadecimal, json_line
from zab.cli.terminal import count_of

__all__ = ["Copied", "copied_text", "copy_log"]

_NATIVE: Final = b"ZLOG"
_ZOOKEEPERS: Final = b"ZKLG"


@define
class Copied:
    """What the copy contains, and what it lacks."""

    path: Path
    last_zxid: int = 0
    count: int = 0
    """The number of transactions."""
    repaired_count: int = 0
    """How many records or frames differed from what was written, and were repaired."""
    ends_because: str | None = None
    """What could not be read, with its offset: the copy ends there."""


def copy_log(file: Path, directory: Path, upto: int | None, *, repairs: bool) -> Copied:
    """Write the copy. Raises UnreadableError if there is nothing to copy, or if there is damage and it is not to be
    repaired; and OSError."""
    path = directory / file.name
    if path.exists():
        raise UnreadableError(f"{path} is there already")
    data = file.read_bytes()
    copied = Copied(path)
    if data.startswith(_NATIVE):
        pieces = _native(file, data, upto, copied, repairs=repairs)
    elif data.startswith(_ZOOKEEPERS):
        pieces = _zookeepers(file, data, upto, copied, repairs=repairs)
    else:
        raise UnreadableError(f"{file}: offset 0: neither a log of zab nor one of ZooKeeper")
    content = b"".join(pieces)
    if not copied.count:
        raise UnreadableError(f"{file}: the copy would be empty")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as out:
        out.write(content)
        os.fsync(fd)
    return copied


def copied_text(copied: Copied, *, as_json: bool) -> str:
    """A line about the copy."""
    if as_json:
        return json_line(
            {
                "path": str(copied.path),
                "zxid": hexadecimal(copied.last_zxid),
                "count": copied.count,
                "repaired_count": copied.repaired_count,
                "ends_because": copied.ends_because,
            }
        )
    repaired = f", {copied.repaired_count} repaired" if copied.repaired_count else ""
    count = count_of(copied.count, "transaction")
    return f"{copied.path}: {count} up to zxid {copied.last_zxid:#x}{repaired}"


def _zookeepers(file: Path, data: bytes, upto: int | None, copied: Copied, *, repairs: bool) -> Iterator[bytes]:
    reader = LogReader(iter((data,)), str(file))
    yield LOG_HEADER[:8] + data[8:16]
    try:
        for offset, is_intact, payload in reader.payloads():
            if not is_intact and not repairs:
                raise UnreadableError(f"{file}: offset {offset}: checksum of the transaction does not match; --repair")
            zxid = zxid_of(payload, str(file), offset)
            if upto is not None and zxid > upto:
                return
            copied.repaired_count += not is_intact
            copied.count += 1
            copied.last_zxid = zxid
            yield pack_record(payload, adler32(payload))
    except ZooKeeperFileError as error:
        if not repairs:
            raise UnreadableError(f"{error}; --repair copies what is before that") from None
        copied.ends_because = str(error)


def _native(file: Path, data: bytes, upto: int | None, copied: Copied, *, repairs: bool) -> Iterator[bytes]:
    name = parse_file_name(file.name)
    header = None if name is None else read_segment_header(data[:SEGMENT_HEADER_BYTES], name.zxid)
    if header is None:
        raise UnreadableError(f"{file}: offset 0: the header cannot be read, or belongs to another file name")
    position, batches = header.previous, list[Batch]()
    for part in scan(data, header.first, SEGMENT_HEADER_BYTES).parts:
        found = part.batches if not isinstance(part, Bad) else _batches_of(data, part)
        if isinstance(part, Bad):
            if not repairs:
                raise UnreadableError(f"{file}: offset {part.at}: {part.reason}; --repair copies what follows by chain")
            copied.repaired_count += 1
        for batch in found:
            if upto is not None and batch.zxid > upto:
                break
            if not _continues(position, batch):
                copied.ends_because = f"{file}: offset {part.offset}: {batch.first:#x} does not follow {position[0]:#x}"
                break
            position = batch.zxid, batch.chain
            copied.count += batch.count
            batches.append(batch)
        else:
            continue
        break
    copied.last_zxid = position[0]
    if batches:
        yield pack_segment(header, batches)


def _continues(position: Position, batch: Batch) -> bool:
    return follows(position[0], batch) and continues(position[1], batch)


def _batches_of(data: bytes, part: Bad) -> list[Batch]:
    """The intact batches of a damaged frame: those before what cannot be read, or, if only the header cannot be read,
    those after it."""
    if part.kept or part.at != part.offset:
        return part.kept
    found, at = list[Batch](), part.offset + FRAME_HEADER_BYTES
    while at < part.end:
        try:
            batch = parse(data, at)
        except BatchError:
            break
        found.append(batch)
        at += len(batch.raw)
    return found
