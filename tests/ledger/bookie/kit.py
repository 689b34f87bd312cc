"""A bookie over a faulty disk, each of whose threads goes on only when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from random import Random

from zab.ledger.bookie.bookie import Bookie
from zab.ledger.bookie.config import BookieConfig, Identity
from zab.ledger.bookie.entry_files import EntryFiles
from zab.ledger.bookie.events import (
    AppendJournal,
    Asked,
    Effects,
    Input,
    Job,
    JournalFailed,
    ReadSegment,
    Space,
)
from zab.ledger.bookie.journal_files import JournalFiles
from zab.ledger.bookie.opening import Opened, open_files
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.wire.messages import AddEntry, Answer, Request
from zab.simulator.world.disk import FaultyDisk

IDENTITY = Identity(b"i" * 16, b"u" * 16)
DIGEST = Digest(DigestType.CRC32C, b"")
KEY = DIGEST.master_key
OTHER_KEY = Digest(DigestType.CRC32C, b"other").master_key
SMALL = BookieConfig(
    entry_bytes_max=4096,
    flush_bytes=8192,
    cache_bytes_max=24 * 1024,
    journal_file_bytes=8192,
    read_ahead_bytes=1024,
    read_cache_bytes=16 * 1024,
    ledgers_per_step=3,
    watchers_max=3,
    open_bytes_max=4096,
    reserve_bytes=64 * 1024,
    compact_small_bytes=0,
)


def envelope_of(ledger: int, entry: int, payload: bytes = b"payload", lac: int | None = None) -> bytes:
    return DIGEST.pack(Entry(ledger, entry, entry - 1 if lac is None else lac, len(payload), payload))


def add(
    ledger: int, entry: int, payload: bytes = b"payload", *, lac: int | None = None, key: bytes = KEY, **flags: bool
) -> AddEntry:
    return AddEntry(ledger, entry, key, envelope_of(ledger, entry, payload, lac), **flags)


class Bench:
    """One bookie. `answers` has what was answered, by connection and number."""

    def __init__(
        self, config: BookieConfig = SMALL, disk: FaultyDisk | None = None, identity: Identity = IDENTITY
    ) -> None:
        self.config = config
        self.identity = identity
        self.disk = disk or FaultyDisk()
        self.now_ms = 1_000
        self.numbers = 0
        self.notes: list[str] = []
        self.reports: list[str] = []
        self.opened: Opened
        self.start()

    def start(self) -> None:
        """Start the process."""
        self.answers: dict[int, Answer] = {}
        self.answered: list[tuple[Hashable, int, Answer]] = []
        self.journal: list[AppendJournal] = []
        self.jobs: deque[Job] = deque()
        self.reads: deque[ReadSegment] = deque()
        self.failure: str | None = None
        self.takes_adds = True
        self.opened = open_files(self.disk, self.config, self.identity)
        self.journal_files = JournalFiles(self.disk, self.config, self.identity, self.opened.mark[0])
        self.entry_files = EntryFiles(self.disk, self.config, self.identity)
        self.bookie = Bookie(self.config, self.opened, self.now_ms)
        self.step()

    def restart(self) -> None:
        """End the process, and start it again."""
        self.disk.kill()
        self.start()

    def crash(self, seed: int = 0) -> None:
        """Lose the power, and start again."""
        self.disk.crash(Random(seed))
        self.start()

    # ---------------------------------------------------------------------------------------------------------- steps

    def step(self, *inputs: Input) -> Effects:
        effects = self.bookie.step(self.now_ms, inputs, wall_ms=self.now_ms + 10**12)
        for connection, number, answer in effects.answers:
            assert number not in self.answers, "answered twice"
            self.answers[number] = answer
            self.answered.append((connection, number, answer))
        self.journal += effects.journal
        self.jobs += effects.jobs
        self.reads += effects.reads
        self.notes += effects.notes
        self.reports += effects.reports
        self.takes_adds = effects.takes_adds
        self.failure = self.failure or effects.failure
        if effects.asks_space:
            self.step(Space(self.disk.free_bytes(), self.disk.capacity_bytes))
        return effects

    def ask(self, *requests: Request, connection: Hashable = "c") -> list[int]:
        """Requests of one turn; their numbers."""
        numbers = range(self.numbers + 1, self.numbers + len(requests) + 1)
        self.numbers += len(requests)
        self.step(*(Asked(connection, number, request) for number, request in zip(numbers, requests, strict=True)))
        return list(numbers)

    def answer(self, request: Request) -> Answer:
        """The answer to a request, with everything done that it waits for, and no flush."""
        (number,) = self.ask(request)
        self.store()
        self.read_all()
        self.store()
        return self.answers[number]

    def statuses(self, numbers: Iterable[int]) -> list[str | None]:
        """The statuses of these answers, None: not answered."""
        return [self.answers[number].status.name if number in self.answers else None for number in numbers]

    def store(self) -> None:
        """The log thread does everything that waits."""
        if self.journal:
            waiting, self.journal = self.journal, []
            try:
                answers: list[Input] = list(self.journal_files.perform(waiting))
            except OSError as error:
                answers = [JournalFailed(str(error))]
            self.step(*answers)

    def work(self) -> bool:
        """The job thread does one job."""
        if not self.jobs:
            return False
        self.step(self.entry_files.perform(self.jobs.popleft()))
        return True

    def read_all(self) -> None:
        """The read threads do everything that waits."""
        while self.reads:
            self.step(self.entry_files.read(self.reads.popleft()))

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        self.step()

    def flush(self) -> None:
        """A checkpoint, to its end."""
        self.store()
        self.pass_ms(self.config.flush_ms)
        self.settle()

    def settle(self) -> None:
        """Do everything that waits, and the steps that the bookie asks for at once."""
        for _ in range(10_000):
            self.store()
            self.read_all()
            if not self.work() and not self.journal and not self.reads:
                if self.bookie.deadline_ms > self.now_ms:
                    return
                self.step()
        raise AssertionError("it does not come to rest")
