"""One random walk: a writer, up to three recoverers, bookies that lose power, messages in any order.

    Walk(seed).run()        raises AssertionError when a promise is broken

The cores are the real ones. Requests may be lost; a fence is noted before it is synced, and a power loss between takes
it back; answers of the coordination service may be lost, the write being done or not; a recoverer may die at any
moment. In the end nothing fails, and a last recoverer closes the ledger.
"""

from random import Random

from attrs import define, field

from tests.ledger.memory import LEDGER, ROOT, MemoryBookie
from tests.ledger.znodes import LedgerZnodes
from zab.coordination.driver import Connected, Results, Submit
from zab.coordination.operations import Result, ZooKeeperError
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, VersionedMetadata
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.placement.placement import Placement
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.recovery.events import Recovered, RecoverySettings
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.store.events import Answered, BookiesKnown, Completed, Send
from zab.ledger.wire.messages import ReadEntry, answer_without
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import Append, Appended
from zab.ledger.writer.settings import WriterSettings
from zab.ledger.writer.writer import LedgerWriter

STEPS_MAX = 60_000
ENTRIES = 12


@define
class WalkBookie(MemoryBookie):
    """`noted`: fenced, and not on disk. What answers a fencing read is held until it is."""

    noted: bool = False
    held: list[object] = field(factory=list)


class Client:
    def __init__(self, core):
        self.core = core
        self.inputs = []
        self.is_dead = False


