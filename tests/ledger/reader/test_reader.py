"""The reader, message by message. G and S: the numbers of promises and scenarios in docs/explanation/ledgers.md."""

import pytest

from tests.ledger.memory import LEDGER, ROOT, Rig, envelope, ledger
from zab.coordination.driver import Connected, Expired, Suspended, WatchFired
from zab.ledger.entries.envelope import Digest
from zab.ledger.entries.ids import NONE
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerState
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.reader.events import (
    Consumed,
    Delivered,
    DigestError,
    EntryLost,
    LacLearnt,
    LacUnknown,
    LearnLac,
    LedgerMissing,
    MetadataUnreadable,
    NotConfirmed,
    ReadDone,
    ReaderSettings,
    ReadRange,
    ReadUnavailable,
    Stop,
    Tail,
    WrongPassword,
)
from zab.ledger.reader.reader import Reader
from zab.ledger.store.events import Answered, BookiesKnown
from zab.ledger.wire.messages import EntryRead, ReadBatch, ReadEntry, ReadLac, answer_without
from zab.ledger.wire.status import Status

OPEN = ledger((0, "b1 b2 b3"))
CLOSED = ledger((0, "b1 b2 b3"), state=LedgerState.CLOSED, last=9, length=100)
STRIPED = ledger((0, "b1 b2 b3"), quorums=(3, 2, 2), state=LedgerState.CLOSED, last=9, length=100)
SETTINGS = ReaderSettings()


def reading(metadata=CLOSED, entries=10, **options):
    """A rig whose bookies have so many entries."""
    rig = Rig(Reader(ROOT, LEDGER, **options), metadata, " ".join(sorted(metadata.bookies)))
    for entry in range(entries):
        rig.store(metadata, entry, " ".join(rig.bookies))
    return rig


def delivered(rig, token="t"):
    return [each.entry for effect in rig.others for each in effect.entries if effect.token == token]


def damage(rig, name, entry):
    rig.bookies[name].entries[entry] = rig.bookies[name].entries[entry][:-1] + b"x"


def asked(rig, of=ReadEntry):
    return [(bookie, request) for bookie, request in rig.sent if isinstance(request, of)]


def fire(rig):
    rig.step(WatchFired(rig.znodes.path))


# ------------------------------------------------------------------------------------------------------- closed ledgers


def test_a_range_is_delivered_in_order_and_ends():
    rig = reading()
    rig.step(ReadRange("t", 2, 7))
    rig.run()
    assert delivered(rig) == [2, 3, 4, 5, 6, 7]
    assert [each.payload for effect in rig.others for each in effect.entries] == [b"0123456789"] * 6
    assert rig.outcomes == {"t": ReadDone(7)}
    assert not any(bookie.fenced for bookie in rig.bookies.values())


def test_an_empty_range_asks_nobody():
    rig = reading()
    rig.step(ReadRange("t", 3, 2))
    assert rig.outcomes == {"t": ReadDone(2)}
    assert not rig.sent


@pytest.mark.parametrize("metadata", [CLOSED, STRIPED], ids=["E = Qw", "striped"])
def test_answers_in_any_order_are_delivered_in_order(metadata):
    """G2."""
    rig = reading(metadata, settings=ReaderSettings(batch_entries=2, entry_bytes=100))
    rig.step(ReadRange("t", 0, 9))
    while rig.sent:
        bookie, request = rig.sent.pop()
        rig.step(Answered(bookie, request, rig.bookies[bookie].answer(request)))
    assert delivered(rig) == list(range(10))
    assert rig.outcomes == {"t": ReadDone(9)}


@pytest.mark.parametrize("unconfirmed", [False, True])
def test_nothing_beyond_the_end_of_a_closed_ledger_is_read(unconfirmed):
    """G2: entries beyond the end may exist on bookies."""
    rig = reading(entries=12)
    rig.step(ReadRange("t", 0, 10, unconfirmed))
    assert rig.outcomes == {"t": NotConfirmed(9)}
    assert not rig.sent


def test_a_range_over_fragments_asks_the_bookies_of_each():
    metadata = ledger((0, "b1 b2 b3"), (4, "b4 b5 b6"), state=LedgerState.CLOSED, last=9, length=100)
    rig = reading(metadata, settings=ReaderSettings(entry_bytes=100))
    rig.step(ReadRange("t", 0, 9))
    runs = {request.first: (bookie, request.count_max) for bookie, request in asked(rig, ReadBatch)}
    assert runs == {0: ("b1", 4), 4: ("b5", 6)}
    rig.run()
    assert delivered(rig) == list(range(10))


