"""The work of a turn: little is asked, the answer is small, and what is done for it is bounded and shared."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from datatree.acl import digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import (
    OPEN_ACL,
    AddAuth,
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
from datatree.znode import STAT_LAYOUT
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.member.requests import filtered_lists as filtered
from zab.member.requests import multi_reads
from zab.member.state.work import NAME_WORK, PROOF_WORK, REFUSED_WORK, REQUEST_WORK
from zab.member.words.four_letter import WORDS

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
    for module in ("processor", "waiting_requests"):
        monkeypatch.setattr(f"zab.member.requests.{module}.ANSWERED_BYTES", NAMES_A_TURN * NAME_WORK)
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
    assert not server.member.processor.waiting.choked


def test_whoever_waits_has_a_share_of_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with long pipelines do not keep another one waiting until each has had a turn."""
    for module in ("processor", "waiting_requests"):
        monkeypatch.setattr(f"zab.member.requests.{module}.ANSWERED_BYTES", 5_000)
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
    monkeypatch.setattr(
        "zab.member.requests.multi_reads.data_body", lambda data, _stat: made.append(len(data)) or b"x" * len(data)
    )
    body = parts(*[(OpCode.GET_DATA, b"/big")] * 2)
    [(_, error, _)] = ensemble.do(client, client.request(OpCode.MULTI_READ, body))
    assert error == ErrorCode.BADARGUMENTS
    assert made == []


