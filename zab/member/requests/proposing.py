"""Proposing: the leader turns the writes of a turn into transactions, and these into batches.

    intake ──> prepare ──> transactions, a batch at a time ──> the peer ──> committed: `Processor.deliver`

A turn takes writes up to the work of a turn (`work`); the rest waits for the next turn, in fair order (`intake`). A
multi of many parts, or the end of a session with many ephemerals, is prepared over several turns and is a batch of its
own; nothing else is prepared meanwhile.

The leader keeps the transactions that it proposed, with their connections, until they are committed: so it need not
decode them again, nor look up whom to answer.

Not here: what a transaction says (`datatree.prepare`), and who commits it (`zab.protocol.peer`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from datatree.digest import DIGEST_VERSION
from datatree.errors import ErrorCode
from datatree.log.batch import RECONFIG, Batch
from datatree.log.zxid import Zxid
from datatree.opcodes import OpCode
from datatree.prepare import Prepare
from datatree.record import Fields, Txn, encode
from zab.member.clients.connection import ClientConnection
from zab.member.requests.growing_writes import needs_room
from zab.member.requests.intake import Intake
from zab.member.requests.read_state import ReadState
from zab.member.requests.under_way import Long, Proposed
from zab.member.sessions.sessions import Sessions
from zab.member.state.work import (
    LARGE_BYTES,
    LARGE_UNDER_WAY_BYTES_MAX,
    PREPARED_BYTES_MAX,
    PREPARED_WORK_MAX,
    REFUSED_WORK,
)
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.protocol.events import Propose
from zab.quorum.ids import ServerId

TIME_AHEAD_MS_MAX = 600_000
"""How far the times of batches may be ahead of the leader's wall clock: they stay the same until the clock has caught
up; if it is further back, they follow the clock."""

_ERROR = int(OpCode.ERROR)
_CREATE_SESSION = int(OpCode.CREATE_SESSION)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)
_RECONFIG = int(OpCode.RECONFIG)
_OF_SESSIONS = (_CREATE_SESSION, _CLOSE_SESSION)
_MULTI = int(OpCode.MULTI)
_OF_PARTS = (_MULTI, _CLOSE_SESSION)
_PERHAPS_LONG = frozenset({_MULTI, int(OpCode.REMOVE_RECURSIVE), _CLOSE_SESSION})
_DATA_INCONSISTENCY = int(ErrorCode.DATAINCONSISTENCY)
_QUOTA_EXCEEDED = int(ErrorCode.QUOTAEXCEEDED)
_SESSION_EXPIRED = int(ErrorCode.SESSIONEXPIRED)


class UnderWay(Protocol):
    """The part of `zab.protocol.roles.Leading` that proposing needs."""

    outstanding_bytes: int
    """Bytes that were proposed and are not committed."""


class Proposing:
    """Turns the writes in `intake` into batches, on the leader."""

    def __init__(
        self, state: ReadState, sessions: Sessions, schedule: SnapshotSchedule, intake: Intake, newest_time: int
    ) -> None:
        self._state = state
        self._sessions = sessions
        self._schedule = schedule
        self._intake = intake
        self.prepare: Prepare | None = None
        """The leader's view of the state, including everything in flight; None on learners."""
        self.proposed: deque[Proposed] = deque()
        self._long: Long | None = None
        self._takes_large = True
        """Whether the batch may have large writes."""
        self._work = self._refused_bytes = 0
        """In this turn: the work prepared, and the bytes of refused writes, which had to be read all the same."""
        self.is_due = False
        """Whether the turn left writes only because it was long enough."""
        self.passes_small = False
        """Whether the writes that are left wait only because they are large."""
        self.refuses_writes = False
        """Whether no quorum agrees on the tree, so that no write can be decided (E6 wrong trees)."""
        self.is_short = False
        """Whether no quorum has disk space (`zab.protocol.disk_space`)."""
        self.newest_time = newest_time
        """The time of the newest known batch."""

    def lead(self, prepare: Prepare) -> None:
        """Turn writes into transactions from now on."""
        self.prepare = prepare

    def room_changed(self, *, is_short: bool) -> None:
        """Note whether a quorum has disk space."""
        self.is_short = is_short

    def delivered(self, time: int) -> None:
        """Note the time of a committed batch of another leader."""
        self.newest_time = time

    def take_proposed(self, batch: Batch) -> Proposed:
        """Take what this leader kept of a batch, which is now committed."""
        own = self.proposed.popleft()
        assert own.first == batch.first, (own.first, batch.first)
        assert len(own.txns) == batch.count
        return own

    def drop_role(self) -> None:
        """Drop what is under way: none of it goes to the next leader (G2 former roles)."""
        self.prepare = self._long = None
        self.is_due = self.passes_small = False
        self.proposed.clear()

    def proposals(
        self,
        next_zxid: Callable[[], int | None],
        wall: int,
        in_order: Callable[[], Collection[ServerId]] = tuple,
        under_way: UnderWay | None = None,
        *,
        refuses_writes: bool = False,
    ) -> Iterator[Propose]:
        """Propose the writes of the turn as transactions, in batches.

        `next_zxid` is called before each batch, after the one before was taken; None ends the turn, and the rest stays.
        `in_order`: see `Intake.stay`.
        """
        self.is_due = self.passes_small = False
        self.refuses_writes = refuses_writes
        size = self._work = self._refused_bytes = 0
        intake = self._intake
        if intake.turns:
            intake.sort(in_order())
        while intake.queue:
            zxid = next_zxid()
            self.is_due = zxid is not None
            is_over = self._work >= PREPARED_WORK_MAX or size + self._refused_bytes >= PREPARED_BYTES_MAX
            if zxid is None or is_over:
                break
            is_full = under_way is not None and under_way.outstanding_bytes >= LARGE_UNDER_WAY_BYTES_MAX
            self._takes_large = not is_full or self._long is not None
            if not self._takes_large and len(intake.queue[0][0][3]) >= LARGE_BYTES:
                self.is_due, self.passes_small = False, True
                break
            if wall != self.newest_time and (wall > self.newest_time or self.is_ahead_of(wall)):
                self.newest_time = wall
            proposal = self._batch(zxid, self.newest_time) if self._long is None else self._long_batch(zxid)
            if proposal is None:
                break
            size += len(proposal.body)
            self.is_due = False
            yield proposal
        if intake.queue:
            intake.stay(in_order)

    def is_ahead_of(self, wall: int) -> bool:
        """Whether the time of the newest batch is too far ahead of this wall clock to wait for it: the clock of some
        leader was wrong (A11 batch time)."""
        return self.newest_time > wall + TIME_AHEAD_MS_MAX

    def _batch(self, first: int, time: int) -> Propose | None:
        """A batch of as many writes as fit into it, and into the turn. A reconfiguration, a long write, and one larger
        than a batch are batches of their own. None: a long write is not prepared yet."""
        intake, config, tree, prepare = self._intake, self._state.config, self._state.tree, self.prepare
        assert prepare is not None
        assert self.proposed or first == tree.applied + 1 or first & 0xFFFFFFFF == 1, "the leader must have applied all"
        count_max, bytes_max = config.batches.max_batch_count, config.batches.max_batch_bytes
        said_over = self._sessions.said_over
        txns: list[Fields] = []
        connections: list[ClientConnection | None] = []
        records: list[bytes] = []
        size = flags = 0
        queue, arrived, passed = intake.queue, intake.arrived, 0
        for zxid in range(first, first + count_max):
            if not queue or self._refused_bytes > PREPARED_BYTES_MAX or (txns and self._work >= PREPARED_WORK_MAX):
                break
            asked, connection, owner, refused = queue[0]
            session, cxid, opcode, body, _ = asked
            if txns and (size + len(body) > bytes_max or opcode == _RECONFIG):
                break
            if len(body) >= LARGE_BYTES and not self._takes_large:
                break
            if self.refuses_writes or self.is_short:
                refused = refused or self._refused_now(opcode, body)
            if said_over and session in said_over:
                refused = _SESSION_EXPIRED
            work = 1
            if refused:
                txn: Fields = (zxid, time, session, cxid, _ERROR, refused, b"", None, (opcode,))
            elif opcode in _PERHAPS_LONG and prepare.is_long(asked):
                if txns:
                    break
                assert not passed
                self._long = Long(first, time, connection, owner, prepare.prepare_in_slices(asked, first, time))
                intake.begin()
                return self._long_batch(first)
            else:
                looked_at = prepare.acl_budget.entries_count
                txn = prepare.prepare(asked, zxid, time)
                work += prepare.acl_budget.entries_count - looked_at
                if txn[4] < 0 or opcode in _PERHAPS_LONG:
                    work += self._prepared(txn, owner)
                    self._refused_bytes += REFUSED_WORK * len(body) if _is_refused(txn) else 0
            self._work += work
            if queue is arrived:
                queue.popleft()
                passed += 1
            else:
                queue = intake.take(work)
            record = encode(txn)
            size += len(record)
            records.append(record)
            txns.append(txn)
            connections.append(connection)
            if txn[4] == _RECONFIG:
                flags = RECONFIG
                break
        if passed:
            intake.passed(passed)
        return self._propose(first, time, txns, connections, b"".join(records), flags)

    def _refused_now(self, opcode: int, body: bytes) -> int:
        """The error with which the leader now refuses a write of any client; 0 for none."""
        if self.refuses_writes and opcode not in _OF_SESSIONS:
            return _DATA_INCONSISTENCY
        return _QUOTA_EXCEEDED if self.is_short and needs_room(opcode, body) else 0

    def _long_batch(self, first: int) -> Propose | None:
        """Prepare a slice of a long write; None until it was the last one."""
        long = self._long
        assert long is not None
        if first != long.first:
            # A new epoch has begun meanwhile.
            self._abandon_long()
            return self._batch(first, self.newest_time)
        try:
            next(long.steps)
        except StopIteration as end:
            self._long = None
            txn, record = end.value
            work = 1 + self._prepared(txn, long.owner)
            self._work += work
            self._intake.take(work)
            return self._propose(first, long.time, [txn], [long.connection], record)
        return None

    def _prepared(self, txn: Fields, owner: ServerId | None) -> int:
        """The work of a transaction with its parts. Notes a session that begins or ends with it."""
        if txn[4] < _ERROR:
            self._sessions.proposed(Txn(*txn), owner, self._state.clock.now)
        return len(txn[8] or ()) if txn[4] in _OF_PARTS else 0

    def _abandon_long(self) -> None:
        """Abandon the preparation of a long write, as if it had not begun."""
        if self._long is not None:
            self._long.steps.close()
            self._long = None

    def _propose(
        self,
        first: int,
        time: int,
        txns: list[Fields],
        connections: list[ClientConnection | None],
        body: bytes,
        flags: int = 0,
    ) -> Propose:
        tree, size = self._state.tree, len(body)
        self.proposed.append(Proposed(first, txns, connections))
        self._state.metrics.last_proposal_size = size
        self._state.metrics.proposal_size.add(size)
        flags |= self._schedule.flags_of(len(txns), size)
        return Propose(Zxid(first), body, len(txns), time, flags, tree.applied, tree.digest, DIGEST_VERSION)


def _is_refused(txn: Fields) -> bool:
    """Whether a transaction changes nothing."""
    kind, parts = txn[4], txn[8]
    return kind == _ERROR or (kind == _MULTI and bool(parts) and parts[0][0] == _ERROR)
