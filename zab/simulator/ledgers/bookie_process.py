"""The process of one bookie: the real core on a simulated journal, jobs, reads, session and connections.

Requests and answers are bytes of the real codecs. What the bookie answers is shown to a judge as it is sent; what it
has after a start is compared with what it had acknowledged.

A bookie that ends by itself, since its disk failed, is started again by its supervisor.

Not here: what outlives the process (`cluster`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeVar

import attrs

from zab.coordination.steps import Pause, Steps
from zab.ledger.bookie.bookie import Bookie
from zab.ledger.bookie.config import UUID_BYTES, BookieConfig, Identity
from zab.ledger.bookie.cookie_check import LocalCookie, check_cookie, read_local_cookie, write_local_cookie
from zab.ledger.bookie.entry_files import EntryFiles, numbers_in
from zab.ledger.bookie.events import (
    AppendJournal,
    Asked,
    ConnectionClosed,
    Effects,
    Input,
    Job,
    JournalDurable,
    ReadSegment,
    SaveCheckpoint,
    Space,
)
from zab.ledger.bookie.frames import DIRECTORY as JOURNAL
from zab.ledger.bookie.journal_files import JournalFiles
from zab.ledger.bookie.membership import Member
from zab.ledger.bookie.opening import DamagedError, Opened, open_files
from zab.ledger.bookie.segment import segment_path
from zab.ledger.bookie.segments import Search, Segments
from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.cookies import Cookie
from zab.ledger.metadata.service_info import ServiceInfo, bookie_endpoint, encode_service_info
from zab.ledger.wire.codec import ServerRequest, decode_run, encode_answer
from zab.ledger.wire.frames import FrameCutter
from zab.ledger.wire.messages import AddEntry
from zab.simulator.coordination.service import CoordinationService
from zab.simulator.coordination.session import CoordinationSession
from zab.simulator.coordination.znode_tree import ZnodeTree
from zab.simulator.ledgers.bookie_judge import Before, BookieJudge
from zab.simulator.ledgers.profile import Profile
from zab.simulator.ledgers.wires import CLOSED, Talk
from zab.simulator.world.disk import FaultyDisk, PowerLossError
from zab.simulator.world.job_thread import JobThread
from zab.simulator.world.log_thread import LogThread
from zab.simulator.world.machine import Machine
from zab.simulator.world.process import Process
from zab.simulator.world.verdict import SafetyError

INSTANCE: Final = "00000000-0000-4000-8000-000000000000"
"""The id of the root of all ledgers."""
T = TypeVar("T")
PORT: Final = 3181
SPACE_US: Final = 1000
"""How long it takes to ask for the free space."""


@attrs.define(eq=False)
class Conversation:
    """A connection, as the bookie has it."""

    talk: Talk
    cutter: FrameCutter
    held: list[ServerRequest] = attrs.Factory(list)
    """What waits since the bookie takes no adds now."""
    waiting: dict[int, tuple[ServerRequest, Before]] = attrs.Factory(dict)
    """The requests that are not answered, by their numbers."""
    count: int = 0


def run_at_once(tree: ZnodeTree, steps: Steps[T]) -> T:
    """Do these steps on the tree, before anything else happens, in a session of their own."""
    session = tree.begin_session()
    try:
        operations = next(steps)
        while True:
            assert not isinstance(operations, Pause)
            operations = steps.send(tuple(tree.apply(session, each) for each in operations))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        tree.end_session(session)


def open_bookie(
    machine: Machine, bookie_id: BookieId, profile: Profile, root: str, service: CoordinationService, judge: BookieJudge
) -> BookieProcess | None:
    """Start a bookie from its disk; None: it cannot be read this time. Raises CookieError: it must not start."""
    config = BookieConfig(
        flush_bytes=profile.segment_bytes,
        flush_ms=profile.flush_ms,
        cache_bytes_max=3 * profile.segment_bytes,
        journal_file_bytes=profile.journal_bytes,
        read_ahead_bytes=profile.segment_bytes // 4,
        read_cache_bytes=profile.segment_bytes,
        batch_ms_max=profile.request_timeout_ms // 4,
        space_check_ms=1_000,
        reserve_bytes=2 * profile.journal_bytes + 4 * profile.segment_bytes,
        collect_ms=profile.gc_ms,
        surplus_ms=profile.gc_ms,
        compact_ms=3 * profile.gc_ms,
        compact_daily_ms=30 * profile.gc_ms,
        compact_small_bytes=profile.segment_bytes,
        compact_segments_max=4,
        compact_bytes_per_s=20 * profile.segment_bytes,
        piece_bytes=profile.segment_bytes // 4,
        open_bytes_max=profile.segment_bytes,
        state_small_bytes=profile.segment_bytes // 10,
    )
    disk = machine.disk
    uuid = bookie_id.encode().ljust(UUID_BYTES)
    try:
        local = read_local_cookie(disk)
        data = run_at_once(service.tree, check_cookie(root, Cookie(bookie_id, ("/",), ("/",), INSTANCE), local))
        if local is None:
            write_local_cookie(disk, LocalCookie(data, uuid))
        identity = Identity(b"i" * UUID_BYTES, uuid)
        opened = open_files(disk, config, identity)
    except PowerLossError:
        disk.crash(machine.rng)
        return None
    except OSError as error:
        machine.world.trace.say(bookie_id, f"cannot start: {error}")
        if isinstance(error, DamagedError):
            raise SafetyError("durability", f"{bookie_id} cannot start: {error}") from error
        disk.kill()
        return None
    _compare(bookie_id, disk, opened, judge)
    info = encode_service_info(ServiceInfo((bookie_endpoint(bookie_id, PORT),)))
    core = Bookie(config, opened, machine.now_ms, Member(root, bookie_id, INSTANCE.encode(), info))
    files = JournalFiles(disk, config, identity, opened.mark[0]), EntryFiles(disk, config, identity)
    return BookieProcess(machine, bookie_id, core, files, service, judge, profile.session_timeout_ms)


def _compare(bookie_id: BookieId, disk: FaultyDisk, opened: Opened, judge: BookieJudge) -> None:
    """Compare what a bookie has after a start with what it has acknowledged."""
    segments = Segments(opened.segments, read_ahead_bytes=1, cache_bytes=1)

    def search(found: Search[list[tuple[int, int]] | None]) -> list[tuple[int, int]] | None:
        data: bytes | None = None
        try:
            while True:
                wanted = found.send(data)
                data = disk.read(segment_path(wanted.number), wanted.offset, wanted.size)
        except StopIteration as end:
            runs: list[tuple[int, int]] | None = end.value
            return runs

    for ledger in judge.ledgers_of(bookie_id):
        runs = search(segments.ids(ledger, 1 << 30))
        assert runs is not None
        entries = [entry for first, last in runs for entry in range(first, last + 1)]
        there = opened.table.get(ledger)
        lac, is_fenced = (NONE, False) if there is None else (there.explicit_lac, there.is_fenced)
        judge.restarted(bookie_id, ledger, entries, explicit_lac=lac, is_fenced=is_fenced)


class BookieProcess(Process):
    """See the docstring of the module."""

    def __init__(
        self,
        machine: Machine,
        bookie_id: BookieId,
        core: Bookie,
        files: tuple[JournalFiles, EntryFiles],
        service: CoordinationService,
        judge: BookieJudge,
        session_timeout_ms: int,
    ) -> None:
        super().__init__(machine)
        self.id = bookie_id
        self.name = bookie_id
        self.core = core
        self.judge = judge
        self.turn = self
        self._journal_files, self._entry_files = files
        self._inputs: list[Input] = []
        self._conversations: dict[Talk, Conversation] = {}
        self._takes_adds = True
        self._emptied: frozenset[int] = frozenset()
        self._log_thread: LogThread[AppendJournal, JournalDurable] = LogThread(
            self, self._journal_files, self._post, self._inputs.append
        )
        self._jobs = JobThread(self)
        self.session = CoordinationSession(self, service, session_timeout_ms, self._post)

    # ----------------------------------------------------------------------------------------------------- connections

    def connected(self, talk: Talk) -> None:
        """A client has connected."""
        self._conversations[talk] = Conversation(talk, FrameCutter())

    def arrived(self, talk: Talk, data: bytes) -> None:
        """Take bytes of a client, or `CLOSED`, unless the process stands still."""
        self.later(0, self._take, talk, data)

    def _take(self, talk: Talk, data: bytes) -> None:
        conversation = self._conversations.get(talk)
        if conversation is None:
            return
        if data == CLOSED:
            del self._conversations[talk]
            self._post(ConnectionClosed(talk))
            return
        bodies, error = conversation.cutter.feed(data)
        assert error is None, error
        decoded, error = decode_run(bodies)
        assert error is None, error
        for each in decoded:
            assert isinstance(each, ServerRequest), each
            conversation.held.append(each)
        self._pass_on(conversation)

    def _pass_on(self, conversation: Conversation) -> None:
        """Give the core what the connection has brought, up to an add that has to wait."""
        while conversation.held:
            asked = conversation.held[0]
            if isinstance(asked.request, AddEntry) and not self._takes_adds:
                return
            del conversation.held[0]
            conversation.count += 1
            conversation.waiting[conversation.count] = asked, self.judge.asked(self.id, asked.request)
            self._post(Asked(conversation.talk, conversation.count, asked.request))

    # ---------------------------------------------------------------------------------------------------------- a turn

    def _post(self, each: Input) -> None:
        self._inputs.append(each)
        self.wake(self.schedule.now)

    def take(self) -> bool:
        inputs, self._inputs[:] = list(self._inputs), []
        self.trace.mark(self.sid, len(inputs))
        if self.trace.sink is not None and inputs:
            self.show(f"takes {', '.join(map(self.trace.describe, inputs))}")
        self._carry_out(self.core.step(self.machine.now_ms, inputs, self.machine.wall_ms()))
        self._look_at_tombstones()
        self._look_at_emptied()
        return True

    def _look_at_tombstones(self) -> None:
        """Show the judge which ledgers the bookie has deleted."""
        table = self.core.table
        if table.tombstones.last >= 0:
            for ledger, on in self.judge.ledgers_of(self.id).items():
                if ledger in table.tombstones and not on.is_removed:
                    self.judge.removes(self.id, ledger)

    def _look_at_emptied(self) -> None:
        """Show the judge of which ledgers the bookie has let go."""
        before, self._emptied = self._emptied, frozenset(self.core.table.emptied)
        for ledger in sorted(self._emptied - before):
            self.judge.empties(self.id, ledger)

    def next_deadline(self) -> int:
        return self.core.deadline_ms

    def _carry_out(self, effects: Effects) -> None:
        for note in (*effects.notes, *effects.reports):
            self.say(note)
        for append in effects.journal:
            self._log_thread.put(append)
        for job in effects.jobs:
            self.called()
            self._jobs.run(partial(self._do, job))
        for read in effects.reads:
            self.called()
            self.later(self.machine.disk_delay_us(), self._read, read)
        for submit in effects.submits:
            self.session.submit(submit)
        for talk, number, answer in effects.answers:
            self._answer(talk, number, answer)
        if effects.asks_space:
            self.later(SPACE_US, self._tell_space)
        if effects.failure is not None:
            self.say(f"ends: {effects.failure}")
            self.later(0, self.end)
        if effects.takes_adds != self._takes_adds:
            self._takes_adds = effects.takes_adds
            for conversation in list(self._conversations.values()):
                self._pass_on(conversation)

    def _answer(self, talk: Any, number: int, answer: Any) -> None:
        conversation = self._conversations.get(talk)
        if conversation is None:
            return
        self.called()
        asked, before = conversation.waiting.pop(number)
        self.judge.answers(self.id, asked.request, answer, before)
        if self.trace.sink is not None:
            self.show(f"answers {talk.client} {self.trace.describe(answer)}")
        data = encode_answer(asked.reply_to, answer)
        self.trace.carried(self.sid, data)
        talk.to_client.send(data, len(data))

    # ----------------------------------------------------------------------------------------------------------- disk

    def _do(self, job: Job) -> None:
        """Do a job on the job thread."""
        if isinstance(job, SaveCheckpoint):
            self.judge.checkpoints(self.id, job.mark)
        with self.ends_by(PowerLossError):
            self._post(self._entry_files.perform(job))
            if isinstance(job, SaveCheckpoint):
                self.judge.removes_journals(self.id, min(numbers_in(self.machine.disk, JOURNAL), default=0))
        if not self.dead:
            self._jobs.done()

    def _read(self, read: ReadSegment) -> None:
        self._post(self._entry_files.read(read))

    def _tell_space(self) -> None:
        disk = self.machine.disk
        self._post(Space(disk.free_bytes(), disk.capacity_bytes))

    # ------------------------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        self.session.start()
        super().start()

    def end(self) -> None:
        """End the process; it is started again."""
        self.machine.stop(with_power=False)

    def die(self, *, with_power: bool) -> None:
        """End the process. Called by its machine, which keeps the disk."""
        super().die(with_power=with_power)
        self.session.process_died()
        for talk in self._conversations:
            if with_power:
                talk.to_client.cut()
            else:
                talk.to_client.send(CLOSED, 1)
        self._conversations.clear()
