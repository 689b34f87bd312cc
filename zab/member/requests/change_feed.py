"""The change feed: answers getChanges requests of this member's clients from the log.

    ask       takes a request: the place of its client, a path, and how long it would wait
    turn      at the end of each turn: advances requests, using the batches in memory if these reach back far
              enough; long work and reading files goes to a worker (`ReadChanges`)
    read      the worker's answer (`ChangesRead`), taken up in the next turn

    ready ──> answered                    ready ──> queued ──> reading ──> ready     one read at a time
      ^  └──> parked at the end             parked ──> ready when more is applied, answered when its wait is over
      └─────> looking back                  looking back ──> ready when the ACLs of older paths are known

A request is answered once, out of order with the other requests of its connection: its xids have a range of their own.
No other request waits for it.

Permissions: a client is told of a change if every ACL that the path has had since, including the present one, lets it
READ the znode. The tree remembers the ACLs of deleted paths (`past_acls`), from the zxid at which it was loaded. For a
request from further back, the files are read once, a slice at a time (`LookBackSlice`). Only the superuser, who passes
every ACL, sees changes older than the files. Nothing is left out silently: a client that cannot be told everything
after its place gets OLDER.

Invariants:
- Only changes that the tree has applied are told, so nothing uncommitted.
- The pages of a client, each asked for from the end of the one before, have every change that it may see exactly once,
  in order, even if they come from different members.
- A connection has at most `maxChangesPerConnection` requests, with `PREFIXES_BYTES_MAX` of paths; a page has at most
  `maxChangesPageBytes` and one change; no request waits longer than `maxChangesWaitMs`, rounded up to the next turn.

Not here: the bytes (`zab.jute.change_pages`), the reading (`storage`).
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import attrs

from datatree.acl import OPEN, READ, SUPER, permits
from datatree.errors import ErrorCode
from datatree.log.batch import Batch
from datatree.opcodes import OpCode
from datatree.past_acls import PastAcls
from datatree.paths import ROOT
from datatree.request_decoding import decode
from datatree.requests import GetChanges
from datatree.txn_changes import WHOLE
from datatree.znode import acl_id_of
from zab.jute.change_pages import PageStatus, page_body
from zab.jute.framing import CHANGES_XID_MAX
from zab.jute.replies import reply
from zab.member.clients.connection import ClientConnection
from zab.member.requests.read_state import BODY_AT, UNDECODABLE, ReadState
from zab.member.storage.change_rows import Place, Row, gather, is_known, rows_of, start_of
from zab.member.storage.events import ChangesRead, LookBackSlice, LookedBack, ReadChanges
from zab.protocol.history import History

TURN_COUNT_MAX = 1_000
"""Changes looked at in a turn, for all requests: two or three milliseconds."""
REQUEST_COUNT = 8
"""A request costs as much of the budget as this many changes, even if it finds nothing."""
INLINE_BYTES_MAX = 16 << 10
"""Batches up to this size are decoded in the loop, since waking a thread would take longer."""
PREFIXES_BYTES_MAX: Final = 64 << 10
"""The limit for the paths and history ids of the waiting requests of one connection."""
_HISTORY_ID_BYTES: Final = 16


@lru_cache(maxsize=4)
def history_id_of(lineage: bytes) -> bytes:
    """The id by which clients distinguish histories. It does not reveal the lineage."""
    return blake2b(lineage, digest_size=_HISTORY_ID_BYTES, person=b"zab history id").digest()


def _said_bytes(history_id: bytes, prefix: bytes | None) -> int:
    return len(history_id) + len(prefix or ROOT)


@attrs.define(eq=False)
class Asked:
    """One request. `place` is the place of its client; it also moves past changes that the client may not see."""

    connection: ClientConnection
    xid: int
    place: Place
    history_id: bytes
    prefix: bytes
    bytes_max: int
    until: int
    """Monotonic ms up to which the answer may wait."""
    read: ChangesRead | None = None
    is_over: bool = False


class ChangeFeed:
    """Answers the getChanges requests of this member. All methods are called inside a step."""

    def __init__(self, state: ReadState) -> None:
        self._state = state
        self.asked: dict[ClientConnection, dict[int, Asked]] = {}
        """All requests, by connection and xid."""
        self.ready: deque[Asked] = deque()
        """Requests that go on in this turn, or in the next one if the budget is used up."""
        self._parked: dict[Asked, None] = {}
        self._queued: deque[Asked] = deque()
        self._looking: list[Asked] = []
        """Requests that wait for older ACLs from the files."""
        self._reading: Asked | LookBackSlice | None = None
        self._look: tuple[PastAcls, int] | None = None
        """The ACL memory that is being filled, and up to which zxid; None if no request looks back."""
        self._looked: PastAcls | None = None
        """The ACL memory for which all files have been read."""
        self._is_look_next = False
        self._rows: dict[int, list[Row]] = {}
        """The rows of batches decoded in this turn, by last zxid, since many clients follow the end of the log."""
        self._applied = 0
        self.next_deadline: int | None = None
        """When the next wait ends; None while no request is parked."""

    # ---------------------------------------------------------------------------------------------------- coming, going

    def ask(self, connection: ClientConnection, xid: int, frame: bytes, now: int) -> None:
        """Accept a getChanges, or refuse it."""
        config, clients, applied = self._state.config, self._state.clients, self._state.tree.applied
        try:
            body = decode(OpCode.GET_CHANGES, frame, BODY_AT)
        except UNDECODABLE:
            clients.send(connection, reply(xid, applied, ErrorCode.MARSHALLINGERROR))
            return
        assert isinstance(body, GetChanges)
        own = self.asked.setdefault(connection, {})
        said_bytes = _said_bytes(body.history_id, body.prefix)
        waiting_bytes = sum(_said_bytes(asked.history_id, asked.prefix) for asked in own.values())
        if xid > CHANGES_XID_MAX or xid in own or body.zxid < 0 or said_bytes > PREFIXES_BYTES_MAX:
            clients.send(connection, reply(xid, applied, ErrorCode.BADARGUMENTS))
        elif len(own) >= config.requests.max_changes_per_connection or said_bytes + waiting_bytes > PREFIXES_BYTES_MAX:
            clients.send(connection, reply(xid, applied, ErrorCode.THROTTLEDOP))
        else:
            bytes_max = min(body.bytes_max, config.requests.max_changes_page_bytes)
            until = now + max(0, min(body.wait_ms, config.requests.max_changes_wait_ms))
            place = body.zxid, body.part if body.zxid else WHOLE
            asked = Asked(connection, xid, place, body.history_id, body.prefix or ROOT, bytes_max, until)
            own[xid] = asked
            self.ready.append(asked)
        if not own:
            del self.asked[connection]

    def forget(self, connection: ClientConnection) -> None:
        """Drop the requests of a connection that is gone."""
        for asked in self.asked.pop(connection, {}).values():
            asked.is_over = True
            self._parked.pop(asked, None)
        if not self.asked:
            self.ready.clear()
            self._queued.clear()
            self._looking.clear()
            self.next_deadline = None

    def read(self, answer: ChangesRead) -> None:
        """Hand the worker's answer to its request."""
        asked, self._reading = self._reading, None
        assert isinstance(asked, Asked), "nothing is read that nobody asked for"
        if not asked.is_over:
            asked.read = answer
            self.ready.appendleft(asked)

    def looked_back(self, answer: LookedBack) -> None:
        """Take the older ACLs that were found; `past` is None while there is more to read."""
        wanted, self._reading = self._reading, None
        assert isinstance(wanted, LookBackSlice), "nothing is read that nobody asked for"
        assert self._look is not None
        if answer.past is not None:
            (self._looked, upto), self._look = self._look, None
            self._looked.prepend(answer.past, upto)
            self.ready.extend(self._looking)
            self._looking.clear()

    # ---------------------------------------------------------------------------------------------------------- a turn

    def turn(self, now: int, history: History, history_id: bytes, applied: int) -> list[ReadChanges | LookBackSlice]:
        """Advance the requests within the budget of a turn. Returns what a worker has to read."""
        if applied != self._applied:
            self._applied = applied
            self.ready.extend(self._parked)
            self._parked.clear()
        elif self.next_deadline is not None and now >= self.next_deadline:
            for asked in [asked for asked in self._parked if asked.until <= now]:
                del self._parked[asked]
                self._answer(asked, history_id, asked.place)
        budget = TURN_COUNT_MAX
        while self.ready and budget > 0:
            asked = self.ready.popleft()
            if not asked.is_over:
                budget -= REQUEST_COUNT + self._advance(asked, now, history, history_id)
        self._rows.clear()
        self.next_deadline = min((asked.until for asked in self._parked), default=None)
        return self._start_read(history)

    def _advance(self, asked: Asked, now: int, history: History, history_id: bytes) -> int:
        """Advance one request. Returns how many changes were looked at for it."""
        start = start_of(asked.place)
        read, asked.read = asked.read, None
        if asked.history_id and asked.history_id != history_id:
            self._refuse(asked, PageStatus.ELSEWHERE, history_id)
        elif asked.place[0] > self._applied:
            self._refuse(asked, PageStatus.BEYOND, history_id)
        elif start < self._known_from(asked) and self._looked is not self._state.tree.past_acls:
            self._looking.append(asked)
        elif start < self._known_from(asked):
            self._refuse(asked, PageStatus.OLDER, history_id, self._known_from(asked))
        elif read is not None:
            return self._take_up(asked, read, now, history_id)
        else:
            floor = history.floor(start)
            batches = self._in_memory(asked, history, min(asked.bytes_max, INLINE_BYTES_MAX))
            is_page = asked.bytes_max <= INLINE_BYTES_MAX or not batches or batches[-1].zxid == self._applied
            if floor is None:
                self._queued.append(asked)
            elif not is_known(asked.place, floor[0], batches):
                self._refuse(asked, PageStatus.ELSEWHERE, history_id)
            elif not batches:
                asked.place = self._applied, WHOLE
                self._wait(asked, now, history_id)
            elif not is_page or sum(len(batch.raw) for batch in batches) > INLINE_BYTES_MAX:
                self._queued.append(asked)
            else:
                return self._look_through(asked, batches, now, history_id)
        return 0

    def _in_memory(self, asked: Asked, history: History, bytes_max: int) -> list[Batch]:
        """The batches after the request's place, up to `bytes_max`; none if memory does not reach back so far."""
        floor = history.floor(start_of(asked.place))
        following = [] if floor is None else history.after(floor[0], bytes_max)
        return [batch for batch in following if batch.zxid <= self._applied]

    def _look_through(self, asked: Asked, batches: list[Batch], now: int, history_id: bytes) -> int:
        found = []
        for batch in batches:
            rows = self._rows.get(batch.zxid)
            if rows is None:
                rows = self._rows[batch.zxid] = rows_of(batch)
            found.append((batch.zxid, rows))
        rows, place = gather(found, asked.place, asked.prefix, asked.bytes_max)
        self._tell(asked, rows, place, now, history_id)
        return sum(len(rows) for _, rows in found)

    def _take_up(self, asked: Asked, read: ChangesRead, now: int, history_id: bytes) -> int:
        """Use the worker's answer for a request."""
        if read.is_damaged:
            self._finish(asked, ErrorCode.DATAINCONSISTENCY)
        elif read.status is not PageStatus.GIVEN:
            self._refuse(asked, read.status, history_id, read.oldest)
        else:
            assert read.place > asked.place, "a log that is known to go on has nothing after this place"
            self._tell(asked, read.rows, read.place, now, history_id)
        return len(read.rows)

    def _tell(self, asked: Asked, rows: list[Row], place: Place, now: int, history_id: bytes) -> None:
        """Answer with the rows that the client may see; if it may see none, go on after them."""
        told = rows if self._sees_all(asked.connection) else [row for row in rows if self._may_see(asked, row)]
        asked.place = place
        if told or now >= asked.until:
            self._answer(asked, history_id, place, [row[3] for row in told])
        else:
            self.ready.append(asked)

    def _wait(self, asked: Asked, now: int, history_id: bytes) -> None:
        if now >= asked.until:
            self._answer(asked, history_id, asked.place)
        else:
            self._parked[asked] = None

    def _start_read(self, history: History) -> list[ReadChanges | LookBackSlice]:
        """Start the next read when the last one is done; looking back alternates with other reads."""
        if self._reading is not None:
            return []
        while self._queued and not (self._looking and self._is_look_next):
            asked = self._queued.popleft()
            if not asked.is_over:
                self._reading, self._is_look_next = asked, True
                batches = self._in_memory(asked, history, asked.bytes_max)
                return [ReadChanges(asked.place, asked.prefix, self._applied, asked.bytes_max, batches)]
        if not self._looking:
            return []
        past_acls = self._state.tree.past_acls
        if self._look is None or self._look[0] is not past_acls:
            self._look = past_acls, past_acls.complete_from
        self._reading, self._is_look_next = LookBackSlice(self._look[1], past_acls.count_max), False
        return [self._reading]

    # --------------------------------------------------------------------------------------------------- who may see it

    def _sees_all(self, connection: ClientConnection) -> bool:
        return self._state.config.access.skip_acl or SUPER in connection.identities

    def _known_from(self, asked: Asked) -> int:
        """The zxid from which on the permissions of the client are known."""
        return 0 if self._sees_all(asked.connection) else self._state.tree.past_acls.complete_from

    def _may_see(self, asked: Asked, row: Row) -> bool:
        zxid, _, path, _ = row
        tree, identities = self._state.tree, asked.connection.identities
        znode = tree.get(path)
        if znode is not None and acl_id_of(znode) != OPEN and not permits(tree.acl(znode), READ, identities):
            return False
        return all(permits(acl, READ, identities) for acl in tree.past_acls.since(path, zxid))

    # ------------------------------------------------------------------------------------------------------- answering

    def _answer(self, asked: Asked, history_id: bytes, place: Place, changes: list[bytes] | None = None) -> None:
        self._finish(asked, ErrorCode.OK, page_body(PageStatus.GIVEN, 0, *place, history_id, changes or ()))

    def _refuse(self, asked: Asked, status: PageStatus, history_id: bytes, oldest: int = 0) -> None:
        self._finish(asked, ErrorCode.OK, page_body(status, oldest, self._applied, WHOLE, history_id))

    def _finish(self, asked: Asked, error: ErrorCode, body: bytes = b"") -> None:
        asked.is_over = True
        own = self.asked[asked.connection]
        del own[asked.xid]
        if not own:
            del self.asked[asked.connection]
        self._state.clients.send(asked.connection, reply(asked.xid, self._state.tree.applied, error, body))