def test_a_batch_may_have_fewer_entries_than_were_asked_for():
    rig = reading(settings=ReaderSettings(batch_bytes=200, entry_bytes=100))
    rig.step(ReadRange("t", 0, 9))
    first = rig.answer("b1", of=ReadBatch, first=0)
    assert len(first.envelopes) == 3
    assert delivered(rig) == [0, 1, 2]
    rig.run()
    assert delivered(rig) == list(range(10))


def test_a_bookie_without_batches_is_asked_one_by_one():
    rig = reading()
    rig.bookies["b1"].knows_batches = False
    rig.step(ReadRange("t", 0, 9))
    rig.run(without=("b2", "b3"))
    assert delivered(rig) == list(range(10))


def test_striped_entries_are_asked_of_the_leaders_of_their_write_sets():
    rig = reading(STRIPED)
    rig.step(ReadRange("t", 0, 5))
    assert {request.entry: bookie for bookie, request in asked(rig)} == {
        0: "b1", 1: "b2", 2: "b3", 3: "b1", 4: "b2", 5: "b3"
    }  # fmt: skip


def test_one_bookie_is_kept_where_all_have_everything():
    rig = reading(settings=ReaderSettings(batch_entries=2, entry_bytes=100))
    rig.step(ReadRange("t", 1, 2))
    rig.run()
    rig.step(ReadRange("u", 3, 9))
    assert {bookie for bookie, _ in rig.sent} == {"b2"}


def test_the_buffer_is_bounded_until_the_caller_has_taken_entries():
    size = len(envelope(CLOSED, 0))
    rig = reading(settings=ReaderSettings(buffer_bytes=3 * size, entry_bytes=size))
    rig.step(ReadRange("t", 0, 9))
    rig.run()
    assert delivered(rig) == [0, 1, 2]
    rig.step(Consumed("t", 0))
    rig.run()
    assert delivered(rig) == [0, 1, 2, 3]
    for entry in range(1, 10):
        rig.step(Consumed("t", entry))
        rig.run()
    assert rig.outcomes == {"t": ReadDone(9)}


def test_an_entry_larger_than_the_buffer_is_read_all_the_same():
    rig = reading(settings=ReaderSettings(buffer_bytes=10, entry_bytes=10))
    rig.step(ReadRange("t", 0, 1))
    rig.run()
    assert delivered(rig) == [0]
    rig.step(Consumed("t", 0))
    rig.run()
    assert delivered(rig) == [0, 1]


def test_the_window_is_bounded_in_entries():
    rig = reading(STRIPED, settings=ReaderSettings(window_entries=4))
    rig.step(ReadRange("t", 0, 9))
    assert {request.entry for _, request in asked(rig)} == {0, 1, 2, 3}
    rig.answer("b2", entry=1)
    assert {request.entry for _, request in asked(rig)} == {0, 2, 3}


def test_two_questions_for_the_same_entry_are_one_request():
    rig = reading()
    rig.step(ReadRange("t", 4, 4), ReadRange("u", 4, 4))
    assert len(rig.sent) == 1
    rig.run()
    assert (delivered(rig), delivered(rig, "u")) == ([4], [4])


def test_what_is_stopped_gets_no_answer():
    rig = reading()
    rig.step(ReadRange("t", 0, 9), LearnLac("l"))
    rig.step(Stop("t"))
    rig.run()
    assert delivered(rig) == []
    assert "t" not in rig.outcomes
    assert rig.core.deadline_ms is None
    rig.step(ReadRange("t", 3, 3))
    rig.run()
    assert delivered(rig) == [3]


def test_a_token_in_use_is_refused():
    rig = reading()
    rig.step(ReadRange("t", 0, 9))
    with pytest.raises(ValueError, match="'t'"):
        rig.step(Tail("t", 0))


# ------------------------------------------------------------------------------------------------------- other replicas


def test_a_damaged_record_is_read_from_the_next_replica():
    rig = reading()
    damage(rig, "b1", 3)
    rig.bookies["b1"].entries[5] = envelope(CLOSED, 4)
    rig.step(ReadRange("t", 0, 9))
    rig.run()
    assert delivered(rig) == list(range(10))
    assert rig.outcomes == {"t": ReadDone(9)}
    assert rig.core.mismatches == 2


