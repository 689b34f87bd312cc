"""Writes that a member has taken in, and has neither proposed nor forwarded yet; and whose turn it is.

While a turn takes all of them, they leave in the order in which they came. Once a turn leaves some, sessions take
turns, so that nobody waits for everything that others have in their pipelines (H6 fair turns):

    lane    the writes of one session, in their order, which never changes
    work    what a write counts as (`zab.member.work.work_of`): a multi as much as its parts
    time    goes on by the work of each write that leaves, divided among the lanes
    turn    of the lane whose first write would end soonest, if all lanes had the same part of each moment: a write of
            one part that comes behind forty multis of a thousand waits for the one that has begun

What a write counts as is known once it is prepared; until then its bytes stand for it.

Some servers want their writes back in the order in which they forwarded them (`in_order`): those before
`zab.features.FAIR_TURNS`, and observers behind a master, of which nobody knows. Each of them is one lane.

Every write has a number, that of its arrival: `left_count` is how many of the first ones have all left, so whoever has
to wait for all that came before waits for that (`questions`).

Not here: how much a turn takes (`proposing`, `forwarding`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Final

import attrs

from session.identity import SessionId
from zab.ids import ServerId
from zab.member.under_way import Write
from zab.member.work import work_of

_BEGUN: Final = -1.0
"""Before every time."""


@attrs.define(eq=False)
class _Lane:
    """Those of one session, or of one server."""

    ends: float
    """When the last write that left it has ended, or its first one could begin."""
    server: ServerId | None
    writes: deque[Write] = attrs.Factory(deque)
    numbers: deque[int] = attrs.Factory(deque)


class Intake:
    """See the module's text. Everything without an underscore may be looked at."""

    def __init__(self) -> None:
        self.arrived: deque[Write] = deque()
        """Those that came since the turns of sessions were counted; all of them, while nothing is left over."""
        self.left_count = 0
        self.clear()

    def clear(self) -> None:
        """The role is over: none of them goes anywhere."""
        self.arrived.clear()
        self._turns: list[tuple[float, int, _Lane]] = []
        """A heap: when the first write of each lane would end; a number that tells them apart."""
        self._order = count()
        self._time = 0.0
        self._lane_of: dict[SessionId | int, _Lane] = {}
        """By session."""
        self._counts: Counter[SessionId | int] = Counter()
        """How many writes of a session are in its lane."""
        self._lane_of_server: dict[ServerId, _Lane] = {}
        self._numbered = self.left_count
        """Those that ever came before the ones in `arrived`."""
        self._gone: set[int] = set()
        """Of these, who left before others that came earlier."""
        self._seen_count = 0
        self._is_begun = False

    def __len__(self) -> int:
        return len(self.arrived) + self._numbered - self.left_count - len(self._gone)

    def __iter__(self) -> Iterator[Write]:
        """In no order."""
        for _, _, lane in self._turns:
            yield from lane.writes
        yield from self.arrived

    @property
    def arrived_count(self) -> int:
        """Writes that have ever come in."""
        return self._numbered + len(self.arrived)

    @property
    def sessions(self) -> set[SessionId | int]:
        """Those of which there are writes."""
        return {*self._lane_of, *(asked[0] for asked, _, _, _ in self.arrived)}

    def turn(self, in_order: Callable[[], Collection[ServerId]] = tuple) -> None:
        """Begin a turn: if some are left that were there in the last one, sessions take turns. `in_order`: the servers
        that want theirs back in order."""
        if self.left_count < self._seen_count:
            self._sort(in_order())
        self._seen_count = self.arrived_count

    @property
    def queue(self) -> deque[Write]:
        """Whose first one is next. It leaves with `take`."""
        return self._turns[0][2].writes if self._turns else self.arrived

    def begin(self) -> None:
        """The next one is prepared over several turns: it stays the next one until it leaves."""
        self._is_begun = True
        if self._turns:
            _, order, lane = self._turns[0]
            heapreplace(self._turns, (_BEGUN, order, lane))

    def take(self, work: int = 0) -> deque[Write]:
        """The next one leaves, having turned out to be so much work. Returns the queue of the one after it."""
        self._is_begun = False
        if not self._turns:
            self.arrived.popleft()
            self._numbered += 1
            self.left_count += 1
            return self.arrived
        _, _, lane = self._turns[0]
        asked = lane.writes.popleft()[0]
        self._leave(lane.numbers.popleft())
        session, _, _, body, _ = asked
        work = max(work, work_of(body))
        lane.ends += work
        self._time += work / len(self._turns)
        self._counts[session] -= 1
        if not self._counts[session]:
            del self._counts[session], self._lane_of[session]
        if lane.writes:
            heapreplace(self._turns, self._turn_of(lane))
        else:
            heappop(self._turns)
            if lane.server is not None:
                del self._lane_of_server[lane.server]
            if not self._turns:
                self._time = 0.0
        return self.queue

    def _leave(self, number: int) -> None:
        self._gone.add(number)
        while self.left_count in self._gone:
            self._gone.remove(self.left_count)
            self.left_count += 1

    def _sort(self, in_order: Collection[ServerId]) -> None:
        """Everybody who has arrived into his lane."""
        for write in self.arrived:
            (session, _, _, _, _), _, owner, _ = write
            lane = self._lane_of.get(session)
            if lane is None:
                lane = self._lane_of[session] = self._new_lane(owner if owner in in_order else None)
            lane.writes.append(write)
            lane.numbers.append(self._numbered)
            self._numbered += 1
            self._counts[session] += 1
            if len(lane.writes) == 1:
                turn = self._turn_of(lane)
                heappush(self._turns, (_BEGUN, *turn[1:]) if self._is_begun and not self._turns else turn)
        self.arrived.clear()

    def _new_lane(self, server: ServerId | None) -> _Lane:
        if server is None:
            return _Lane(self._time, None)
        if server not in self._lane_of_server:
            self._lane_of_server[server] = _Lane(self._time, server)
        return self._lane_of_server[server]

    def _turn_of(self, lane: _Lane) -> tuple[float, int, _Lane]:
        (_, _, _, body, _), _, _, _ = lane.writes[0]
        return lane.ends + work_of(body), next(self._order), lane
