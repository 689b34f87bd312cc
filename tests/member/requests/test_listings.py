"""Lists of children that are kept as they were sent: always those that the tree has now."""

from random import Random

import pytest

from datatree.jute import Reader
from datatree.opcodes import OpCode
from datatree.requests import PathWatch
from datatree.tree import DataTree
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.member.requests import listings
from zab.member.requests.listings import LISTING_COUNT_MIN, Listings, listing

ROOM = LISTING_COUNT_MIN + 10


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble(1)


def names_of(body: bytes) -> list[bytes]:
    reader = Reader(body)
    return [reader.buffer() or b"" for _ in range(reader.int())]


def made(paths: list[bytes]) -> bytes:
    steps = listing(paths, 3)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value)


def shown(ensemble: Ensemble, client: Client, path: bytes, opcode: OpCode = OpCode.GET_CHILDREN) -> set[bytes]:
    ((_, error, answer),) = ensemble.do(client, client.request(opcode, PathWatch(path, False).encode()))
    assert error == 0
    names = answer if opcode == OpCode.GET_CHILDREN else answer[0]
    assert len(names) == len(set(names))
    return set(names)


@pytest.mark.parametrize("seed", range(5))
def test_a_list_is_that_of_now_whatever_happened(ensemble: Ensemble, seed: int) -> None:
    """Children come and go around the number from which lists are kept, and so does their parent."""
    random, client = Random(seed), ensemble.session()
    there: set[bytes] = set()
    ensemble.do(client, client.create(b"/p"))
    for _ in range(150):
        for _ in range(random.choice((0, 1, 1, 2, 20))):
            name = b"%d" % random.randrange(ROOM)
            if name in there and random.random() < 0.3:
                ensemble.do(client, client.delete(b"/p/" + name))
                there.remove(name)
            elif name not in there:
                ensemble.do(client, client.create(b"/p/" + name))
                there.add(name)
        if random.random() < 0.02:
            ensemble.do(client, *(client.delete(b"/p/" + name) for name in there), client.delete(b"/p"))
            there = {b"again%d" % number for number in range(ROOM)}
            ensemble.do(client, client.create(b"/p"), *(client.create(b"/p/" + name) for name in there))
        if random.random() < 0.2:
            ensemble.do(client, client.set(b"/p", b"x"))
        for opcode in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2):
            assert shown(ensemble, client, b"/p", opcode) == there


def test_it_is_made_once_for_all_who_ask(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    client, made = ensemble.session(), list[int]()
    ensemble.do(client, client.create(b"/p"), *(client.create(b"/p/%d" % number) for number in range(ROOM)))
    original = listings.listing

    def counted(paths: list[bytes], start: int) -> object:
        made.append(len(paths))
        return original(paths, start)

    monkeypatch.setattr("zab.member.requests.child_lists.listing", counted)
    for each in (client, ensemble.session(), ensemble.session()):
        assert len(shown(ensemble, each, b"/p")) == ROOM
        assert len(shown(ensemble, each, b"/p", OpCode.GET_CHILDREN2)) == ROOM
    assert made == [ROOM]
    ensemble.do(client, client.create(b"/p/another"))
    assert len(shown(ensemble, client, b"/p")) == ROOM + 1
    assert made == [ROOM, ROOM + 1]


def test_another_tree_has_other_lists(ensemble: Ensemble) -> None:
    """If two trees at the same zxid differ, one is wrong; its list must not outlive it."""
    client = ensemble.session()
    ensemble.do(client, client.create(b"/p"), *(client.create(b"/p/%d" % number) for number in range(ROOM)))
    server = client.server
    expected = shown(ensemble, client, b"/p")
    state = server.member.state
    assert state.listings._kept
    tree, serving = state.tree, server.member.serving
    server.member.service.is_on = False
    server.member.applier.take_tree(DataTree())
    assert not state.listings._kept
    assert state.listings._bytes == 0
    state.tree, server.member.service.is_on = tree, serving
    assert shown(ensemble, client, b"/p") == expected


def test_a_list_in_slices_has_the_names_of_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.listings.NAMES", 7)
    paths = [b"/p/%d" % number for number in range(50)]
    steps = listing(paths, 3)
    assert sum(1 for _ in steps) == 7
    assert names_of(made(paths)) == [b"%d" % number for number in range(50)]


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.listings.LISTINGS_BYTES", 100)
    kept = Listings()
    for number in range(10):
        kept.keep(b"/%d" % number, b"z", bytes(30))
    assert [number for number in range(10) if kept.get(b"/%d" % number, b"z")] == [7, 8, 9]
    kept.keep(b"/7", b"y", bytes(40))
    assert kept.get(b"/7", b"z") is None
    assert kept.get(b"/7", b"y") == bytes(40)
    assert kept.get(b"/8", b"z") is not None
    kept.keep(b"/8", b"y", bytes(101))
    assert kept.get(b"/8", b"y") is None
    assert kept.get(b"/9", b"z") is not None, "one that is too large makes no room"
    assert kept._bytes == 70