def test_if_every_replica_is_damaged_it_is_said():
    rig = reading()
    for name in ("b1", "b2", "b3"):
        damage(rig, name, 3)
    rig.step(ReadRange("t", 0, 9))
    rig.run()
    assert delivered(rig) == [0, 1, 2]
    assert rig.outcomes == {"t": DigestError(3, frozenset({"b1", "b2", "b3"}))}


def test_an_entry_that_no_replica_has_is_lost_after_one_more_look_at_the_metadata():
    rig = reading()
    for bookie in rig.bookies.values():
        del bookie.entries[3]
    rig.is_coordination_held = False
    rig.step(ReadRange("t", 0, 9))
    rig.run()
    assert delivered(rig) == [0, 1, 2]
    assert rig.outcomes == {"t": EntryLost(3)}


def test_an_entry_that_repair_has_moved_is_found():
    """The metadata were old: repair has moved everything to b4, b5 and b6."""
    rig = reading()
    rig.bookies.update({name: rig.bookies.pop(old) for name, old in (("b4", "b1"), ("b5", "b2"), ("b6", "b3"))})
    for name in ("b1", "b2", "b3"):
        rig.bookies[name] = type(rig.bookies["b4"])()
    rig.change(fragments=(Fragment(0, ("b4", "b5", "b6")),))
    rig.step(ReadRange("t", 0, 9))
    rig.run()
    assert delivered(rig) == list(range(10))
    assert rig.outcomes == {"t": ReadDone(9)}


@pytest.mark.parametrize("status", [status for status in Status if not status.proves_absence and status != Status.OK])
def test_any_error_counts_more_than_not_found(status):
    """Not found would be taken for a proof."""
    rig = reading(STRIPED)
    rig.bookies["b1"].status = status
    del rig.bookies["b2"].entries[0]
    rig.step(ReadRange("t", 0, 0))
    rig.run()
    assert rig.outcomes == {"t": ReadUnavailable(0, {"b1": status, "b2": Status.NO_ENTRY})}


def test_a_batch_that_begins_with_a_missing_entry_says_nothing_about_the_others():
    rig = reading(settings=ReaderSettings(entry_bytes=100))
    del rig.bookies["b1"].entries[0]
    rig.step(ReadRange("t", 0, 9))
    rig.answer("b1", of=ReadBatch, first=0)
    again = {getattr(request, "first", None): bookie for bookie, request in asked(rig, ReadBatch)}
    assert again == {1: "b1"}
    rig.run()
    assert delivered(rig) == list(range(10))


def test_a_bookie_that_lacks_one_entry_after_the_other_is_asked_after_the_others():
    """Each of its answers is about one entry: a range would be read one by one."""
    metadata = ledger((0, "b1 b2 b3"), state=LedgerState.CLOSED, last=99, length=1000)
    rig = reading(metadata, entries=100, settings=ReaderSettings(entry_bytes=100))
    rig.bookies["b1"].entries.clear()
    rig.step(ReadRange("t", 0, 99))
    asked_of = []
    while rig.sent:
        bookie, request = rig.sent.popleft()
        asked_of.append(bookie)
        rig.step(Answered(bookie, request, rig.bookies[bookie].answer(request)))
    assert delivered(rig) == list(range(100))
    assert asked_of.count("b1") == 3
    assert len(asked_of) < 10


def test_bookies_are_asked_in_the_order_of_their_health():
    nodes = tuple(BookieNode(name) for name in ("b1", "b3"))
    rig = reading()
    rig.step(BookiesKnown(nodes, frozenset({"b2"})))
    order = []

    def answered(token):
        rig.step(ReadRange(token, 0, 0))
        for _ in range(3):
            bookie, request = rig.sent.popleft()
            order.append(bookie)
            rig.step(Answered(bookie, request, answer_without(request, Status.NO_ENTRY)))

    answered("t")
    assert order == ["b1", "b3", "b2"]
    order.clear()
    rig.step(ReadRange("u", 0, 0))
    bookie, request = rig.sent.popleft()
    rig.step(Answered(bookie, request, answer_without(request, Status.IO_ERROR)))
    rig.run()
    rig.step(BookiesKnown((BookieNode("b1"),), frozenset({"b2"})))
    answered("v")
    assert order == ["b2", "b1", "b3"]
    order.clear()
    rig.pass_ms(SETTINGS.memory_ms)
    answered("w")
    assert order == ["b1", "b2", "b3"]


