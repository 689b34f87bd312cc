"""Which ledgers go to an object store, and in which order the list says so."""

from random import Random

import pytest
from attrs import evolve

from tests.ledger.managed.lists import LOGS, NAME, ROOT, ledger, metadata
from tests.ledger.store.handlers import Coordination
from zab.coordination.operations import Create, Multi, Set
from zab.ledger.managed.log_info import (
    LedgerInfo,
    LogConfig,
    LogInfo,
    Offload,
    OffloadState,
    decode_log,
    encode_log,
    log_path,
)
from zab.ledger.managed.offloading import (
    DROPPED_AT_ONCE_MAX,
    begin_copy,
    drop_from_bookies,
    due_to_drop,
    end_copy,
    next_drop_ms,
    next_to_copy,
    objects_of,
)
from zab.ledger.managed.settings import OffloadSettings
from zab.ledger.managed.succession import Succession
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.placement.placement import Placement

PATH = log_path(LOGS, NAME)
COPYING = Offload(state=OffloadState.COPYING, uid="old", uri="/archive", when_ms=5)
DONE = Offload(state=OffloadState.DONE, uid="u", uri="/archive", when_ms=1_000)
GONE = evolve(DONE, is_on_bookies=False)


def closed(number, offload=None):
    return LedgerInfo(id=number, entries=10, length=100, closed_ms=number, offload=offload)


def listed(*ledgers):
    return LogInfo(ledgers=(*ledgers, LedgerInfo(id=900)))


@pytest.fixture
def of():
    found = Coordination()
    for path, data in ((ROOT, b""), (LOGS, b"")):
        found.apply(Create(path, data))
    return found


def owner(of, info, *, name="me"):
    """A succession that has claimed this list."""
    if of.tree.apply(of.session, Create(PATH, encode_log(info))).ok:
        for each in info.ledgers:
            if each.is_on_bookies:
                ledger(of, each.id, metadata().closed_at(9, 100))
    found = Succession(
        *(LOGS, NAME, ROOT, Placement(Random(1))),
        owner=name,
        rng=Random(1),
        config=LogConfig(),
        password=b"",
        deletes=False,
        now_ms=lambda: 0,
        wall_ms=lambda: 0,
    )
    of.run(found.claim())
    of.asked.clear()
    return found


def in_znode(of):
    return decode_log(of.tree.data(PATH))


def offload_of(of, number):
    return in_znode(of).at(number).offload


def has_ledger(of, number):
    return ledger_path(ROOT, number) in of.tree.znodes


# --------------------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("ledgers", "number"),
    [
        ((), None),
        ((closed(1),), 1),
        ((closed(1, DONE), closed(2)), 2),
        ((closed(1, COPYING), closed(2)), 1),
        ((closed(1, DONE), closed(2, GONE)), None),
    ],
)
def test_the_first_closed_ledger_without_a_copy_is_next(ledgers, number):
    found = next_to_copy(listed(*ledgers))
    assert (None if found is None else found.id) == number


@pytest.mark.parametrize(("wall_ms", "ids"), [(0, []), (1_499, []), (1_500, [2]), (9_000, [2])])
def test_bookies_keep_a_ledger_for_some_time_after_it_was_copied(wall_ms, ids):
    info = listed(closed(1, GONE), closed(2, DONE), closed(3, COPYING), closed(4))
    assert [each.id for each in due_to_drop(info, wall_ms, 500)] == ids
    assert next_drop_ms(info, 500) == 1_500
    assert next_drop_ms(listed(closed(1, GONE), closed(3, COPYING)), 500) is None


def test_what_is_removed_is_named_by_the_list_that_had_it():
    assert [(each.uri, each.ledger, each.uid) for each in objects_of([closed(1), closed(2, GONE)])] == [
        ("/archive", 2, "u")
    ]


@pytest.mark.parametrize(
    "uri", ["", "archive", "s3://", "://a", "s3://key:secret@bucket/p", "s3://key@bucket", "/" * 501, "file:/a"]
)
def test_uris_that_are_refused(uri):
    with pytest.raises(ValueError, match="uri"):
        OffloadSettings(uri=uri)


@pytest.mark.parametrize("uri", ["/archive", "s3://bucket/p?region=eu", "file:///a@b", "gs://bucket/a@b"])
def test_uris_that_are_taken(uri):
    assert OffloadSettings(uri=uri).keep_ms == 4 * 3_600_000


# --------------------------------------------------------------------------------------------------------- copying


