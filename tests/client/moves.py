"""Counts how often a reader who follows a run of the client has to change the file.

    with counted() as moves:
        ...
    moves.between("core/runtime.py", "on_trio.py")

A move is a Python call within `zab/client` whose code is in a different file from that of the call before it.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import zab.client

_ROOT = f"{Path(zab.client.__file__).parent}/"


class Moves:
    """How often calls move from one file to another."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._last: str | None = None

    def note(self, frame: FrameType, event: str, _arg: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(_ROOT):
            return
        here = name.removeprefix(_ROOT)
        if self._last not in (None, here):
            self.counts[self._last or "", here] += 1
        self._last = here

    def between(self, one: str, other: str) -> int:
        return self.counts[one, other] + self.counts[other, one]


@contextmanager
def counted() -> Iterator[Moves]:
    moves = Moves()
    sys.setprofile(moves.note)
    try:
        yield moves
    finally:
        sys.setprofile(None)