def test_a_read_that_is_not_answered_goes_to_the_next_replica():
    rig = reading(settings=ReaderSettings(hedges_share=0.0))
    rig.core._replicas._hedges = 0
    rig.step(ReadRange("t", 0, 0))
    rig.take("b1", entry=0)
    assert rig.core.deadline_ms == SETTINGS.hedge_ms
    rig.pass_ms(SETTINGS.hedge_ms)
    assert not rig.sent
    rig.pass_ms(SETTINGS.request_timeout_ms - SETTINGS.hedge_ms)
    assert [bookie for bookie, _ in rig.sent] == ["b2"]
    rig.run()
    assert delivered(rig) == [0]


def test_a_bookie_whose_batch_comes_too_late_is_asked_for_less():
    """All bookies are slow: none can read more than three entries in time."""
    rig = reading()
    rig.core._replicas._hedges = 0
    rig.step(ReadRange("t", 0, 9))
    counts = []
    for _ in range(40):
        if not rig.sent:
            rig.pass_ms(SETTINGS.request_timeout_ms)
            continue
        bookie, request = rig.sent.popleft()
        counts.append(request.count_max if isinstance(request, ReadBatch) else 1)
        if counts[-1] <= 3:
            rig.step(Answered(bookie, request, rig.bookies[bookie].answer(request)))
    assert rig.outcomes == {"t": ReadDone(9)}
    assert delivered(rig) == list(range(10))
    assert counts[:6] == [10, 10, 10, 1, 2, 4], "each of the three bookies, then one of them for more and more"


def test_bookies_that_are_silent_are_asked_for_one_more_entry_and_given_up():
    rig = reading()
    rig.core._replicas._hedges = 0
    rig.step(ReadRange("t", 0, 9))
    rig.sent.clear()
    for _ in range(5):
        rig.pass_ms(SETTINGS.request_timeout_ms)
        assert len(rig.sent) == 1
        rig.sent.clear()
    assert not rig.outcomes
    rig.pass_ms(SETTINGS.request_timeout_ms)
    assert rig.outcomes == {"t": ReadUnavailable(0, dict.fromkeys(("b1", "b2", "b3"), Status.TIMED_OUT))}


# ------------------------------------------------------------------------------------------------------------- hedging


def test_a_slow_read_is_asked_elsewhere_too_and_the_first_good_answer_counts():
    rig = reading()
    rig.step(ReadRange("t", 0, 0))
    slow = rig.take("b1", entry=0)
    rig.pass_ms(SETTINGS.hedge_ms)
    assert [bookie for bookie, _ in rig.sent] == ["b2"]
    rig.run()
    assert delivered(rig) == [0]
    rig.step(Answered("b1", slow, rig.bookies["b1"].answer(slow)))
    assert delivered(rig) == [0]


def test_only_so_many_reads_are_hedged():
    rig = reading()
    hedged = 0
    for number in range(60):
        rig.step(ReadRange(number, 0, 0))
        rig.sent.popleft()
        rig.pass_ms(SETTINGS.hedge_ms)
        hedged += len(rig.sent)
        rig.sent.clear()
        rig.step(Stop(number))
        rig.pass_ms(SETTINGS.memory_ms)
    assert 2 <= hedged <= 1 + 60 * SETTINGS.hedges_share


def test_a_bookie_that_is_always_slow_is_hedged_later():
    rig = reading()
    rig.core._replicas._hedges = 0
    for number in range(10):
        rig.step(ReadRange(number, 0, 0))
        first, request = rig.sent.popleft()
        assert first == "b1"
        rig.now += 40
        rig.step(Answered(first, request, rig.bookies[first].answer(request)))
    rig.step(ReadRange("t", 0, 0))
    assert rig.core.deadline_ms == rig.now + 3 * 40


# ------------------------------------------------------------------------------------------------------ the confirmed


def learning(rig):
    rig.step(LearnLac("l"))
    assert sorted(bookie for bookie, _ in asked(rig, ReadLac)) == ["b1", "b2", "b3"]


