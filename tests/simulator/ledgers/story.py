"""Whole simulated bookies and clients of ledgers to which only happens what a test says: no random faults, and the same
judges.

    story = Story(5)                                five bookies, which are registered
    w = story.writer(1, 2, 3)                       a client with a ledger on these bookies, 3/3/2
    w.append("a", "b"), w.close()                   both in one turn; what its callers are told is in `outcomes`
    r = story.recoverer(); r.recover(w.ledger)      its outcome is in `ended`
    story.reader().follow(w.ledger)                 what it was given is in `found`
    a = story.replicator()                          auto-recovery; what it says is in `notes`
    story.hold(w, 1, is_add)                        requests to b1 wait from now on, until `release` or `forget`
    story.hold_answers(w, 1)                        the same for the answers of b1
    story.cut(w)                                    it does not hear of the coordination service, until `reconnect`
    story.kill(1), story.power(1), story.start(1)   the process of b1 ends, or its machine; until it is started
    story.until(lambda: …)                          time passes until that holds
    story.finish()                                  all goes on; all ledgers are closed, and read whole

Every answer, append and read is shown to the judges, so a story fails by the rule that is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import Any, ClassVar, TypeVar

import attrs

from zab.coordination.steps import Steps
from zab.ledger.entries.ids import BookieId
from zab.ledger.managed.log_info import LOGS_ROOT
from zab.ledger.managed.sweep import whose
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata
from zab.ledger.replication.events import AuditorSettings, CheckSettings, WorkerSettings
from zab.ledger.store.events import Answered, BookieLost
from zab.ledger.store.ledgers import CreatedAndRecovered, create_ledger
from zab.ledger.wire.messages import AddEntry, ReadEntry, Request
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import Append, Appended, Close
from zab.ledger.writer.settings import WriterSettings
from zab.simulator.coordination.service import SERVICE
from zab.simulator.ledgers.bookie_process import BookieProcess
from zab.simulator.ledgers.client_process import Hosted, LedgerClient
from zab.simulator.ledgers.cluster import ROOT, LedgerCluster
from zab.simulator.ledgers.plan import Plan
from zab.simulator.ledgers.profile import Profile
from zab.simulator.ledgers.reader import ReaderProcess
from zab.simulator.ledgers.recoverer import RecovererProcess
from zab.simulator.ledgers.replicator import ReplicatorProcess
from zab.simulator.ledgers.writer import WriterProcess, Writing
from zab.simulator.world.schedule import MS

PATIENCE_MS = 60_000
T = TypeVar("T")
Client = TypeVar("Client", bound=LedgerClient)


class First(Random):
    """Chooses the first of everything: a window of one entry, say."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[0]


def is_add(request: Request) -> bool:
    return isinstance(request, AddEntry) and not request.is_recovery


def is_write_back(request: Request) -> bool:
    return isinstance(request, AddEntry) and request.is_recovery


def is_fence(request: Request) -> bool:
    """Whether the first phase of a recovery sends this: it asks for the last entry."""
    return isinstance(request, ReadEntry) and request.entry == -1


def is_read(request: Request) -> bool:
    """Whether this asks for one entry."""
    return isinstance(request, ReadEntry) and request.entry >= 0


def is_any(_request: Request) -> bool:
    return True


