"""Writes that a member has taken in, and has neither proposed nor forwarded yet; and whose turn it is.

While a turn takes all of them, they leave in the order in which they came. Once a turn leaves some, sessions take
turns, so that nobody waits for everything that others have in their pipelines (H6 fair turns):

    lane    the writes of one session, in their order, which never changes
    work    what a write counts as: a multi as much as its parts
    time    goes on by the work of each write that leaves, divided among the lanes
    turn    of the lane whose first write would end soonest, if all lanes had the same part of each moment: a write of
            one part that comes behind forty multis of a thousand waits for the one that has begun

What a write counts as is known once it is prepared; until then its bytes stand for it (`zab.member.state.work`).

Some servers want their writes back in the order in which they forwarded them (`in_order`): those before
`zab.protocol.features.FAIR_TURNS`, and observers behind a master, of which nobody knows. Each of them is one lane, also
for a session that has left writes elsewhere: those that are not refused have gone before it writes there (`questions`).

Every write has a number, that of its arrival: `left_count` is how many of the first ones have all left, so whoever has
to wait for all that came before waits for that (`questions`).

Not here: how much a turn takes (`proposing`, `forwarding`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Final

import attrs

from session.identity import SessionId
from zab.member.requests.under_way import Write
from zab.member.state.work import BYTES_FOR_ONE
from zab.quorum.ids import ServerId

_BEGUN: Final = -1.0
"""Before every time."""


@attrs.define(eq=False)
class _Lane:
    """Those of one session, or of one server."""

    ends: float
    """When the last write that left it has ended, or its first one could begin."""
    server: ServerId | None
    writes: deque[Write] = attrs.Factory(deque)
    waiting: deque[tuple[int, int]] = attrs.Factory(deque)
    """Of each of them: its number, and the least that it counts as."""


class Intake:
    """See the module's text. Everything without an underscore may be looked at."""

    def __init__(self) -> None:
        self.arrived: deque[Write] = deque()
        """Those that are in no lane: all of them, while no turn leaves any."""
        self.left_count = 0
        """So many of the first ones that ever came have all left."""
        self.passes_small = False
        """Those that are left wait because they are large; small ones would not."""
        self.clear()

    def clear(self) -> None:
        """The role is over: none of them goes anywhere."""
        self.is_stalled = False
        """Writes are left from the last turn, since nothing may leave, or nothing large."""
        self.arrived.clear()
        self.queue = self.arrived
        """Whose first one is next. It leaves with `take`; or, while this is `arrived`, by itself: then whoever takes it
        counts it in `left_count`."""
        self.turns: list[tuple[float, int, _Lane]] = []
        """The lanes, a heap: when the first write of each would end; a number that tells them apart."""
        self._order = count()
        self._time = 0.0
        self._waiting_work = 0
        """Of those in lanes, the least that they count as."""
        self._lane_of: dict[SessionId | int, _Lane] = {}
        """By session: where those go that no server wants in order."""
        self._counts: defaultdict[tuple[SessionId | int, ServerId | None], int] = defaultdict(int)
        """How many writes of a session are in its own lane, and in that of a server."""
        self._lane_of_server: dict[ServerId, _Lane] = {}
        self._numbered = 0
        """While there are lanes: those that ever came before the ones in `arrived`."""
        self._gone: set[int] = set()
        """Of these, who left before others that came earlier."""
        self._stayed_count = 0
        """Those that had come when a turn left some."""
        self._is_begun = False

    def __len__(self) -> int:
        return self.arrived_count - self.left_count - len(self._gone)

    def __iter__(self) -> Iterator[Write]:
        """In no order."""
        for _, _, lane in self.turns:
            yield from lane.writes
        yield from self.arrived

    @property
    def arrived_count(self) -> int:
        """Writes that have ever come in."""
        return (self._numbered if self.turns else self.left_count) + len(self.arrived)

    @property
    def kept_bytes(self) -> int:
        """Of the writes that turns have left, somewhat more than there are."""
        return self._waiting_work * BYTES_FOR_ONE

    @property
    def sessions(self) -> set[SessionId | int]:
        """Those of which there are writes."""
        return {*self._lane_of, *(asked[0] for asked, _, _, _ in self.arrived)}

    def passed(self, count: int) -> None:
        """So many of those in `arrived`, taken by who asked for `queue`, have left."""
        self.left_count += count

    def stall(self, *, passes_small: bool = False) -> None:
        """A turn leaves some, since nothing may leave now, or nothing large (`passes_small`)."""
        self.is_stalled = True
        self.passes_small = passes_small

    def go_on(self) -> None:
        """Whatever is in it may leave."""
        self.is_stalled = False

    def stay(self, in_order: Callable[[], Collection[ServerId]] = tuple) -> None:
        """A turn leaves some. If an earlier one left them, too, sessions take turns. `in_order`: the servers that want
        theirs back in order."""
        if not self.turns and self.left_count < self._stayed_count:
            self.sort(in_order())
        self._stayed_count = self.arrived_count

    def begin(self) -> None:
        """The next one is prepared over several turns: it stays the next one until it leaves."""
        self._is_begun = True
        if self.turns:
            _, order, lane = self.turns[0]
            heapreplace(self.turns, (_BEGUN, order, lane))

    def take(self, work: int = 0) -> deque[Write]:
        """The next one leaves, having turned out to be so much work. Returns the queue of the one after it."""
        self._is_begun = False
        turns, gone = self.turns, self._gone
        if not turns:
            self.arrived.popleft()
            self.left_count += 1
            return self.arrived
        lane = turns[0][2]
        session = lane.writes.popleft()[0][0]
        number, least = lane.waiting.popleft()
        self._waiting_work -= least
        gone.add(number)
        while self.left_count in gone:
            gone.remove(self.left_count)
            self.left_count += 1
        work = max(work, least)
        lane.ends += work
        self._time += work / len(turns)
        counted = session, lane.server
        self._counts[counted] -= 1
        if not self._counts[counted]:
            del self._counts[counted]
            if self._lane_of.get(session) is lane:
                del self._lane_of[session]
        if lane.waiting:
            heapreplace(turns, (lane.ends + lane.waiting[0][1], next(self._order), lane))
        else:
            heappop(turns)
            if lane.server is not None:
                del self._lane_of_server[lane.server]
        if not turns:
            self._time = 0.0
        self.queue = turns[0][2].writes if turns else self.arrived
        return self.queue

    def sort(self, in_order: Collection[ServerId] = ()) -> None:
        """Those that have arrived go to their lanes. So they do at the beginning of each turn while there are some."""
        if not self.turns:
            self._numbered = self.left_count
        for write in self.arrived:
            (session, _, _, body, _), _, owner, _ = write
            lane = self._lane_of.get(session)
            if lane is None:
                lane = self._lane_of[session] = self._new_lane(owner if owner in in_order else None)
            if owner in in_order and lane.server != owner:
                lane = self._new_lane(owner)
            self._counts[session, lane.server] += 1
            least = 1 + len(body) // BYTES_FOR_ONE
            if not lane.writes:
                is_first = self._is_begun and not self.turns
                heappush(self.turns, (_BEGUN if is_first else lane.ends + least, next(self._order), lane))
            lane.writes.append(write)
            self._waiting_work += least
            lane.waiting.append((self._numbered, least))
            self._numbered += 1
        self.arrived.clear()
        self.queue = self.turns[0][2].writes if self.turns else self.arrived

    def _new_lane(self, server: ServerId | None) -> _Lane:
        if server is None:
            return _Lane(self._time, None)
        if server not in self._lane_of_server:
            self._lane_of_server[server] = _Lane(self._time, server)
        return self._lane_of_server[server]