def test_the_lac_is_the_highest_that_is_proved_once_the_ensemble_is_covered():
    rig = reading(OPEN, entries=0)
    rig.store(OPEN, 5, "b1", lac=3)
    rig.bookies["b2"].packet = Digest(OPEN.digest_type, OPEN.password).pack_lac(LEDGER, 4)
    learning(rig)
    rig.answer("b1", of=ReadLac)
    assert not rig.outcomes
    rig.answer("b2", of=ReadLac)
    assert rig.outcomes == {"l": LacLearnt(4)}


@pytest.mark.parametrize("status", [Status.NO_LEDGER, Status.NO_ENTRY, Status.UNKNOWN_LEDGER_STATE, Status.TIMED_OUT])
def test_a_bookie_that_has_nothing_says_nothing_about_the_lac(status):
    """S17: 3/3/3, one bookie was wiped. "The ledger is empty" would make the application discard it."""
    metadata = ledger((0, "b1 b2 b3"), quorums=(3, 3, 3))
    rig = reading(metadata, entries=0)
    learning(rig)
    rig.answer("b1", status, of=ReadLac)
    assert not rig.outcomes
    rig.answer("b2", status, of=ReadLac)
    rig.answer("b3", status, of=ReadLac)
    unknown = rig.outcomes["l"]
    assert isinstance(unknown, LacUnknown)
    assert (unknown.at_least, unknown.answered) == (NONE, frozenset())
    assert unknown.unknown == dict.fromkeys(("b1", "b2", "b3"), status)


def test_a_damaged_record_or_packet_proves_no_lac():
    rig = reading(OPEN, entries=0)
    rig.store(OPEN, 5, "b1 b2", lac=3)
    damage(rig, "b1", 5)
    rig.bookies["b2"].entries.clear()
    rig.bookies["b2"].packet = Digest(OPEN.digest_type, OPEN.password).pack_lac(LEDGER + 1, 4)
    learning(rig)
    for name in ("b1", "b2"):
        rig.answer(name, of=ReadLac)
    assert not rig.outcomes
    rig.pass_ms(SETTINGS.request_timeout_ms)
    assert isinstance(rig.outcomes["l"], LacUnknown)
    assert rig.core.lac == NONE


def test_a_record_whose_lac_is_not_before_it_proves_none():
    """Without a digest (DUMMY), damage may look like this."""
    rig = reading(OPEN, entries=0)
    rig.store(OPEN, 6, "b1", lac=40)
    learning(rig)
    rig.answer("b1", of=ReadLac)
    rig.step(ReadRange("t", 6, 6, is_unconfirmed=True))
    rig.run(without=("b2", "b3"))
    assert delivered(rig) == [6]
    assert rig.core.lac == NONE


def test_a_bookie_whose_last_entry_is_a_copy_that_repair_made_has_answered():
    """BookKeeper's repair makes entries again with the LAC that it knew, which comes after them."""
    metadata = ledger((0, "b1 b2 b4"), (10, "b1 b2 b3"))
    rig = reading(metadata, entries=0)
    rig.store(metadata, 5, "b1", lac=40)
    rig.store(metadata, 12, "b2", lac=11)
    learning(rig)
    rig.answer("b1", of=ReadLac)
    rig.answer("b2", of=ReadLac)
    assert rig.outcomes == {"l": LacLearnt(11)}


def test_the_beginning_of_the_last_fragment_proves_what_is_before_it():
    metadata = ledger((0, "b1 b2 b3"), (6, "b1 b2 b4"))
    rig = reading(metadata, entries=6)
    assert rig.core.lac == 5
    rig.step(ReadRange("t", 0, 5))
    rig.run()
    assert delivered(rig) == [0, 1, 2, 3, 4, 5]


def test_what_is_not_confirmed_is_not_read():
    rig = reading(OPEN)
    rig.step(ReadRange("t", 0, 0))
    assert rig.outcomes == {"t": NotConfirmed(NONE)}
    rig.step(ReadRange("u", 0, 9, is_unconfirmed=True))
    rig.run()
    assert delivered(rig, "u") == list(range(10))
    assert rig.core.lac == 8
    rig.step(ReadRange("v", 0, 8), ReadRange("w", 0, 9))
    rig.run()
    assert rig.outcomes["v"] == ReadDone(8)
    assert rig.outcomes["w"] == NotConfirmed(8)


# ------------------------------------------------------------------------------------------------------------ the tail


def polling(rig):
    """The one long poll that is under way."""
    ((bookie, request),) = rig.sent
    assert isinstance(request, ReadEntry)
    assert (request.entry, request.wants_piggyback, request.wait_ms) == (NONE, True, SETTINGS.poll_ms)
    return bookie, request


