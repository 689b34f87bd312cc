"""Which sessions are alive: the leader's tracker of sessions, and what a learner collects for it.

    unknown --track--> tracked --expired, close--> closing --remove--> unknown

A session is tracked when its createSession is proposed (or, by a new leader, when it starts to serve), touched by
everything that its client sends, and closing once its end is proposed. A closing or unknown session cannot be touched:
its client is too late.

Owner: the connection of a learner, or the leader itself, through which the session was last created or attached. A
request through any other owner is refused with SESSIONMOVED: the client has reconnected elsewhere. When a new leader
starts, sessions have no owners; the first to send a request for a session becomes its owner.

The session clock follows `now`, but by at most one interval at a time, so time during which the process did not run
does not count against sessions. A leader that was paused for an hour has an hour of touches waiting in its sockets, and
must read them before it may expire a session. So `expired` runs last in a turn (G1 expiry last), and this clock, not
`now`, decides. The price: a session may outlive its timeout by the time for which the process was stalled.

Invariants:
- No session is due before its full timeout of the session clock has passed since its last touch.
- A session is in the buckets if and only if it is tracked and not closing. Only what is tracked has an owner.
- The clock never falls, and between two values of `now` it never gains more than they differ by.

`now` is milliseconds of a monotonic clock. Not here: which sessions exist and their timeouts, which is replicated state
(`datatree.tree`). A server tracks its local sessions with a tracker of its own.
"""

from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from itertools import islice

from session.buckets import ExpirationBuckets
from session.identity import SessionId

__all__ = ["Admission", "SessionTracker", "TouchTable"]


EXPIRED_COUNT_MAX = 250
"""How many sessions one call of `expired` returns; the next call returns the rest."""


class Admission(Enum):
    """Whether a request of a session may proceed."""

    ADMITTED = "admitted"
    EXPIRED = "expired"
    MOVED = "moved"


