"""Any order of answers, failures, lost answers, refused writes and time: what a writer promises holds after each step.

G1       an entry is released only while an ack quorum of its write set has it, as the metadata in the tree say
G4       entries are released in order, without gaps
G9       every write of metadata is one that the writer may make, or another client of the walk
no hang  once everything answers, every append and close gets its outcome, and that is the truth
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.ledger.quorums.enumeration import QUORUMS
from tests.ledger.writer.rig import ALL, Rig
from zab.coordination.operations import Set
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.changes import check_change
from zab.ledger.metadata.serialized import decode_metadata
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.store.events import BookieLost, Completed
from zab.ledger.wire.messages import AddEntry
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import (
    Append,
    Appended,
    AppendUnknown,
    CloseFailed,
    LedgerClosed,
    NotAppended,
    Reason,
    WriterState,
)

SMALL = [quorums for quorums in QUORUMS if quorums[0] <= 5]
BAD = (
    *(Status.IO_ERROR, Status.READ_ONLY, Status.TOO_MANY_REQUESTS, Status.UNREACHABLE, Status.TIMED_OUT),
    Status.UNKNOWN_LEDGER_STATE,
)


class Reference(Rig):
    """A rig that knows what each bookie has, and judges every release."""

    def __init__(self, quorums: tuple[int, int, int]) -> None:
        self.stored: dict[BookieId, set[int]] = {bookie: set() for bookie in ALL}
        self.released = -1
        super().__init__(quorums, bookies=len(ALL), pending_entries_max=50, excluded_ms=500, changes_max=1_000)
        self.tree.before_write = self.judge_write

    def judge_write(self, _session: int, parts: tuple[Any, ...]) -> None:
        """G9, for each write."""
        for part in parts:
            if isinstance(part, Set):
                check_change(decode_metadata(self.tree.data(part.path) or b""), decode_metadata(part.data))

    def _take(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Completed) and isinstance(effect.outcome, Appended):
                self.judge(effect.outcome.entry)
        super()._take(effects)

    def judge(self, entry: int) -> None:
        assert entry == self.released + 1, "G4"
        self.released = entry
        metadata = self.metadata
        if metadata.is_closed and entry <= metadata.last:
            return  # another client closed the ledger with it
        ensemble = metadata.fragment_of(entry).ensemble
        members = [ensemble[index] for index in write_set(entry, metadata.ensemble_size, metadata.write_quorum)]
        holders = [bookie for bookie in members if entry in self.stored[bookie]]
        assert len(holders) >= metadata.ack_quorum, f"G1: {entry} is on {holders} of {members}"

    def take_at(self, at: int, status: Status, *, is_stored: bool) -> Any:
        """The answer to what was sent; a bookie that refuses, or whose answer is lost, may have stored it."""
        each = self.sent[at]
        assert isinstance(each.request, AddEntry)
        if is_stored:
            self.stored[each.bookie].add(each.request.entry)
        return self.take_add(each.bookie, each.request.entry, status)


class WriterWalk(RuleBasedStateMachine):
    """Everything that can happen to one writer."""

    rig: Reference

    @initialize(quorums=st.sampled_from(SMALL), is_answering=st.booleans())
    def begin(self, quorums: tuple[int, int, int], is_answering: bool) -> None:
        self.rig = Reference(quorums)
        self.rig.is_answering = is_answering
        self.tokens = 0
        self.appends: list[int] = []
        self.is_foreign = False

    @rule(count=st.integers(1, 4), size=st.integers(0, 5))
    def append(self, count: int, size: int) -> None:
        tokens = range(self.tokens, self.tokens + count)
        self.tokens += count
        self.appends += tokens
        self.rig.step(*(Append(b"x" * size, token) for token in tokens))

    @precondition(lambda self: self.rig.sent)
    @rule(data=st.data(), count=st.integers(1, 6))
    def acknowledge(self, data: st.DataObject, count: int) -> None:
        answers = []
        for _ in range(min(count, len(self.rig.sent))):
            at = data.draw(st.integers(0, len(self.rig.sent) - 1))
            answers.append(self.rig.take_at(at, Status.OK, is_stored=True))
        self.rig.step(*answers)

    @precondition(lambda self: self.rig.sent)
    @rule(data=st.data(), status=st.sampled_from(BAD), is_stored=st.booleans())
    def refuse(self, data: st.DataObject, status: Status, is_stored: bool) -> None:
        at = data.draw(st.integers(0, len(self.rig.sent) - 1))
        self.rig.step(self.rig.take_at(at, status, is_stored=is_stored))

    @precondition(lambda self: self.rig.sent)
    @rule(data=st.data(), is_stored=st.booleans())
    def lose(self, data: st.DataObject, is_stored: bool) -> None:
        self.rig.take_at(data.draw(st.integers(0, len(self.rig.sent) - 1)), Status.OK, is_stored=is_stored)

    @rule(bookie=st.sampled_from(ALL))
    def bookie_is_lost(self, bookie: BookieId) -> None:
        self.rig.step(BookieLost(bookie))

    @rule(ms=st.sampled_from((1, 10, 50, 200, 1_000, 5_000)))
    def time_passes(self, ms: int) -> None:
        self.rig.later(ms)

    @precondition(lambda self: self.rig.submits)
    @rule(fate=st.sampled_from(("answered", "done", "not done")))
    def coordination(self, fate: str) -> None:
        if fate == "answered":
            self.rig.answer_one()
        else:
            self.rig.lose_one(is_done=fate == "done")

    @rule(is_done=st.booleans())
    def session_ends(self, is_done: bool) -> None:
        self.rig.expire(is_done=is_done)

    @precondition(lambda self: len(self.rig.metadata.fragments) > 1)
    @rule(data=st.data())
    def re_replication(self, data: st.DataObject) -> None:
        metadata = self.rig.metadata
        fragment = data.draw(st.sampled_from(metadata.fragments[:-1]))
        index = data.draw(st.integers(0, metadata.ensemble_size - 1))
        others = [bookie for bookie in ALL if bookie not in fragment.ensemble]
        new = data.draw(st.sampled_from(others))
        for entry in range(fragment.first, (metadata.end_of(fragment) or 0) + 1):
            self.rig.stored[new].add(entry)
        self.rig.by_other(lambda metadata: metadata.with_member(fragment.first, index, new))

    @precondition(lambda self: self.rig.metadata.is_open)
    @rule(chance=st.integers(0, 9))
    def recovery_begins(self, chance: int) -> None:
        if chance == 0:
            self.is_foreign = True
            self.rig.by_other(lambda metadata: metadata.recovering())

    @rule(chance=st.integers(0, 4), is_draining=st.booleans())
    def close(self, chance: int, is_draining: bool) -> None:
        if chance == 0:
            self.tokens += 1
            self.rig.close(("close", self.tokens), is_draining=is_draining)

    def teardown(self) -> None:
        """Everything answers from now on."""
        if not hasattr(self, "rig"):
            return
        rig = self.rig
        rig.is_answering = True
        rig.close("end")
        for _ in range(200):
            while rig.submits:
                rig.answer_one()
            while rig.sent:
                rig.step(*(rig.take_at(0, Status.OK, is_stored=True) for _ in list(rig.sent)))
            if "end" in rig.outcomes:
                break
            rig.later(500)
        self.check_outcomes(rig)

    def check_outcomes(self, rig: Reference) -> None:
        assert "end" in rig.outcomes, "it hangs"
        assert rig.writer.state not in (WriterState.OPEN, WriterState.CLOSING)
        metadata = rig.metadata
        for token in self.appends:
            assert token in rig.outcomes, f"append {token} hangs"
            outcome = rig.outcomes[token]
            if isinstance(outcome, Appended):
                assert self.is_foreign or outcome.entry <= metadata.last, outcome
            elif isinstance(outcome, AppendUnknown):
                assert self.is_foreign or outcome.reason is Reason.UNDECIDED, outcome
            else:
                assert isinstance(outcome, NotAppended), outcome
        if not self.is_foreign and isinstance(rig.outcomes["end"], LedgerClosed):
            assert metadata.is_closed
            assert metadata.last == rig.released == rig.outcomes["end"].last
        assert isinstance(rig.outcomes["end"], LedgerClosed | CloseFailed)


def walk(examples: int, steps: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        WriterWalk,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_writer_keeps_its_promises_whatever_happens() -> None:
    walk(40, 30)


@pytest.mark.longest
def test_a_writer_keeps_its_promises_in_many_walks() -> None:
    walk(2_000, 60)