def news(rig, entry, lac, hint):
    """All bookies get this entry, and one more hint of what was confirmed."""
    rig.store(OPEN, entry, "b1 b2 b3", lac=lac)
    for bookie in rig.bookies.values():
        bookie.lac = hint


def test_a_tail_waits_at_the_leader_of_the_next_entry():
    rig = reading(OPEN, entries=0)
    rig.step(Tail("t", 0))
    bookie, request = polling(rig)
    assert (bookie, request.previous_lac) == ("b1", NONE)
    assert rig.core.deadline_ms == SETTINGS.poll_ms + SETTINGS.request_timeout_ms


def test_a_tail_delivers_what_is_proved_and_waits_for_more():
    rig = reading(OPEN, entries=0)
    rig.step(Tail("t", 0))
    news(rig, 0, NONE, NONE)
    news(rig, 1, 0, 0)
    rig.answer("b1", entry=NONE)
    # The entry that came along is the first one, and proves nothing about itself.
    assert delivered(rig) == []
    rig.answer("b1", of=ReadLac)
    rig.answer("b1", entry=0)
    assert delivered(rig) == [0]
    bookie, request = polling(rig)
    assert (bookie, request.previous_lac) == ("b2", 0)


def test_the_first_entry_is_a_hint_as_well():
    """A bookie that has heard of LAC 0 and does not have the entry."""
    rig = reading(OPEN, entries=0)
    rig.step(Tail("t", 0))
    _, request = polling(rig)
    rig.sent.clear()
    rig.step(Answered("b1", request, EntryRead(Status.OK, LEDGER, NONE, max_lac=0)))
    assert [(bookie, type(each)) for bookie, each in rig.sent] == [("b1", ReadLac)]


def test_what_a_bookie_says_without_a_digest_is_only_a_hint():
    """5.2: with a LAC that nothing proves, a reader would see entries that were never confirmed."""
    rig = reading(OPEN, entries=0)
    news(rig, 0, NONE, 40)
    rig.step(Tail("t", 0))
    rig.answer("b1", entry=NONE)
    assert delivered(rig) == []
    rig.answer("b1", of=ReadLac)
    assert delivered(rig) == []
    assert rig.core.lac == NONE
    assert not rig.sent
    rig.pass_ms(SETTINGS.retry_ms)
    assert polling(rig)[0] == "b2"


def test_an_entry_that_comes_along_proves_what_was_confirmed_before_it():
    rig = reading(OPEN, entries=0)
    rig.step(Tail("t", 0))
    _, request = polling(rig)
    rig.sent.clear()
    rig.store(OPEN, 0, "b1 b2 b3")
    rig.step(Answered("b1", request, EntryRead(Status.OK, LEDGER, 3, envelope(OPEN, 3, 0), max_lac=1)))
    rig.run(without=("b2",))
    assert delivered(rig) == [0]


def test_without_news_the_next_member_is_asked():
    """A bookie that the writer has replaced never hears news."""
    rig = reading(OPEN, entries=0)
    rig.step(Tail("t", 0))
    asked_in_turn = []
    for _ in range(4):
        bookie, request = polling(rig)
        asked_in_turn.append(bookie)
        rig.sent.clear()
        rig.now += SETTINGS.poll_ms
        rig.step(Answered(bookie, request, EntryRead(Status.OK, LEDGER, NONE, max_lac=NONE)))
    assert asked_in_turn == ["b1", "b2", "b3", "b1"]


def test_a_bookie_that_answers_at_once_is_not_asked_all_the_time():
    rig = reading(OPEN, entries=0)
    rig.step(Tail("t", 0))
    pauses = []
    for _ in range(7):
        bookie, request = polling(rig)
        rig.sent.clear()
        rig.step(Answered(bookie, request, answer_without(request, Status.NO_LEDGER)))
        assert not rig.sent
        pauses.append(rig.core.deadline_ms - rig.now)
        rig.pass_ms(pauses[-1])
    assert pauses == [100, 200, 400, 800, 1600, 2000, 2000]


def test_a_long_poll_that_is_not_answered_ends():
    rig = reading(OPEN, entries=0)
    rig.step(Tail("t", 0))
    rig.sent.clear()
    rig.pass_ms(SETTINGS.poll_ms + SETTINGS.request_timeout_ms)
    assert polling(rig)[0] == "b2"


