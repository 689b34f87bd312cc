"""Several cores in one: whose request an answer is for, whose batch a result.

    parts.sent(owner, effect)       an effect of one of them, as the host is to see it
    parts.owner_of(input)           who is to be told, and what; None: its owner is forgotten

An owner that is forgotten is told nothing more, so an answer to the last copy is not taken for one to the next.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from attrs import define, field

from zab.coordination.driver import Results, Submit
from zab.ledger.entries.ids import BookieId
from zab.ledger.store.events import Answered, Send
from zab.ledger.wire.messages import Request

Owner: TypeAlias = object


@define
class Parts:
    """Requests are told apart by their identity: two of them may be equal."""

    _batches: int = 0
    _submitted: dict[int, tuple[Owner, int]] = field(factory=dict)
    _asked: dict[tuple[BookieId, int], deque[tuple[Request, Owner]]] = field(factory=dict)

    def sent(self, owner: Owner, effect: Send | Submit) -> Send | Submit:
        if isinstance(effect, Submit):
            self._batches += 1
            self._submitted[self._batches] = owner, effect.batch
            return Submit(self._batches, effect.operations)
        self._asked.setdefault((effect.bookie, id(effect.request)), deque()).append((effect.request, owner))
        return effect

    def owner_of(self, each: Answered | Results) -> tuple[Owner, Answered | Results] | None:
        if isinstance(each, Results):
            found = self._submitted.pop(each.batch, None)
            return None if found is None else (found[0], Results(found[1], each.results))
        key = each.bookie, id(each.request)
        waiting = self._asked.get(key)
        if waiting is None:
            return None
        _, owner = waiting.popleft()
        if not waiting:
            del self._asked[key]
        return owner, each

    def expire(self) -> None:
        """The session is gone: what was submitted is not answered."""
        self._submitted.clear()
