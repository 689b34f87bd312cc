"""A writer, the tree that its ledger is in, and bookies that answer when a test says so."""

from collections import deque
from random import Random
from typing import Any

from tests.ledger.store.handlers import LOST, Coordination
from zab.coordination.driver import Connected, Expired, Results, Submit, Suspended, WatchFired
from zab.coordination.operations import Create, Result, ZooKeeperError
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, VersionedMetadata
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.placement.placement import Placement
from zab.ledger.store.events import Answered, BookiesKnown, Completed, Send
from zab.ledger.store.ledgers import Changed, Created, change_ledger, create_ledger, read_ledger
from zab.ledger.wire.messages import Added, AddEntry, WriteLac
from zab.ledger.wire.status import Status
from zab.ledger.writer.admission import SharedBudget
from zab.ledger.writer.events import Append, Close
from zab.ledger.writer.settings import WriterSettings
from zab.ledger.writer.writer import LedgerWriter

ROOT = "/ledgers"
B0, B1, B2, B3, B4, B5, B6, B7 = ALL = [BookieId(f"b{index}") for index in range(8)]


class Rig:
    """`is_answering`: whether the coordination service answers by itself. `bookies`: how many there are, of which the
    first are the ensemble. The clock is `now`."""

    def __init__(
        self,
        quorums: tuple[int, int, int] = (3, 3, 2),
        *,
        bookies: int = 6,
        budget: SharedBudget | None = None,
        password: bytes = b"",
        **settings: Any,
    ) -> None:
        self.coordination = Coordination()
        self.tree = self.coordination.tree
        self.coordination.apply(Create(ROOT))
        self.coordination.apply(Create(f"{ROOT}/idgen"))
        size, writes, acks = quorums
        fragment = Fragment(0, tuple(ALL[:size]))
        metadata = LedgerMetadata(
            ensemble_size=size,
            write_quorum=writes,
            ack_quorum=acks,
            fragments=(fragment,),
            token=7,
            password=password,
        )
        outcome = self.coordination.run(create_ledger(ROOT, metadata))
        assert isinstance(outcome, Created)
        created = outcome.versioned
        self.ledger = created.ledger
        self.placement = Placement(Random(1))
        self.digest = Digest(metadata.digest_type, metadata.password)
        self.writer = LedgerWriter(ROOT, created, self.placement, settings=WriterSettings(**settings), budget=budget)
        self.now = 1_000
        self.is_answering = True
        self.submits: deque[Submit] = deque()
        self.sent: list[Send] = []
        """What was sent and not answered."""
        self.outcomes: dict[object, Any] = {}
        self.completed: list[object] = []
        """Tokens in the order of their answers."""
        self.effects: list[Any] = []
        """All others."""
        self.know(*ALL[:bookies])
        self.step(Connected(1))

    # ------------------------------------------------------------------------------------------------------------ turns

    def step(self, *inputs: Any) -> None:
        """One turn; then the answers of the coordination service, if it answers."""
        self._take(self.writer.step(self.now, inputs))
        while self.is_answering and self.submits:
            self.answer_one()

    def _take(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append(effect)
            elif isinstance(effect, Submit):
                self.submits.append(effect)
            elif isinstance(effect, Completed):
                assert effect.token not in self.outcomes, effect
                self.outcomes[effect.token] = effect.outcome
                self.completed.append(effect.token)
            else:
                self.effects.append(effect)

    def answer_one(self) -> None:
        """The coordination service carries out the first batch that waits, and answers."""
        submit = self.submits.popleft()
        results = tuple(map(self.coordination.apply, submit.operations))
        self._take(self.writer.step(self.now, [Results(submit.batch, results), *self.watches()]))

    def lose_one(self, *, is_done: bool) -> None:
        """The first batch that waits is done or not, and its answer is lost; the session goes on."""
        submit = self.submits.popleft()
        if is_done:
            for each in submit.operations:
                self.coordination.apply(each)
        lost = Results(submit.batch, (LOST,) * len(submit.operations))
        self._take(self.writer.step(self.now, [lost, Suspended(), Connected(1)]))

    def expire(self, *, is_done: bool) -> None:
        """The session ends; what was under way is done or not."""
        for submit in self.submits:
            for each in submit.operations if is_done else ():
                self.coordination.apply(each)
            expired = (Result(ZooKeeperError.SESSIONEXPIRED),) * len(submit.operations)
            self._take(self.writer.step(self.now, [Results(submit.batch, expired)]))
        self.submits.clear()
        self.tree.end_session(self.coordination.session)
        self.coordination.session = self.tree.begin_session()
        self.step(Expired(), Connected(2))

    def watches(self) -> list[WatchFired]:
        fired, self.tree.fired = self.tree.fired, []
        return [WatchFired(path) for _, path in fired]

    def later(self, ms: int, *inputs: Any) -> None:
        """So much later."""
        self.now += ms
        self.step(*inputs)

    def run_until(self, ms: int) -> None:
        """Step at each deadline, until this time has passed."""
        end = self.now + ms
        for _ in range(10_000):
            due = self.writer.deadline_ms
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.step()
        else:
            raise AssertionError(f"always due at {self.writer.deadline_ms}")
        self.now = end
        self.step()

    # ---------------------------------------------------------------------------------------------------------- callers

    def append(self, *tokens: object, payload: bytes = b"payload") -> None:
        self.step(*(Append(payload, token) for token in tokens))

    def close(self, token: object = "close", *, is_draining: bool = True) -> None:
        self.step(Close(token, is_draining))

    # ---------------------------------------------------------------------------------------------------------- bookies

    def know(self, *bookies: BookieId) -> None:
        self.placement.know(BookieNode(bookie) for bookie in bookies)

    def knows(self, *bookies: BookieId) -> BookiesKnown:
        return BookiesKnown(tuple(BookieNode(bookie) for bookie in bookies))

    def adds(self, bookie: BookieId) -> list[int]:
        """The entries that this bookie was sent and has not answered."""
        return [
            each.request.entry for each in self.sent if each.bookie == bookie and isinstance(each.request, AddEntry)
        ]

    def lacs(self) -> list[tuple[BookieId, int]]:
        return [(each.bookie, each.request.lac) for each in self.sent if isinstance(each.request, WriteLac)]

    def take_add(self, bookie: BookieId, entry: int, status: Status = Status.OK) -> Answered:
        """The answer to the first add of this entry that the bookie was sent."""
        for at, each in enumerate(self.sent):
            if each.bookie == bookie and isinstance(each.request, AddEntry) and each.request.entry == entry:
                del self.sent[at]
                return Answered(bookie, each.request, Added(status, self.ledger, entry))
        raise AssertionError(f"{bookie} was not sent {entry}, but {self.adds(bookie)}")

    def answer(self, bookie: BookieId, *entries: int, status: Status = Status.OK) -> None:
        self.step(*(self.take_add(bookie, entry, status) for entry in entries))

    def answer_all(self, *bookies: BookieId, status: Status = Status.OK) -> None:
        """These bookies answer all that they were sent."""
        self.step(*(self.take_add(bookie, entry, status) for bookie in bookies for entry in self.adds(bookie)))

    def forget(self, bookie: BookieId) -> None:
        """This bookie never answers what it was sent."""
        self.sent = [each for each in self.sent if each.bookie != bookie]

    def entry(self, send: Send) -> Entry:
        assert isinstance(send.request, AddEntry)
        return self.digest.open(send.request.envelope, self.ledger, send.request.entry)

    # --------------------------------------------------------------------------------------------------------- metadata

    @property
    def versioned(self) -> VersionedMetadata:
        found = self.coordination.run(read_ledger(ROOT, self.ledger))
        assert found is not None
        return found

    @property
    def metadata(self) -> LedgerMetadata:
        return self.versioned.metadata

    @property
    def fragments(self) -> list[tuple[int, str]]:
        return [(each.first, " ".join(each.ensemble)) for each in self.metadata.fragments]

    def by_other(self, change: Any) -> None:
        """Another client changes the metadata."""
        versioned = self.versioned
        changed = self.coordination.run(change_ledger(ROOT, versioned, change(versioned.metadata)))
        assert isinstance(changed, Changed)
        self.step(*self.watches())
