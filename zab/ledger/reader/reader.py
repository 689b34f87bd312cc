"""The reader of one ledger: ranges, its last confirmed entry, its tail. It never changes anything.

It holds one frozen pair of metadata and version, with a watch; a newer version replaces the pair, an older one is
never used again. What may be read is up to the end of a closed ledger, else up to the highest LAC that was proved: by a
record that was read, by an answer to a question for it, by the beginning of the last fragment.

Bookies are asked by `fetching`, in the order of `replicas`; `range_read` delivers in order; `tail` waits for news, and
`lac` says what counts as a proof.

Not here: recovery, which closes a ledger to read it whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias

from zab.coordination.driver import Connected, Driver, Event, Expired, Results, Submit, Suspended, WatchFired
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Steps
from zab.ledger.entries.envelope import Digest, DigestMismatchError, Entry
from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError, LedgerMetadata, VersionedMetadata
from zab.ledger.reader.events import (
    Consumed,
    Delivered,
    LacLearnt,
    LearnLac,
    LedgerMissing,
    MetadataUnreadable,
    NotConfirmed,
    Question,
    ReadDone,
    ReaderSettings,
    ReadOutcome,
    ReadRange,
    Stop,
    Tail,
    WrongPassword,
)
from zab.ledger.reader.fetching import Fetching
from zab.ledger.reader.lac import LacQuestion, proved_lac
from zab.ledger.reader.range_read import RangeRead, Wanted
from zab.ledger.reader.replicas import Replicas
from zab.ledger.reader.tail import TailRead
from zab.ledger.store.events import Answered, BookiesKnown, ClientInput, Completed, Send
from zab.ledger.store.ledgers import read_ledger
from zab.ledger.wire.messages import BatchRead, EntryRead, LacRead, ReadBatch, ReadEntry, ReadLac
from zab.ledger.wire.status import Status

Effect: TypeAlias = Send | Submit | Completed | Delivered


class Reader:
    """`step` with questions and what happens; see `zab.ledger.reader.events`.

    password: None: that of the metadata; else it has to be the same.
    """

    def __init__(
        self, root: str, ledger: int, *, password: bytes | None = None, settings: ReaderSettings | None = None
    ) -> None:
        self._root = root
        self._ledger = ledger
        self._password = password
        self._settings = settings or ReaderSettings()
        self._driver = Driver()
        self._replicas = Replicas(self._settings)
        self._versioned: VersionedMetadata | None = None
        self._ended: ReadOutcome | None = None
        self._lac = NONE
        self._waiting: list[tuple[int, ReadRange | Tail | LearnLac]] = []
        """What was asked before the metadata were known, and until when it waits for them."""
        self._ranges: dict[Hashable, RangeRead] = {}
        self._tails: dict[Hashable, TailRead] = {}
        self._lacs: dict[Hashable, LacQuestion] = {}
        self._effects: list[Effect] = []
        self._now_ms = 0
        self._look()

    @property
    def versioned(self) -> VersionedMetadata | None:
        """The newest metadata that were seen; None: none yet."""
        return self._versioned

    @property
    def lac(self) -> int:
        """The highest entry that is proved to be confirmed."""
        return self._lac

    @property
    def mismatches(self) -> int:
        """How many records were damaged."""
        return self._replicas.mismatches

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has to be called at the latest; None: only with inputs."""
        times: list[int | None] = [self._driver.deadline_ms, *(until_ms for until_ms, _ in self._waiting)]
        if self._versioned is not None:
            times.append(self._fetching.deadline_ms)
        times += [question.deadline_ms for question in self._lacs.values()]
        times += [tail.deadline_ms for tail in self._tails.values()]
        times += [wanted.look_until_ms for of in self._all_ranges() for wanted in of.wanted.values()]
        return min((time for time in times if time is not None), default=None)

    def step(self, now_ms: int, inputs: Iterable[ClientInput | Question]) -> list[Effect]:
        """Take what happened and what is asked, and say what is to be done."""
        self._now_ms = now_ms
        for each in inputs:
            self._take(each)
        self._effects += self._driver.advance(now_ms)
        if self._versioned is not None and self._ended is None:
            waiting, self._waiting = self._waiting, []
            for _, question in waiting:
                self._on_question(question, self._versioned.metadata)
            self._work(self._versioned.metadata)
            self._effects += self._driver.advance(now_ms)
        elif self._waiting:
            self._give_up_waiting()
        effects, self._effects = self._effects, []
        return effects

    # --------------------------------------------------------------------------------------------------------- inputs

    def _take(self, each: ClientInput | Question) -> None:
        match each:
            case Answered(bookie, request, answer):
                if self._versioned is not None:
                    self._on_answer(bookie, request, answer)
            case BookiesKnown():
                self._replicas.on_bookies(each)
            case Connected():
                self._driver.on_connected()
            case Suspended():
                self._driver.on_suspended()
            case Expired():
                # The watch went with the session.
                self._driver.on_suspended()
                self._driver.clear()
                self._look()
            case Results():
                self._driver.on_results(each)
            case WatchFired():
                self._look()
            case Consumed(token, entry):
                if (of := self._range_of(token)) is not None:
                    of.consumed(entry)
            case Stop(token):
                self._stop(token)
            case ReadRange() | Tail() | LearnLac():
                if self._ended is not None:
                    self._effects.append(Completed(each.token, self._ended))
                elif each.token in self._tokens():
                    raise ValueError(f"two questions have the token {each.token!r}")
                else:
                    self._waiting.append((self._now_ms + self._settings.patience_ms, each))

    def _give_up_waiting(self) -> None:
        """The coordination service has not shown the metadata in time."""
        late = [question for until_ms, question in self._waiting if until_ms <= self._now_ms]
        self._waiting = [each for each in self._waiting if each[0] > self._now_ms]
        outcome = MetadataUnreadable(f"the coordination service has not answered for {self._settings.patience_ms} ms")
        self._effects += [Completed(question.token, outcome) for question in late]

    def _tokens(self) -> set[Hashable]:
        waiting = (question.token for _, question in self._waiting)
        return {*self._ranges, *self._tails, *self._lacs, *waiting}

    def _on_question(self, question: ReadRange | Tail | LearnLac, metadata: LedgerMetadata) -> None:
        match question:
            case ReadRange(token, first, last, is_unconfirmed):
                is_refused = last > self._lac and (metadata.is_closed or not is_unconfirmed)
                if first < 0 or is_refused:
                    self._effects.append(Completed(token, NotConfirmed(self._lac)))
                else:
                    self._ranges[token] = RangeRead(token, first, last, self._settings)
            case Tail(token, first):
                of = RangeRead(token, max(first, 0), self._lac, self._settings)
                self._tails[token] = TailRead(of, self._ledger, self._settings)
            case LearnLac(token):
                if metadata.is_closed:
                    self._effects.append(Completed(token, LacLearnt(metadata.last)))
                else:
                    self._ask_lac(token, metadata)

    def _ask_lac(self, token: Hashable, metadata: LedgerMetadata) -> None:
        deadline_ms = self._now_ms + self._settings.request_timeout_ms
        self._lacs[token] = LacQuestion.of(token, metadata, self._lac, deadline_ms)
        self._effects += [Send(bookie, ReadLac(self._ledger)) for bookie in metadata.last_fragment.ensemble]

    def _stop(self, token: Hashable) -> None:
        self._waiting = [each for each in self._waiting if each[1].token != token]
        self._lacs.pop(token, None)
        if (of := self._range_of(token)) is not None:
            self._fetching.forget(of)
        self._ranges.pop(token, None)
        self._tails.pop(token, None)

    def _range_of(self, token: Hashable) -> RangeRead | None:
        tail = self._tails.get(token)
        return self._ranges.get(token) if tail is None else tail.range

    def _all_ranges(self) -> list[RangeRead]:
        return [*self._ranges.values(), *(tail.range for tail in self._tails.values())]

    # -------------------------------------------------------------------------------------------------------- answers

    def _on_answer(self, bookie: BookieId, request: object, answer: object) -> None:
        match request, answer:
            case ReadEntry(previous_lac=None) | ReadBatch(), EntryRead() | BatchRead():
                self._fetching.on_answer(bookie, request, answer, self._now_ms)
            case ReadEntry(), EntryRead():
                self._on_poll(bookie, request, answer)
            case ReadLac(), LacRead():
                self._on_lac(bookie, request, answer)

    def _on_poll(self, bookie: BookieId, request: ReadEntry, answer: EntryRead) -> None:
        """The end of a long poll. The entry that came along proves what was confirmed before it."""
        if answer.envelope:
            try:
                self._on_entry(self._digest.open(answer.envelope, self._ledger, answer.entry))
            except DigestMismatchError:
                self._replicas.mismatches += 1
        previous = NONE if request.previous_lac is None else request.previous_lac
        hint = NONE if answer.max_lac is None else answer.max_lac
        for tail in self._tails.values():
            if tail.bookie != bookie or tail.request != request:
                continue
            if self._lac > previous:
                tail.on_news()
            elif answer.status == Status.OK and (answer.envelope or hint > previous):
                self._effects.append(tail.prove(bookie, self._now_ms))
            else:
                tail.rest(self._now_ms)

    def _on_lac(self, bookie: BookieId, request: ReadLac, answer: LacRead) -> None:
        proved = proved_lac(self._digest, self._ledger, answer)
        if proved is not None:
            self._raise(proved)
        for question in self._lacs.values():
            question.on_answer(bookie, answer.status, proved)
        for tail in self._tails.values():
            if tail.bookie == bookie and tail.request == request:
                if self._lac > tail.range.end or not tail.range.is_over:
                    tail.on_news()
                else:
                    tail.rest(self._now_ms)

    def _on_entry(self, entry: Entry) -> None:
        self._raise(entry.proved_lac)

    def _raise(self, proved: int) -> None:
        """A record of the writer says that this entry was confirmed. The end of a closed ledger does not move."""
        if self._versioned is not None and not self._versioned.metadata.is_closed:
            self._lac = max(self._lac, proved)

    # ----------------------------------------------------------------------------------------------------------- work

    def _work(self, metadata: LedgerMetadata) -> None:
        self._effects += self._fetching.tick(metadata, self._now_ms)
        for of in list(self._ranges.values()):
            self._read_on(of, metadata)
            if of.is_over:
                self._finish(of, ReadDone(of.end))
        for tail in list(self._tails.values()):
            tail.range.end = self._lac
            self._read_on(tail.range, metadata)
            if tail.range.token not in self._tails or not tail.range.is_over:
                continue
            if metadata.is_closed:
                self._finish(tail.range, ReadDone(metadata.last))
            elif (sent := tail.tick(metadata, self._lac, self._now_ms)) is not None:
                self._effects.append(sent)
        for token, question in list(self._lacs.items()):
            outcome = LacLearnt(self._lac) if metadata.is_closed else question.outcome(self._now_ms)
            if outcome is not None:
                del self._lacs[token]
                self._effects.append(Completed(token, outcome))

    def _read_on(self, of: RangeRead, metadata: LedgerMetadata) -> None:
        if entries := of.deliver():
            self._effects.append(Delivered(of.token, entries))
        of.plan()
        for wanted in self._fetching.exhausted(of, metadata):
            self._exhausted(of, wanted)
        for wanted in of.wanted.values():
            if wanted.look_until_ms is not None and self._now_ms >= wanted.look_until_ms:
                wanted.look_until_ms = None
                of.fail(wanted, wanted.failure(is_proved=False))
        if of.outcome is not None:
            self._finish(of, of.outcome)
        else:
            self._effects += self._fetching.ask(of, metadata, self._now_ms)

    def _exhausted(self, of: RangeRead, wanted: Wanted) -> None:
        """No replica is left. The metadata may be old: look once."""
        if wanted.has_looked:
            of.fail(wanted, wanted.failure())
        else:
            wanted.has_looked = True
            wanted.look_until_ms = self._now_ms + self._settings.patience_ms
            self._look()

    def _finish(self, of: RangeRead, outcome: ReadOutcome) -> None:
        self._fetching.forget(of)
        self._ranges.pop(of.token, None)
        self._tails.pop(of.token, None)
        self._effects.append(Completed(of.token, outcome))

    # ------------------------------------------------------------------------------------------------------- metadata

    def _look(self) -> None:
        self._driver.offer(Event("look", self._read_metadata))

    def _read_metadata(self) -> Steps[None]:
        try:
            found = yield from read_ledger(self._root, self._ledger, watch=True)
        except (CoordinationError, InvalidMetadataError) as error:
            self._end(MetadataUnreadable(str(error)))
            return
        if found is None:
            self._end(LedgerMissing())
        elif self._password is not None and found.metadata.password != self._password:
            self._end(WrongPassword())
        else:
            self._on_metadata(found)

    def _on_metadata(self, found: VersionedMetadata) -> None:
        metadata = found.metadata
        if self._versioned is None:
            self._digest = Digest(metadata.digest_type, metadata.password)
            self._fetching = Fetching(self._ledger, self._digest, self._settings, self._replicas, self._on_entry)
        if self._versioned is None or found.version > self._versioned.version:
            self._versioned = found
            floor = metadata.last if metadata.is_closed else metadata.last_fragment.first - 1
            self._lac = floor if metadata.is_closed else max(self._lac, floor)
        if self._driver.size > 1:
            return  # Somebody wanted a look after this one had begun.
        for of in self._all_ranges():
            for wanted in of.wanted.values():
                wanted.look_until_ms = None

    def _end(self, outcome: ReadOutcome) -> None:
        """Nothing can be read, from now on."""
        self._ended = outcome
        for of in self._all_ranges():
            self._fetching.forget(of)
        self._effects += [Completed(token, outcome) for token in self._tokens()]
        for each in (self._ranges, self._tails, self._lacs, self._waiting):
            each.clear()
