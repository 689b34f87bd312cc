"""Uses the simulator's judge of broadcast, `zab.simulator.ensemble.judges.history`, as part of an explored state.

What it has seen decides its later objections, so it belongs to the state of an ensemble. As with servers, each of its
states is a number, and each step from it is computed once.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TypeAlias

from datatree.log.batch import Batch, Position, genesis
from datatree.log.zxid import BEFORE_ALL
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.judges.history import History
from zab.simulator.explorer.configurations import reconfigurations_of
from zab.simulator.explorer.keys import Renaming
from zab.simulator.explorer.site import Broadcast, Delivered, Led, Started
from zab.simulator.world.verdict import SafetyError

__all__ = ["Judged", "Verdicts"]

Judged: TypeAlias = Led | Broadcast | Started | Delivered


class Verdicts:
    """The states of the judge. State 0 has only seen what was written before."""

    def __init__(
        self, lineage: bytes, first: frozenset[ServerId], written: tuple[Batch, ...], renamings: list[Renaming]
    ) -> None:
        self._lineage = lineage
        self._first = first
        self._renamings = renamings
        self._histories: list[History] = []
        self._numbers: dict[object, int] = {}
        self._interned: dict[object, int] = {}
        self._steps: dict[tuple[int, ServerId, object], int | SafetyError] = {}
        self.names: list[tuple[int, ...]] = []
        self.ends: list[Position] = []
        """For each state, the position of the last delivered batch, or the beginning."""
        self.deciding: list[tuple[frozenset[ServerId], ...]] = []
        """For each state, the voters by the last delivered configuration, and by each later reconfiguration."""
        beginning = History()
        for batch in written:
            beginning.broadcast((0, 0), batch, (BEFORE_ALL, genesis(lineage)))
        beginning.primaries.clear()  # that epoch is over
        self._intern(beginning)

    def step(self, number: int, sid: ServerId, seen: Judged) -> int:
        """The state after an output of a server. Raises SafetyError."""
        key = number, sid, _key_of(seen)
        known = self._steps.get(key)
        if known is None:
            history = deepcopy(self._histories[number])
            try:
                self._show(history, sid, seen)
                known = self._intern(history)
            except SafetyError as error:
                known = error
            self._steps[key] = known
        if isinstance(known, SafetyError):
            raise known
        return known

    def primaries(self, number: int) -> frozenset[tuple[int, ServerId, int]]:
        """(epoch, server, number of its starts) for each established epoch."""
        return frozenset(
            (epoch, ServerId(sid), starts) for epoch, (sid, starts) in self._histories[number].primaries.items()
        )

    def _show(self, history: History, sid: ServerId, seen: Judged) -> None:
        if isinstance(seen, Led):
            history.leads((sid, seen.starts), seen.epoch)
        elif isinstance(seen, Broadcast):
            history.broadcast((sid, seen.starts), seen.batch, seen.predecessor)
        elif isinstance(seen, Started):
            history.starts_at(sid, *seen.position, list(seen.recent))
        else:
            history.deliver(sid, seen.batch)

    def _intern(self, history: History) -> int:
        key = _state_of(history, ())
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._histories)
            self._histories.append(history)
            names = (_state_of(history, renaming) for renaming in self._renamings)
            self.names.append(tuple(self._interned.setdefault(name, len(self._interned)) for name in names))
            last = (history.zxids[-1], history.chains[-1]) if history.zxids else (BEFORE_ALL, genesis(self._lineage))
            self.ends.append(last)
            self.deciding.append(self._deciding(history))
        return number

    def _deciding(self, history: History) -> tuple[frozenset[ServerId], ...]:
        made = reconfigurations_of(each.batch for _, each in sorted(history.broadcasts.items()))
        delivered = [membership for batch, membership in made if batch.zxid in history.zxids]
        governing = delivered[-1].quorum.voters if delivered else self._first
        version = delivered[-1].version if delivered else BEFORE_ALL
        return governing, *(membership.quorum.voters for _, membership in made if membership.version > version)


def _key_of(seen: Judged) -> object:
    if isinstance(seen, Led):
        return seen.starts, seen.epoch
    if isinstance(seen, Broadcast):
        return seen.starts, seen.batch.chain, seen.predecessor
    if isinstance(seen, Started):
        return seen.position, tuple(batch.chain for batch in seen.recent)
    return seen.batch.chain


def _state_of(history: History, renaming: Renaming) -> object:
    """The state of the judge, with renamed servers."""

    def renamed(sid: int) -> int:
        return renaming[sid - 1] if renaming else sid

    return (
        frozenset((epoch, renamed(sid), starts) for epoch, (sid, starts) in history.primaries.items()),
        frozenset((zxid, made.batch.chain) for zxid, made in history.broadcasts.items()),
        tuple(history.chains),
        frozenset((renamed(sid), place) for sid, place in history._places.items()),
        frozenset(history._initial.items()),
    )