class SessionTracker:
    """All sessions that this leader tracks. `interval_ms` (tickTime) is the width of an expiration bucket."""

    def __init__(self, interval_ms: int, now: int) -> None:
        self.interval_ms = interval_ms
        # A plain dict, so that a new leader takes over the sessions of its tree in a few steps, however many there are.
        self._timeouts: dict[SessionId, int] = {}
        """The timeout with which each tracked session was created."""
        self._owners: dict[SessionId, Hashable] = {}
        self._closing: set[SessionId] = set()
        self._seen = now
        self._clock = now
        self._buckets: ExpirationBuckets[SessionId] = ExpirationBuckets(interval_ms, now)
        self.next_deadline = now
        """Call `expired` again by this `now`: the session clock does not count any time beyond it."""

    def restart(self, sessions: Mapping[SessionId, int], now: int) -> None:
        """A new leader starts to serve: every session (id -> timeout in ms) gets its full timeout, and has no owner."""
        self._seen = self._clock = self.next_deadline = now
        self._buckets = ExpirationBuckets(self.interval_ms, now)
        self._timeouts, self._owners, self._closing = dict(sessions), {}, set()
        self._buckets.fill(sessions, now)

    def __len__(self) -> int:
        return len(self._timeouts)

    def __contains__(self, id_: SessionId) -> bool:
        return id_ in self._timeouts

    def is_alive(self, id_: SessionId) -> bool:
        """Tracked and not closing."""
        return id_ in self._timeouts and id_ not in self._closing

    # Life.

    def track(self, id_: SessionId, timeout_ms: int, now: int, owner: Hashable | None = None) -> None:
        """Track a new session. Its id must be unused: the leader refuses a createSession for an id in use earlier."""
        assert id_ not in self._timeouts, f"session {id_:#x} is tracked already"
        self._timeouts[id_] = timeout_ms
        if owner is not None:
            self._owners[id_] = owner
        self._advance(now)
        self._buckets.touch(id_, self._clock, timeout_ms)

    def touch(self, id_: SessionId, timeout_ms: int | None, now: int) -> int:
        """Note that the session's client was heard. Returns the `now` before which another call, with the same timeout,
        would change nothing; 0 if the session is over or unknown.

        `timeout_ms` is the one negotiated on the present connection; None means the one that the session was created
        with.
        """
        created_with_ms = self._timeouts.get(id_)
        if created_with_ms is None or id_ in self._closing:
            return 0
        if now != self._seen:
            self._advance(now)
        if timeout_ms is None:
            timeout_ms = created_with_ms
        due = self._buckets.touch(id_, self._clock, timeout_ms)
        # The session clock gains no more than `now`: until then, the session stays in its bucket.
        return now + due - timeout_ms - self._clock

    def expired(self, now: int) -> list[SessionId]:
        """The sessions that are due, each returned once, at most `EXPIRED_COUNT_MAX` in a call. They are closing from
        now on. Call it last in a turn."""
        self._advance(now)
        due = self._buckets.expire(self._clock, EXPIRED_COUNT_MAX)
        assert self._closing.isdisjoint(due)
        self._closing.update(due)
        self.next_deadline = now + max(1, self._buckets.next_due - self._clock)
        return due

    def close(self, id_: SessionId) -> bool:
        """Mark the session as closing: its end is about to be proposed. False if it is unknown or closing already."""
        if not self.is_alive(id_):
            return False
        self._closing.add(id_)
        self._buckets.remove(id_)
        return True

    def remove(self, id_: SessionId) -> None:
        """Forget the session: its end is committed. No-op if it is not tracked."""
        if self._timeouts.pop(id_, None) is not None:
            self._owners.pop(id_, None)
            self._closing.discard(id_)
            self._buckets.remove(id_)

    # Owners.

    def owner(self, id_: SessionId) -> Hashable | None:
        return self._owners.get(id_)

    def set_owner(self, id_: SessionId, owner: Hashable) -> bool:
        """Make `owner` the owner of the session. False if the session is over or unknown."""
        if not self.is_alive(id_):
            return False
        self._owners[id_] = owner
        return True

    def disown(self, owner: Hashable) -> None:
        """Forget this owner: the link to it is gone. The next one to send a request for one of its sessions becomes the
        owner."""
        self._owners = {id_: other for id_, other in self._owners.items() if other != owner}

    def admit(self, id_: SessionId, requester: Hashable) -> Admission:
        """Whether to admit a request of the session that came through `requester`."""
        if id_ not in self._timeouts or id_ in self._closing:
            return Admission.EXPIRED
        owner = self._owners.setdefault(id_, requester)
        return Admission.ADMITTED if owner == requester else Admission.MOVED

    # Time and numbers.

    def sets(self) -> Iterator[tuple[int, list[SessionId]]]:
        """Each bucket with its sessions, in order. Its time is the `now` at which it is due if the process is never
        late."""
        ahead = self._seen - self._clock
        for due, ids in self._buckets.sets():
            yield due + ahead, ids

    def _advance(self, now: int) -> None:
        gap = now - self._seen
        assert gap >= 0, "time went backwards"
        self._seen = now
        self._clock += min(gap, self.interval_ms)


class TouchTable:
    """The global sessions that a learner has heard from since it last answered the leader's PING. It expires none."""

    def __init__(self) -> None:
        self._touched: dict[SessionId, int] = {}

    def __len__(self) -> int:
        return len(self._touched)

    def touch(self, id_: SessionId, timeout_ms: int) -> None:
        """Note that the session's client was heard, on a connection with this timeout."""
        self._touched[id_] = timeout_ms

    def touch_all(self, timeouts: Mapping[SessionId, int]) -> None:
        """Note all of these."""
        self._touched.update(timeouts)

    def drain(self, count_max: int) -> dict[SessionId, int]:
        """Remove at most `count_max` sessions from the table and return them: session -> timeout (ms)."""
        touched = self._touched
        if len(touched) <= count_max:
            self._touched = {}
            return touched
        some = dict(islice(touched.items(), count_max))
        for id_ in some:
            del touched[id_]
        return some
