"""Bookies in memory, and a metadata store, for cores that are tested message by message."""

from collections import deque

from attrs import define, evolve, field

from tests.ledger.znodes import ROOT, LedgerZnodes
from zab.coordination.driver import Connected, Results, Submit
from zab.coordination.operations import Result, ZooKeeperError
from zab.ledger.entries.envelope import Digest, Entry, header_of
from zab.ledger.entries.ids import NONE
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.store.events import Answered, BookiesKnown, Completed, Send
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    BatchRead,
    EntryRead,
    LacRead,
    ReadBatch,
    ReadEntry,
    ReadLac,
    answer_without,
)
from zab.ledger.wire.status import Status

LEDGER = 7
PASSWORD = b"pw"
LOST = Result(ZooKeeperError.CONNECTIONLOSS)


def ledger(*fragments, quorums=(3, 3, 2), **fields):
    """Metadata with these fragments: (first, "b1 b2 b3")."""
    size, writes, acks = quorums
    return LedgerMetadata(
        ensemble_size=size,
        write_quorum=writes,
        ack_quorum=acks,
        fragments=tuple(Fragment(first, tuple(names.split())) for first, names in fragments),
        password=PASSWORD,
        **fields,
    )


def envelope(metadata, entry, lac=None, payload=b"0123456789", number=LEDGER):
    """As a writer makes it that had confirmed `lac`; entries of 10 bytes."""
    digest = Digest(metadata.digest_type, metadata.password)
    confirmed = entry - 1 if lac is None else lac
    return digest.pack(Entry(number, entry, confirmed, (entry + 1) * 10, payload))


@define
class MemoryBookie:
    """Everything is durable at once. `status`: what it says to every request, None: the truth."""

    entries: dict[int, bytes] = field(factory=dict)
    fenced: bool = False
    status: Status | None = None
    packet: bytes = b""
    lac: int = NONE
    knows_batches: bool = True

    def answer(self, request):
        if self.status is not None:
            return answer_without(request, self.status)
        match request:
            case AddEntry():
                if self.fenced and not request.is_recovery:
                    return answer_without(request, Status.FENCED)
                self.entries[request.entry] = request.envelope
                self.lac = max(self.lac, header_of(request.envelope)[2])
                return Added(Status.OK, request.ledger, request.entry)
            case ReadEntry():
                return self._read(request)
            case ReadBatch():
                return self._read_batch(request)
            case ReadLac():
                last = self.entries[max(self.entries)] if self.entries else b""
                status = Status.OK if last or self.packet else Status.NO_LEDGER
                return LacRead(status, request.ledger, self.packet, last)
        raise AssertionError(request)

    def _read(self, request):
        if request.is_fencing:
            assert len(request.key) == 20
            self.fenced = True
        if request.wants_piggyback:
            entry = request.previous_lac + 1
            found = self.entries.get(entry, b"") if self.lac > request.previous_lac else b""
            return EntryRead(Status.OK, request.ledger, entry if found else NONE, found, max_lac=self.lac)
        entry = request.entry
        if entry == NONE:
            entry = max(self.entries, default=NONE)
        if entry not in self.entries:
            return answer_without(request, Status.NO_ENTRY)
        return EntryRead(Status.OK, request.ledger, request.entry, self.entries[entry])

    def _read_batch(self, request):
        if not self.knows_batches:
            return answer_without(request, Status.BAD_REQUEST)
        found, size = [], 36
        for entry in range(request.first, request.first + request.count_max):
            if entry not in self.entries:
                break
            size += len(self.entries[entry]) + 4
            if found and size > request.size_max:
                break
            found.append(self.entries[entry])
        if not found:
            return answer_without(request, Status.NO_ENTRY)
        return BatchRead(Status.OK, request.ledger, request.first, tuple(found))


class Rig:
    """One core with its bookies and its metadata. What it sends stays in `sent` until it is answered."""

    def __init__(self, core, metadata, bookies="b1 b2 b3", spare="", *, losses=(), before_write=None):
        """losses: for each write of metadata from now on, "done" or "not done", and its answer is lost. before_write:
        called with the rig before the next one."""
        self.core = core
        self.znodes = LedgerZnodes(LEDGER, metadata)
        self.bookies = {name: MemoryBookie() for name in f"{bookies} {spare}".split()}
        self.sent = deque()
        self.outcomes = {}
        self.others = []
        self.losses = list(losses)
        self.before_write = before_write
        self.is_coordination_held = False
        self.now = 0
        self.step(BookiesKnown(tuple(BookieNode(name) for name in self.bookies)), Connected(1))

    @property
    def metadata(self):
        return self.znodes.metadata

    def step(self, *inputs):
        inputs = deque(inputs)
        while True:
            effects = self.core.step(self.now, tuple(inputs))
            inputs.clear()
            for effect in effects:
                match effect:
                    case Send(bookie, request):
                        self.sent.append((bookie, request))
                    case Submit(batch, operations):
                        if not self.is_coordination_held:
                            inputs.append(Results(batch, tuple(self._apply(each) for each in operations)))
                    case Completed(token, outcome):
                        assert token not in self.outcomes
                        self.outcomes[token] = outcome
                    case _:
                        self.others.append(effect)
            if not inputs:
                return

    def _apply(self, operation):
        if not self.znodes.writes(operation):
            return self.znodes.apply(operation)
        if self.before_write is not None:
            before, self.before_write = self.before_write, None
            before(self)
        loss = self.losses.pop(0) if self.losses else ""
        result = Result() if loss == "not done" else self.znodes.apply(operation)
        return LOST if loss else result

    def pass_ms(self, ms):
        self.now += ms
        self.step()

    def take(self, bookie, **fields):
        """Remove and return the one waiting request to this bookie with these fields; `of`: its type, a ReadEntry."""
        found = [each for each in self.sent if each[0] == bookie and _matches(each[1], fields)]
        assert len(found) == 1, f"{len(found)} requests to {bookie} with {fields}"
        self.sent.remove(found[0])
        return found[0][1]

    def answer(self, bookie, status=None, **fields):
        """This bookie answers the request with these fields: with this status, or truthfully."""
        request = self.take(bookie, **fields)
        answer = self.bookies[bookie].answer(request) if status is None else answer_without(request, status)
        self.step(Answered(bookie, request, answer))
        return answer

    def lose(self, bookie, **fields):
        """The request never arrives."""
        self.take(bookie, **fields)

    def run(self, *, without=()):
        """Answer everything, in order, as long as something is sent; not by bookies in `without`."""
        for _ in range(10_000):
            ready = [each for each in self.sent if each[0] not in without]
            if not ready:
                return
            bookie, request = ready[0]
            self.sent.remove(ready[0])
            self.step(Answered(bookie, request, self.bookies[bookie].answer(request)))
        raise AssertionError("it never ends")

    def store(self, metadata, entry, names, lac=None):
        for name in names.split():
            self.bookies[name].entries[entry] = envelope(metadata, entry, lac)

    def change(self, **fields):
        """Somebody else changes the metadata."""
        self.znodes.put(evolve(self.metadata, **fields))


def _matches(request, fields):
    wanted = dict(fields)
    if not isinstance(request, wanted.pop("of", ReadEntry)):
        return False
    return all(getattr(request, name, None) == value for name, value in wanted.items())


__all__ = ["LEDGER", "LOST", "PASSWORD", "ROOT", "MemoryBookie", "Rig", "envelope", "ledger"]
