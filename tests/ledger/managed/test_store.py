"""Claims and lists, one multi at a time, with answers that are lost."""

from random import Random

import pytest
from attrs import evolve

from tests.ledger.managed.lists import LOGS, NAME, ROOT, ledger, metadata
from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import Check, Create, Get, Multi, Set, Sync
from zab.ledger.managed.log_info import LedgerInfo, LogConfig, LogInfo, LogState, Position, decode_log, encode_log
from zab.ledger.managed.store import (
    CLAIMS_MAX,
    Contended,
    NoLog,
    Taken,
    VersionedLog,
    Written,
    claim_log,
    list_logs,
    read_log,
    write_log,
)
from zab.ledger.managed.succession import NotClosed, Opened, Succession
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.placement.placement import Placement

PATH = "/logs/orders"
CLOSED = LedgerInfo(id=41, entries=5, length=50, closed_ms=18)


@pytest.fixture
def of():
    found = Coordination()
    for path in (LOGS, ROOT):
        found.apply(Create(path))
    found.asked.clear()
    return found


def claim(of, owner="me", **given):
    settings = {"config": LogConfig(), "created_ms": 5, "rng": Random(1), **given}
    return of.run(claim_log(LOGS, NAME, owner, **settings))


def there(of):
    return decode_log(of.tree.data(PATH))


def put(of, info):
    """Somebody else writes the list."""
    of.tree.apply(of.session, Set(PATH, encode_log(info)))


def test_a_log_is_made_if_there_is_none():
    of = Coordination()
    made = claim(of)
    assert made == VersionedLog(PATH, LogInfo(created_ms=5, owner="me"), 0)
    assert there(of) == made.info
    assert of.run(list_logs(LOGS)) == (NAME,)


def test_without_a_config_there_is_no_log(of):
    assert claim(of, config=None) == NoLog()
    assert of.run(list_logs("/nowhere")) == ()


def test_a_claim_counts_the_owners(of):
    claim(of)
    claimed = claim(of, "you")
    assert (claimed.info.epoch, claimed.info.owner, claimed.version) == (2, "you", 1)
    assert there(of) == claimed.info


@pytest.mark.parametrize("fate", ["done", "not done"])
def test_a_log_whose_create_is_lost_is_made_once(of, fate):
    of.lost.append("answered")
    of.lost.append("answered")
    of.lost.append(fate)
    assert claim(of).info.epoch == 1


def test_a_claim_that_others_are_always_faster_than_is_given_up(of):
    claim(of)

    def faster(operation):
        if isinstance(operation, Multi):
            put(of, there(of).claimed("faster"))

    of.before = faster
    assert claim(of, "you") == Contended()
    assert there(of).epoch == 1 + CLAIMS_MAX


def test_a_claim_that_somebody_was_faster_than_is_made_again(of):
    claim(of)
    faster = [1]

    def before(operation):
        if isinstance(operation, Multi) and faster:
            faster.pop()
            put(of, there(of).claimed("faster"))

    of.before = before
    assert claim(of, "you").info.epoch == 3


def test_a_terminated_log_is_not_claimed(of):
    claim(of)
    put(of, evolve(there(of), ledgers=(CLOSED,)).terminated_here())
    found = claim(of, "you")
    assert (found.info.owner, found.info.state) == ("me", LogState.TERMINATED)
    assert claim(of, "you", deletes=True).info.owner == "you"


def test_a_log_that_is_being_deleted_is_claimed_to_delete_it_alone(of):
    claim(of)
    put(of, evolve(there(of), state=LogState.DELETING))
    assert claim(of, "you") == NoLog()
    assert claim(of, "you", deletes=True).info.owner == "you"


def test_a_read_that_decides_comes_after_a_sync(of):
    claim(of)
    of.asked.clear()
    of.run(read_log(LOGS, NAME))
    assert of.asked == [Sync(PATH), Get(PATH)]


