"""So many strangers at most; who comes from elsewhere than the most of them is let in."""

from zab.wire.pending_connections import PendingConnections


def test_one_too_many_takes_the_place_of_the_oldest() -> None:
    strangers: PendingConnections[str] = PendingConnections(2)
    assert [strangers.admit(name, "host") for name in "abcd"] == [None, None, "a", "b"]


def test_a_host_that_floods_takes_its_own_places() -> None:
    strangers: PendingConnections[str] = PendingConnections(4)
    assert strangers.admit("guest", "elsewhere") is None
    assert [strangers.admit(name, "flood") for name in "abcdef"] == [None, None, None, "a", "b", "c"]
    assert strangers.admit("other guest", "third") == "d"
    assert strangers.admit("another guest", "third") == "e"


def test_who_has_greeted_or_left_takes_no_place() -> None:
    strangers: PendingConnections[str] = PendingConnections(2)
    assert strangers.admit("a", "host") is None
    assert strangers.admit("b", "host") is None
    strangers.leave("a")
    assert strangers.admit("c", "host") is None
    assert strangers.admit("d", "host") == "b"
    strangers.leave("b")
    assert strangers.admit("e", "host") == "c"
