"""The recovery of one ledger: fences its last fragment, finds its end, and closes it. Safe at any time, by any number.

    R1  mark     the metadata say IN_RECOVERY before the first bookie is asked: the writer cannot move the last fragment
                 any more. Base: the metadata as marked, or as found marked; its last fragment is what is recovered
    R2  fence    `reading.LacPhase`
    R3  read     `reading.EntryRead` for each entry after the LAC, a window of them at a time; the verdicts are used in
                 order, and the first absent entry is the end
    R4  write    `write_back.WriteBack`, in order, while reading goes on
        measure  the length of a ledger whose last entry was not read in R3: read for its length alone
    R5  close    when the end is known and every entry up to it is confirmed; `closing` says what happens if somebody
                 else was faster. Nothing else changes the metadata after R1

It kills the writer: what the writer has not acknowledged may be in the closed ledger or not. A recovery that gets no
further is aborted and leaves the ledger IN_RECOVERY, for the next one.

Not here: who decides that a ledger is to be recovered, and when it is tried again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from typing import TypeAlias

from zab.coordination.driver import Connected, Driver, Event, Expired, Results, Submit, Suspended
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Steps
from zab.ledger.entries.envelope import Digest
from zab.ledger.entries.ids import ID_MAX, NONE, BookieId
from zab.ledger.metadata.changes import BY_RECOVERY, ForbiddenChangeError
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError, LedgerMetadata, VersionedMetadata
from zab.ledger.placement.placement import NotEnoughBookiesError, Placement
from zab.ledger.quorums.coverage import absent_needed
from zab.ledger.recovery.asking import Asking
from zab.ledger.recovery.closing import Next, closed, next_after
from zab.ledger.recovery.events import (
    BadPassword,
    NoSuchLedger,
    Recovered,
    RecoveryAborted,
    RecoveryOutcome,
    RecoverySettings,
)
from zab.ledger.recovery.reading import EntryRead, LacPhase, Verdict
from zab.ledger.recovery.write_back import StuckError, WriteBack
from zab.ledger.store.events import Answered, BookiesKnown, ClientInput, Completed, Send
from zab.ledger.store.ledgers import Changed, Refused, change_ledger, read_ledger
from zab.ledger.wire.messages import Added
from zab.ledger.wire.messages import EntryRead as EntryReadAnswer

Effect: TypeAlias = Send | Submit | Completed


class _Phase(enum.Enum):
    MARKING = "mark"
    FENCING = "fence"
    READING = "read"
    MEASURING = "measure"
    CLOSING = "close"
    ENDED = "end"


class Recovery:
    """`step` until `is_over`; the outcome comes as `Completed(token, RecoveryOutcome)`.

    password: None: that of the metadata, for repairs; else it has to be the same.
    """

    def __init__(
        self,
        root: str,
        ledger: int,
        placement: Placement,
        *,
        token: Hashable = None,
        password: bytes | None = None,
        settings: RecoverySettings | None = None,
    ) -> None:
        self._root = root
        self._ledger = ledger
        self._placement = placement
        self._token = token
        self._password = password
        self._settings = settings or RecoverySettings()
        self._driver = Driver()
        self._effects: list[Effect] = []
        self._now_ms = 0
        self._progress_ms: int | None = None
        self._restarts = 0
        self._phase = _Phase.MARKING
        self._has_to_look = False
        self._driver.offer(self._event("mark", self._mark))

    @property
    def is_over(self) -> bool:
        return self._phase is _Phase.ENDED

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has to be called at the latest; None: only with inputs."""
        if self.is_over or self._progress_ms is None:
            return None
        times: list[int | None] = [self._driver.deadline_ms, self._progress_ms + self._settings.patience_ms]
        if self._phase not in (_Phase.MARKING, _Phase.CLOSING):
            times += [asking.deadline_ms for asking in self._askings()]
            times.append(self._writes.deadline_ms)
        return min(time for time in times if time is not None)

    def step(self, now_ms: int, inputs: Iterable[ClientInput]) -> list[Effect]:
        """Take what happened, and say what is to be done."""
        self._now_ms = now_ms
        if self._progress_ms is None:
            self._progress_ms = now_ms
        for each in inputs:
            if not self.is_over:
                self._take(each)
        if not self.is_over:
            self._work()
        for _ in range(self._settings.restarts_max + 2):
            if self.is_over:
                break
            submitted = list(self._driver.advance(now_ms))
            self._effects += submitted
            before = self._phase
            self._work()
            if not submitted and self._phase is before:
                break
        if not self.is_over and now_ms - self._progress_ms >= self._settings.patience_ms:
            self._give_up(f"no progress for {self._settings.patience_ms} ms")
        effects, self._effects = self._effects, []
        return effects

    # --------------------------------------------------------------------------------------------------------- inputs

    def _take(self, each: ClientInput) -> None:
        match each:
            case Answered(bookie, _, EntryReadAnswer() as answer):
                self._on_read(bookie, answer)
            case Answered(bookie, _, Added(status, ledger, entry)) if self._is_working and ledger == self._ledger:
                self._writes.on_answer(bookie, entry, status, self._now_ms)
            case BookiesKnown():
                self._placement.know(each.available)
            case Connected():
                self._driver.on_connected()
            case Suspended():
                self._driver.on_suspended()
            case Expired():
                self._on_expired()
            case Results():
                self._driver.on_results(each)

    @property
    def _is_working(self) -> bool:
        return self._phase in (_Phase.FENCING, _Phase.READING, _Phase.MEASURING)

    def _on_read(self, bookie: BookieId, answer: EntryReadAnswer) -> None:
        if not self._is_working or answer.ledger != self._ledger:
            return
        if answer.entry == NONE:
            if self._phase is _Phase.FENCING:
                self._lac.on_answer(bookie, answer, self._now_ms)
        elif (read := self._reads.get(answer.entry)) is not None:
            read.on_answer(bookie, answer, self._now_ms)

    def _on_expired(self) -> None:
        """The handler that ran is gone, and its last write was done or not."""
        self._driver.on_suspended()
        self._driver.clear()
        if self._phase is _Phase.MARKING:
            self._driver.offer(self._event("mark", self._mark))
        elif self._phase is _Phase.CLOSING:
            self._has_to_look = True
            self._driver.offer(self._event("close", self._close))

    def _event(self, name: str, handler: Callable[[], Steps[None]]) -> Event:
        """A handler; what the coordination service refuses for good ends the recovery."""

        def guarded() -> Steps[None]:
            try:
                yield from handler()
            except (CoordinationError, ForbiddenChangeError, InvalidMetadataError) as error:
                self._give_up(str(error))

        return Event(name, guarded)

    # ------------------------------------------------------------------------------------------------------- R1: mark

    def _mark(self) -> Steps[None]:
        while True:
            found = yield from read_ledger(self._root, self._ledger)
            if found is None:
                self._end(NoSuchLedger())
                return
            if self._password is not None and self._password != found.metadata.password:
                self._end(BadPassword())
                return
            if found.metadata.is_closed:
                self._end(Recovered(found))
                return
            if not found.metadata.is_open:
                self._begin(found)
                return
            changed = yield from change_ledger(self._root, found, found.metadata.recovering(), BY_RECOVERY)
            if isinstance(changed, Changed):
                self._begin(changed.versioned)
                return
            # Refused, or nobody knows: what is there now decides.

    def _begin(self, base: VersionedMetadata) -> None:
        """The base is known, and the writer can no longer change it."""
        metadata = base.metadata
        self._base = base
        self._digest = Digest(metadata.digest_type, metadata.password)
        self._lac = LacPhase.of(self._ledger, metadata, self._digest, self._settings)
        self._reads: dict[int, EntryRead] = {}
        self._writes = WriteBack(self._ledger, self._digest.master_key, metadata, self._settings, self._replacement)
        self._next = 0
        self._unread = 0
        self._largest = 0
        self._last: int | None = None
        self._length: int | None = None
        self._enter(_Phase.FENCING)

    def _begin_again(self) -> None:
        self._restarts += 1
        if self._restarts > self._settings.restarts_max:
            self._give_up(f"the ledger changed {self._restarts} times meanwhile")
        else:
            self._enter(_Phase.MARKING)
            self._driver.offer(self._event("mark", self._mark))

    # ---------------------------------------------------------------------------------------------- R2 to R4: bookies

    def _work(self) -> None:
        if self._phase is _Phase.FENCING:
            self._fence()
        if self._phase is _Phase.READING:
            self._read_and_write()
        if self._phase is _Phase.MEASURING:
            self._measure()

    def _fence(self) -> None:
        if self._lac.is_over:
            if self._lac.newest is not None:
                self._largest = len(self._lac.newest.payload) + 64
            self._next = self._unread = self._lac.start + 1
            self._enter(_Phase.READING)
        else:
            self._ask(self._lac.asking)

    def _read_and_write(self) -> None:
        """`_next`: the entry whose verdict is used next. `_unread`: the entry that is read next."""
        self._effects += self._writes.tick(self._now_ms)
        while self._last is None:
            self._use_verdicts()
            self._confirm()
            if self._last is not None or self._unread > ID_MAX or not self._has_room():
                break
            fences = True
            self._reads[self._unread] = EntryRead.of(
                self._ledger, self._unread, self._base.metadata, self._digest, self._settings, fences
            )
            self._unread += 1
        for read in self._reads.values():
            if read.verdict is None:
                self._ask(read.asking)
        self._confirm()
        try:
            self._effects += self._writes.mend(self._now_ms)
        except StuckError as error:
            metadata = self._base.metadata
            self._end(
                RecoveryAborted(str(error), error.entry, metadata.ack_quorum, frozenset(), dict(self._writes.failed))
            )
            return
        if self._last is not None and self._writes.first_unconfirmed is None:
            self._enter(_Phase.MEASURING)

    def _has_room(self) -> bool:
        """Whether one more entry may be read. What is not read yet counts as the largest entry so far."""
        oldest = self._writes.first_unconfirmed
        under_way = self._unread - (self._next if oldest is None else oldest)
        if under_way >= self._settings.window_entries:
            return False
        held = self._writes.pending_bytes + sum(len(read.envelope) for read in self._reads.values())
        unread = sum(read.verdict is None for read in self._reads.values())
        expected = (unread + 1) * (self._largest or self._settings.entry_bytes)
        return under_way == 0 or held + expected <= self._settings.window_bytes

    def _use_verdicts(self) -> None:
        while (read := self._reads.get(self._next)) is not None and read.verdict is not None:
            self._progress_ms = self._now_ms
            if read.verdict is Verdict.ABSENT:
                self._last = self._next - 1
                self._reads.clear()
                return
            del self._reads[self._next]
            self._largest = max(self._largest, len(read.envelope))
            self._length = read.length
            self._effects += self._writes.add(read.entry, read.envelope, self._now_ms)
            self._next += 1

    def _confirm(self) -> None:
        if self._writes.confirm():
            self._progress_ms = self._now_ms

    def _measure(self) -> None:
        """The end was found; how many bytes are there up to it?"""
        last = self._last
        assert last is not None
        newest = self._lac.newest
        if last == NONE:
            self._length = 0
        elif self._length is None and newest is not None and newest.entry == last:
            self._length = newest.length
        if self._length is None:
            read = self._reads.get(last)
            if read is None:
                fences = False
                read = self._reads[last] = EntryRead.of(
                    self._ledger, last, self._base.metadata, self._digest, self._settings, fences
                )
            if read.verdict is Verdict.ABSENT:
                self._give_up(f"entry {last} was acknowledged, and none of its bookies has it")
            elif read.verdict is Verdict.PRESENT:
                self._length = read.length
            else:
                self._ask(read.asking)
        if self._length is not None and self._phase is _Phase.MEASURING:
            self._enter(_Phase.CLOSING)
            self._driver.offer(self._event("close", self._close))

    def _ask(self, asking: Asking) -> None:
        self._effects += [Send(bookie, asking.request) for bookie in asking.due(self._now_ms)]

    def _askings(self) -> list[Asking]:
        if self._phase is _Phase.FENCING:
            return [self._lac.asking]
        return [read.asking for read in self._reads.values() if read.verdict is None or self._last is not None]

    def _replacement(self, index: int, ensemble: Sequence[BookieId], excluded: Set[BookieId]) -> BookieId | None:
        try:
            quorum = self._base.metadata.write_quorum
            return self._placement.replace(index, ensemble, quorum, self._now_ms, excluded)
        except NotEnoughBookiesError:
            return None

    # ------------------------------------------------------------------------------------------------------ R5: close

    def _close(self) -> Steps[None]:
        assert self._last is not None
        assert self._length is not None
        while True:
            base = self._base
            current: VersionedMetadata | None = None
            is_known = False
            if not self._has_to_look:
                wanted = closed(base.metadata, self._writes.fragments, self._last, self._length)
                changed = yield from change_ledger(self._root, base, wanted, BY_RECOVERY)
                if isinstance(changed, Changed):
                    self._end(Recovered(changed.versioned))
                    return
                if isinstance(changed, Refused):
                    current, is_known = changed.current, True
            if not is_known:
                # Nobody knows whether the last write was done.
                current = yield from read_ledger(self._root, self._ledger)
            self._has_to_look = False
            if current is None:
                self._end(NoSuchLedger())
                return
            match next_after(base.metadata, current.metadata):
                case Next.ACCEPT:
                    self._end(Recovered(current))
                    return
                case Next.BEGIN_AGAIN:
                    self._begin_again()
                    return
                case Next.CLOSE_AGAIN:
                    self._base = current

    # ------------------------------------------------------------------------------------------------------------ end

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._progress_ms = self._now_ms

    def _end(self, outcome: RecoveryOutcome) -> None:
        self._phase = _Phase.ENDED
        self._effects.append(Completed(self._token, outcome))

    def _give_up(self, why: str) -> None:
        self._end(self._aborted(why))
        self._driver = Driver()

    def _aborted(self, why: str) -> RecoveryAborted:
        """With the answers that are missing: of the ensemble, of the entry whose verdict is next, or of the adds."""
        reason = f"{self._phase.value}: {why}"
        if self._phase in (_Phase.MARKING, _Phase.CLOSING):
            return RecoveryAborted(reason)
        metadata: LedgerMetadata = self._base.metadata
        if self._phase is _Phase.FENCING:
            asking = self._lac.asking
            needed = metadata.ensemble_size - metadata.ack_quorum + 1
            return RecoveryAborted(reason, NONE, needed, frozenset(asking.answered), asking.unknown)
        entry = self._last if self._phase is _Phase.MEASURING and self._last is not None else self._next
        if (read := self._reads.get(entry)) is not None:
            asking = read.asking
            needed = 1 if self._phase is _Phase.MEASURING else absent_needed(metadata.write_quorum, metadata.ack_quorum)
            return RecoveryAborted(reason, entry, needed, frozenset(asking.answered), asking.unknown)
        oldest = self._writes.first_unconfirmed
        entry = NONE if oldest is None else oldest
        return RecoveryAborted(reason, entry, metadata.ack_quorum, frozenset(), dict(self._writes.failed))