@pytest.mark.parametrize("is_part", [False, True], ids=["alone", "part of a multiRead"])
def test_a_long_filtered_list_is_told_in_slices_and_all_of_one_state(
    is_part: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes that are done meanwhile are not in it, and the event of its watch comes after it."""
    for module in ("filtered_lists", "listings", "child_lists"):
        monkeypatch.setattr(f"zab.member.requests.{module}.NAMES", 10)
    monkeypatch.setattr(multi_reads, "PATHS", 10)
    ensemble = Ensemble(1, keeperExtensionsEnabled="true")
    [server] = ensemble.servers.values()
    client, other = ensemble.session(), ensemble.session()
    ensemble.do(other, other.create(b"/d"), other.create(b"/d/large", b"x" * 20_000))
    ensemble.do(other, *(other.create(b"/d/%02d" % number, b"old") for number in range(95)))
    ensemble.do(client, client.children(b"/d", watch=True) if is_part else client.exists(b"/"))
    told: list[int] = []
    one = filtered._data
    monkeypatch.setattr(filtered, "_data", lambda *child: told.append(0) or one(*child))
    opcode, body = int(OpCode.FILTERED_LIST_WITH_STATS_AND_DATA), FilteredList(b"/d", not is_part, 0, True, True)
    client.replies()
    if is_part:
        client.say(client.request(OpCode.MULTI_READ, Multi(((opcode, body),)).encode()))
    else:
        client.say(client.request(opcode, body.encode()))
    while not told:
        ensemble.step(server)
    assert len(told) == 10
    changes = [other.set(b"/d/%02d" % number, b"new") for number in range(95)]
    ensemble.do(other, *changes, other.delete(b"/d/large"))
    ensemble.settle()
    (_, _, _, error, answer), event = client.take_received()
    names, stat, stats, data = answer[0].value if is_part else answer
    assert error == 0
    assert dict(zip(names, data, strict=True)) == {b"%02d" % n: b"old" for n in range(95)} | {b"large": b"x" * 20_000}
    assert {STAT_LAYOUT.unpack(each)[4] for each in stats} == {0}, "their versions"
    assert STAT_LAYOUT.unpack(stat)[9] == 96
    assert event[0] == "event"


def test_writes_that_are_refused_count_with_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.proposing.PREPARED_BYTES_MAX", 20_000)
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


@pytest.mark.parametrize("asked", ["ping", "auth"])
def test_what_is_answered_at_once_is_so_within_the_work_of_a_turn(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody waits for the thousands that others have sent, nor is anything overtaken on their connections."""
    for module in ("processor", "waiting_requests"):
        monkeypatch.setattr(f"zab.member.requests.{module}.ANSWERED_BYTES", 100 * REQUEST_WORK)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    attackers, other = [ensemble.session() for _ in range(4)], ensemble.session()
    for client in (*attackers, other):
        client.replies()
    one = attackers[0].request(OpCode.PING, b"", -2)
    if asked == "auth":
        one = attackers[0].request(OpCode.AUTH, AddAuth(b"digest", b"me:x").encode(), -4)
    for attacker in attackers:
        attacker.say(one * 1_000 + attacker.create(b"/%d" % attacker.connection.id))
    counts = [0]
    ensemble.step(server)
    counts.append(sum(len(attacker.received) for attacker in attackers))
    assert all(attacker.connection.paused for attacker in attackers[1:])
    other.say(other.request(OpCode.PING, b"", -2))
    turns = 0
    while not other.received:
        ensemble.step(server)
        turns += 1
        counts.append(sum(len(attacker.received) for attacker in attackers))
    assert turns <= 2
    ensemble.settle()
    assert max(after - before for before, after in pairwise(counts)) <= 4 * 100
    for attacker in attackers:
        xids = [xid for xid, error, _ in attacker.replies() if not error]
        assert xids == [-2 if asked == "ping" else -4] * 1_000 + [1]
        assert not attacker.connection.paused
    assert not server.member.processor.overdue
    if asked == "ping":
        assert server.member.metrics.op_counts[OpCode.PING] == 4 * 1_000 + 1, "each is counted once"


def test_a_write_behind_a_proof_that_waits_is_done_as_whom_it_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("processor", "waiting_requests"):
        monkeypatch.setattr(f"zab.member.requests.{module}.ANSWERED_BYTES", 10 * REQUEST_WORK)
    ensemble = Ensemble(1)
    client, other = ensemble.session(), ensemble.session()
    ensemble.do(other, other.create(b"/a", acl=((31, *digest_identity(b"me:x")),)))
    proof = client.request(OpCode.AUTH, AddAuth(b"digest", b"me:x").encode(), -4)
    client.say(client.request(OpCode.PING, b"", -2) * 50 + proof + client.set(b"/a", b"mine"))
    ensemble.settle()
    assert [(xid, error) for xid, error, _ in client.replies()[-2:]] == [(-4, 0), (1, 0)]


def test_parts_of_a_long_multi_read_are_told_in_slices_and_all_of_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that are done meanwhile are not in it, and their events come after it."""
    monkeypatch.setattr("zab.member.requests.multi_reads.PATHS", 10)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    client, other = ensemble.session(), ensemble.session()
    paths = [b"/p%02d" % number for number in range(95)]
    ensemble.do(other, *(other.create(path, b"old") for path in paths), other.create(b"/p00/child"))
    ensemble.do(other, other.set(b"/p93", b"x" * 20_000))
    ensemble.do(client, client.get(b"/p94", watch=True))
    told: list[int] = []
    told_part = multi_reads._part_told
    monkeypatch.setattr(multi_reads, "_part_told", lambda *found: told.append(0) or told_part(*found))
    asked = [(int(OpCode.GET_CHILDREN), b"/p00"), *((int(OpCode.GET_DATA), path) for path in paths)]
    client.replies()
    client.say(client.request(OpCode.MULTI_READ, parts(*asked)))
    counts = [0]
    while not counts[-1]:
        ensemble.step(server)
        counts.append(len(told))
    ensemble.do(other, *(other.set(path, b"new") for path in reversed(paths)), other.delete(b"/p00/child"))
    ensemble.settle()
    assert len(told) == len(asked)
    assert counts[-1] <= 10
    (_, _, _, error, results), *events = client.take_received()
    assert error == 0
    assert [result.value[0] for result in results[1:]] == [b"old"] * 93 + [b"x" * 20_000, b"old"]
    assert results[0].value == [b"child"]
    assert len(events) == 1


def test_proofs_count_with_their_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("processor", "waiting_requests"):
        monkeypatch.setattr(f"zab.member.requests.{module}.ANSWERED_BYTES", 10 * PROOF_WORK)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    client = ensemble.session()
    client.replies()
    client.say(client.request(OpCode.AUTH, AddAuth(b"digest", b"me:x").encode(), -4) * 100)
    ensemble.step(server)
    assert len(client.received) <= 2 * 10


def test_what_comes_while_a_proof_waits_waits_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("processor", "waiting_requests"):
        monkeypatch.setattr(f"zab.member.requests.{module}.ANSWERED_BYTES", 10 * REQUEST_WORK)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    client, other = ensemble.session(), ensemble.session()
    ensemble.do(other, other.create(b"/a", acl=((31, *digest_identity(b"me:x")),)))
    proof = client.request(OpCode.AUTH, AddAuth(b"digest", b"me:x").encode(), -4)
    client.replies()
    client.say(client.request(OpCode.PING, b"", -2) * 50 + proof)
    ensemble.step(server)
    assert client.connection.held
    server.member.processor.receive(client.connection, [client.set(b"/a", b"mine")[4:]])
    ensemble.settle()
    assert [(xid, error) for xid, error, _ in client.replies()[-2:]] == [(-4, 0), (1, 0)]