class StoryWriter(WriterProcess):
    """Writes one ledger, as it is told."""

    def begin(self) -> None:
        self._writing: Writing | None = None
        self._tokens = 0
        self.outcomes: dict[str, object] = {}
        """By payloads, and `close`, `resolve`."""
        self.ledger = -1
        self._names: dict[Hashable, str] = {}

    def create(
        self, ensemble: Iterable[int], quorums: tuple[int, int, int], log: str | None, created_ms: int | None
    ) -> None:
        size, writes, acks = quorums
        metadata = LedgerMetadata(
            ensemble_size=size,
            write_quorum=writes,
            ack_quorum=acks,
            fragments=(Fragment(0, tuple(BookieId(f"b{number}") for number in ensemble)),),
            password=b"secret",
            ctime_ms=created_ms,
            custom={} if log is None else whose(self.root, LOGS_ROOT, log),
            token=1,
        )
        self.errand("create", lambda: self._make(metadata))

    def _make(self, metadata: LedgerMetadata) -> Steps[None]:
        created = yield from create_ledger(self.root, metadata)
        assert not isinstance(created, CreatedAndRecovered)
        self._write(created.versioned, 0)
        self.ledger = created.versioned.ledger

    def _settings(self) -> WriterSettings:
        timeout_ms, lac_ms = self.profile.request_timeout_ms, self.profile.explicit_lac_ms
        return WriterSettings(add_timeout_ms=timeout_ms, reconnect_ms=200, coalesce_ms=0, explicit_lac_ms=lac_ms)

    def append(self, *texts: str) -> None:
        """In one turn."""
        assert self._writing is not None
        for text in texts:
            self._tokens += 1
            self._names[self._tokens] = text
            payload = self._writing.payloads[self._tokens] = text.encode()
            self.judge.appends_to(payload)
            self.tell(self._writing.hosted, Append(payload, self._tokens))

    def close(self) -> None:
        assert self._writing is not None
        self._writing.is_ending = True
        self.tell(self._writing.hosted, Close("close"))

    def lose(self, *bookies: int) -> None:
        """It is told that these bookies are lost, in one turn."""
        assert self._writing is not None
        for number in bookies:
            self.tell(self._writing.hosted, BookieLost(BookieId(f"b{number}")))

    def is_acknowledged(self, *texts: str) -> bool:
        return all(isinstance(self.outcomes.get(text), Appended) for text in texts)

    def _append(self, writing: Writing) -> None:
        """Nothing by itself."""

    def _close(self, writing: Writing) -> None:
        """Nothing by itself."""

    def _leave(self) -> None:
        """It stays with its ledger."""

    def _over(self, token: Hashable, outcome: object) -> None:
        self.outcomes[self._names.get(token, str(token))] = outcome
        super()._over(token, outcome)


class StoryRecoverer(RecovererProcess):
    """Recovers and deletes ledgers, as it is told."""

    def begin(self) -> None:
        self._under_way = {}
        self.ended: dict[int, object] = {}

    def _over(self, token: Hashable, outcome: object) -> None:
        assert isinstance(token, int)
        self.ended[token] = outcome
        super()._over(token, outcome)


class StoryReader(ReaderProcess):
    """Follows ledgers, as it is told."""

    def begin(self) -> None:
        self.following = {}
        self._tokens = 0
        self.found: list[int] = []
        self.outcomes: list[object] = []

    def effect(self, hosted: Any, effect: Any) -> None:
        super().effect(hosted, effect)
        self.found += [each.entry for each in effect.entries]

    def _over(self, token: Hashable, outcome: object) -> None:
        self.outcomes.append(outcome)
        super()._over(token, outcome)


class StoryReplicator(ReplicatorProcess):
    """Audits and repairs, with short times."""

    auditor_settings: ClassVar[dict[str, int]] = {}

    def begin(self) -> None:
        self.notes: list[str] = []
        super().begin()

    def _auditor_settings(self) -> AuditorSettings:
        settings = {"ledgers_check_ms": 0, "bookies_check_ms": 0, "orphans_check_ms": 0, "retry_ms": 500}
        return AuditorSettings(**(settings | self.auditor_settings))

    def _worker_settings(self) -> WorkerSettings:
        return WorkerSettings(
            request_timeout_ms=self.profile.request_timeout_ms,
            open_grace_ms=2_000,
            poll_ms=100,
            retry_ms=200,
            retry_max_ms=1_000,
            check=CheckSettings(request_timeout_ms=self.profile.request_timeout_ms),
        )

    def effect(self, hosted: Hosted, effect: Any) -> None:
        super().effect(hosted, effect)
        self.notes.append(effect.text)


@attrs.define(eq=False)
class Hold:
    """What waits: each with what sends it."""

    client: LedgerClient
    bookie: BookieId
    matches: Callable[[Any], bool]
    messages: list[tuple[Any, Callable[[], None]]] = attrs.Factory(list)


