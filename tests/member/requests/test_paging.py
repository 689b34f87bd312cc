"""Pages of children: sorted, complete, bounded, and cheap for others that wait."""

from random import Random
from typing import Any
from zlib import crc32

import pytest

from datatree.crowd import PAGED_COUNT, Crowd, page_of
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import Create, GetChildrenPage, Multi, SetAcl
from datatree.slices import NAMES
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.member.requests.listings import PAGE_BYTES, first_page


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble(1)


@pytest.fixture
def client(ensemble: Ensemble) -> Client:
    client = ensemble.session()
    ensemble.do(client, client.create(b"/p"))
    return client


def fill(ensemble: Ensemble, client: Client, names: list[bytes]) -> None:
    for first in range(0, len(names), 1_000):
        parts = [
            (1, Create(b"/p/" + name, b"", ((31, b"world", b"anyone"),), 0)) for name in names[first : first + 1_000]
        ]
        ((_, error, _),) = ensemble.do(client, client.request(OpCode.MULTI, Multi(tuple(parts)).encode()))
        assert error == 0


def asked(client: Client, after: bytes = b"", prefix: bytes = b"", count: int = 100) -> bytes:
    return client.request(OpCode.GET_CHILDREN_PAGE, GetChildrenPage(b"/p", after, prefix, count).encode())


def page(ensemble: Ensemble, client: Client, *given: Any) -> tuple[list[bytes], bool]:
    ((_, error, (names, has_more, _)),) = ensemble.do(client, asked(client, *given))
    assert error == 0
    return names, has_more


@pytest.mark.parametrize("count", [3, PAGED_COUNT - 1, PAGED_COUNT, 7_000])
def test_pages_are_the_sorted_names(ensemble: Ensemble, client: Client, count: int) -> None:
    names = [b"%d" % number for number in range(count)]
    Random(count).shuffle(names)
    fill(ensemble, client, names)
    names.sort()
    assert page(ensemble, client) == (names[:100], count > 100)
    assert page(ensemble, client, names[1], b"", 1) == (names[2:3], count > 3)
    assert page(ensemble, client, b"", b"2", NAMES) == ([name for name in names if name.startswith(b"2")], False)
    assert page(ensemble, client, b"29", b"2", NAMES)[0] == [n for n in names if n > b"29" and n.startswith(b"2")]
    assert page(ensemble, client, b"3", b"2") == ([], False)
    told: list[bytes] = []
    has_more = True
    while has_more:
        some, has_more = page(ensemble, client, told[-1] if told else b"", b"", 999)
        told += some
    assert told == names


def test_no_more_than_a_slice_of_names_is_given(ensemble: Ensemble, client: Client) -> None:
    fill(ensemble, client, [b"%05d" % number for number in range(NAMES + 1)])
    names, has_more = page(ensemble, client, b"", b"", 1 << 30)
    assert (len(names), has_more) == (NAMES, True)


