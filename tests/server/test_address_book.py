"""Where a server is dialled while it moves from one configuration to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import attrs

from datatree.log.zxid import Zxid
from zab.configuration.dynamic import Ensemble
from zab.configuration.reconfiguration import ensemble_of
from zab.host.loop.dial import Address, address_of
from zab.member.settings.zoo_cfg import parse
from zab.protocol.effects import MembershipsChanged
from zab.protocol.membership import Membership
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority
from zab.server.address_book import AddressBook
from zab.server.election_links import ElectionLinks
from zab.server.own_configuration import MembershipChanges, OwnConfiguration

OF_FILE = "server.1=127.0.0.1:1001:1002\nserver.2=127.0.0.1:2001:2002\nserver.3=127.0.0.1:3001:3002\n"
OTHERS = "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\nreconfigEnabled=true\nobserverMasterPort=7000\n"
SECOND, THIRD, FOURTH = ServerId(2), ServerId(3), ServerId(4)


def of(version: int, *lines: str) -> Membership:
    """These lines, and what the file says of all others."""
    wanted = dict(line.split("=") for line in (*OF_FILE.split(), *lines))
    text = "\n".join(f"{key}={value}" for key, value in wanted.items() if value)
    servers = frozenset(map(ServerId, ensemble_of(text.encode()).servers))
    version_line = f"\nversion={version:x}"
    return Membership(Zxid(version), Majority(servers), servers, text=f"{text}{version_line}".encode())


@attrs.define
class Reached:
    """A book, and what those who follow its changes were told."""

    book: AddressBook = attrs.Factory(lambda: AddressBook(parse(OTHERS + OF_FILE, "zoo.cfg", my_id=1)))
    met: list[dict[ServerId, Address]] = attrs.Factory(list)
    """What the election links were told: the election ports of the others."""
    in_force: list[Ensemble] = attrs.Factory(list)

    def meet(self, others: Mapping[ServerId, Address]) -> None:
        self.met.append(dict(others))

    def comes_into_force(self, ensemble: Ensemble) -> None:
        self.in_force.append(ensemble)

    def change(
        self, in_force: Membership, outstanding: Membership | None = None, heard: tuple[Membership, ...] = ()
    ) -> None:
        changes = MembershipChanges(self.book, cast(ElectionLinks, self), cast(OwnConfiguration, self))
        changes.changed(MembershipsChanged(in_force, outstanding, heard))

    def at(self, sid: ServerId) -> list[tuple[str, int]]:
        """Its quorum ports, in the order in which they are dialled."""
        return places(self.book.quorum[sid])


def places(address: Address) -> list[tuple[str, int]]:
    return [(each.host, each.port) for each in (address, *address.others)]


BEFORE = of(7)
MOVED = of(8, "server.2=127.0.0.1:2003:2004")


def test_who_moves_is_dialled_where_it_is_and_where_it_may_go() -> None:
    it = Reached()
    it.change(BEFORE)
    assert it.met == []
    it.change(BEFORE, MOVED)
    assert it.at(SECOND) == [("127.0.0.1", 2001), ("127.0.0.1", 2003)]
    assert it.at(THIRD) == [("127.0.0.1", 3001)]
    assert it.met == [it.book.election]
    assert places(it.book.election[SECOND]) == [("127.0.0.1", 2002), ("127.0.0.1", 2004)]
    assert ServerId(1) not in it.book.election


def test_who_has_moved_may_not_know_it_yet_or_may_have_found_its_port_taken() -> None:
    it = Reached()
    it.change(BEFORE, MOVED)
    it.change(MOVED)
    assert it.at(SECOND) == [("127.0.0.1", 2003), ("127.0.0.1", 2001)]
    assert it.met[-1] == it.book.election
    it.change(of(9, "server.2=127.0.0.1:2005:2006"))
    assert [each.version for each in it.in_force] == [7, 8, 9]
    assert it.at(SECOND) == [("127.0.0.1", 2005), ("127.0.0.1", 2003)], "one step back, no more"


def test_what_others_say_is_in_force_is_a_place_too() -> None:
    it = Reached()
    it.change(BEFORE, heard=(MOVED, of(9, "server.2=127.0.0.1:2005:2006")))
    assert it.at(SECOND) == [("127.0.0.1", 2001), ("127.0.0.1", 2005), ("127.0.0.1", 2003)]


def test_a_host_that_was_left_is_dialled_until_that_is_in_force_and_is_believed_no_longer_then() -> None:
    """Anyone who stays on a machine that was replaced still has its certificate."""
    it = Reached()
    elsewhere = of(8, "server.2=127.0.0.2:2001:2002")
    it.change(BEFORE, elsewhere)
    assert it.at(SECOND) == [("127.0.0.1", 2001), ("127.0.0.2", 2001)]
    assert places(it.book.observer_masters[SECOND]) == [("127.0.0.1", 7000), ("127.0.0.2", 7000)]
    assert 2 in it.book.certified("127.0.0.1".__eq__)
    assert 2 in it.book.certified("127.0.0.2".__eq__)
    it.change(elsewhere)
    assert it.at(SECOND) == [("127.0.0.2", 2001)]
    assert 2 not in it.book.certified("127.0.0.1".__eq__)


def test_a_place_of_two_servers_is_that_of_the_one_that_is_there() -> None:
    it = Reached()
    swapped = of(8, "server.2=127.0.0.1:3001:3002", "server.3=127.0.0.1:2001:2002")
    it.change(BEFORE, swapped)
    assert (it.at(SECOND), it.at(THIRD)) == ([("127.0.0.1", 2001)], [("127.0.0.1", 3001)])
    it.change(swapped)
    assert (it.at(SECOND), it.at(THIRD)) == ([("127.0.0.1", 3001)], [("127.0.0.1", 2001)])


def test_who_takes_the_place_of_another_server_is_dialled_there() -> None:
    it = Reached()
    it.change(BEFORE, of(8, "server.3=", "server.4=127.0.0.1:3001:3002"))
    assert it.at(FOURTH) == it.at(THIRD) == [("127.0.0.1", 3001)]
    it.change(of(8, "server.3=", "server.4=127.0.0.1:3001:3002"))
    assert it.at(FOURTH) == [("127.0.0.1", 3001)]
    assert THIRD not in it.book.quorum


def test_the_file_says_where_servers_are_until_the_history_does() -> None:
    it = Reached()
    it.change(attrs.evolve(BEFORE, version=Zxid(0), text=b""))
    assert it.book.quorum[SECOND] == address_of([("127.0.0.1", 2001)])
    it.change(MOVED)
    assert it.at(SECOND) == [("127.0.0.1", 2003), ("127.0.0.1", 2001)]
