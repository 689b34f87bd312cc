"""The history of a run while it is made: each client is a process, and writes lines of JSON into a file of its own.

A line is written before an append is begun and once more when its outcome is known, and is in the kernel's hands then:
what a client that is killed has begun is known, too.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import asdict, evolve

from tests.chaos.ledgers.history import Append, Begin, End, History, Operation, Outcome, Place, Read, Record

now = time.monotonic
_KINDS: Final[Mapping[str, type[Operation]]] = {each.__name__: each for each in (Append, Read, Begin, End)}
_LEDGER: Final = "ledger"
_ERROR: Final = "error"
_COMPLAINT: Final = "complaint"


class Recording:
    """What one client did. `client` names this incarnation."""

    def __init__(self, client: str, path: Path) -> None:
        self.client = client
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._numbers = itertools.count(1)

    def number(self) -> int:
        return next(self._numbers)

    def add(self, operation: Operation) -> None:
        """An operation; an append is added when it is begun and again when it has ended."""
        self._write(type(operation).__name__, asdict(operation, recurse=False))

    def created(self, ledger: int) -> None:
        """A ledger that somebody has to close."""
        self._write(_LEDGER, ledger)

    def met(self, error: BaseException) -> None:
        """An error that faults explain."""
        self._write(_ERROR, type(error).__name__)

    def complain(self, text: str) -> None:
        """What a client was told that no client should be told."""
        self._write(_COMPLAINT, text)

    def _write(self, kind: str, what: object) -> None:
        os.write(self._file, json.dumps([kind, what], default=lambda outcome: outcome.value).encode() + b"\n")


def _lines(paths: Iterable[Path]) -> Iterator[tuple[str, Any]]:
    for path in paths:
        # A client that was killed may have left the half of a line.
        for line in path.read_bytes().split(b"\n")[:-1]:
            kind, what = json.loads(line)
            yield kind, what


def _record(given: Any) -> Record:
    place, value = given
    return Record(Place(*place), value)


def _operation(kind: str, given: dict[str, Any]) -> Operation:
    if given.get("place") is not None:
        given["place"] = Place(*given["place"])
    if "records" in given:
        given["records"] = tuple(map(_record, given["records"]))
    if "outcome" in given:
        given["outcome"] = Outcome(given["outcome"])
    return _KINDS[kind](**given)


class Recorded:
    """What the files of all clients say so far."""

    def __init__(self, directory: Path) -> None:
        self.ledgers: list[int] = []
        self.errors: dict[str, int] = {}
        self.complaints: list[str] = []
        self._appends: dict[str, Append] = {}
        self._others: dict[type[Operation], list[Any]] = {Read: [], Begin: [], End: []}
        for kind, what in _lines(sorted(directory.glob("*.jsonl"))):
            if kind == _LEDGER:
                self.ledgers.append(what)
            elif kind == _ERROR:
                self.errors[what] = self.errors.get(what, 0) + 1
            elif kind == _COMPLAINT:
                self.complaints.append(what)
            else:
                self._add(_operation(kind, what))

    def _add(self, operation: Operation) -> None:
        if isinstance(operation, Append):
            self._appends[operation.value] = operation
        else:
            self._others[type(operation)].append(operation)

    @property
    def acknowledged_count(self) -> int:
        return sum(append.outcome is Outcome.OK for append in self._appends.values())

    @property
    def read_count(self) -> int:
        return sum(len(read.records) for read in self._others[Read])

    def history(self, finals: Mapping[str, tuple[Record, ...]], ends: Iterable[End] = ()) -> History:
        """All of it, and what was found at the end."""
        others = self._others
        history = History(
            appends=tuple(self._appends.values()),
            reads=tuple(others[Read]),
            begins=tuple(others[Begin]),
            ends=(*others[End], *ends),
        )
        return evolve(history, finals=finals)