def test_a_tail_ends_with_the_last_entry_of_the_closed_ledger():
    rig = reading(OPEN, entries=3)
    rig.step(Tail("t", 0))
    rig.sent.clear()
    rig.znodes.put(OPEN.closed_at(1, 20))
    fire(rig)
    rig.run()
    assert delivered(rig) == [0, 1]
    assert rig.outcomes == {"t": ReadDone(1)}


def test_a_tail_that_begins_behind_the_end_waits():
    rig = reading(OPEN, entries=0)
    rig.step(Tail("t", 7))
    polling(rig)
    rig.sent.clear()
    rig.znodes.put(OPEN.closed_at(1, 20))
    fire(rig)
    assert rig.outcomes == {"t": ReadDone(1)}


# -------------------------------------------------------------------------------------------------------- the metadata


def test_a_session_that_expires_looks_again_since_the_watch_is_gone():
    rig = reading(OPEN, entries=2)
    rig.step(Tail("t", 0))
    rig.sent.clear()
    rig.step(Suspended(), Expired())
    rig.znodes.put(OPEN.closed_at(1, 20))
    rig.step(Connected(2))
    rig.run()
    assert rig.outcomes == {"t": ReadDone(1)}


def test_an_older_version_is_never_used_again():
    rig = reading()
    before = rig.core.versioned
    rig.change(fragments=(Fragment(0, ("b4", "b5", "b6")),))
    fire(rig)
    assert rig.core.versioned.version == before.version + 1
    rig.core._on_metadata(before)
    assert rig.core.versioned.version == before.version + 1


def test_a_ledger_that_is_gone_ends_everything():
    rig = reading(OPEN)
    rig.step(Tail("t", 0), LearnLac("l"))
    rig.znodes.remove()
    fire(rig)
    assert rig.outcomes == {"t": LedgerMissing(), "l": LedgerMissing()}
    rig.step(ReadRange("u", 0, 0))
    assert rig.outcomes["u"] == LedgerMissing()


def test_a_ledger_that_is_gone_leaves_nothing_to_wait_for():
    """Else what was under way would be due for ever."""
    rig = reading()
    rig.step(ReadRange("t", 0, 9))
    rig.znodes.remove()
    fire(rig)
    assert rig.outcomes == {"t": LedgerMissing()}
    assert rig.core.deadline_ms is None


def test_questions_do_not_wait_for_the_metadata_for_ever():
    rig = reading()
    core = Reader(ROOT, LEDGER)
    assert core.step(5, (ReadRange("t", 0, 0), LearnLac("l"))) == []
    assert core.deadline_ms == 5 + SETTINGS.patience_ms
    (first, second) = core.step(core.deadline_ms, ())
    assert [(each.token, type(each.outcome)) for each in (first, second)] == [
        ("t", MetadataUnreadable),
        ("l", MetadataUnreadable),
    ]
    assert core.deadline_ms is None
    rig.core = core
    rig.step(BookiesKnown(tuple(BookieNode(name) for name in rig.bookies)), Connected(1), ReadRange("u", 0, 0))
    rig.run()
    assert rig.outcomes == {"u": ReadDone(0)}


def test_an_entry_is_not_called_lost_while_the_metadata_may_be_old():
    """Repair may have moved it away from all the bookies that this reader knows."""
    rig = reading()
    for bookie in rig.bookies.values():
        del bookie.entries[3]
    rig.is_coordination_held = True
    rig.step(ReadRange("t", 3, 3))
    rig.run()
    assert rig.core.deadline_ms == SETTINGS.patience_ms
    rig.pass_ms(SETTINGS.patience_ms)
    assert rig.outcomes == {"t": ReadUnavailable(3, dict.fromkeys(("b1", "b2", "b3"), Status.NO_ENTRY))}


def test_another_password_asks_no_bookie():
    rig = reading(password=b"another")
    rig.step(ReadRange("t", 0, 0))
    assert rig.outcomes == {"t": WrongPassword()}
    assert not rig.sent


def test_questions_wait_for_the_metadata():
    rig = reading()
    core = Reader(ROOT, LEDGER)
    assert core.step(0, (ReadRange("t", 0, 0),)) == []
    assert core.versioned is None
    rig.step(ReadRange("t", 0, 0))
    rig.run()
    assert rig.others == [Delivered("t", rig.others[0].entries)]
