"""Which changes of metadata are good, and which break a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from attrs import evolve

from zab.coordination.operations import Create, Delete, Set
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import Fragment, InvalidMetadataError, LedgerMetadata
from zab.simulator.coordination.znode_tree import ZnodeTree
from zab.simulator.ledgers.judge import Judge
from zab.simulator.ledgers.metadata_judge import MetadataJudge
from zab.simulator.world.verdict import SafetyError

B = tuple(BookieId(f"b{number}") for number in range(1, 8))
LEDGER = 7
PATH = "/7"
LOCK = "/lock"


class Ledgers:
    """A tree with one ledger, whose values stand for themselves."""

    def __init__(self) -> None:
        self.values: list[LedgerMetadata] = []
        self.tree = ZnodeTree()
        self.session = self.tree.begin_session()
        self.judge = Judge()
        judge = MetadataJudge(
            *(self.tree, self.judge),
            lambda path: LEDGER if path == PATH else None,
            lambda data: self._of(data),
            lambda _ledger: LOCK,
        )
        assert self.tree.apply(self.session, Create(LOCK, ephemeral=True)).ok
        self.tree.before_write = judge.before_write

    def _of(self, data: bytes) -> LedgerMetadata:
        found = self.values[int(data)]
        if found.token == 0:
            raise InvalidMetadataError("it says so")
        return found

    def write(self, value: LedgerMetadata) -> None:
        self.values.append(value)
        data = b"%d" % (len(self.values) - 1)
        is_new = PATH not in self.tree.znodes
        assert self.tree.apply(self.session, Create(PATH, data) if is_new else Set(PATH, data)).ok

    @property
    def now(self) -> LedgerMetadata:
        return self.values[-1]


@pytest.fixture
def ledgers() -> Ledgers:
    ledgers = Ledgers()
    first = Fragment(0, B[:3])
    ledgers.write(LedgerMetadata(ensemble_size=3, write_quorum=3, ack_quorum=2, fragments=(first,), token=5))
    known = ledgers.judge.of(LEDGER)
    for entry in range(4):
        known.payloads[entry] = b"x"
        known.copies[entry] = set(B)
    return ledgers


@contextmanager
def breaks(rule: str) -> Iterator[None]:
    with pytest.raises(SafetyError) as found:
        yield
    assert found.value.rule == rule


def test_a_writer_changes_the_last_fragment_and_closes(ledgers: Ledgers) -> None:
    ledgers.write(ledgers.now.with_ensemble(0, B[1:4]))
    ledgers.write(ledgers.now.closed_at(-1, 0))
    assert ledgers.judge.of(LEDGER).metadata.is_closed


def test_a_recovery_marks_and_closes_with_other_fragments(ledgers: Ledgers) -> None:
    ledgers.write(ledgers.now.recovering())
    local = evolve(ledgers.now, fragments=(Fragment(0, B[1:4]), Fragment(1, B[2:5]), Fragment(2, B[3:6])))
    ledgers.write(local.closed_at(1, 2))
    assert ledgers.judge.of(LEDGER).metadata.last == 1


def test_a_recovery_leaves_a_fragment_out_of_which_nothing_is_left(ledgers: Ledgers) -> None:
    ledgers.write(ledgers.now.with_ensemble(1, B[1:4]))
    ledgers.write(ledgers.now.recovering())
    ledgers.write(evolve(ledgers.now, fragments=ledgers.now.fragments[:1]).closed_at(0, 1))
    assert len(ledgers.judge.of(LEDGER).metadata.fragments) == 1


def test_repair_replaces_one_member_of_a_complete_fragment(ledgers: Ledgers) -> None:
    ledgers.write(ledgers.now.with_ensemble(1, B[1:4]))
    ledgers.write(ledgers.now.with_member(0, 1, B[6]))
    ledgers.write(ledgers.now.recovering())
    ledgers.write(ledgers.now.with_member(0, 1, B[5]))


BAD: dict[str, tuple[str, Callable[[LedgerMetadata], list[LedgerMetadata]]]] = {
    "closed twice": ("G2", lambda now: [now.closed_at(0, 1), now.closed_at(1, 2)]),
    "another length": ("G2", lambda now: [now.closed_at(0, 1), now.closed_at(0, 2)]),
    "opened again": ("G2", lambda now: [now.closed_at(-1, 0), now]),
    "not recovered any more": ("states", lambda now: [now.recovering(), now]),
    "other quorums": ("states", lambda now: [evolve(now, ack_quorum=1)]),
    "another token": ("states", lambda now: [evolve(now, token=6)]),
    "an invalid value": ("G9", lambda now: [evolve(now, token=0)]),
    "a fragment is dropped": ("G9", lambda now: [now.with_ensemble(3, B[1:4]), now]),
    "two fragments come": ("G9", lambda now: [now.with_ensemble(3, B[1:4]).with_ensemble(4, B[:3])]),
    "a fragment begins elsewhere": (
        "G9",
        lambda now: [
            now.with_ensemble(3, B[1:4]),
            evolve(now, fragments=(*now.fragments, Fragment(2, B[1:4]))),
        ],
    ),
    "an old fragment is another one": (
        "G9",
        lambda now: [
            now.with_ensemble(3, B[1:4]),
            evolve(now.with_ensemble(3, B[1:4]), fragments=(Fragment(0, B[4:7]), Fragment(3, B[1:4]))),
        ],
    ),
    "S9: the last fragment changes in a recovery": (
        "G9",
        lambda now: [now.recovering(), now.recovering().with_ensemble(0, (B[3], *B[1:3]))],
    ),
    "a fragment comes in a recovery": ("G9", lambda now: [now.recovering(), now.recovering().with_ensemble(1, B[1:4])]),
    "a fragment comes with the mark": ("G9", lambda now: [now.with_ensemble(1, B[1:4]).recovering()]),
    "a fragment comes after the end": (
        "G9",
        lambda now: [now.closed_at(1, 2), now.closed_at(1, 2).with_ensemble(1, B[1:4])],
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_change_breaks_a_rule(ledgers: Ledgers, what: str) -> None:
    rule, changes = BAD[what]
    *good, bad = changes(ledgers.now)
    for each in good:
        ledgers.write(each)
    with breaks(rule):
        ledgers.write(bad)


def test_a_ledger_that_goes_is_known_to_be_gone(ledgers: Ledgers) -> None:
    with breaks("states"):
        ledgers.tree.apply(ledgers.session, Delete(PATH))
    ledgers.write(ledgers.now.closed_at(-1, 0))
    assert ledgers.tree.apply(ledgers.session, Delete(PATH)).ok
    assert ledgers.judge.of(LEDGER).is_deleted


def test_locks_repair_replaces_a_member_in_the_session_that_has_the_lock(ledgers: Ledgers) -> None:
    ledgers.write(ledgers.now.with_ensemble(1, B[1:4]))
    repaired = ledgers.now.with_member(0, 1, B[6])
    ledgers.session = ledgers.tree.begin_session()
    with pytest.raises(SafetyError) as found:
        ledgers.write(repaired)
    assert found.value.rule == "locks"
