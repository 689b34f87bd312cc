"""What a member decides about a hole in its log, without connections (C9 holes)."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.aside import DAMAGED, set_aside, set_aside_logs
from datatree.log.epochs import forget_member
from datatree.recovery.holes import Hole, HoleError, find_hole
from datatree.recovery.recover import recover
from tests.datatree.recovery.holes import PIECE_BYTES, damage, files, lived, twin
from zab.member.storage import hole_fill, snapshot_request
from zab.member.storage.hole_fill import find, put, request, should_ask, take
from zab.member.storage.snapshot_request import REQUESTS, RefusedError, history_of
from zab.protocol.states import FOLLOWING, LEADING, LOOKING, OBSERVING, State
from zab.simulator.world.disk import FaultyDisk


def damaged() -> tuple[FaultyDisk, FaultyDisk, Hole]:
    """A member with two holes: its disk, an intact disk, and the first hole."""
    whole, _ = lived()
    first, second, *_ = files(whole)
    disk = damage(damage(twin(whole), first, 200), second, 200)
    hole = find(disk, recover(disk), None)
    assert hole is not None
    return disk, whole, hole


def fill_from(hole: Hole, whole: FaultyDisk) -> None:
    while hole.wanted is not None:
        asked = REQUESTS.encode(request(hole))
        assert take(hole, history_of(whole, REQUESTS.decode(asked)))  # type: ignore[arg-type]


def test_one_hole_after_the_other_is_filled_and_the_member_counts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_request, "HISTORY_BYTES", PIECE_BYTES)
    disk, whole, hole = damaged()
    filled: Hole | None = None
    count = 0
    while hole is not None:
        fill_from(hole, whole)
        assert put(disk, hole)
        filled = hole
        count += 1
        hole = find(disk, recover(disk), filled)  # type: ignore[assignment]
    assert count == 2
    recovered = recover(disk)
    assert not recovered.damage
    assert not recovered.amnesiac
    assert recovered.last == recover(whole).last


def test_who_has_nothing_of_it_says_so() -> None:
    disk, _, hole = damaged()
    assert not take(hole, history_of(disk, request(hole)))
    assert hole.batches == []


def test_what_is_no_batch_is_refused() -> None:
    _, whole, hole = damaged()
    data = history_of(whole, request(hole))
    for wrong in (data[:-1], data[:40], b"\0" * 200, data[:100] + b"?" + data[101:]):
        with pytest.raises(HoleError):
            take(hole.anew(), wrong)
    again = hole.anew()
    assert take(again, data)


@attrs.frozen
class Peer:
    amnesiac: bool
    state: State


def test_the_others_are_asked_while_nobody_leads_and_this_member_counts_for_nothing() -> None:
    assert should_ask(Peer(True, LOOKING))
    assert not should_ask(Peer(False, LOOKING))
    assert not [state for state in (FOLLOWING, LEADING, OBSERVING) if should_ask(Peer(True, state))]


def test_what_others_have_filled_meanwhile_is_left_alone() -> None:
    """A leader began to synchronize this member while the last answer came."""
    disk, whole, hole = damaged()
    fill_from(hole, whole)
    set_aside_logs(disk, DAMAGED)
    before = disk.image()
    assert not put(disk, hole)
    assert disk.image() == before


def test_who_was_stopped_while_its_files_went_aside_counts_for_nothing_whatever_is_filled() -> None:
    """The newest files go first. What is left of its history is shorter than what it has acknowledged."""
    disk, whole, hole = damaged()
    forget_member(disk)  # as a log does that is started again
    set_aside(disk, files(disk)[-1], DAMAGED)
    fill_from(hole, whole)
    assert put(disk, hole)
    following = find(disk, recover(disk), hole)
    assert following is not None
    fill_from(following, whole)
    assert put(disk, following)
    recovered = recover(disk)
    assert not recovered.damage
    assert recovered.last[0] < recover(whole).last[0]
    assert recovered.amnesiac


def test_a_hole_that_is_still_there_after_it_was_filled_is_not_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a member would start again, again and again."""
    disk, whole, hole = damaged()
    fill_from(hole, whole)
    monkeypatch.setattr(hole_fill, "fill", lambda _disk, _hole: False)
    assert not put(disk, hole)
    recovered = recover(disk)
    assert find_hole(disk, recovered) is not None
    assert find(disk, recovered, hole) is None


def test_a_log_that_cannot_be_read_is_said() -> None:
    _, whole, hole = damaged()
    whole.fail_reads(files(whole)[0])
    with pytest.raises(RefusedError, match="the log cannot be read"):
        history_of(whole, request(hole))