class Walk:
    def __init__(self, seed):
        self.rng = rng = Random(seed)
        size = rng.randint(1, 5)
        writes = rng.randint(1, size)
        acks = rng.randint(1, writes)
        names = [f"b{number}" for number in range(size + 3)]
        self.bookies = {name: WalkBookie() for name in names}
        metadata = LedgerMetadata(
            ensemble_size=size,
            write_quorum=writes,
            ack_quorum=acks,
            fragments=(Fragment(0, tuple(names[:size])),),
            token=1,
        )
        self.znodes = LedgerZnodes(LEDGER, metadata)
        self.now = 0
        self.is_quiet = False
        self.messages = []
        """What may be delivered next: functions."""
        self.acknowledged = []
        self.ends = []
        self.clients = []
        writer = LedgerWriter(
            ROOT,
            VersionedMetadata(LEDGER, metadata, 0),
            Placement(rng),
            settings=WriterSettings(add_timeout_ms=300, changes_max=1000, quorum_timeout_ms=20_000),
        )
        self.writer = self._begin(writer)
        self.appended = 0

    def _begin(self, core):
        client = Client(core)
        known = BookiesKnown(tuple(BookieNode(name) for name in self.bookies))
        client.inputs += [known, Connected(1)]
        self.clients.append(client)
        return client

    # ----------------------------------------------------------------------------------------------------------- walk

    def run(self):
        recoverers = self.rng.randint(1, 3)
        for _ in range(self.rng.randint(100, 800)):
            self._step()
            roll = self.rng.random()
            if roll < 0.1 and self.appended < ENTRIES:
                self.writer.inputs.append(Append(b"entry %d" % self.appended, self.appended))
                self.appended += 1
            elif roll < 0.11 and recoverers:
                recoverers -= 1
                self._recover()
            elif roll < 0.113:
                victim = self.rng.choice(self.clients)
                victim.is_dead = victim is not self.writer
            elif roll < 0.125:
                self._lose_power(self.rng.choice(list(self.bookies.values())))
        self.is_quiet = True
        self._recover()
        for _ in range(STEPS_MAX):
            if self.ends and not self.messages:
                break
            self._step()
            is_idle = all(client.is_dead or client.core.deadline_ms is None for client in self.clients)
            if is_idle and not self.messages and not self.znodes.metadata.is_closed:
                self._recover()
        assert self.znodes.metadata.is_closed, "G10: it is not closed in the end"
        self._judge()

    def _recover(self):
        settings = RecoverySettings(window_entries=self.rng.choice((1, 3, 64)), request_timeout_ms=300)
        self._begin(Recovery(ROOT, LEDGER, Placement(self.rng), token="recovery", settings=settings))

    def _step(self):
        for client in self.clients:
            deadline_ms = client.core.deadline_ms
            if not client.is_dead and (client.inputs or (deadline_ms is not None and deadline_ms <= self.now)):
                inputs, client.inputs = client.inputs, []
                for effect in client.core.step(self.now, inputs):
                    self._do(client, effect)
        if self.messages and self.rng.random() < 0.9:
            # Some links are silent for a long time: most often one of the last messages is delivered.
            last = min(len(self.messages), self.rng.choice((1, 3, 10, 1000)))
            self.messages.pop(-self.rng.randint(1, last))()
        else:
            self.now += self.rng.choice((1, 10, 100))

    def _do(self, client, effect):
        match effect:
            case Send(bookie, request):
                self.messages.append(lambda: self._arrive(client, bookie, request))
            case Submit(batch, operations):
                self.messages.append(lambda: self._coordinate(client, batch, operations))
            case Completed(_, Appended(entry)):
                assert entry == len(self.acknowledged), "G4: acknowledgements in order, without gaps"
                self.acknowledged.append(entry)
            case Completed(_, Recovered(versioned)):
                self.ends.append((versioned.metadata.last, versioned.metadata.length))
            case _:
                pass

    def _arrive(self, client, name, request):
        bookie = self.bookies[name]
        if not self.is_quiet and self.rng.random() < 0.03:
            self._answer(client, name, request, answer_without(request, Status.UNREACHABLE))
            return
        was_fenced = bookie.fenced
        answer = bookie.answer(request)
        bookie.noted |= bookie.fenced and not was_fenced
        if isinstance(request, ReadEntry) and request.is_fencing and bookie.noted:
            if not bookie.held:
                self.messages.append(lambda: self._sync(bookie))
            bookie.held.append((client, name, request, answer))
        else:
            self._answer(client, name, request, answer)

    def _sync(self, bookie):
        bookie.noted = False
        held, bookie.held = bookie.held, []
        for each in held:
            self._answer(*each)

    def _lose_power(self, bookie):
        """Held answers are lost with the connections."""
        if bookie.noted:
            bookie.fenced = bookie.noted = False
        held, bookie.held = bookie.held, []
        for client, name, request, _ in held:
            self._answer(client, name, request, answer_without(request, Status.UNREACHABLE))

    def _answer(self, client, name, request, answer):
        self.messages.append(lambda: client.inputs.append(Answered(name, request, answer)))

    def _coordinate(self, client, batch, operations):
        results = []
        for operation in operations:
            is_lost = self.znodes.writes(operation) and not self.is_quiet and self.rng.random() < 0.1
            if is_lost and self.rng.random() < 0.5:
                result = Result()
            else:
                before = self.znodes.metadata
                result = self.znodes.apply(operation)
                if self.znodes.metadata != before:
                    self._judge_change(before, self.znodes.metadata)
            results.append(Result(ZooKeeperError.CONNECTIONLOSS) if is_lost else result)
        self.messages.append(lambda: client.inputs.append(Results(batch, tuple(results))))

    # --------------------------------------------------------------------------------------------------------- judges

    def _judge_change(self, before, after):
        assert not before.is_closed, "G2: a closed ledger is changed"
        older = before.fragments[:-1]
        assert after.fragments[: len(older)] == older, "G9: an older fragment is changed"
        if not after.is_closed:
            return
        for entry in range(after.last + 1):
            ensemble = after.fragment_of(entry).ensemble
            members = [ensemble[at] for at in write_set(entry, after.ensemble_size, after.write_quorum)]
            copies = sum(entry in self.bookies[name].entries for name in members)
            assert copies >= after.ack_quorum, f"G6: entry {entry} has {copies} copies"

    def _judge(self):
        metadata = self.znodes.metadata
        assert len(self.acknowledged) <= metadata.last + 1, "G1: acknowledged, and not in the closed ledger"
        assert set(self.ends) == {(metadata.last, metadata.length)}, "G2: two ends"
        copies = {}
        for bookie in self.bookies.values():
            for entry, found in bookie.entries.items():
                assert copies.setdefault(entry, found) == found, f"G3: entry {entry} in two forms"