class Story:
    """See the docstring of the module."""

    def __init__(self, bookies: int = 5, **settings: Any) -> None:
        self.profile = _profile(bookies, settings)
        self.cluster = LedgerCluster(self.profile, None, repr)
        self.schedule, self.judge = self.cluster.schedule, self.cluster.judge
        self.requests: list[Hold] = []
        self.answers: list[Hold] = []
        self.sent: list[tuple[LedgerClient, BookieId, Request]] = []
        """Every request of a client."""
        for number in self.cluster.bookies:
            self.start(number)
        tree = self.cluster.service.tree
        self.until(lambda: all(tree.data(f"{ROOT}/available/b{number}") is not None for number in self.cluster.bookies))

    # ------------------------------------------------------------------------------------------------------------ time

    def until(self, holds: Callable[[], bool], ms: int = PATIENCE_MS) -> None:
        """Let time pass until this holds."""
        end = self.schedule.now + ms * MS
        while not holds():
            assert self.schedule.run_next(end), f"still not after {ms} ms"

    def pass_time(self, ms: int) -> None:
        self.schedule.run_until(self.schedule.now + ms * MS)

    # --------------------------------------------------------------------------------------------------------- machines

    def bookie(self, number: int) -> BookieProcess:
        found = self.cluster.bookie(number)
        assert found is not None
        return found

    def start(self, number: int) -> None:
        """Start it, if it does not run."""
        machine = self.cluster.bookies[number]
        machine.stays_down = True
        machine.start()

    def kill(self, number: int) -> None:
        self.cluster.machines[number].stop(with_power=False)

    def power(self, number: int) -> None:
        self.cluster.machines[number].stop(with_power=True)

    def lose_disk(self, number: int) -> None:
        """Its machine comes back with an empty disk. The bookie refuses to start, and comes back under another name."""
        self.cluster.bookies[number].stays_down = False
        self.cluster.lose_disk(number)

    def slow_disk(self, number: int, ms: int) -> None:
        """What the disk of a bookie is asked for from now on takes about so long."""
        self.cluster.bookies[number].disk_us = ms * MS

    def knows(self, number: int, ledger: int) -> bool:
        """Whether a bookie has this ledger."""
        return self.bookie(number).core.table.get(ledger) is not None

    def is_fenced(self, number: int, ledger: int) -> bool:
        """Whether a bookie would refuse ordinary adds, durably or not."""
        found = self.bookie(number).core.table.get(ledger)
        return found is not None and found.is_fenced

    # ---------------------------------------------------------------------------------------------------------- clients

    def writer(
        self,
        *ensemble: int,
        quorums: tuple[int, int, int] = (3, 3, 2),
        log: str | None = None,
        created_ms: int | None = None,
    ) -> StoryWriter:
        """A client with a new ledger. `log`: which it says that it belongs to."""
        found = self._client(StoryWriter)
        found.create(ensemble, quorums, log, created_ms)
        self.until(lambda: found.ledger >= 0)
        return found

    def recoverer(self) -> StoryRecoverer:
        return self._client(StoryRecoverer)

    def reader(self) -> StoryReader:
        return self._client(StoryReader)

    def replicator(self, **auditor: int) -> StoryReplicator:
        """`auditor`: what differs in its settings."""
        kind = type("Replicator", (StoryReplicator,), {"auditor_settings": auditor})
        return self._client(kind)

    def _client(self, kind: type[Client]) -> Client:
        cluster, number = self.cluster, len(self.cluster.clients) + 1
        plan = Plan(number, First(number))
        process: Client | None = None

        def boot(machine: Any) -> Client:
            nonlocal process
            assert process is None, "a client of a story is started once"
            process = kind(machine, plan, self.profile, ROOT, cluster.service, self.judge, cluster.reach)
            return process

        machine = cluster.add_client(boot)
        machine.stays_down = True
        machine.start()
        assert process is not None
        client = process
        self._listen(client)
        self.until(lambda: client.has_begun)
        return client

    def kill_client(self, client: LedgerClient) -> None:
        client.machine.stop(with_power=False)

    # ---------------------------------------------------------------------------------------------------------- network

    def cut(self, client: LedgerClient) -> None:
        """It does not hear of the coordination service."""
        for pair in ((client.sid, SERVICE), (SERVICE, client.sid)):
            self.cluster.network.block(*pair)

    def reconnect(self, client: LedgerClient) -> None:
        for pair in ((client.sid, SERVICE), (SERVICE, client.sid)):
            self.cluster.network.unblock(*pair)

    def hold(self, client: LedgerClient, bookie: int, matches: Callable[[Request], bool] = is_any) -> Hold:
        """Requests wait from now on."""
        self.requests.append(Hold(client, BookieId(f"b{bookie}"), matches))
        return self.requests[-1]

    def hold_answers(self, client: LedgerClient, bookie: int) -> Hold:
        """Answers that are OK wait from now on."""
        matches: Callable[[Answered], bool] = lambda each: each.answer.status is Status.OK  # noqa: E731
        self.answers.append(Hold(client, BookieId(f"b{bookie}"), matches))
        return self.answers[-1]

    def release(self, *holds: Hold) -> None:
        """What waits goes, and later ones pass."""
        for hold in holds:
            self.forget(hold)
            for _, send in hold.messages:
                if not hold.client.dead:
                    send()
            if not hold.client.dead:
                hold.client.connections.flush()

    def forget(self, hold: Hold) -> None:
        """Lose what waits, and let later ones pass."""
        for holds in (self.requests, self.answers):
            if hold in holds:
                holds.remove(hold)

    def lose_connection(self, client: LedgerClient, bookie: int) -> None:
        """The connections of a client with a bookie break; what was asked is answered UNREACHABLE."""
        connections = client.connections
        for talk in [each for each in connections._talks.values() if each.bookie == f"b{bookie}"]:
            connections._end(talk, Status.UNREACHABLE)

    def _listen(self, client: LedgerClient) -> None:
        connections = client.connections
        send, tell = connections.send, connections._tell

        def sending(owner: Any, bookie: BookieId, request: Request) -> None:
            self.sent.append((client, bookie, request))
            for hold in self.requests:
                if hold.client is client and hold.bookie == bookie and hold.matches(request):
                    hold.messages.append((request, lambda: send(owner, bookie, request)))
                    return
            send(owner, bookie, request)

        def telling(owner: Any, each: Answered | BookieLost) -> None:
            if isinstance(each, Answered):
                for hold in self.answers:
                    if hold.client is client and hold.bookie == each.bookie and hold.matches(each):
                        hold.messages.append((each, lambda: tell(owner, each)))
                        return
            tell(owner, each)

        connections.send = sending  # type: ignore[method-assign]
        connections._tell = telling

    # ---------------------------------------------------------------------------------------------------------- ledgers

    def metadata(self, ledger: int) -> LedgerMetadata:
        return self.judge.of(ledger).metadata

    def last(self, ledger: int) -> int:
        """Where a closed ledger ends."""
        metadata = self.metadata(ledger)
        assert metadata.is_closed, metadata
        return metadata.last

    def copies(self, ledger: int, entry: int) -> set[int]:
        """The bookies that have acknowledged an entry."""
        return {int(bookie[1:]) for bookie in self.judge.of(ledger).copies.get(entry, set())}

    def finish(self) -> None:
        """Everything goes on; every ledger is closed and read whole."""
        for client in self.cluster.clients:
            for pair in ((client, SERVICE), (SERVICE, client)):
                self.cluster.network.unblock(*pair)
        self.release(*self.requests, *self.answers)
        for number in self.cluster.bookies:
            self.slow_disk(number, 0)
            self.start(number)
        recoverer, reader = self.recoverer(), self.reader()
        for ledger in self.judge.not_closed:
            recoverer.recover(ledger)
        self.until(lambda: not self.judge.not_closed)
        for each in self.judge.ledgers.values():
            if not each.is_deleted:
                reader.follow(each.id, is_whole=True)
        self.until(lambda: not reader.following)
        self.judge.finish()


def _profile(bookies: int, settings: dict[str, Any]) -> Profile:
    given: dict[str, Any] = {
        "seed": 0,
        "bookies": bookies,
        "quorums": ((3, 3, 2),),
        **dict.fromkeys(("writers", "recoverers", "readers", "replicators", "fault_ticks"), 0),
        "faults": {},
        "gap_us": 1,
        "append_gap_us": 1,
        "burst": 1,
        "ledger_entries": 1,
        "payload_bytes": 0,
        "recover_gap_us": 1,
        "is_v2": True,
        "keeps_order": True,
        "silences": 0.0,
        "explicit_lac_ms": 0,
        "lag": 0,
        "latency_us": 100,
        "jitter_us": 1,
        "disk_us": 200,
        "turn_us": 50,
        "operation_us": 100,
        "drift_ppm": 0,
        "session_timeout_ms": 3_000,
        "request_timeout_ms": 1_000,
        "journal_bytes": 100_000,
        "segment_bytes": 50_000,
        "flush_ms": 60_000,
        "gc_ms": 60_000,
        "deletes": 0.0,
        "keeps_promises": True,
    }
    return Profile(**(given | settings))
