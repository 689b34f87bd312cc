"""Power cuts at any operation of the disk: what was answered holds."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.ledger.bookie.kit import DIGEST, KEY, SMALL, Bench, add, envelope_of
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.messages import Added, AddEntry, EntryRead, LacWritten, ReadEntry, ReadLac, Request, WriteLac
from zab.ledger.wire.status import Status
from zab.simulator.world.disk import FaultyDisk, PowerLossError

CONFIG = evolve(
    SMALL,
    journal_file_bytes=2048,
    flush_bytes=4096,
    open_bytes_max=1024,
    compact_ms=SMALL.flush_ms,
    compact_small_bytes=1 << 20,
    compact_segments_max=3,
    compact_bytes_per_s=1_000,
    piece_bytes=500,
    state_small_bytes=100,
)
LEDGERS = st.integers(0, 3)
ENTRIES = st.integers(0, 7)


class BookieUnderPowerCuts(RuleBasedStateMachine):
    """Whatever the order of its threads, and wherever the power is lost: an add that was answered OK is here with bytes
    that were asked for, unless its ledger is deleted; after NO_ENTRY to a fencing read no ordinary add of that entry is
    ever taken, nor any of a deleted ledger; marks rise. Segments are compacted all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(CONFIG)
        self.asked: dict[int, Request] = {}
        self.seen = 0
        self.sent: dict[tuple[int, int], set[bytes]] = {}
        self.acknowledged: set[tuple[int, int]] = set()
        self.denied: set[tuple[int, int]] = set()
        self.fenced: set[int] = set()
        self.lacs: dict[int, int] = {}
        self.deleted: dict[int, int] = {}
        """The last request before the deletion, since the last start."""
        self.mark = (0, 0)
        self.cuts = 0

    def ask(self, *requests: Request) -> None:
        for number, request in zip(self.bench.ask(*requests), requests, strict=True):
            self.asked[number] = request
        self.look()

    def look(self) -> None:
        """Take what was answered."""
        for _, number, answer in self.bench.answered[self.seen :]:
            request = self.asked.get(number)
            where = (answer.ledger, getattr(answer, "entry", NONE))
            match answer, request:
                case Added(Status.OK), AddEntry(is_recovery=is_recovery):
                    assert number <= self.deleted.get(answer.ledger, number), f"{where} is taken, and was deleted"
                    self.acknowledged.add(where)
                    assert is_recovery or where not in self.denied, f"{where} was denied, and is taken"
                case EntryRead(Status.NO_ENTRY), ReadEntry(is_fencing=True):
                    assert where not in self.acknowledged, f"{where} was acknowledged, and is denied"
                    self.denied.add(where)
                    self.fenced.add(answer.ledger)
                case EntryRead(Status.OK), ReadEntry(is_fencing=True):
                    self.fenced.add(answer.ledger)
                case LacWritten(Status.OK), WriteLac(lac=lac):
                    self.lacs[answer.ledger] = max(lac, self.lacs.get(answer.ledger, NONE))
        self.seen = len(self.bench.answered)

    def guarded(self, seed: int, do: object) -> None:
        """Do something of a thread, and lose the power if it is time."""
        try:
            do()  # type: ignore[operator]
        except PowerLossError:
            self.come_back(seed)
        self.look()

    def come_back(self, seed: int) -> None:
        self.cuts += 1
        rng = Random(seed)
        self.seen = 0
        self.deleted.clear()
        while True:
            self.bench.disk.crash(rng)
            if rng.random() < 0.3:
                self.bench.disk.crash_after(rng.randint(1, 20))
            try:
                self.bench.start()
            except PowerLossError:
                continue
            self.bench.disk.crash_after(None)
            return

    @rule(ledger=LEDGERS, first=ENTRIES, count=st.integers(1, 3), is_recovery=st.booleans(), variant=st.integers(0, 1))
    def adds(self, ledger: int, first: int, count: int, is_recovery: bool, variant: int) -> None:
        requests = []
        for entry in range(first, first + count):
            envelope = envelope_of(ledger, entry, bytes(200), lac=NONE if variant else entry - 1)
            self.sent.setdefault((ledger, entry), set()).add(envelope)
            requests.append(AddEntry(ledger, entry, KEY, envelope, is_recovery))
        self.ask(*requests)

    @rule(ledger=LEDGERS, entry=ENTRIES)
    def fencing_read(self, ledger: int, entry: int) -> None:
        self.ask(ReadEntry(ledger, entry, KEY, is_fencing=True))

    @rule(ledger=LEDGERS, lac=ENTRIES)
    def explicit_lac(self, ledger: int, lac: int) -> None:
        self.ask(WriteLac(ledger, lac, KEY, DIGEST.pack_lac(ledger, lac)))

    @rule(seed=st.integers(0, 1 << 30))
    def store(self, seed: int) -> None:
        self.guarded(seed, self.bench.store)

    @rule(seed=st.integers(0, 1 << 30))
    def idle(self, seed: int) -> None:
        self.guarded(seed, self.bench.journal_files.idle)

    @rule(seed=st.integers(0, 1 << 30))
    def work(self, seed: int) -> None:
        self.guarded(seed, self.bench.work)

    @rule(seed=st.integers(0, 1 << 30))
    def time_passes(self, seed: int) -> None:
        self.guarded(seed, lambda: self.bench.pass_ms(CONFIG.flush_ms))

    @rule(seed=st.integers(0, 1 << 30))
    def settle(self, seed: int) -> None:
        self.guarded(seed, self.bench.settle)

    @rule(seed=st.integers(0, 1 << 30))
    @precondition(lambda self: self.cuts < 5)
    def power_cut(self, seed: int) -> None:
        self.come_back(seed)

    @rule(after=st.integers(1, 30))
    @precondition(lambda self: self.cuts < 5)
    def power_cut_later(self, after: int) -> None:
        self.bench.disk.crash_after(after)

    @rule(ledger=LEDGERS)
    def deletes(self, ledger: int) -> None:
        if self.bench.bookie.table.get(ledger) is not None and ledger not in self.deleted:
            self.bench.bookie.deletion.add([ledger])
            self.deleted[ledger] = self.bench.numbers
            self.bench.step()

    @rule()
    def kill(self) -> None:
        self.seen = 0
        self.deleted.clear()
        self.bench.restart()

    @invariant()
    def marks_rise(self) -> None:
        assert self.bench.bookie.checkpoints.mark >= self.mark
        self.mark = self.bench.bookie.checkpoints.mark
        assert self.bench.failure is None

    def teardown(self) -> None:
        self.bench.disk.crash_after(None)
        self.come_back(7)
        bench = self.bench
        gone = {ledger for ledger in range(4) if ledger in bench.bookie.table.tombstones}
        for ledger in gone:
            assert bench.answer(ReadEntry(ledger, NONE)).status is Status.NO_LEDGER
        self.acknowledged = {where for where in self.acknowledged if where[0] not in gone}
        for ledger, entry in sorted(self.acknowledged):
            answer = bench.answer(ReadEntry(ledger, entry))
            assert answer.status is Status.OK, f"entry {entry} of ledger {ledger} is lost: {answer.status}"
            assert answer.envelope in self.sent[ledger, entry]
        for ledger in sorted(self.fenced):
            assert bench.answer(add(ledger, 100)).status is Status.FENCED
        for ledger, lac in self.lacs.items():
            if ledger in gone:
                continue
            assert bench.answer(ReadLac(ledger)).packet >= DIGEST.pack_lac(ledger, lac)[:16]


