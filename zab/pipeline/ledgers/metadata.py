"""The metadata of ledgers, and the lists of managed ledgers, out of a file or a directory: for who has no connection to
the coordination service.

    read_metadata("ledgers.json")       what `zab export --skip-ephemerals /ledgers` printed
    read_metadata("data")               data directories of members: the state at the end of their logs
    read_lists("logs.json")             what `zab export --skip-ephemerals /logs` printed, or such directories

Of a directory, the whole tree is in memory. What is neither the metadata of a ledger nor a list is skipped; metadata or
a list that cannot be read raises PipelineError.
"""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from zab.ledger.managed.log_info import LOGS_ROOT, InvalidLogError, LogInfo, decode_log, name_of
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError, LedgerMetadata
from zab.ledger.metadata.paths import ledger_of
from zab.ledger.metadata.serialized import decode_metadata
from zab.pipeline.errors import PipelineError
from zab.pipeline.places import Place, open_place, shown
from zab.pipeline.state.local_state import local_moment, local_state

__all__ = ["LOGS_ROOT", "ROOT", "read_lists", "read_metadata"]

K = TypeVar("K")
V = TypeVar("V")

ROOT: Final = "/ledgers"
"""Where the clients of BookKeeper expect ledgers, unless they are told otherwise."""
_FORMAT: Final = "zab subtree"
_LINE_BYTES_MAX: Final = 64 << 20
_PIECE_BYTES: Final = 4 << 20


def read_metadata(text: str, root: str = ROOT) -> dict[int, LedgerMetadata]:
    """The metadata of all ledgers below `root`, by id. Raises PipelineError."""

    def decoded(path: str, data: bytes) -> tuple[int, LedgerMetadata] | None:
        ledger = ledger_of(root, path)
        return None if ledger is None else (ledger, decode_metadata(data))

    found = _read(text, "metadata", decoded)
    if not found:
        raise PipelineError(f"{shown(text)} has no metadata of ledgers below {root}")
    return found


def read_lists(text: str, root: str = LOGS_ROOT) -> dict[str, LogInfo]:
    """The lists of all managed ledgers below `root`, by the name of the log. Raises PipelineError."""

    def decoded(path: str, data: bytes) -> tuple[str, LogInfo] | None:
        child = path.removeprefix(f"{root}/")
        return None if child == path or "/" in child else (name_of(child), decode_log(data))

    found = _read(text, "list of the log", decoded)
    if not found:
        raise PipelineError(f"{shown(text)} has no lists of managed ledgers below {root}")
    return found


def _read(text: str, what: str, decoded: Callable[[str, bytes], tuple[K, V] | None]) -> dict[K, V]:
    """What the znodes stand for, without those that are something else. Raises PipelineError."""
    place = open_place(text)
    found: dict[K, V] = {}
    try:
        kind = place.kind()
        if not kind:
            raise PipelineError(f"{place} does not exist")
        for path, data in _exported(place) if kind == "file" else _of_members(text):
            try:
                one = decoded(path, data)
            except (InvalidMetadataError, InvalidLogError) as error:
                raise PipelineError(f"{place}: the {what} at {path} cannot be read: {error}") from None
            if one is not None:
                found[one[0]] = one[1]
    except OSError as error:
        raise PipelineError(f"{place} cannot be read: {error.strerror or error}") from None
    return found


def _exported(place: Place) -> Iterator[tuple[str, bytes]]:
    lines = _lines(place)
    try:
        first = json.loads(next(lines, b"{}"))
        if not isinstance(first, dict) or first.get("format") != _FORMAT:
            raise PipelineError(f"{place} is no output of zab export; it may also be a directory of members' data")
        for count, line in enumerate(lines):
            found = json.loads(line)
            if "znodes" in found:
                if found["znodes"] != count:
                    raise PipelineError(f"{place} has {count} znodes of {found['znodes']}: it is not complete")
                return
            data, encoding = found["data"], found["encoding"]
            if data is not None:
                yield found["path"], base64.b64decode(data) if encoding == "base64" else data.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise PipelineError(f"{place} is no output of zab export: a line of it is malformed") from None
    raise PipelineError(f"{place} is not complete: its last line is missing")


def _lines(place: Place) -> Iterator[bytes]:
    """Lines without their ends. Raises PipelineError, OSError."""
    rest, offset = b"", 0
    with place.open() as file:
        while piece := file.read(offset, _PIECE_BYTES):
            offset += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line for line in lines if line.strip())
            if len(rest) > _LINE_BYTES_MAX:
                raise PipelineError(f"{place} has a line of more than {_LINE_BYTES_MAX} bytes")
    if rest.strip():
        yield rest


def _of_members(text: str) -> Iterator[tuple[str, bytes]]:
    for batch in local_state(local_moment(text)).batches:
        paths, datas = batch.column("path").to_pylist(), batch.column("data").to_pylist()
        yield from ((path, data) for path, data in zip(paths, datas, strict=True) if data is not None)
