"""What changes ledgers: adds, fences, explicit LACs. Each is decided at once, in the order of arrival.

An add of an entry that is here with the same bytes is answered when the first one is durable, not before: the client
counts it as a copy. With other bytes and the right key it takes the place of the older one: recovery and repair by
BookKeeper's clients make an entry again with another LAC and digest.

Why an add is refused, in the order in which it is checked:

| status | why |
|---|---|
| BAD_REQUEST | negative ids, ids that are not those of the envelope, an envelope that is too short or too long |
| TOO_MANY_REQUESTS | the write cache is full, or there are too many ledgers |
| READ_ONLY | the bookie is read-only, and the add is not urgent or the reserve is used up |
| FENCED, IO_ERROR | the ledger was deleted; ordinary adds and recovery adds |
| FENCED | the ledger is fenced, and it is no recovery add |
| UNAUTHORIZED | the key is another |

A key of zeros is that of a client that knows none: it is let in, and a ledger that was made with it takes the first
other key.

Not here: answers before they are durable (`journal.py`), what reads (`reads.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import Asked
from zab.ledger.bookie.journal import Journal, Waiting
from zab.ledger.bookie.ledgers import Ledger, LedgerTable
from zab.ledger.bookie.records import FENCE, LEDGER, LIMBO, lac_record, ledger_record, tombstones_record
from zab.ledger.bookie.write_cache import ENTRY_OVERHEAD_BYTES, WriteCache
from zab.ledger.entries.envelope import HEADER_BYTES, LAC_HEADER_BYTES, lac_header_of
from zab.ledger.entries.ids import NONE
from zab.ledger.entries.keys import KEY_BYTES, NO_KEY
from zab.ledger.wire.messages import Added, AddEntry, LacWritten, WriteLac
from zab.ledger.wire.status import Status

LAC_PACKET_BYTES_MAX: Final = LAC_HEADER_BYTES + 20
"""With the longest digest."""

_unpack_header = Struct(">qqq").unpack_from


class Writes:
    """The write path of a bookie."""

    def __init__(self, config: BookieConfig, table: LedgerTable, cache: WriteCache, journal: Journal) -> None:
        self._config = config
        self._table = table
        self._cache = cache
        self._journal = journal
        self.is_read_only = False
        self.has_reserve = True
        """Whether urgent adds are taken when it is read-only."""
        self.raised: dict[Ledger, None] = {}
        """Ledgers whose long polls are to be woken; the bookie empties it."""
        self.at_once: list[Waiting] = []
        """Answers that wait for nothing; the bookie empties it."""
        self.is_changed = False
        """Whether there is anything that no checkpoint has."""

    @property
    def is_full(self) -> bool:
        """Whether the write cache takes nothing more."""
        return self._cache.size + self._cache.flushing_size >= self._config.cache_bytes_max

    # ----------------------------------------------------------------------------------------------------------- adds

    def add(self, asked: Sequence[Asked], wall_ms: int) -> None:
        """Take a run of adds. What is not the next entry of a known ledger that is not fenced goes the long way."""
        journal, bytes_max = self._journal, self._config.entry_bytes_max
        by_id, envelopes, waiting = self._table.by_id, journal.envelopes, journal.waiting
        size, before, is_open = 0, len(envelopes), not (self.is_read_only or self.is_full)
        ok = Status.OK
        for each in asked:
            request = each.request
            assert type(request) is AddEntry
            envelope, entry = request.envelope, request.entry
            ledger = by_id.get(request.ledger)
            if (
                is_open
                and ledger is not None
                and ledger.active is not None
                and not ledger.is_fenced
                and entry > ledger.last
                and request.key == ledger.key
                and not request.is_deferred
                and HEADER_BYTES <= len(envelope) <= bytes_max
            ):
                named, entry_id, lac = _unpack_header(envelope)
                if named == request.ledger and entry_id == entry:
                    ledger.active[entry] = envelope
                    ledger.last = entry
                    if ledger.lac < lac < entry:
                        ledger.lac, ledger.lac_time_ms = lac, wall_ms
                        if ledger.watchers:
                            self.raised[ledger] = None
                    envelopes.append(envelope)
                    waiting.append((each.connection, each.number, Added(ok, named, entry)))
                    size += len(envelope)
                    continue
            self._add_slowly(each, request, wall_ms)
        self._took(size, len(envelopes) - before)

    def _took(self, size: int, count: int) -> None:
        self._journal.turn_bytes += size
        self._cache.size += size + ENTRY_OVERHEAD_BYTES * count
        if count:
            self.is_changed = True

    def _add_slowly(self, each: Asked, request: AddEntry, wall_ms: int) -> None:
        envelope, entry = request.envelope, request.entry
        found = self._ledger_for(request)
        if isinstance(found, Status):
            self.at_once.append((each.connection, each.number, Added(found, request.ledger, entry)))
            return
        answer = (each.connection, each.number, Added(Status.OK, request.ledger, entry))
        self._table.needs(found.id)
        if found.cached(entry) != envelope:
            self._store(found, entry, envelope, wall_ms)
        if request.is_deferred and not request.is_recovery:
            self.at_once.append(answer)
        else:
            self._journal.waiting.append(answer)

    def _store(self, ledger: Ledger, entry: int, envelope: bytes, wall_ms: int) -> None:
        self._cache.open(ledger)[entry] = envelope
        ledger.last = max(ledger.last, entry)
        lac = _unpack_header(envelope)[2]
        if lac < entry:
            self._learn(ledger, lac, wall_ms)
        self._journal.envelopes.append(envelope)
        self._took(len(envelope), 0)

    def _learn(self, ledger: Ledger, lac: int, wall_ms: int) -> None:
        if lac > ledger.lac:
            ledger.lac, ledger.lac_time_ms = lac, wall_ms
            if ledger.watchers:
                self.raised[ledger] = None

    def _ledger_for(self, request: AddEntry) -> Ledger | Status:
        """The ledger that takes this add, or why not. It is made if need be."""
        size = len(request.envelope)
        if request.ledger < 0 or request.entry < 0 or not HEADER_BYTES <= size <= self._config.entry_bytes_max:
            return Status.BAD_REQUEST
        if _unpack_header(request.envelope)[:2] != (request.ledger, request.entry):
            return Status.BAD_REQUEST
        if self.is_full:
            return Status.TOO_MANY_REQUESTS
        if self.is_read_only and not (request.is_urgent and self.has_reserve):
            return Status.READ_ONLY
        if request.ledger in self._table.tombstones:
            return Status.IO_ERROR if request.is_recovery else Status.FENCED
        ledger = self._table.get(request.ledger)
        if ledger is not None and ledger.is_fenced and not request.is_recovery:
            return Status.FENCED
        return self._opened(ledger, request.ledger, request.key)

    def _opened(self, ledger: Ledger | None, ledger_id: int, key: bytes) -> Ledger | Status:
        """The ledger, made if there is none, for a request with this key; or why not."""
        if len(key) != KEY_BYTES:
            return Status.UNAUTHORIZED
        if ledger is None:
            if len(self._table) >= self._config.ledgers_max:
                return Status.TOO_MANY_REQUESTS
            ledger = self._table.create(ledger_id, key)
        elif key in (ledger.key, NO_KEY):
            return ledger
        elif ledger.key == NO_KEY:
            ledger.key = key
        else:
            return Status.UNAUTHORIZED
        self._record(ledger_record(LEDGER, ledger_id, key))
        return ledger

    def _record(self, record: bytes) -> None:
        self._journal.records.append(record)
        self.is_changed = True

    # --------------------------------------------------------------------------------------------------------- fences

    def fence(self, ledger_id: int, key: bytes) -> Ledger | Status:
        """Fence a ledger, also one that is not known; or why not. Whatever is answered has to wait for the journal."""
        if len(key) != KEY_BYTES:
            return Status.UNAUTHORIZED
        if ledger_id in self._table.tombstones:
            return Status.NO_LEDGER
        ledger = self._opened(self._table.get(ledger_id), ledger_id, key)
        if isinstance(ledger, Ledger) and not ledger.is_fenced:
            ledger.is_fenced = True
            ledger.fence_number = self._journal.next_number
            self._record(ledger_record(FENCE, ledger_id, ledger.key))
            if ledger.watchers:
                self.raised[ledger] = None
        return ledger

    def lose(self, ledger_id: int, key: bytes) -> None:
        """Entries of a ledger may be lost."""
        if ledger_id in self._table.tombstones:
            return
        ledger = self._table.get(ledger_id) or self._table.create(ledger_id, key)
        ledger.is_fenced = ledger.is_limbo = True
        ledger.fence_number = self._journal.next_number
        self._record(ledger_record(LIMBO, ledger_id, ledger.key))

    def note_tombstones(self, first: int, last: int) -> None:
        """These ledgers are deleted."""
        self._record(tombstones_record(first, last))

    # -------------------------------------------------------------------------------------------------- explicit LACs

    def write_lac(self, each: Asked, request: WriteLac, wall_ms: int) -> None:
        """Keep an explicit LAC, as it came; a lower one than the last changes nothing."""
        status = self._keep_lac(request, wall_ms)
        answer = (each.connection, each.number, LacWritten(status, request.ledger))
        (self._journal.waiting if status is Status.OK else self.at_once).append(answer)

    def _keep_lac(self, request: WriteLac, wall_ms: int) -> Status:
        ledger_id, packet = request.ledger, request.packet
        if ledger_id < 0 or not LAC_HEADER_BYTES <= len(packet) <= LAC_PACKET_BYTES_MAX:
            return Status.BAD_REQUEST
        named, lac = lac_header_of(packet)
        if named != ledger_id or lac < NONE:
            return Status.BAD_REQUEST
        if self.is_read_only:
            return Status.READ_ONLY
        if ledger_id in self._table.tombstones:
            return Status.NO_LEDGER
        ledger = self._opened(self._table.get(ledger_id), ledger_id, request.key)
        if isinstance(ledger, Status):
            return ledger
        if lac > ledger.explicit_lac or not ledger.lac_packet:
            ledger.explicit_lac, ledger.lac_packet = lac, packet
            self._record(lac_record(ledger_id, ledger.key, packet))
            self._journal.turn_bytes += len(packet)
            self._learn(ledger, lac, wall_ms)
        return Status.OK