BookieUnderPowerCuts.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPowerCuts = BookieUnderPowerCuts.TestCase


def _workload(bench: Bench, acknowledged: dict[int, list[int]]) -> None:
    """Adds to three ledgers with a checkpoint between them."""
    for turn in range(4):
        numbers = {ledger: bench.ask(add(ledger, turn, bytes(150)))[0] for ledger in range(3)}
        bench.store()
        for ledger, number in numbers.items():
            if bench.answers.get(number) is not None:
                acknowledged[ledger].append(turn)
        if turn == 1:
            bench.pass_ms(CONFIG.flush_ms)
            bench.settle()
    bench.pass_ms(CONFIG.flush_ms)
    bench.settle()


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_at_each_operation(seed: int) -> None:
    """4.7: wherever a checkpoint is cut, and then wherever the opening after it is cut."""
    whole = Bench(CONFIG)
    begin = whole.disk.operations
    _workload(whole, {ledger: [] for ledger in range(3)})
    for at in range(1, whole.disk.operations - begin + 1):
        bench, acknowledged = Bench(CONFIG, FaultyDisk()), {ledger: list[int]() for ledger in range(3)}
        bench.disk.crash_after(at)
        with pytest.raises(PowerLossError):
            _workload(bench, acknowledged)
        rng = Random(seed * 1000 + at)
        bench.disk.crash(rng)
        bench.disk.crash_after(rng.randint(1, 12))
        try:
            bench.start()
        except PowerLossError:
            bench.crash(at)
        bench.disk.crash_after(None)
        for ledger, entries in acknowledged.items():
            for entry in entries:
                assert bench.answer(ReadEntry(ledger, entry)).status is Status.OK, f"operation {at}: {entry} is lost"
