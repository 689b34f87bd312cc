"""What becomes of appends between two ledgers."""

from zab.ledger.managed.appends import Appends
from zab.ledger.managed.events import LogAppend, LogAppended, LogAppendUnknown, LogNotAppended, LogReason
from zab.ledger.managed.log_info import Position
from zab.ledger.managed.settings import LogSettings
from zab.ledger.store.events import Completed
from zab.ledger.writer.events import Append, Appended, AppendUnknown, NotAppended, Reason


def rig(**settings):
    out = []
    return Appends(LogSettings(**settings), out), out


def append(token, size=1):
    return LogAppend(b"x" * size, token)


def test_what_comes_back_is_before_what_waits():
    of, out = rig()
    of.send([append("a"), append("b"), append("c")], 0)
    of.answered(7, "a", Appended(0))
    of.wait([append("d")], 0)
    of.answered(7, "c", NotAppended(Reason.CLOSED))
    of.answered(7, "b", NotAppended(Reason.CLOSED))
    assert [each.token for each in of.send_waiting()] == ["b", "c", "d"]
    assert out == [Completed("a", LogAppended(Position(7, 0)))]


def test_what_the_end_decides_is_answered_or_comes_back():
    of, out = rig()
    of.send([append("a"), append("b")], 0)
    of.answered(7, "a", AppendUnknown(3, Reason.FENCED))
    of.answered(7, "b", AppendUnknown(4, Reason.FENCED))
    assert of.has_held
    of.decide(7, 3)
    assert out == [Completed("a", LogAppended(Position(7, 3)))]
    assert of.send_waiting() == [Append(b"x", "b")]


def test_what_is_not_decided_stays_unknown():
    of, out = rig()
    of.send([append("a")], 0)
    of.answered(7, "a", AppendUnknown(3, Reason.FENCED))
    assert of.give_up(LogReason.FENCED) == (Position(7, 3),)
    assert out == [Completed("a", LogAppendUnknown(Position(7, 3), LogReason.FENCED))]
    assert of.is_idle


def test_an_entry_that_no_ledger_takes_is_refused():
    of, out = rig()
    of.send([append("a")], 0)
    of.answered(7, "a", NotAppended(Reason.ENTRY_TOO_LARGE))
    assert out == [Completed("a", LogNotAppended(LogReason.ENTRY_TOO_LARGE))]


def test_too_many_appends_do_not_wait():
    of, out = rig(waiting_appends_max=2)
    of.wait([append("a"), append("b"), append("c")], 0)
    assert out == [Completed("c", LogNotAppended(LogReason.NO_ROOM))]


def test_too_many_bytes_do_not_wait():
    of, out = rig(waiting_bytes_max=10)
    of.wait([append("a", 6), append("b", 5), append("c", 4)], 0)
    assert out == [Completed("b", LogNotAppended(LogReason.NO_ROOM))]
    of.send_waiting()
    of.wait([append("d", 10)], 0)
    assert len(out) == 1


def test_what_has_waited_for_too_long_is_refused():
    of, out = rig(wait_ms=100)
    of.wait([append("a")], 0)
    of.wait([append("b")], 50)
    assert of.due_ms == 100
    of.refuse_old(99, LogReason.NOT_WRITABLE)
    assert out == []
    of.refuse_old(100, LogReason.NOT_WRITABLE)
    assert out == [Completed("a", LogNotAppended(LogReason.NOT_WRITABLE))]
    assert [each.token for each in of.send_waiting()] == ["b"]


def test_what_is_cancelled_while_it_waits_never_was():
    of, out = rig(waiting_bytes_max=10)
    of.wait([append("a", 6), append("b", 4)], 0)
    of.cancel("a")
    of.wait([append("c", 6)], 0)
    assert out == []
    assert [each.token for each in of.send_waiting()] == ["b", "c"]