def test_a_copy_is_in_the_list_before_it_is_made(of):
    mine = owner(of, listed(closed(1, DONE), closed(2)))
    begun = of.run(begin_copy(mine, "new", "/archive", 7))
    assert (begun[0].id, begun[1]) == (2, None)
    assert offload_of(of, 2) == Offload(state=OffloadState.COPYING, uid="new", uri="/archive", when_ms=7)
    assert of.run(end_copy(mine, 2, "new", 8))
    assert offload_of(of, 2) == Offload(state=OffloadState.DONE, uid="new", uri="/archive", when_ms=8)
    assert of.run(begin_copy(mine, "more", "/archive", 9)) is None
    assert not mine.is_taken


def test_a_copy_that_its_owner_left_is_made_again_under_another_uid(of):
    mine = owner(of, listed(closed(1, COPYING)))
    begun = of.run(begin_copy(mine, "new", "/archive", 7))
    assert begun[1] == COPYING
    assert offload_of(of, 1).uid == "new"
    assert not of.run(end_copy(mine, 1, "old", 8))
    assert offload_of(of, 1).state is OffloadState.COPYING


def test_a_copy_of_a_ledger_that_was_trimmed_is_not_done(of):
    mine = owner(of, listed(closed(1)))
    of.run(begin_copy(mine, "new", "/archive", 7))
    info = in_znode(of).without(1)
    of.apply(Set(PATH, encode_log(info))).must(PATH)
    assert not of.run(end_copy(mine, 1, "new", 8))
    assert not mine.is_taken
    assert in_znode(of) == info


@pytest.mark.parametrize("fate", ["done", "not done"])
def test_answers_that_are_lost_change_nothing(of, fate):
    mine = owner(of, listed(closed(1)))
    of.lost += [fate]
    assert of.run(begin_copy(mine, "new", "/archive", 7))[0].id == 1
    of.lost += [fate]
    assert of.run(end_copy(mine, 1, "new", 8))
    of.lost += ["answered", fate]
    assert of.run(drop_from_bookies(mine, ROOT, 9, 1)) == 1
    assert offload_of(of, 1) == Offload(
        state=OffloadState.DONE, uid="new", uri="/archive", when_ms=8, is_on_bookies=False
    )
    assert not has_ledger(of, 1)


def _begin(mine):
    return begin_copy(mine, "mine", "/archive", 7)


def _end(mine):
    return end_copy(mine, 1, "u1", 7)


def _drop(mine):
    return drop_from_bookies(mine, ROOT, 9_000, 1)


@pytest.mark.parametrize(
    ("step", "offload"), [(_begin, None), (_end, evolve(COPYING, uid="u1")), (_drop, DONE)], ids=["1", "3", "4"]
)
def test_no_step_is_taken_after_another_owner_has_claimed_the_log(of, step, offload):
    info = listed(closed(1, offload))
    mine = owner(of, info)
    owner(of, info, name="other")
    assert not of.run(step(mine))
    assert mine.is_taken
    assert offload_of(of, 1) == offload
    assert has_ledger(of, 1)


# ---------------------------------------------------------------------------------------------------------- dropping


def test_the_list_and_the_ledger_change_in_one_multi(of):
    mine = owner(of, listed(closed(1, DONE), closed(2, DONE)))
    assert of.run(drop_from_bookies(mine, ROOT, 9_000, 1)) == 2
    (multi,) = [each for each in of.asked if isinstance(each, Multi)]
    assert len(multi.parts) == 3
    for number in (1, 2):
        assert not in_znode(of).at(number).is_on_bookies
        assert not has_ledger(of, number)
    assert has_ledger(of, 900)
    assert of.run(drop_from_bookies(mine, ROOT, 9_000, 1)) == 0


def test_a_ledger_that_an_operator_deleted_leaves_as_well(of):
    mine = owner(of, listed(closed(1, DONE)))
    del of.tree.znodes[ledger_path(ROOT, 1)]
    assert of.run(drop_from_bookies(mine, ROOT, 9_000, 1)) == 1
    assert not in_znode(of).at(1).is_on_bookies


def test_many_ledgers_leave_in_several_multis(of):
    count = DROPPED_AT_ONCE_MAX + 1
    mine = owner(of, listed(*(closed(each, DONE) for each in range(count))))
    assert of.run(drop_from_bookies(mine, ROOT, 9_000, 1)) == count
    multis = [len(each.parts) for each in of.asked if isinstance(each, Multi)]
    assert multis == [1 + DROPPED_AT_ONCE_MAX, 2]
