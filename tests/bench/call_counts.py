"""Counts the Python calls of the product: exactly, whatever the load of the machine. A budget is such a count."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.rigs.direct.members import Ensemble
from zab.member.storage.storage import Storage
from zab.member.turn import Turn

ROOT = Path(__file__).parents[2]
ROOMS = tuple(str(ROOT / room) + "/" for room in ("zab", "datatree", "session"))
RIGS = tuple(str(ROOT / room) + "/" for room in ("tests/rigs/direct", "zab/simulator"))
GENERATED = "<attrs generated"

MORE, FEWER = 1.02, 0.9
"""A call more in each turn is too many. Far fewer are to be written down here."""


@contextmanager
def counted(counts: Counter[str]) -> Iterator[None]:
    """Count the calls of functions of the product, by name, and not those of the rigs around it."""

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        is_ours = code.co_filename.startswith((*ROOMS, GENERATED)) and not code.co_filename.startswith(RIGS)
        if event == "call" and is_ours:
            counts[f"{Path(code.co_filename).stem}:{code.co_qualname}"] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def check(counts: Counter[str], budget: int) -> None:
    total = sum(counts.values())
    most = ", ".join(f"{name} {count}" for name, count in counts.most_common(40))
    assert total <= budget * MORE, f"{total} calls, {budget} are usual: {most}"
    assert total >= budget * FEWER, f"only {total} calls: write that down in place of {budget}"


def uncounted(function: Callable[..., Any]) -> Callable[..., Any]:
    def quiet(*arguments: Any) -> Any:
        note = sys.getprofile()
        sys.setprofile(None)
        try:
            return function(*arguments)
        finally:
            sys.setprofile(note)

    return quiet


def count_turns(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> dict[int, Counter[str]]:
    """The calls of each member's turns from here on, without those of its storage: a server has a thread for it."""
    counts: dict[int, Counter[str]] = {sid: Counter() for sid in ensemble.servers}
    sids = {server.turn: sid for sid, server in ensemble.servers.items()}
    take = Turn.take

    def watched(turn: Turn) -> bool:
        with counted(counts[sids[turn]]):
            return take(turn)

    monkeypatch.setattr(Turn, "take", watched)
    monkeypatch.setattr(Storage, "perform", uncounted(Storage.perform))
    return counts
