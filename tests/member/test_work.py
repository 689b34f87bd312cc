"""The work of a turn: little is asked, the answer is small, and what is done for it is bounded and shared."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import (
    OPEN_ACL,
    Create,
    FilteredList,
    GetChildrenPage,
    Multi,
    PathLimit,
    PathOnly,
    PathWatch,
    SetAcl,
    SetWatches,
)
from tests.direct.members import Client, Ensemble
from zab.member.four_letter import WORDS
from zab.member.work import NAME_WORK, REFUSED_WORK

COUNT, ASKED = 100, 60
NAMES_A_TURN = 4 * COUNT
Asks = Callable[[Client], bytes]


def parts(*asked: tuple[int, bytes]) -> bytes:
    return Multi(tuple((opcode, PathWatch(path, False)) for opcode, path in asked)).encode()


ATTACKS: dict[str, Asks] = {
    "multiRead of listings": lambda c: c.request(OpCode.MULTI_READ, parts((OpCode.GET_CHILDREN, b"/many"))),
    "multiRead of parts": lambda c: c.request(OpCode.MULTI_READ, parts(*[(OpCode.EXISTS, b"/x")] * COUNT)),
    "page": lambda c: c.request(OpCode.GET_CHILDREN_PAGE, GetChildrenPage(b"/many", b"", b"n00007", 1).encode()),
    "ephemerals": lambda c: c.request(OpCode.GET_EPHEMERALS, PathOnly(b"/zz").encode()),
    "number of descendants": lambda c: c.request(OpCode.GET_ALL_CHILDREN_NUMBER, PathOnly(b"/many").encode()),
    "filteredList": lambda c: c.request(OpCode.FILTERED_LIST, FilteredList(b"/many", False, 1).encode()),
    "listRecursive": lambda c: c.request(OpCode.LIST_RECURSIVE, PathLimit(b"/many", 1).encode()),
    "setWatches": lambda c: c.request(OpCode.SET_WATCHES, SetWatches(0, (), (b"/x",) * COUNT, ()).encode()),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_reads_with_small_answers_come_over_turns_and_nobody_waits_for_them(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab.member.processor.ANSWERED_BYTES", NAMES_A_TURN * NAME_WORK)
    ensemble = Ensemble(1, keeperExtensionsEnabled="true")
    [server] = ensemble.servers.values()
    attackers, innocent = [ensemble.session() for _ in range(3)], ensemble.session()
    ensemble.do(attackers[0], attackers[0].create(b"/many"))
    for attacker in attackers:
        name = b"/many/n%05d"
        names = range(COUNT) if attacker is attackers[0] else ()
        made = tuple((1, Create(name % number, b"", OPEN_ACL, 1)) for number in names)
        ensemble.do(attacker, attacker.request(OpCode.MULTI, Multi(made).encode()))
    asker = attackers[0]
    for attacker in attackers if attack != "ephemerals" else (asker,):
        attacker.replies()
        attacker.say(b"".join(ATTACKS[attack](attacker) for _ in range(ASKED)))
    total = ASKED * (3 if attack != "ephemerals" else 1)
    counts = [0]
    innocent.replies()
    while counts[-1] < total:
        innocent.say(innocent.exists(b"/many"))
        ensemble.step(server)
        counts.append(sum(len(attacker.received) for attacker in attackers))
        assert len(innocent.replies()) == 1, "answered in the turn in which it came"
        assert len(counts) < 2 * total
    looked_at = [COUNT * (after - before) for before, after in pairwise(counts)]
    assert max(looked_at) <= 2 * (NAMES_A_TURN + 2 * COUNT), "those who waited, and those who came"
    assert not server.member.processor.choked


def test_whoever_waits_has_a_share_of_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with long pipelines do not keep another waiting until each has had a turn for itself."""
    monkeypatch.setattr("zab.member.processor.ANSWERED_BYTES", 5_000)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    *greedy, other = clients = [ensemble.session() for _ in range(7)]
    for client in clients:
        client.replies()
        client.say(b"".join(client.exists(b"/") for _ in range(2 if client is other else 100)))
    turns = 0
    while len(other.received) < 2:
        ensemble.step(server)
        turns += 1
    assert turns <= 2
    assert all(len(client.received) < 100 for client in greedy)
    ensemble.settle()
    assert all(len(client.received) == 100 for client in greedy)


def test_multi_read_that_is_too_large_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(1, **{"jute.maxbuffer": 100_000})
    client = ensemble.session()
    ensemble.do(client, client.create(b"/big", b"x" * 60_000))
    made: list[int] = []
    monkeypatch.setattr("zab.member.reads.data_body", lambda data, _stat: made.append(len(data)) or b"x" * len(data))
    body = parts(*[(OpCode.GET_DATA, b"/big")] * 2)
    [(_, error, _)] = ensemble.do(client, client.request(OpCode.MULTI_READ, body))
    assert error == ErrorCode.BADARGUMENTS
    assert len(made) == 1


def test_writes_that_are_refused_count_with_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.proposing.PREPARED_BYTES_MAX", 20_000)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    client = ensemble.session()
    acl = tuple((31, b"auth", b"%d" % number) for number in range(256))
    asked = client.request(OpCode.SET_ACL, SetAcl(b"/", acl, -1).encode())
    seen = [server.member.peer.history.last[0]]
    client.say(b"".join(client.request(OpCode.SET_ACL, SetAcl(b"/", acl, -1).encode()) for _ in range(40)))
    while server.member.processor.intake or len(seen) == 1:
        ensemble.step(server)
        seen.append(server.member.peer.history.last[0])
        assert len(seen) < 100
    assert 0 < max(after - before for before, after in pairwise(seen)) <= 20_000 // (REFUSED_WORK * len(asked)) + 2


def test_word_that_counts_watches_takes_as_many_slices_as_there_are_watches() -> None:
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    client = ensemble.session()
    ensemble.do(client, *(client.exists(b"/w%d" % number, watch=True) for number in range(800)))
    lines = list(WORDS[b"wchs"].text(server.member))
    assert lines[-1].startswith("1 connections watching 800 paths")
    assert len(lines) >= 800 // 8 + 800
