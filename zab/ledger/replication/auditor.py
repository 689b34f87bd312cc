"""The auditor: marks the ledgers that lack copies. One of all candidates is elected; a second one would do no harm.

    lost bookies     when a bookie is not registered any more, and did not come back within the delay: every ledger that
                     names it. With more than one of them there is no delay. Once a day, all ledgers are searched anyhow
    all ledgers      entries of each member of complete fragments are read; who lacks one is marked
    replicas         bookies are asked which entries they have; entries with too few copies are counted
    placement        ensembles that break the rule of racks are counted
    orphans          ledgers of managed ledgers that crashes have left are closed, and a day later deleted

Nothing is done while auto-recovery is disabled. The coordination service is asked at a limited rate. A new auditor goes
on from the times that its predecessor noted.

Not here: how one ledger is checked (`check`, `orphans`), who copies (`worker`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

from zab.coordination.driver import Connected, Driver, Event, Expired, Results, Suspended, WatchFired
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Pause, Steps
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.layout import AVAILABLE, READ_ONLY
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.underreplication import DISABLE, LOST_BOOKIE_RECOVERY_DELAY
from zab.ledger.placement.placement import Placement
from zab.ledger.replication.election import Standing, stand
from zab.ledger.replication.events import AuditorSettings, Effect, Noted
from zab.ledger.replication.lost import LostBookies
from zab.ledger.replication.orphans import Orphans
from zab.ledger.replication.parts import Parts
from zab.ledger.replication.passes import each_page, read_metadata
from zab.ledger.replication.records import mark, prepare
from zab.ledger.replication.registered import registered_names
from zab.ledger.replication.sweep import Kind, Sweep
from zab.ledger.replication.switches import (
    Delay,
    first_delay,
    is_disabled,
    read_check_time,
    read_delay,
    write_check_time,
)
from zab.ledger.store.events import Answered, BookiesKnown, ClientInput


class Auditor:
    """`step` with what happens. `name`: of the bookie that is the candidate."""

    def __init__(
        self, root: str, name: BookieId, placement: Placement, rng: Random, settings: AuditorSettings | None = None
    ) -> None:
        self._root = root
        self._name = name
        self._placement = placement
        self._rng = rng
        self._settings = settings or AuditorSettings()
        self._driver = Driver()
        self._parts = Parts()
        self._now_ms = self._wall_ms = 0
        self._effects: list[Effect] = []
        self._session: int | None = None
        self._standing: Standing | None = None
        self._delay: Delay | None = None
        self._is_disabled = False
        self._lost = LostBookies()
        self._search_ms: int | None = None
        """When all ledgers are searched for lost bookies in any case."""
        self._is_forced = False
        self._retry_ms: int | None = None
        self._sweep: Sweep | None = None
        self._sweeps_ms: dict[Kind, int] = {}
        """When each check of all ledgers is due."""
        self.counts: Counter[str] = Counter()
        """What was found: ledgers searched, checked and marked, and how many lack what."""
        self._orphans = Orphans(root, placement, self.counts)

    @property
    def is_auditor(self) -> bool:
        return self._standing is not None and self._standing.is_auditor

    @property
    def is_disabled(self) -> bool:
        """Whether auto-recovery is disabled, as far as this auditor has seen."""
        return self._is_disabled

    @property
    def lost_bookies(self) -> frozenset[BookieId]:
        """The bookies that ledgers name, or that were registered, and that are away now."""
        return self._lost.away

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has to be called at the latest; None: only with inputs."""
        if not self._driver.is_connected:
            return None
        times = [self._driver.deadline_ms]
        if self.is_auditor and not self._is_disabled:
            times.append(self._orphans.deadline_ms)
        if self._driver.is_idle:
            times.append(self._retry_ms)
            times.append(self._next_ms)
        return min((each for each in times if each is not None), default=None)

    @property
    def _next_ms(self) -> int | None:
        if not self.is_auditor or self._is_disabled:
            return None
        times = [self._search_ms, self._lost.due_ms(self._delay_ms), self._now_ms if self._is_forced else None]
        if self._sweep is not None:
            times.append(self._sweep.deadline_ms)
        else:
            times += self._sweeps_ms.values()
        return min((each for each in times if each is not None), default=None)

    @property
    def _delay_ms(self) -> int:
        return self._settings.lost_bookie_delay_ms if self._delay is None else 1000 * self._delay.seconds

    def step(self, now_ms: int, inputs: Iterable[ClientInput], wall_ms: int = 0) -> list[Effect]:
        """Take what happened, and say what is to be done. `wall_ms`: milliseconds since 1970, for what is noted."""
        self._now_ms, self._wall_ms = now_ms, wall_ms
        answers: list[Answered] = []
        for each in inputs:
            self._take(each, answers)
        self._work(answers)
        for _ in range(3):
            submitted = [self._parts.sent(self._driver, each) for each in self._driver.advance(now_ms)]
            self._effects += submitted
            self._work([])
        effects, self._effects = self._effects, []
        return effects

    # --------------------------------------------------------------------------------------------------------- inputs

    def _take(self, each: ClientInput, answers: list[Answered]) -> None:
        match each:
            case Answered() | Results():
                self._take_answer(each, answers)
                return
            case BookiesKnown(available):
                self._placement.know(available)
            case Connected(session):
                self._driver.on_connected()
                if session != self._session:
                    self._session = session
                    self._offer("stand", self._stand)
            case Suspended():
                self._driver.on_suspended()
            case Expired():
                self._resign()
            case WatchFired(path):
                self._on_watch(path)
        self._orphans.take(each)

    def _take_answer(self, each: Answered | Results, answers: list[Answered]) -> None:
        found = self._parts.owner_of(each)
        if found is None:
            return
        owner, told = found
        if self._orphans.is_mine(owner):
            self._orphans.take(told)
        elif owner is self._driver and isinstance(told, Results):
            self._driver.on_results(told)
        elif owner is self._sweep and isinstance(told, Answered):
            answers.append(told)

    def _resign(self) -> None:
        """It is no candidate any more; whatever it was doing is not done."""
        self._driver.on_suspended()
        self._driver.clear()
        self._parts.expire()
        if self.is_auditor:
            self._note("is not the auditor any more: its session is over")
        self._session = self._standing = self._sweep = self._retry_ms = self._delay = None
        self._sweeps_ms.clear()
        self._orphans.clear()
        self._lost = LostBookies()

    def _on_watch(self, path: str) -> None:
        if self._standing is None:
            return
        if path == self._standing.watched:
            self._offer("stand", self._stand)
        elif self.is_auditor and path in {
            f"{self._root}/{each}" for each in (AVAILABLE, READ_ONLY, DISABLE, LOST_BOOKIE_RECOVERY_DELAY)
        }:
            self._offer("look", self._look)

    def _offer(self, name: str, handler: Callable[[], Steps[None]]) -> None:
        def guarded() -> Steps[None]:
            try:
                yield from handler()
            except (CoordinationError, InvalidMetadataError) as error:
                self._retry_ms = self._now_ms + self._settings.retry_ms
                self._note(f"{name}: {error} -> again in {self._settings.retry_ms} ms", is_problem=True)

        self._driver.offer(Event(name, guarded))

    def _note(self, text: str, *, is_problem: bool = False) -> None:
        self._effects.append(Noted(text, is_problem))

    # ----------------------------------------------------------------------------------------------------------- work

    def _work(self, answers: list[Answered]) -> None:
        """Begin what is due. One thing at a time, so that rates hold."""
        if not self._driver.is_connected:
            return
        if self._driver.is_idle and self._retry_ms is not None and self._now_ms >= self._retry_ms:
            self._retry_ms = None
            self._offer("look" if self.is_auditor else "stand", self._look if self.is_auditor else self._stand)
        if not self.is_auditor or self._is_disabled:
            return
        self._effects += [self._parts.sent(*each) for each in self._orphans.step(self._now_ms)]
        if self._sweep is not None:
            self._go_on(self._sweep, answers)
        if not self._driver.is_idle:
            return
        if self._is_search_due:
            self._offer("search", self._search)
        elif self._sweep is None:
            for kind, due_ms in self._sweeps_ms.items():
                if self._now_ms >= due_ms:
                    self._sweep = Sweep(kind, self._settings, self._placement, self._rng)
                    if kind is Kind.ORPHANS:
                        self._orphans.begin_check()
                    self._note(f"begins to check {kind.value}")
                    self._go_on(self._sweep, [])
                    break

    @property
    def _is_search_due(self) -> bool:
        due_ms = self._lost.due_ms(self._delay_ms)
        return (
            self._is_forced
            or (due_ms is not None and self._now_ms >= due_ms)
            or (self._search_ms is not None and self._now_ms >= self._search_ms)
        )

    def _stand(self) -> Steps[None]:
        assert self._session is not None
        yield from prepare(self._root)
        was_auditor = self.is_auditor
        self._standing = yield from stand(self._root, self._name, self._session)
        if self.is_auditor and not was_auditor:
            self._note("is the auditor")
            self.counts["elections"] += 1
            yield from first_delay(self._root, self._settings.lost_bookie_delay_ms // 1000)
            yield from self._look()
            yield from self._schedule()
            self._search_ms = self._now_ms

    def _schedule(self) -> Steps[None]:
        """When the checks of all ledgers are due: some time after the last one, of this auditor or another."""
        for kind in Kind:
            interval_ms = kind.interval_ms(self._settings)
            if interval_ms:
                done_ms = yield from read_check_time(self._root, kind.path)
                age_ms = interval_ms if done_ms is None else max(0, self._wall_ms - done_ms)
                self._sweeps_ms[kind] = self._now_ms + max(0, interval_ms - age_ms)

    def _look(self) -> Steps[None]:
        """See which bookies are there, and what the operator wants; with watches on all of it."""
        before, was_disabled = self._delay, self._is_disabled
        self._is_disabled = yield from is_disabled(self._root, watch=True)
        delay = yield from read_delay(self._root, watch=True)
        registered = yield from registered_names(self._root, watch=True)
        if before is not None and delay is not None and delay.version != before.version:
            self._is_forced |= delay.seconds in (0, before.seconds)
        self._delay = delay
        self._lost.on_registered(registered, self._now_ms)
        if was_disabled != self._is_disabled:
            self._note("auto-recovery is disabled" if self._is_disabled else "auto-recovery is enabled")
            if was_disabled:
                self._search_ms = self._now_ms

    # --------------------------------------------------------------------------------------------------- lost bookies

    def _search(self) -> Steps[None]:
        """Mark every ledger that names a bookie which is lost."""
        settings, is_forced, self._is_forced = self._settings, self._is_forced, False
        self._search_ms = self._now_ms + settings.bookies_check_ms if settings.bookies_check_ms else None
        away_before = self._lost.away
        has_delay = bool(self._delay_ms) and not is_forced
        due = self._lost.due(self._now_ms, self._delay_ms)
        named, came_back = set[BookieId](), set[BookieId]()
        marked = searched = 0
        pages = each_page(settings.ledgers_per_s)
        while (ids := (yield from pages.next(self._root))) is not None:
            found, unreadable = yield from read_metadata(self._root, ids)
            self.counts["unreadable metadata"] += unreadable
            if (yield from is_disabled(self._root)):
                self._is_forced, self._search_ms = is_forced, self._now_ms
                yield from self._look()
                return
            registered = yield from registered_names(self._root)
            came_back |= registered
            searched += len(found)
            for versioned in found:
                away = versioned.metadata.bookies - registered
                named |= away
                self._lost.on_away(away, self._now_ms)
                lost = away & due if has_delay else away
                if lost:
                    self.counts["ledgers marked"] += yield from mark(
                        self._root, versioned.ledger, sorted(lost), self._wall_ms
                    )
                    marked += 1
            yield Pause(pages.pause_ms(len(ids)))
        # Who went, or was found, in the middle of it is searched for once more.
        done = (away_before & due if has_delay else away_before) - came_back
        self._lost.searched(named, done)
        self.counts["searches"] += 1
        self.counts["ledgers searched"] += searched
        self._note(f"searched {searched} ledgers: {marked} name a bookie that is lost")

    # -------------------------------------------------------------------------------------------- checks of all ledgers

    def _go_on(self, sweep: Sweep, answers: list[Answered]) -> None:
        self._effects += [self._parts.sent(sweep, each) for each in sweep.step(self._now_ms, answers)]
        if not self._driver.is_idle:
            return
        if sweep.to_mark:
            self._offer("mark", self._mark)
        elif sweep.wants_page:
            self._offer("page", self._page)

    def _mark(self) -> Steps[None]:
        sweep = self._sweep
        while sweep is not None and sweep.to_mark:
            ledger, bookies = sweep.to_mark[0]
            self.counts["ledgers marked"] += yield from mark(self._root, ledger, bookies, self._wall_ms)
            sweep.to_mark.popleft()

    def _page(self) -> Steps[None]:
        """The next ledgers to check; at the end the time is noted."""
        sweep = self._sweep
        if sweep is None:
            return
        if (yield from is_disabled(self._root)):
            yield from self._look()
            return
        ids = yield from sweep.pages.next(self._root)
        if ids is not None:
            found, unreadable = yield from read_metadata(self._root, ids)
            self.counts["unreadable metadata"] += unreadable
            if sweep.kind is Kind.ORPHANS:
                yield from self._orphans.look(found, self._now_ms, self._wall_ms, sweep.counts)
                yield Pause(sweep.pages.pause_ms(len(ids)))
                return
            registered = yield from registered_names(self._root)
            for versioned in found:
                # One that came and went between two looks was never seen registered.
                self._lost.on_away(versioned.metadata.bookies - registered, self._now_ms)
            yield Pause(sweep.pages.pause_ms(len(ids)))
            sweep.take_page(found, registered)
            return
        yield from write_check_time(self._root, sweep.kind.path, self._wall_ms)
        self._note(f"checked {sweep.kind.value}: {sweep.summary}")
        for name, count in sweep.counts.items():
            self.counts[name] = count
        self.counts[f"checks of {sweep.kind.value}"] += 1
        self._sweeps_ms[sweep.kind] = self._now_ms + sweep.kind.interval_ms(self._settings)
        self._sweep = None
