"""So many strangers at most; the newest is always let in."""

from zab.wire.strangers import Strangers


def test_one_too_many_takes_the_place_of_the_oldest() -> None:
    strangers: Strangers[str] = Strangers(2)
    assert [strangers.admit(name) for name in "abcd"] == [None, None, "a", "b"]


def test_who_has_greeted_or_left_takes_no_place() -> None:
    strangers: Strangers[str] = Strangers(2)
    assert strangers.admit("a") is None
    assert strangers.admit("b") is None
    strangers.leave("a")
    assert strangers.admit("c") is None
    assert strangers.admit("d") == "b"
    strangers.leave("b")
    assert strangers.admit("e") == "c"
