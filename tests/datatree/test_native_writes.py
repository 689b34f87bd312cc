"""What is compiled of this package does the same as its Python: the same bytes and trees are given to both."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datatree.crowd import CROWD_COUNT, Crowd
from datatree.opcodes import OpCode
from datatree.record import Fields, encode, encode_in_slices
from datatree.requests import OPEN_ACL, Body, Create, CreateSession, Multi, NoBody, PathVersion, SetAcl, SetData
from datatree.slices import PARTS, SLICE_BYTES
from datatree.state import NEARING_COUNT, SHARD_COUNT
from datatree.write_request import WriteRequest
from datatree.znode import INT_MAX, LARGE_BYTES
from tests.datatree.native_worlds import (
    BOB,
    BOBS,
    IS_COMPILED,
    OTHER,
    SESSION,
    TREE,
    WRITES,
    Both,
    World,
    decodings,
    everything,
    whole,
)

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="nothing is compiled here")

NAMES = [b"a", b"b", b"a/a", b"a/b", b"a/a/a", b"e", b"e/a", b"bobs", b"bobs/a", b"a0000000000", b"\xc3\xa4"]
ODD = [
    b"",
    b"/",
    b"a",
    b"//",
    b"//a",
    b"/a/",
    b"/a/.",
    b"/a/..",
    b"/a/\0",
    b"/a/\x7f",
    b"/a/\xff",
    b"/a/ ~",
    b"/zookeeper",
]
QUOTAS = [b"/zookeeper/quota/a", b"/zookeeper/quota/a/zookeeper_limits", b"/zookeeper/quota/a/zookeeper_stats"]
PATHS = st.sampled_from([b"/" + name for name in NAMES] * 4 + ODD + QUOTAS)
DATA = st.sampled_from([b"", b"x", b"some data" * 20, b"", b"y" * 7, None, bytes(LARGE_BYTES), bytes(LARGE_BYTES + 1)])
VERSIONS = st.sampled_from([-1] * 6 + [0, 0, 1, 2, -2, 7])
LISTS = st.sampled_from([OPEN_ACL] * 9 + [BOBS, ((1, b"world", b"anyone"),), ()])
FLAGS = st.sampled_from([0] * 8 + [1, 2, 2, 3, 4, 7, -1])


def operations() -> st.SearchStrategy[tuple[int, Body]]:
    creates = st.sampled_from([OpCode.CREATE] * 5 + [OpCode.CREATE2, OpCode.CREATE_CONTAINER])
    return st.one_of(
        st.tuples(creates, st.builds(Create, PATHS, DATA, LISTS, FLAGS)),
        st.tuples(st.just(OpCode.SET_DATA), st.builds(SetData, PATHS, DATA, VERSIONS)),
        st.tuples(st.sampled_from([OpCode.DELETE] * 4 + [OpCode.TRY_REMOVE]), st.builds(PathVersion, PATHS, VERSIONS)),
        st.tuples(st.sampled_from([OpCode.CHECK, OpCode.CHECK_NOT_EXISTS]), st.builds(PathVersion, PATHS, VERSIONS)),
    )


def requests() -> st.SearchStrategy[tuple[int, Body]]:
    return st.one_of(
        operations(),
        operations(),
        st.tuples(
            st.just(OpCode.MULTI), st.builds(lambda parts: Multi(tuple(parts)), st.lists(operations(), max_size=6))
        ),
        st.tuples(st.just(OpCode.SET_ACL), st.builds(SetAcl, PATHS, LISTS, VERSIONS)),
        st.tuples(st.just(OpCode.CLOSE_SESSION), st.just(NoBody())),
    )


def damaged(draw: Callable[..., Any], raw: bytes) -> bytes:
    """The bytes as they are, cut, or with others among them."""
    at = draw(st.integers(0, len(raw)))
    match draw(st.integers(0, 11)):
        case 0:
            return raw[:at]
        case 1:
            return raw[:at] + draw(st.binary(max_size=9)) + raw[at + draw(st.integers(0, 9)) :]
        case 2:
            return raw + draw(st.binary(max_size=9))
    return raw


@settings(max_examples=50)
@given(st.data())
def test_writes_come_to_the_same(data: st.DataObject) -> None:
    """Requests of every kind, some of them damaged; what was prepared is applied by and by, beside a snapshot."""
    worlds = Both()
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(st.integers(0, 11)):
            case 0 | 1:
                worlds.deliver(data.draw(st.integers(1, 6)), is_watched=data.draw(st.booleans()))
            case 2:
                worlds.same(World.snapshot)
            case _:
                opcode, body = data.draw(requests())
                session = data.draw(st.sampled_from([SESSION] * 5 + [OTHER, 99]))
                in_slices = opcode in (OpCode.MULTI, OpCode.CLOSE_SESSION) and data.draw(st.booleans())
                worlds.ask(opcode, damaged(data.draw, body.encode()), session, in_slices=in_slices)
    worlds.finish()


NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, -1, NEARING_COUNT - 1, NEARING_COUNT, INT_MAX, INT_MAX + 1, -INT_MAX - 1, -INT_MAX - 2]),
    st.integers(-(1 << 65), 1 << 65),
)
OWNERS = st.sampled_from([0] * 6 + [SESSION, -1, -(1 << 63), 1 << 62, (1 << 63) - 1, 1 << 63, -(1 << 56) + 5])
RESTS = st.one_of(
    st.none(),
    st.tuples(st.none(), OWNERS),
    st.tuples(st.just(BOBS), OWNERS),
    st.tuples(st.sampled_from([1, -24, -25, 23, 24, 5])),
    st.just(()),
)
TYPES = st.sampled_from([1, 1, 1, 2, 2, 5, 5, 15, 13, 16, 19, 20, 21, -1, -10, 7, 99])
ITEMS = st.tuples(TYPES, st.one_of(st.just(0), st.just(1), NUMBERS), PATHS, DATA, RESTS)


@given(st.data())
def test_whatever_is_applied_comes_to_the_same(data: st.DataObject) -> None:
    """Also what no leader has prepared against this tree: it fails in the same way, and leaves the same."""
    worlds = Both()
    items = data.draw(st.lists(ITEMS, max_size=12))
    in_a_multi, is_watched = data.draw(st.booleans()), data.draw(st.booleans())
    txns: list[Fields] = [(100 + at, 5, SESSION, 1, *item) for at, item in enumerate(items)]  # type: ignore[misc]
    if in_a_multi:
        txns = [(100, 5, SESSION, 1, 14, 0, b"", None, tuple(items))]
    for txn in txns:
        result = worlds.same(lambda world, txn=txn: world.tree.apply(txn, is_watched))  # type: ignore[misc]
        worlds.same(lambda world: world(everything, world.tree))
        if isinstance(result[0], type):
            return


@given(st.data())
def test_whatever_is_encoded_comes_to_the_same(data: st.DataObject) -> None:
    worlds = Both()
    head, item = data.draw(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS)), data.draw(ITEMS)
    for fields in ((*head, *item), (5, 6, 7, 8, *item), (5, 6, 7, 8, 14, 0, b"", None, (item, item))):
        worlds.same(lambda _, fields=fields: encode(fields))  # type: ignore[misc]
        worlds.same(lambda _, fields=fields: whole(encode_in_slices(fields)))  # type: ignore[misc]


@given(st.data())
def test_whatever_is_decoded_comes_to_the_same(data: st.DataObject) -> None:
    worlds = Both()
    records = []
    for zxid, item in enumerate(data.draw(st.lists(ITEMS, max_size=5)), 1 << 32):
        fields: Any = (zxid, 6, data.draw(st.sampled_from([7, -7])), data.draw(st.sampled_from([8, -8])), *item)
        record = worlds.python(encode, fields)
        records.append(record if type(record) is bytes else b"")
    body = damaged(data.draw, b"".join(records))
    count = len(records) + data.draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    worlds.same(decodings(body, data.draw(st.sampled_from([1 << 32] * 8 + [1, 0, (1 << 63) - 1, 1 << 64])), count))


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.just(1.0), st.text(max_size=3), st.binary(max_size=3)),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=12,
)


@given(st.data())
def test_whatever_is_the_rest_of_a_multi_comes_to_the_same(data: st.DataObject) -> None:
    """CBOR that is one, nearly one, or another value; and in other forms of the same value."""
    worlds = Both()
    part = st.tuples(TYPES, NUMBERS, st.sampled_from(["", "/a", "/ä"]), st.sampled_from([None, b"x"]), VALUES).map(list)
    plain = st.tuples(TYPES, st.integers(-70_000, 70_000), st.just("/a" * 30), st.just(b"x" * 300)).map(
        lambda head: [*head, [None, 0] if head[0] in (1, 15, 19, 21) else None]
    )
    value = data.draw(st.one_of(st.lists(plain, max_size=30), st.lists(st.one_of(plain, part), max_size=4), VALUES))
    rest = damaged(data.draw, cbor2.dumps(value, canonical=data.draw(st.booleans())))
    body = encode((5, 6, 7, 8, 14, 0, b"", None, ()), rest)
    worlds.same(decodings(body, 5, 1))


@pytest.mark.parametrize("count", [1, PARTS - 1, PARTS, PARTS + 1, 2 * PARTS, 599, 600, 601])
@pytest.mark.parametrize("size", [1, SLICE_BYTES // 40])
def test_a_long_multi_takes_the_same_slices(count: int, size: int) -> None:
    """All of it plain; with a part that is not; and with one that is refused."""
    plain = [(OpCode.SET_DATA, SetData(b"/a", bytes(size), -1))] * (count - 1)
    for last in (SetData(b"/a", b"x", -1), SetData(b"/bobs", b"x", -1), SetData(b"/none", b"x", -1)):
        for parts in ((*plain, (OpCode.SET_DATA, last)), ((OpCode.SET_DATA, last), *plain)):
            worlds = Both()
            slices, *_ = worlds.ask(OpCode.MULTI, Multi(parts).encode(), in_slices=True)
            assert slices >= (count - 1) // PARTS or count > 600
            worlds.finish()


def test_a_crowd_is_one_from_the_same_child_on() -> None:
    worlds = Both()
    txns: list[Fields] = [
        (100 + number, 5, SESSION, 1, 1, number, b"/a/%d" % number, b"", (None, 0)) for number in range(CROWD_COUNT + 2)
    ]
    txns += [(200_000 + at, 5, SESSION, 1, 2, 0, txn[6], None, None) for at, txn in enumerate(reversed(txns[-6:]))]
    worlds.same(lambda world: [world.tree.apply(txn) for txn in txns])
    worlds.finish()
    assert type(worlds.compiled.tree.children[b"/a"]) is Crowd


# What is plain is not left to Python: otherwise all this would compare Python with itself.


def test_what_is_plain_is_done() -> None:
    world = World(is_compiled=True)
    world.tree.sessions[SESSION] = 30_000
    made: list[tuple[int, Body]] = [
        (OpCode.CREATE, Create(b"/a", b"x", OPEN_ACL, 0)),
        (OpCode.CREATE2, Create(b"/a/b", b"x", OPEN_ACL, 0)),
        (OpCode.SET_DATA, SetData(b"/a", b"yy", 0)),
        (OpCode.DELETE, PathVersion(b"/a/b", -1)),
    ]
    view = world.prepare.outstanding.plain()
    txns = []
    for zxid, (opcode, body) in enumerate(made, 1):
        txn = WRITES.prepare(view, WriteRequest(SESSION, 9, int(opcode), body.encode(), ()), zxid, 5)
        assert txn is not None
        assert txn[4] == opcode
        txns.append(txn)
    body = b"".join(map(WRITES.encode, txns))
    assert WRITES.decode(body, 0, 1, 4) == (txns, len(body))
    for txn in txns:
        assert TREE.apply(world.tree, txn, True) == world.follower.apply(txn)
    assert everything(world.tree)[:3] == everything(world.follower)[:3]
    multi = Multi((*made[2:3], (OpCode.CHECK, PathVersion(b"/a", -1)))).encode()
    parts: list[Any] = []
    assert WRITES.prepare_parts(view, [], 9, 5, multi, 0, parts, 9, 999) == 0
    assert parts == []
    multi = Multi(((OpCode.SET_DATA, SetData(b"/a", b"z", -1)), (OpCode.CHECK, PathVersion(b"/a", 2)))).encode()
    assert WRITES.prepare_parts(view, [], 9, 5, multi, 0, parts, 9, 999) == len(multi) - 9
    assert WRITES.decode_parts(WRITES.encode_parts(tuple(parts))) == tuple(parts)
    results: list[Any] = []
    assert TREE.apply_parts(world.tree, 9, 5, tuple(parts), 0, None, results) == 2
    assert [result[:3] for result in results] == [(5, 0, b"/a"), (13, 0, b"/a")]


MUCH = bytes(LARGE_BYTES + 1)
LEFT_TO_PREPARE: list[tuple[int, Body]] = [
    (OpCode.SET_DATA, SetData(b"/none", b"", -1)),
    (OpCode.SET_DATA, SetData(b"/a", b"", 3)),
    (OpCode.SET_DATA, SetData(b"/a", None, -1)),
    (OpCode.SET_DATA, SetData(b"/bobs", b"", -1)),
    (OpCode.SET_DATA, SetData(b"/zookeeper/quota", b"", -1)),
    *((OpCode.CREATE, Create(path, b"", OPEN_ACL, 0)) for path in (*ODD[:-2], b"/a", b"/none/a", b"/bobs/a", b"/e/a")),
    (OpCode.CREATE, Create(b"/b", b"", BOBS, 0)),
    (OpCode.CREATE, Create(b"/b", None, OPEN_ACL, 0)),
    *((OpCode.CREATE, Create(b"/b", b"", OPEN_ACL, flags)) for flags in (1, 2, 3, 4, -1)),
    (OpCode.CREATE_CONTAINER, Create(b"/b", b"", OPEN_ACL, 4)),
    (OpCode.DELETE, PathVersion(b"/none", -1)),
    (OpCode.DELETE, PathVersion(b"/a", -1)),
    (OpCode.DELETE, PathVersion(b"/a/b", 3)),
    (OpCode.DELETE, PathVersion(b"/e", -1)),
    (OpCode.DELETE, PathVersion(b"/zookeeper/quota", -1)),
    (OpCode.CHECK, PathVersion(b"/a", -1)),
    (OpCode.SET_ACL, SetAcl(b"/a", OPEN_ACL, -1)),
]
LEFT_TO_APPLY: list[tuple[int, int, bytes, bytes | None, Any]] = [
    (5, 1, b"/none", b"", None),
    (5, 1, b"/a", None, None),
    (5, 1, b"/a", MUCH, None),
    (5, INT_MAX + 1, b"/a", b"", None),
    (5, 1, b"/bobs", b"", None),
    (16, -1, b"/a", b"", None),
    (1, 1, b"/a", b"", (None, 0)),
    (1, 1, b"/none/a", b"", (None, 0)),
    (1, 1, b"/bobs/a", b"", (None, 0)),
    (1, 1, b"/b", None, (None, 0)),
    (1, 1, b"/b", MUCH, (None, 0)),
    (1, 1, b"/b", b"", (BOBS, 0)),
    (1, 1, b"/b", b"", (None, -1)),
    (1, 1, b"/b", b"", None),
    (1, -1, b"/b", b"", (None, 0)),
    (1, NEARING_COUNT, b"/b", b"", (None, 0)),
    (1, 1, b"/", b"", (None, 0)),
    (1, 1, b"b", b"", (None, 0)),
    (1, 1, b"/zookeeper/a", b"", (None, 0)),
    (2, 0, b"/a", None, None),
    (2, 0, b"/none", None, None),
    (2, 1, b"/a/b", None, None),
    (2, 0, b"/zookeeper/quota", None, None),
    (13, 0, b"/a", None, None),
    (99, 0, b"/a", b"", None),
]


def filled() -> World:
    """A world with some znodes, all of them applied."""
    world = World(is_compiled=False)
    for opcode, body in (
        (OpCode.CREATE_SESSION, CreateSession(30_000)),
        *((OpCode.CREATE, Create(path, b"", OPEN_ACL, 0)) for path in (b"/a", b"/a/b")),
        (OpCode.CREATE, Create(b"/bobs", b"", BOBS, 0)),
        (OpCode.CREATE, Create(b"/e", b"", OPEN_ACL, 1)),
    ):
        world.ask(WriteRequest(SESSION, 9, int(opcode), body.encode(), (BOB,)), in_slices=False)
    world.deliver(9, is_watched=False)
    return world


def test_what_is_not_plain_is_left_and_changes_nothing() -> None:
    world = filled()
    view, before = world.prepare.outstanding.plain(), everything(world.tree)
    for opcode, body in LEFT_TO_PREPARE:
        for raw in (body.encode(), body.encode()[:-1]):
            request = WriteRequest(SESSION, 9, int(opcode), raw, (BOB,))
            assert WRITES.prepare(view, request, 100, 5) is None, (opcode, body)
        parts: list[Any] = []
        if opcode != OpCode.CHECK:
            assert WRITES.prepare_parts(view, [], 100, 5, Multi(((opcode, body),)).encode(), 0, parts, 9, 999) == 0
        assert parts == []
    plain = SetData(b"/a", b"", -1).encode()
    assert WRITES.prepare(view, WriteRequest(OTHER, 9, 5, plain, ()), 100, 5) is None, "no such session"
    assert world.outstanding()[:2] == ([], [])
    for item in LEFT_TO_APPLY:
        assert TREE.apply(world.tree, (100, 5, SESSION, 9, *item), True) is None, item
        results: list[Any] = []
        if item[0] != OpCode.CHECK:
            assert TREE.apply_parts(world.tree, 100, 5, (item,), 0, None, results) == 0, item
        assert results == []
    set_data = (5, 1, b"/a", b"", None)
    assert TREE.apply(world.tree, (world.tree.applied, 5, SESSION, 9, *set_data), True) is None, "it is applied already"
    assert everything(world.tree) == before


def test_a_session_that_is_closing_prepares_nothing() -> None:
    world = filled()
    world.prepare.outstanding.close_session(SESSION, 99)
    request = WriteRequest(SESSION, 9, 5, SetData(b"/a", b"", -1).encode(), ())
    assert WRITES.prepare(world.prepare.outstanding.plain(), request, 100, 5) is None


def test_where_there_are_quotas_everything_is_left() -> None:
    world = filled()
    world.tree.apply((50, 5, SESSION, 9, 1, 1, b"/zookeeper/quota/a", b"", (None, 0)))
    world.tree.apply((51, 5, SESSION, 9, 1, 1, b"/zookeeper/quota/a/zookeeper_limits", b"count=5", (None, 0)))
    request = WriteRequest(SESSION, 9, 5, SetData(b"/a", b"", -1).encode(), ())
    assert WRITES.prepare(world.prepare.outstanding.plain(), request, 100, 5) is None
    assert TREE.apply(world.tree, (100, 5, SESSION, 9, 5, 1, b"/a", b"", None), True) is None


def test_a_snapshot_under_way_keeps_what_was_there() -> None:
    world = filled()
    before = [item for shard in world.tree.shards for item in shard.items()]
    world.snapshot()
    for zxid, item in enumerate(
        ((5, 1, b"/a", b"new", None), (1, 2, b"/a/c", b"", (None, 0)), (2, 0, b"/a/b", None, None)), 50
    ):
        assert TREE.apply(world.tree, (zxid, 5, SESSION, 9, *item), False) is not None
    assert sorted(item for some in world.snapshot() for item in some) == sorted(before)


def test_a_refused_multi_is_undone() -> None:
    worlds = Both()
    plain = (OpCode.SET_DATA, SetData(b"/a", b"x", -1)), (OpCode.CREATE, Create(b"/b", b"", OPEN_ACL, 0))
    refused = (OpCode.DELETE, PathVersion(b"/none", -1))
    before = worlds.compiled.outstanding()
    worlds.ask(OpCode.MULTI, Multi((*plain, refused)).encode())
    assert worlds.compiled.outstanding() == before
    worlds.finish()


OTHER_FORMS = [
    *(b"", b"\x80 ", b"\x81", b"\x98\x00", b"\x9f\xff", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff"),
    b"\x81\x84\x05\x01\x62/a\x40",
    b"\x81\x85\x18\x05\x01\x62/a\x40\xf6",
    b"\x81\x85\x05\x19\x00\x01\x62/a\x40\xf6",
    b"\x81\x85\x05\x01\x78\x02/a\x40\xf6",
    b"\x81\x85\x05\x01\x7a\xff\xff\xff\xff/a\x40\xf6",
    b"\x81\x85\x05\x01\x62/a\x58\x00\xf6",
    b"\x81\x85\x0e\x01\x62/a\x40\xf6",
]


@pytest.mark.parametrize("rest", OTHER_FORMS)
def test_other_forms_of_a_rest_are_left(rest: bytes) -> None:
    assert WRITES.decode_parts(b"\x81\x85\x05\x01\x62/a\x40\xf6") == ((5, 1, b"/a", b"", None),)
    assert WRITES.decode_parts(rest) is None


def test_records_are_read_up_to_the_first_that_is_left() -> None:
    txns = [(5 + at, 6, -7, -8, 5, 9, b"/a", b"x" * at, None) for at in range(3)]
    records = list(map(encode, txns))
    body = b"".join(records)
    for cut in range(len(body)):
        whole_count = sum(len(b"".join(records[:count])) <= cut for count in (1, 2, 3))
        assert WRITES.decode(body[:cut], 0, 5, 3) == (txns[:whole_count], len(b"".join(records[:whole_count])))
    assert WRITES.decode(body, 0, 6, 3) == WRITES.decode(body, 0, 4, 3) == ([], 0)
    assert WRITES.decode(body, 0, 5, 2) == (txns[:2], len(records[0] + records[1]))
    assert WRITES.decode(body, -1, 5, 2) == ([], -1)
    for at in (0, 1, 5, 6, 15, 24, 33, 38, 40, 45, 52, len(records[0]) - 1):
        damaged = body[:at] + bytes([body[at] ^ 0x80]) + body[at + 1 :]
        assert WRITES.decode(damaged, 0, 5, 3) == ([], 0), at


def test_limits_are_those_of_python() -> None:
    assert TREE.LIMITS == (SHARD_COUNT, CROWD_COUNT, NEARING_COUNT, LARGE_BYTES)


def _often(do: Callable[[], Any]) -> int:
    """How many blocks are left of doing it a thousand times."""
    for _ in range(3):
        before = sys.getallocatedblocks()
        for _ in range(1000):
            do()
    return sys.getallocatedblocks() - before


def calls() -> Sequence[tuple[str, Callable[[], Any]]]:
    world = World(is_compiled=True)
    world.tree.sessions[SESSION] = 30_000
    zxid = iter(range(1, 1 << 40))
    for path in (b"/a", b"/a/b"):
        world.tree.apply((next(zxid), 5, SESSION, 9, 1, 1, path, b"x", (None, 0)))
    view = world.prepare.outstanding.plain()

    def apply(kind: int, path: bytes, data: bytes | None, rest: Any) -> Any:
        return TREE.apply(world.tree, (next(zxid), 5, SESSION, 9, kind, 0, path, data, rest), True)

    def create_and_delete() -> None:
        assert apply(1, b"/a/c", b"x", (None, 0)) is not None
        assert apply(2, b"/a/c", None, None) is not None

    def prepare(opcode: int, body: Body) -> Any:
        found = WRITES.prepare(view, WriteRequest(SESSION, 9, opcode, body.encode(), ()), 1 << 40, 5)
        world.prepare.applied(1 << 40)
        return found

    def prepare_parts() -> None:
        assert WRITES.prepare_parts(view, [], 1 << 40, 5, multi, 0, [], 9, 999) == len(multi) - 9
        world.prepare.applied(1 << 40)

    parts = ((5, 3, b"/a", b"x", None), (1, 3, b"/a", b"x", (None, 1 << 40)), (13, 3, b"/a", None, None))
    record, rest = encode((1 << 40, 6, 7, 8, 1, 9, b"/a", b"x" * 99, (None, 1 << 40))), WRITES.encode_parts(parts)
    multi = Multi(
        ((OpCode.SET_DATA, SetData(b"/a", b"x", -1)), (OpCode.CREATE, Create(b"/b", b"", OPEN_ACL, 0)))
    ).encode()
    return (
        ("set", lambda: apply(5, b"/a", b"y", None)),
        ("create and delete", create_and_delete),
        ("left: set", lambda: apply(5, b"/none", b"y", None)),
        ("left: create", lambda: apply(1, b"/a", b"y", (None, 0))),
        ("left: create below nothing", lambda: apply(1, b"/none/a", b"y", (None, 0))),
        ("left: delete", lambda: apply(2, b"/a", None, None)),
        ("left: delete of nothing", lambda: apply(2, b"/none", None, None)),
        ("parts", lambda: TREE.apply_parts(world.tree, 9, 5, parts[::2], 0, [], [])),
        ("parts left", lambda: TREE.apply_parts(world.tree, 9, 5, parts, 0, [], [])),
        ("prepare set", lambda: prepare(5, SetData(b"/a", b"x", -1))),
        ("prepare create", lambda: prepare(1, Create(b"/a/c", b"x", OPEN_ACL, 0))),
        ("prepare delete", lambda: prepare(2, PathVersion(b"/a/b", -1))),
        ("left: prepare set", lambda: prepare(5, SetData(b"/a", b"x", 9))),
        ("left: prepare create", lambda: prepare(1, Create(b"/a/b", b"x", OPEN_ACL, 0))),
        ("left: prepare create with a list", lambda: prepare(1, Create(b"/a/c", b"x", BOBS, 0))),
        ("left: prepare delete", lambda: prepare(2, PathVersion(b"/a", -1))),
        ("prepare parts", prepare_parts),
        ("encode", lambda: WRITES.encode((1 << 40, 6, 7, 8, 1, 9, b"/a", b"x" * 99, (None, 1 << 40)))),
        ("left: encode", lambda: WRITES.encode((1 << 40, 6, 7, 8, 1, 9, b"/a", b"x" * 99, (BOBS, 1 << 40)))),
        ("decode", lambda: WRITES.decode(record, 0, 1 << 40, 1)),
        ("left: decode", lambda: WRITES.decode(record[:-1], 0, 1 << 40, 1)),
        ("encode parts", lambda: WRITES.encode_parts(parts)),
        ("left: encode parts", lambda: WRITES.encode_parts((*parts, ()))),
        ("decode parts", lambda: WRITES.decode_parts(rest)),
        ("left: decode parts", lambda: WRITES.decode_parts(rest[:-1])),
        ("left: decode more parts", lambda: WRITES.decode_parts(b"\x84" + rest[1:])),
    )


def test_nothing_stays_allocated() -> None:
    left = {name: _often(do) for name, do in calls()}
    assert {name: count for name, count in left.items() if count > 200} == {}
