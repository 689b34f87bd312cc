"""A bookie and the coordination service: its registration, the rounds of collection, and those that look for ledgers
that other bookies have, one part after the other.

What the service refuses, or a name that is taken, is reported, once until it succeeds, and tried again later; the
bookie goes on serving.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from zab.coordination.driver import Connected, Driver, Event, Expired, FromCoordination, Results, Submit, Suspended
from zab.coordination.operations import CoordinationError, ZooKeeperError
from zab.coordination.steps import Steps
from zab.ledger.bookie.collection import Candidates, Collection, find_candidates
from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.gaps import GapSearch, Run, find_gone
from zab.ledger.bookie.ledgers import LedgerTable
from zab.ledger.bookie.registration import NameTaken, register
from zab.ledger.bookie.surplus import Surplus
from zab.ledger.entries.ids import BookieId

RETRY_MS: Final = 10_000
"""When what was refused is tried again."""


@frozen
class Member:
    """The name of a bookie, and what it registers, in the coordination service."""

    root: str
    """The root of all ledgers, such as `/ledgers`."""
    bookie: BookieId
    instance: bytes
    """What `INSTANCEID` has."""
    service_info: bytes
    """What is registered (`zab.ledger.metadata.service_info`)."""


class Membership:
    """See the docstring of the module. The bookie empties the lists."""

    def __init__(self, config: BookieConfig, member: Member, table: LedgerTable, now_ms: int) -> None:
        self._config = config
        self._member = member
        self._table = table
        self._driver = Driver()
        self._session: int | None = None
        self._wants_read_only = False
        self.read_only: bool | None = None
        """How it is registered in this session; None: not yet."""
        self._register_at_ms = now_ms
        self._collect_at_ms = now_ms + config.collect_ms
        self.collection = Collection(config)
        self.surplus = Surplus(config, table, now_ms)
        self._said: dict[str, str] = {}
        """What was reported of a registration or of a round that did not succeed."""
        self.to_delete: list[int] = []
        self.to_fill: list[Run] = []
        """Ids between tombstones that are gone."""
        self._gaps = GapSearch()
        self.notes: list[str] = []
        self.reports: list[str] = []

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has something to do."""
        if not self._driver.is_connected:
            return None
        deadlines = [self._driver.deadline_ms]
        if self._driver.is_idle:
            deadlines += [self._collect_at_ms, self.surplus.deadline_ms]
            if self.read_only != self._wants_read_only:
                deadlines.append(self._register_at_ms)
        return min((each for each in deadlines if each is not None), default=None)

    def set_read_only(self, read_only: bool) -> None:
        """Be registered in this way from now on."""
        self._wants_read_only = read_only

    def collect_now(self, now_ms: int, *, force: bool) -> None:
        """Begin a round as soon as possible."""
        self._collect_at_ms = now_ms
        if force:
            self.collection.force()
            self.surplus.collection.force()

    def take(self, event: FromCoordination) -> None:
        """What the service says."""
        match event:
            case Connected(session):
                self._driver.on_connected()
                if session != self._session:
                    self._session, self.read_only, self._register_at_ms = session, None, 0
            case Suspended():
                self._driver.on_suspended()
            case Expired():
                self._driver.clear()
                self._driver.is_connected = False
                self._session = self.read_only = None
            case Results():
                self._driver.on_results(event)

    def step(self, now_ms: int) -> list[Submit]:
        """Begin what is due, and go on with what runs."""
        if self._driver.is_connected and self._driver.is_idle:
            if self.read_only != self._wants_read_only and now_ms >= self._register_at_ms:
                self._register_at_ms = now_ms + RETRY_MS
                self._offer("register", self._register)
            elif now_ms >= self._collect_at_ms:
                self._collect_at_ms = now_ms + self._config.collect_ms
                self._offer("collect", self._collect)
            elif self.surplus.is_due(now_ms):
                self._offer("surplus", lambda: self._look_for_surplus(now_ms))
        return list(self._driver.advance(now_ms))

    def _offer(self, name: str, begin: Callable[[], Steps[None]]) -> None:
        def guarded() -> Steps[None]:
            try:
                yield from begin()
            except CoordinationError as error:
                self._say(name, _refusal(name, error))

        self._driver.offer(Event(name, guarded))

    def _say(self, name: str, text: str) -> None:
        if self._said.get(name) != text:
            self._said[name] = text
            self.reports.append(text)

    def _register(self) -> Steps[None]:
        member, session, read_only = self._member, self._session, self._wants_read_only
        assert session is not None
        outcome = yield from register(member.root, member.bookie, member.service_info, session, read_only=read_only)
        if isinstance(outcome, NameTaken):
            self._say("register", f"{outcome.path} is held by another session -> tried again later")
            return
        self._said.pop("register", None)
        self.read_only = read_only
        self._register_at_ms = 0
        self.notes.append("registered as read-only" if read_only else "registered as available")

    def _look_for_surplus(self, now_ms: int) -> Steps[None]:
        member, session, surplus = self._member, self._session, self.surplus
        assert session is not None
        is_done = False
        try:
            reason = yield from surplus.go_on(member.root, member.instance, member.bookie, session, now_ms)
            is_done = True
        finally:
            if not is_done:
                surplus.abandon()
        if reason:
            self._say("surplus", f"nobody looks for ledgers that other bookies have: {reason}")
        self.reports += surplus.collection.reports
        surplus.collection.reports.clear()

    def _collect(self) -> Steps[None]:
        # The ledgers here first, the metadata after that.
        mine = sorted(self._table.by_id)
        is_decided = False
        try:
            found = yield from find_candidates(self._member.root, self._member.instance, mine)
            if isinstance(found, Candidates):
                self.to_delete += self.collection.decide(found)
                is_decided = True
                self._said.pop("collect", None)
            else:
                self._say("collect", f"no collection: {found.reason}")
        finally:
            if not is_decided:
                self.collection.no_round()
        self.reports += self.collection.reports
        self.collection.reports.clear()
        if is_decided and len(self._table.tombstones) >= self._config.tombstones_merge_from:
            directories = self._gaps.choose(self._member.root, self._table.tombstones, self._table.highest)
            self.to_fill += yield from find_gone(self._member.root, self._member.instance, directories)


def _refusal(name: str, error: CoordinationError) -> str:
    if error.error == ZooKeeperError.NOAUTH:
        return f"{name}: the ACL of {error.path} does not admit this bookie -> change it; tried again later"
    return f"{name}: the coordination service refuses {error} -> tried again later"