def test_a_write_whose_answer_is_lost_is_decided_by_what_is_there(of):
    log = claim(of)
    of.lost.append("done")
    new = log.info.with_open(7)
    assert of.run(write_log(log, new)) == Written(VersionedLog(PATH, new, 1))


def test_a_write_that_was_not_done_is_done_again(of):
    log = claim(of)
    of.lost.append("not done")
    assert isinstance(of.run(write_log(log, log.info.with_open(7))), Written)


def test_a_write_whose_answer_is_lost_and_that_another_owner_followed_is_taken(of):
    log = claim(of)
    of.lost.append("done")

    def then(operation):
        if isinstance(operation, Sync):
            put(of, there(of).claimed("you"))

    of.before = then
    found = of.run(write_log(log, log.info.with_open(7)))
    assert isinstance(found, Taken)
    assert found.current is not None
    assert found.current.info.owner == "you"


def test_a_list_of_another_owner_is_taken_and_nothing_is_written(of):
    log = claim(of)
    put(of, log.info.claimed("you"))
    found = of.run(write_log(log, log.info.with_open(7), [Create("/ledgers/x")]))
    assert isinstance(found, Taken)
    assert of.tree.data("/ledgers/x") is None


# ----------------------------------------------------------------------------------------------------------- succession


def succession(of):
    placement = Placement(Random(1))
    placement.know([BookieNode(name) for name in ("b1", "b2", "b3")])
    found = Succession(
        *(LOGS, NAME, ROOT, placement),
        owner="me",
        rng=Random(1),
        config=LogConfig(),
        password=b"",
        deletes=False,
        now_ms=lambda: 0,
        wall_ms=lambda: 1,
    )
    of.run(found.claim())
    return found


def recovered(of, number, last):
    """The list has this ledger without an end, and it was recovered."""
    found = succession(of)
    put(of, found.info.with_open(number))
    found.log = of.run(read_log(LOGS, NAME))
    found.ended = ledger(of, number, metadata().recovering().closed_at(last, 10 * (last + 1)))
    return found


def test_the_recovered_ledger_is_checked_in_the_multi_that_follows(of):
    found = recovered(of, 0, 4)
    path = ledger_path(ROOT, 0)
    checks = []
    of.before = lambda operation: checks.extend(
        part for part in getattr(operation, "parts", ()) if isinstance(part, Check)
    )
    opened = of.run(found.follow(None))
    assert isinstance(opened, Opened)
    assert checks
    assert set(checks) == {Check(path, 0)}
    assert there(of).ledgers == (
        LedgerInfo(id=0, entries=5, length=50, closed_ms=1),
        LedgerInfo(id=opened.versioned.ledger),
    )


def test_a_ledger_that_repair_has_changed_meanwhile_is_checked_again(of):
    found = recovered(of, 0, 4)
    path = ledger_path(ROOT, 0)
    of.tree.apply(of.session, Set(path, of.tree.data(path)))
    assert isinstance(of.run(found.follow(None)), Opened)


def test_a_ledger_that_had_a_writer_is_recovered(of):
    found = succession(of)
    put(of, found.info.with_open(9))
    found.log = of.run(read_log(LOGS, NAME))
    ledger(of, 9, metadata())
    assert isinstance(of.run(found.follow(None)), Opened)
    found.written = 9
    assert of.run(found.follow(None)) == NotClosed()


def test_an_id_below_the_last_one_is_not_used(of):
    """The counter of ids began again, from 0."""
    found = succession(of)
    put(of, evolve(found.info, ledgers=(evolve(CLOSED, id=3),)))
    found.log = of.run(read_log(LOGS, NAME))
    opened = of.run(found.follow(None))
    assert isinstance(opened, Opened)
    assert opened.versioned.ledger > 3


def test_a_list_that_never_gets_an_id_is_damaged(of):
    found = succession(of)
    put(of, evolve(found.info, ledgers=(evolve(CLOSED, id=100_000),)))
    found.log = of.run(read_log(LOGS, NAME))
    assert "below 100000" in of.run(found.follow(None)).detail
    assert there(of).last == Position(100_000, 4)