def test_a_page_has_so_many_bytes_and_one_name_at_least() -> None:
    long = b"x" * (PAGE_BYTES // 2 - 4)
    assert first_page([long] * 3, 10) == ([long] * 2, True)
    assert first_page([long] * 2, 10) == ([long] * 2, False)
    assert first_page([long * 3, b"y"], 10) == ([long * 3], True)
    assert first_page([b"a", b"b"], 1) == ([b"a"], True)
    assert first_page([], 1) == ([], False)


@pytest.mark.parametrize("count", [0, -1, -(1 << 31)])
def test_a_page_of_nothing_is_refused(ensemble: Ensemble, client: Client, count: int) -> None:
    assert ensemble.do(client, asked(client, b"", b"", count))[0][1] == ErrorCode.BADARGUMENTS


def sort(crowd: Crowd) -> int:
    slices = 0
    while crowd.sort_some():
        slices += 1
    return slices


@pytest.mark.parametrize("seed", range(8))
def test_a_crowd_gives_what_a_sorted_set_gives(seed: int) -> None:
    """Children come, go and come back between pages, also while an order is made."""
    random = Random(seed)
    there = {b"/p/%d" % random.randrange(20_000) for _ in range(random.choice((1, 2_000, 9_000)))}
    crowd = Crowd(there)
    for _ in range(40):
        for _ in range(random.choice((0, 1, 10, 3_000))):
            path = b"/p/%d" % random.randrange(20_000)
            if path in there:
                del crowd[path]
                there.remove(path)
            else:
                crowd[path] = None
                there.add(path)
        if random.random() < 0.3:
            crowd.sort_some()
            continue
        sort(crowd)
        after, prefix = (
            b"/p/" + random.choice((b"", b"%d" % random.randrange(20_000))),
            b"/p/" + random.choice((b"", b"1", b"19", b"9", b"\xff")),
        )
        count = random.choice((1, 2, 100, 5_000))
        expected = sorted(path for path in there if path > after and path.startswith(prefix))[:count]
        assert page_of(crowd, after, prefix, count)[0] == expected
        assert page_of(dict.fromkeys(there), after, prefix, count)[0] == expected


def test_a_page_looks_at_no_names_beyond_its_prefix() -> None:
    """Few names begin with it, and many are asked for."""
    crowd = Crowd(b"/p/%07d" % number for number in range(80_000))
    sort(crowd)
    paths, looked_at = page_of(crowd, b"/p/", b"/p/000001", 5_000)
    assert paths == [b"/p/00000%02d" % number for number in range(10, 20)]
    assert looked_at <= 256 + 10
    paths, looked_at = page_of(crowd, b"/p/", b"/p/", 5_000)
    assert len(paths) == 5_000
    assert looked_at <= 2 * 5_000 + 2_048


def test_an_order_is_made_in_slices_and_once() -> None:
    crowd = Crowd(b"/p/%07d" % number for number in range(50_000))
    assert 8 <= sort(crowd) <= 10
    assert sort(crowd) == 0
    crowd[b"/p/x"] = None
    assert sort(crowd) == 0, "one change is looked at, and sorts nothing"
    for number in range(50_000):
        crowd[b"/p/y%07d" % number] = None
    assert 16 <= sort(crowd) <= 20, "after many it is made again"


def test_names_that_are_all_of_one_part_are_sorted_in_slices_too() -> None:
    paths = [path for path in (b"/p/%d" % number for number in range(3_000_000)) if not crc32(path) & 255]
    assert len(paths) > 2 * NAMES
    crowd = Crowd(paths)
    sort(crowd)
    assert max(len(run) for runs in crowd._runs for run in runs) == NAMES
    assert page_of(crowd, b"/p/5", b"/p/", 1_000)[0] == sorted(path for path in paths if path > b"/p/5")[:1_000]


def test_writes_of_a_crowd_that_nobody_pages_note_nothing() -> None:
    crowd = Crowd([b"/p/a"])
    crowd[b"/p/b"] = None
    assert (crowd._runs, crowd._changes) == ([], [])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices in which fewer names are sorted."""
    monkeypatch.setattr("datatree.crowd.NAMES", 400)


def begun(ensemble: Ensemble, client: Client) -> Server:
    """A page is asked for whose order takes several turns, and one of these is over."""
    fill(ensemble, client, [b"%07d" % number for number in range(3_000)])
    client.replies()
    client.say(asked(client))
    server = ensemble.servers[client.server.sid]
    ensemble.step(server)
    assert client.received == []
    return server


def test_what_comes_while_an_order_is_made_is_in_the_page(ensemble: Ensemble, client: Client, small: None) -> None:
    other = ensemble.session()
    begun(ensemble, client)
    assert ensemble.do(other, other.create(b"/p/+early"))[0][1] == 0
    ((_, error, (names, has_more, _)),) = client.replies()
    assert (error, has_more, names[0]) == (0, True, b"+early")


def test_others_need_not_wait_for_the_order(ensemble: Ensemble, client: Client, small: None) -> None:
    other = ensemble.session()
    server = begun(ensemble, client)
    other.replies()
    other.say(other.get(b"/p"))
    ensemble.step(server)
    assert (len(other.received), client.received) == (1, [])


def test_the_permission_counts_when_the_page_is_told(ensemble: Ensemble, client: Client, small: None) -> None:
    other = ensemble.session()
    begun(ensemble, client)
    ensemble.do(other, other.request(OpCode.SET_ACL, SetAcl(b"/p", ((30, b"world", b"anyone"),), -1).encode()))
    assert [error for _, error, _ in client.replies()] == [ErrorCode.NOAUTH]


def test_a_znode_that_goes_while_its_order_is_made_is_missing(ensemble: Ensemble, client: Client, small: None) -> None:
    server = begun(ensemble, client)
    tree = server.member.tree
    for path in [*tree.children[b"/p"], b"/p"]:
        tree.apply((tree.applied + 1, 0, 0, 0, 2, 0, path, None, None))
    ensemble.step(server)
    assert [error for _, error, _ in client.replies()] == [ErrorCode.NONODE]
