"""Prepare: which check fails first, what the transaction says, and what outstanding changes do to later requests."""

from typing import Any

import pytest

from datatree.errors import ErrorCode as E
from datatree.opcodes import OpCode
from datatree.outstanding import Outstanding
from datatree.paths import LONG_ZXID_MAX, long_sequential_name
from datatree.prepare import Prepare
from datatree.prepare_settings import PrepareSettings
from datatree.record import Txn
from datatree.requests import (
    OPEN_ACL,
    Body,
    Create,
    CreateSession,
    Multi,
    NoBody,
    PathOnly,
    PathVersion,
    Reconfig,
    SetAcl,
    SetData,
)
from datatree.tree import DataTree
from datatree.write_request import WriteRequest
from datatree.znode import CONTAINER_OWNER, TTL_MS_MAX, ttl_owner
from tests.datatree.leading import BOB, BOBS, LOCAL, NOBODY, SUPER, Leader, S, T


@pytest.fixture
def leader() -> Leader:
    return Leader()


NUMBERED, PLAIN = True, False
CONTAINER = 19, CONTAINER_OWNER
KINDS: dict[tuple[int, int], Any] = {
    **{(opcode, flags): (opcode, owner, flags > 1)
       for opcode in (1, 15) for flags, owner in ((0, 0), (1, S), (2, 0), (3, S))},
    (1, 4): [(1, 0, PLAIN), (*CONTAINER, PLAIN)],
    (15, 4): [(15, 0, PLAIN), (*CONTAINER, PLAIN)],
    **{(19, flags): (*CONTAINER, flags in (2, 3)) for flags in range(5)},
    (21, 0): [None, (1, 0, PLAIN)],
    (21, 1): [None, (1, S, PLAIN)],
    (21, 2): [None, (1, 0, NUMBERED)],
    (21, 3): [None, (1, S, NUMBERED)],
    (21, 4): [None, (*CONTAINER, PLAIN)],
    (21, 5): (21, ttl_owner(5000), PLAIN),
    (21, 6): (21, ttl_owner(5000), NUMBERED),
}  # fmt: skip
"""What ZooKeeper 3.9.5 logs for an opcode and flags: type, owner, whether the name is numbered; in a list: alone, in a
multi. All other pairs are refused."""


def create(path: bytes, flags: int = 0, acl: Any = OPEN_ACL, ttl_ms: int | None = None) -> Create:
    return Create(path, b"x", acl, flags, ttl_ms)


# Each row breaks the rule it is about and, where it can, a later one too, whose error must not be the one that shows.
REFUSALS = [
    # create: flags and operation
    (OpCode.CREATE, create(b"nowhere", 7), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/a/n", -1), E.BADARGUMENTS),
    (OpCode.CREATE2, create(b"/a/n", 5), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/a/n", 5), E.BADARGUMENTS),
    (OpCode.CREATE_CONTAINER, create(b"/a/n", 5), E.BADARGUMENTS),
    (OpCode.CREATE_TTL, create(b"/a/n", 0, ttl_ms=5), E.BADARGUMENTS),
    (OpCode.CREATE_TTL, create(b"nowhere", 5, ttl_ms=5), E.UNIMPLEMENTED),
    # create: path, list, parent
    (OpCode.CREATE, create(b"nowhere", acl=None), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"", acl=None), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/a/\0", acl=None), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/a/\xff", acl=None), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/missing/n", acl=None), E.INVALIDACL),
    (OpCode.CREATE, create(b"/missing/n", acl=()), E.INVALIDACL),
    (OpCode.CREATE, create(b"/missing/n"), E.NONODE),
    (OpCode.CREATE, create(b"/missing/.."), E.NONODE),
    (OpCode.CREATE, create(b"/a//n"), E.NONODE),
    (OpCode.CREATE, create(b"a/n"), E.NONODE),
    (OpCode.CREATE, create(b"/closed/.."), E.NOAUTH),
    (OpCode.CREATE, create(b"/bobs/n"), E.NOAUTH),
    (OpCode.CREATE, create(b"/zookeeper/config/n"), E.NOAUTH),
    # create: the whole path, then what is there
    (OpCode.CREATE, create(b"/a/"), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/a/."), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"//a"), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"//a", 2), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/a/\x01"), E.BADARGUMENTS),
    (OpCode.CREATE, create("/a/\ue000".encode()), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/e/.."), E.BADARGUMENTS),
    (OpCode.CREATE, create(b"/"), E.NODEEXISTS),
    (OpCode.CREATE, create(b"/a"), E.NODEEXISTS),
    (OpCode.CREATE2, create(b"/zookeeper"), E.NODEEXISTS),
    (OpCode.CREATE, create(b"/e/n"), E.NOCHILDRENFOREPHEMERALS),
    (OpCode.CREATE, create(b"/e/n", 1), E.NOCHILDRENFOREPHEMERALS),
    # delete
    (OpCode.DELETE, PathVersion(b"nowhere", 0), E.BADARGUMENTS),
    (OpCode.DELETE, PathVersion(b"", 0), E.BADARGUMENTS),
    (OpCode.DELETE, PathVersion(b"/\0", 0), E.BADARGUMENTS),
    (OpCode.DELETE, PathVersion(b"/\xff", 0), E.BADARGUMENTS),
    (OpCode.DELETE, PathVersion(b"/", 0), E.BADARGUMENTS),
    (OpCode.DELETE, PathVersion(b"/zookeeper", 0), E.BADARGUMENTS),
    (OpCode.DELETE, PathVersion(b"/zookeeper/quota", 0), E.BADARGUMENTS),
    (OpCode.DELETE, PathVersion(b"/zookeeper/config", 0), E.BADARGUMENTS),
    (OpCode.DELETE, PathVersion(b"/missing/n", 0), E.NONODE),
    (OpCode.DELETE, PathVersion(b"/bobs/missing", 0), E.NOAUTH),
    (OpCode.DELETE, PathVersion(b"/a/missing", 0), E.NONODE),
    (OpCode.DELETE, PathVersion(b"/a/", 0), E.NONODE),
    (OpCode.DELETE, PathVersion(b"/a", 1), E.BADVERSION),
    (OpCode.DELETE, PathVersion(b"/a", 0), E.NOTEMPTY),
    # setData
    (OpCode.SET_DATA, SetData(b"", b"", 0), E.BADARGUMENTS),
    (OpCode.SET_DATA, SetData(b"/missing/", b"", 0), E.BADARGUMENTS),
    (OpCode.SET_DATA, SetData(b"/\xff", b"", 0), E.BADARGUMENTS),
    (OpCode.SET_DATA, SetData(b"/missing", b"", 0), E.NONODE),
    (OpCode.SET_DATA, SetData(b"/bobs", b"", 5), E.NOAUTH),
    (OpCode.SET_DATA, SetData(b"/zookeeper/config", b"", 5), E.NOAUTH),
    (OpCode.SET_DATA, SetData(b"/a", b"", 5), E.BADVERSION),
    # setACL
    (OpCode.SET_ACL, SetAcl(b"/missing/", None, 0), E.BADARGUMENTS),
    (OpCode.SET_ACL, SetAcl(b"/missing", None, 0), E.INVALIDACL),
    (OpCode.SET_ACL, SetAcl(b"/missing", OPEN_ACL, 0), E.NONODE),
    (OpCode.SET_ACL, SetAcl(b"/bobs", OPEN_ACL, 5), E.NOAUTH),
    (OpCode.SET_ACL, SetAcl(b"/a", OPEN_ACL, 5), E.BADVERSION),
    # what is no request of a client
    (OpCode.CHECK, PathVersion(b"/a", 0), E.UNIMPLEMENTED),
    (OpCode.DELETE_CONTAINER, PathOnly(b"/a/b"), E.UNIMPLEMENTED),
    (OpCode.GET_DATA, PathOnly(b"/a"), E.UNIMPLEMENTED),
    (99, b"", E.UNIMPLEMENTED),
    (OpCode.RECONFIG, Reconfig(None, None, None, -1), E.RECONFIGDISABLED),
    (OpCode.CREATE_SESSION, CreateSession(1), E.NODEEXISTS),
    # what cannot be decoded
    (OpCode.CREATE, b"", E.MARSHALLINGERROR),
    (OpCode.SET_DATA, b"\0\0\0\x02/a", E.MARSHALLINGERROR),
    (OpCode.MULTI, Multi(((OpCode.GET_DATA, PathVersion(b"/a", 0)),)), E.MARSHALLINGERROR),
]


@pytest.mark.parametrize(("opcode", "body", "code"), REFUSALS)
def test_the_first_check_that_fails_gives_the_error(leader: Leader, opcode: int, body: Body | bytes, code: E) -> None:
    digest = leader.tree.digest
    txn = leader(opcode, body)
    assert (txn.type, txn.number) == (-1, code)
    assert txn.rest == (opcode,)
    assert (txn.zxid, txn.time, txn.session, txn.cxid) == (leader.zxid, leader.zxid * 10, S, 9)
    leader.apply()
    assert leader.tree.digest == digest


def test_an_error_names_the_path_asked_for_if_it_is_text(leader: Leader) -> None:
    assert leader.set(b"/missing").path == b"/missing"
    assert leader.create(b"/missing/n-", flags=2).path == b"/missing/n-"
    assert leader.create(b"/\xff").path == b""
    assert leader(OpCode.CREATE, b"").path == b""


class TestTransactions:
    """What the transaction of a request that is not refused says."""

    def test_create(self, leader: Leader) -> None:
        txn = leader(OpCode.CREATE2, create(b"/a/n"))
        assert txn == Txn(leader.zxid, leader.zxid * 10, S, 9, 15, 2, b"/a/n", b"x", (None, 0))

    def test_create_ephemeral(self, leader: Leader) -> None:
        assert leader.create(b"/a/n", flags=1).rest == (None, S)

    def test_create_container(self, leader: Leader) -> None:
        txn = leader(OpCode.CREATE_CONTAINER, create(b"/a/n", 4))
        assert (txn.type, txn.rest) == (19, (None, CONTAINER_OWNER))

    def test_create_with_a_ttl(self) -> None:
        leader = Leader(extended_types=True)
        assert leader(OpCode.CREATE_TTL, create(b"/a/n", 5, ttl_ms=5000)).rest == (None, ttl_owner(5000))
        assert leader(OpCode.CREATE_TTL, create(b"/a/q-", 6, ttl_ms=TTL_MS_MAX)).path == b"/a/q-0000000002"
        for ttl_ms in (0, -1, TTL_MS_MAX + 1):
            txn = leader(OpCode.CREATE_TTL, create(b"nowhere", 5, ttl_ms=ttl_ms))
            assert (txn.type, txn.number) == (-1, E.BADARGUMENTS)

    @pytest.mark.parametrize("in_multi", [False, True])
    def test_of_opcode_and_flags_one_says_what_is_made(self, *, in_multi: bool) -> None:
        made = {}
        for opcode in (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL):
            for flags in range(-1, 8):
                leader = Leader(extended_types=True)
                asked = create(b"/a/n", flags, ttl_ms=5000 if opcode == OpCode.CREATE_TTL else None)
                if in_multi:
                    kind, _, path, _, rest = leader.multi((opcode, asked)).rest[0]
                else:
                    kind, path, rest = (txn := leader(opcode, asked)).type, txn.path, txn.rest
                made[int(opcode), flags] = None if kind == -1 else (kind, rest[1], path != b"/a/n")
                leader.apply()
        assert {pair: made[pair] for pair in KINDS} == {
            pair: each[in_multi] if isinstance(each, list) else each for pair, each in KINDS.items()
        }
        assert not [pair for pair, each in made.items() if each and pair not in KINDS]

    def test_create_if_not_exists_is_a_create_of_what_is_missing(self) -> None:
        leader = Leader(create_if_not_exists=True)
        txn = leader(OpCode.CREATE_IF_NOT_EXISTS, create(b"/a/n"))
        assert (txn.type, txn.number, txn.path, txn.data, txn.rest) == (1, 2, b"/a/n", b"x", (None, 0))
        assert leader(OpCode.CREATE_IF_NOT_EXISTS, create(b"/a/m", 1)).rest == (None, S)

    def test_create_if_not_exists_changes_nothing_of_what_is_there(self) -> None:
        leader = Leader(create_if_not_exists=True)
        leader.set(b"/a", data=b"longer")
        # Outstanding counts as there; so do an ephemeral of this session and a reserved znode.
        for path, version in ((b"/a", 1), (b"/e", 0), (b"/", 0), (b"/zookeeper/config", -1)):
            txn = leader(OpCode.CREATE_IF_NOT_EXISTS, create(path, 1), identities=(SUPER,))
            assert (txn.type, txn.number, txn.path, txn.data, txn.rest) == (13, version, path, b"", None)
        assert len(leader.prepare.outstanding) == 1
        leader.apply()

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (create(b"/a/q-", 2), E.BADARGUMENTS),
            (create(b"/a", 3), E.BADARGUMENTS),
            (create(b"/a", 4), E.BADARGUMENTS),
            (create(b"/a", acl=()), E.INVALIDACL),
            (create(b"/missing/n"), E.NONODE),
            (create(b"/zookeeper/config/n"), E.NOAUTH),
            (create(b"/bobs/n"), E.NOAUTH),
            (create(b"/bobs/there"), E.NOAUTH),
            (create(b"/e/n"), E.NOCHILDRENFOREPHEMERALS),
        ],
    )
    def test_create_if_not_exists_is_refused_as_a_create_is(self, body: Create, code: E) -> None:
        leader = Leader(create_if_not_exists=True)
        leader.create(b"/bobs/there", identities=(BOB,))
        txn = leader(OpCode.CREATE_IF_NOT_EXISTS, body)
        assert (txn.type, txn.number, txn.rest) == (-1, code, (502,))

    def test_create_if_not_exists_is_unknown_while_it_is_off(self, leader: Leader) -> None:
        txn = leader(OpCode.CREATE_IF_NOT_EXISTS, create(b"/a"))
        assert (txn.type, txn.number, txn.path, txn.rest) == (-1, E.UNIMPLEMENTED, b"/a", (502,))
        txn = leader.multi((OpCode.CREATE, create(b"/n")), (OpCode.CREATE_IF_NOT_EXISTS, create(b"/a")))
        assert [part[:2] for part in txn.rest] == [(-1, 0), (-1, E.UNIMPLEMENTED)]

    def test_create_with_a_list(self, leader: Leader) -> None:
        txn = leader.create(b"/a/n", acl=((1, b"auth", b""),), identities=(LOCAL, BOB))
        assert txn.rest == (((1, *BOB),), 0)

    def test_delete(self, leader: Leader) -> None:
        txn = leader.delete(b"/a/b", 0)
        assert txn == Txn(leader.zxid, leader.zxid * 10, S, 9, 2, 0, b"/a/b", None, None)

    def test_set_data(self, leader: Leader) -> None:
        txn = leader.set(b"/a", 0, None)
        assert txn == Txn(leader.zxid, leader.zxid * 10, S, 9, 5, 1, b"/a", None, None)

    def test_set_acl(self, leader: Leader) -> None:
        txn = leader(OpCode.SET_ACL, SetAcl(b"/a", BOBS, 0))
        assert txn == Txn(leader.zxid, leader.zxid * 10, S, 9, 7, 1, b"/a", None, (BOBS,))

    def test_create_session(self, leader: Leader) -> None:
        txn = leader(OpCode.CREATE_SESSION, CreateSession(4000), 5)
        assert txn == Txn(leader.zxid, leader.zxid * 10, 5, 9, -10, 4000, b"", None, None)

    def test_close_session(self, leader: Leader) -> None:
        txn = leader(OpCode.CLOSE_SESSION, NoBody(), cxid=0)
        assert txn == Txn(leader.zxid, leader.zxid * 10, S, 0, -11, 0, b"", None, (b"/e",))

    def test_set_data_of_any_version_after_the_wrap_skips_minus_one(self, leader: Leader) -> None:
        leader.apply()
        for before, after in ((2**31 - 1, -(2**31)), (-2, 0)):
            leader.zxid += 1
            leader.tree.apply(Txn(leader.zxid, 0, S, 0, 5, before, b"/a", b"", None))
            assert leader.set(b"/a", before).number == after
            leader.apply()


class TestSequences:
    def test_count_creations_of_the_parent_and_ignore_deletions(self, leader: Leader) -> None:
        paths = [leader.create(b"/a/n-", flags=2).path for _ in range(2)]
        leader.delete(paths[0])
        paths.append(leader.create(b"/a/m-", flags=3).path)
        assert paths == [b"/a/n-0000000001", b"/a/n-0000000002", b"/a/m-0000000003"]
        leader.apply()
        assert leader.create(b"/a/n-", flags=2).path == b"/a/n-0000000004"

    def test_make_a_name_of_their_own_behind_a_slash(self, leader: Leader) -> None:
        assert leader.create(b"/a/", flags=2).path == b"/a/0000000001"
        assert leader.create(b"/", flags=2).path == b"/0000000004"

    def test_go_on_with_64_bits_where_these_are_on(self) -> None:
        leader = Leader(sequence_64=True)
        leader.zxid += 1
        leader.tree.apply(Txn(leader.zxid, 0, S, 0, 1, 2**31 - 1, b"/a/last", b"", (None, 0)))
        txns = [leader.create(b"/a/n", flags=2) for _ in range(3)]
        expected = [b"/a/n2147483647", *(long_sequential_name(b"/a/n", txn.zxid, 0) for txn in txns[1:])]
        assert [txn.path for txn in txns] == expected == sorted(expected)
        assert [txn.number for txn in txns] == [-(2**31), -(2**31) + 1, -(2**31) + 2]
        several = leader.multi(*[(OpCode.CREATE, create(b"/a/n", 2)) for _ in range(2)])
        names = [part[2] for part in several.rest]
        assert names == [long_sequential_name(b"/a/n", several.zxid, index) for index in range(2)]
        leader.apply()

    def test_of_64_bits_never_come_back_to_those_of_32(self) -> None:
        leader = Leader(sequence_64=True)
        leader.zxid += 1
        leader.tree.apply(Txn(leader.zxid, 0, S, 0, 1, -1, b"/a/last", b"", (None, 0)))
        txns = [leader.create(b"/a/n", flags=2) for _ in range(2)]
        assert [txn.path for txn in txns] == [long_sequential_name(b"/a/n", txn.zxid, 0) for txn in txns]
        assert [txn.number for txn in txns] == [-(2**31), -(2**31) + 1]

    def test_of_64_bits_are_refused_where_they_would_not_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        leader = Leader(sequence_64=True)
        leader.zxid += 1
        leader.tree.apply(Txn(leader.zxid, 0, S, 0, 1, -(2**31), b"/a/last", b"", (None, 0)))
        monkeypatch.setattr("datatree.creates.LONG_INDEX_MAX", 1)
        assert [part[1] for part in leader.multi(*[(OpCode.CREATE, create(b"/a/n", 2)) for _ in range(3)]).rest] == [
            *(0, 0, E.BADARGUMENTS)
        ]
        assert leader.multi(*[(OpCode.CREATE, create(b"/a/n", 2)) for _ in range(2)]).type == 14
        leader.apply()
        leader.zxid = LONG_ZXID_MAX - 1
        assert leader.create(b"/a/n", flags=2).path.startswith(b"/a/n")
        refused = leader(OpCode.CREATE, create(b"/a/n", 2))
        assert (refused.type, refused.number) == (-1, E.BADARGUMENTS)

    def test_wrap_as_javas_do(self, leader: Leader) -> None:
        leader.zxid += 1
        leader.tree.apply(Txn(leader.zxid, 0, S, 0, 1, 2**31 - 1, b"/a/last", b"", (None, 0)))
        txns = [leader.create(b"/a/n", flags=2) for _ in range(2)]
        assert [txn.path for txn in txns] == [b"/a/n2147483647", b"/a/n-2147483648"]
        assert [txn.number for txn in txns] == [-(2**31), -(2**31) + 1]
        leader.apply()


class TestPermissions:
    @pytest.mark.parametrize("identities", [(LOCAL, BOB), (LOCAL, SUPER)])
    def test_are_held_by_some_identity(self, leader: Leader, identities: tuple[Any, ...]) -> None:
        assert leader.create(b"/bobs/n", identities=identities).type == 1
        assert leader.set(b"/bobs", identities=identities).type == 5
        assert leader(OpCode.SET_ACL, SetAcl(b"/bobs", OPEN_ACL, -1), identities=identities).type == 7
        assert leader.delete(b"/bobs/n", identities=identities).type == 2

    def test_follow_an_outstanding_set_acl(self, leader: Leader) -> None:
        leader(OpCode.SET_ACL, SetAcl(b"/a", BOBS, -1))
        assert leader.set(b"/a").number == E.NOAUTH
        assert leader.delete(b"/a/b").number == E.NOAUTH
        assert leader.create(b"/a/n").number == E.NOAUTH

    def test_are_not_looked_at_when_switched_off(self) -> None:
        leader = Leader(skip_acl=True)
        assert leader.set(b"/closed").type == 5
        assert leader.create(b"/closed/n").type == 1

    def test_to_delete_are_the_parents(self, leader: Leader) -> None:
        leader.create(b"/a/mine", acl=NOBODY)
        assert leader.delete(b"/a/mine").type == 2


class TestOutstanding:
    def test_versions_follow_changes_that_are_not_applied(self, leader: Leader) -> None:
        assert [leader.set(b"/a", version).number for version in (0, 1, 1, 2)] == [1, 2, E.BADVERSION, 3]

    def test_existence_follows_too(self, leader: Leader) -> None:
        assert leader.create(b"/n").type == 1
        assert leader.create(b"/n").number == E.NODEEXISTS
        assert leader.create(b"/n/m").type == 1
        assert leader.delete(b"/n").number == E.NOTEMPTY
        assert leader.delete(b"/n/m").type == 2
        assert leader.delete(b"/n").type == 2
        assert leader.set(b"/n").number == E.NONODE
        assert leader.create(b"/n").type == 1
        leader.apply()
        assert leader.tree.get(b"/n") is not None

    def test_a_record_leaves_when_it_is_applied_and_a_newer_one_stays(self, leader: Leader) -> None:
        leader.set(b"/a")
        first = leader.zxid
        leader.set(b"/a")
        leader.tree.apply(leader.waiting.pop(0))
        leader.prepare.applied(first)
        assert len(leader.prepare.outstanding) == 1
        assert leader.set(b"/a", 2).number == 3
        leader.apply()
        assert len(leader.prepare.outstanding) == 0
        assert not leader.prepare.outstanding.changes


class TestSessions:
    def test_unknown_is_expired(self, leader: Leader) -> None:
        assert leader.set(b"/a", session=99).number == E.SESSIONEXPIRED
        assert leader(OpCode.CLOSE_SESSION, NoBody(), session=99).number == E.SESSIONEXPIRED

    def test_a_session_that_is_only_outstanding_may_write(self, leader: Leader) -> None:
        leader(OpCode.CREATE_SESSION, CreateSession(1), 5)
        assert leader.create(b"/n", flags=1, session=5).type == 1
        assert leader(OpCode.CLOSE_SESSION, NoBody(), session=5).rest == (b"/n",)
        leader.apply()
        assert 5 not in leader.tree.sessions

    def test_a_closing_session_may_not(self, leader: Leader) -> None:
        leader(OpCode.CLOSE_SESSION, NoBody())
        assert leader.set(b"/a").number == E.SESSIONEXPIRED
        assert leader(OpCode.CLOSE_SESSION, NoBody()).number == E.SESSIONEXPIRED
        assert leader(OpCode.CREATE_SESSION, CreateSession(1), S).number == E.NODEEXISTS
        assert leader.set(b"/a", session=T).type == 5
        leader.apply()
        assert leader.set(b"/a").number == E.SESSIONEXPIRED

    def test_an_id_that_is_outstanding_is_taken(self, leader: Leader) -> None:
        leader(OpCode.CREATE_SESSION, CreateSession(1), 5)
        assert leader(OpCode.CREATE_SESSION, CreateSession(1), 5).number == E.NODEEXISTS

    @pytest.mark.parametrize("session", [0, CONTAINER_OWNER, -1, ttl_owner(1)])
    def test_an_id_that_would_read_as_another_kind_of_owner_is_refused(self, leader: Leader, session: int) -> None:
        assert leader(OpCode.CREATE_SESSION, CreateSession(1), session).number == E.BADARGUMENTS

    def test_closing_lists_applied_and_outstanding_ephemerals_at_its_place(self, leader: Leader) -> None:
        leader.create(b"/x", flags=1)
        leader.create(b"/y", flags=1)
        leader.create(b"/z", flags=1, session=T)
        leader.delete(b"/y", session=T)
        leader.delete(b"/e")
        leader.create(b"/e", flags=1, session=T)
        assert leader(OpCode.CLOSE_SESSION, NoBody()).rest == (b"/x",)
        assert leader.create(b"/x", session=T).type == 1
        leader.apply()
        assert {owner: set(paths) for owner, paths in leader.tree.ephemerals.items()} == {T: {b"/z", b"/e"}}

    def test_closing_frees_the_parent_for_what_comes_after(self, leader: Leader) -> None:
        leader.create(b"/a/b/x", flags=1)
        assert leader.delete(b"/a/b").number == E.NOTEMPTY
        leader(OpCode.CLOSE_SESSION, NoBody())
        assert leader.delete(b"/a/b", session=T).type == 2
        leader.apply()


class TestLocalSessions:
    def test_may_write_but_own_nothing(self) -> None:
        leader = Leader(local_sessions=True)
        assert leader.set(b"/a", session=99).type == 5
        assert leader.create(b"nowhere", flags=1, session=99).number == E.EPHEMERALONLOCALSESSION
        assert leader(OpCode.CLOSE_SESSION, NoBody(), session=99).number == E.SESSIONEXPIRED

    def test_do_not_come_back_when_they_are_closing(self) -> None:
        leader = Leader(local_sessions=True)
        leader(OpCode.CLOSE_SESSION, NoBody())
        assert leader.set(b"/a").number == E.SESSIONEXPIRED


class TestEphemeralBytes:
    """ZOOKEEPER-4306: all ephemerals of a session must fit into one closeSession."""

    def test_are_limited_at_create(self) -> None:
        leader = Leader(ephemeral_path_bytes_max=20)  # "/e" takes 6
        assert leader.create(b"/abc", flags=1).type == 1
        assert leader.create(b"/abc", flags=1).number == E.NODEEXISTS
        assert leader.create(b"/ab", flags=1).number == E.QUOTAEXCEEDED
        assert leader.create(b"/a", flags=1).number == E.NODEEXISTS
        assert leader.create(b"/f", flags=1).type == 1
        assert leader.create(b"/g", flags=1).number == E.QUOTAEXCEEDED
        assert leader.create(b"/g", flags=0).type == 1
        assert leader.create(b"/h", flags=1, session=T).type == 1

    def test_are_given_back_by_delete_and_by_a_refused_multi(self) -> None:
        leader = Leader(ephemeral_path_bytes_max=12)
        refused = leader.multi((OpCode.CREATE, create(b"/f", 1)), (OpCode.CHECK, PathVersion(b"/missing", 0)))
        assert refused.rest[1][:2] == (-1, E.NONODE)
        assert leader.create(b"/f", flags=1).type == 1
        assert leader.create(b"/g", flags=1).number == E.QUOTAEXCEEDED
        leader.delete(b"/e")
        assert leader.create(b"/g", flags=1).type == 1
        leader.apply()
        assert leader.create(b"/h", flags=1).number == E.QUOTAEXCEEDED


class TestMulti:
    def test_parts_see_the_parts_before_them(self, leader: Leader) -> None:
        txn = leader.multi(
            (OpCode.CREATE, create(b"/n")),
            (OpCode.CREATE2, create(b"/n/q-", 2)),
            (OpCode.SET_DATA, SetData(b"/n", b"y", 0)),
            (OpCode.CHECK, PathVersion(b"/n", 1)),
            (OpCode.DELETE, PathVersion(b"/n/q-0000000000", -1)),
            (OpCode.CREATE_CONTAINER, create(b"/n/c", 4)),
        )
        assert (txn.type, txn.number, txn.path, txn.data) == (14, 0, b"", None)
        assert txn.rest == (
            (1, 5, b"/n", b"x", (None, 0)),
            (15, 1, b"/n/q-0000000000", b"x", (None, 0)),
            (5, 1, b"/n", b"y", None),
            (13, 1, b"/n", None, None),
            (2, 0, b"/n/q-0000000000", None, None),
            (19, 2, b"/n/c", b"x", (None, CONTAINER_OWNER)),
        )
        leader.apply()

    def test_finds_what_the_parts_before_it_made(self) -> None:
        leader = Leader(create_if_not_exists=True)
        txn = leader.multi(
            (OpCode.CREATE_IF_NOT_EXISTS, create(b"/n")),
            (OpCode.CREATE_IF_NOT_EXISTS, create(b"/n", 1)),
            (OpCode.DELETE, PathVersion(b"/n", 0)),
            (OpCode.CREATE_IF_NOT_EXISTS, create(b"/n", 1)),
            (OpCode.CHECK, PathVersion(b"/n", 0)),
        )
        assert txn.rest == (
            (1, 5, b"/n", b"x", (None, 0)),
            (13, 0, b"/n", b"", None),
            (2, 0, b"/n", None, None),
            (1, 6, b"/n", b"x", (None, S)),
            (13, 0, b"/n", None, None),
        )
        (results,) = [leader.tree.apply(each)[3] for each in leader.waiting if each is txn]
        assert results is not None
        assert [result[:3] for result in results] == [(kind, 0, b"/n") for kind in (1, 1, 2, 1, 13)]

    def test_refused_says_which_part_and_why(self, leader: Leader) -> None:
        txn = leader.multi(
            (OpCode.CREATE, create(b"/n")),
            (OpCode.SET_DATA, SetData(b"/a", b"", -1)),
            (OpCode.DELETE, PathVersion(b"/missing", -1)),
            (OpCode.CREATE, create(b"/m")),
        )
        assert txn.type == 14
        assert [part[:2] for part in txn.rest] == [(-1, 0), (-1, 0), (-1, E.NONODE), (-1, -2)]

    @pytest.mark.parametrize("outstanding", [False, True])
    def test_refused_leaves_parents_as_they_were(self, leader: Leader, outstanding: bool) -> None:
        """ZOOKEEPER-1624: pending records of parents were lost, and with them versions and sequence numbers."""
        if outstanding:
            leader.create(b"/a/first-", flags=2)
            leader.set(b"/a")
        before = dict(leader.prepare.outstanding.changes), len(leader.prepare.outstanding)
        leader.multi(
            (OpCode.CREATE, create(b"/a/n-", 2)),
            (OpCode.CREATE, create(b"/a/e", 1)),
            (OpCode.SET_DATA, SetData(b"/a", b"", -1)),
            (OpCode.DELETE, PathVersion(b"/a/b", -1)),
            (OpCode.DELETE, PathVersion(b"/e", -1)),
            (OpCode.CHECK, PathVersion(b"/a", 77)),
        )
        assert (dict(leader.prepare.outstanding.changes), len(leader.prepare.outstanding)) == before
        assert leader.set(b"/a", 1 if outstanding else 0).type == 5
        assert leader.create(b"/a/n-", flags=2).path == (b"/a/n-0000000002" if outstanding else b"/a/n-0000000001")
        assert leader(OpCode.CLOSE_SESSION, NoBody()).rest == (b"/e",)
        leader.apply()

    def test_a_part_that_fails_its_checks_gives_its_own_error(self, leader: Leader) -> None:
        for part, code in (
            ((OpCode.CREATE, create(b"/a/n", 5)), E.BADARGUMENTS),
            ((OpCode.CHECK, PathVersion(b"/missing/", 0)), E.BADARGUMENTS),
            ((OpCode.CHECK, PathVersion(b"/missing", 0)), E.NONODE),
            ((OpCode.CHECK, PathVersion(b"/bobs", 5)), E.NOAUTH),
            ((OpCode.CHECK, PathVersion(b"/a", 5)), E.BADVERSION),
            ((OpCode.CREATE, create(b"/e/n")), E.NOCHILDRENFOREPHEMERALS),
        ):
            assert leader.multi(part).rest[0][:2] == (-1, code)

    def test_empty_is_legal(self, leader: Leader) -> None:
        assert leader.multi().rest == ()

    def test_of_an_unknown_session_is_one_error(self, leader: Leader) -> None:
        txn = leader.multi((OpCode.CREATE, create(b"/n")), session=99)
        assert (txn.type, txn.number, txn.path, txn.rest) == (-1, E.SESSIONEXPIRED, b"", (14,))

    def test_touching_one_ephemeral_twice_is_forgotten_once_applied(self, leader: Leader) -> None:
        leader.multi(
            (OpCode.CREATE, create(b"/x", 1)),
            (OpCode.DELETE, PathVersion(b"/x", -1)),
            (OpCode.CREATE, create(b"/x", 1)),
        )
        first = leader.zxid
        leader.set(b"/a")
        leader.tree.apply(leader.waiting.pop(0))
        leader.prepare.applied(first)
        assert leader(OpCode.CLOSE_SESSION, NoBody()).rest == (b"/e", b"/x")
        leader.apply()


class TestDeleteContainer:
    def test_deletes_what_is_empty_and_a_container_or_has_a_ttl(self) -> None:
        leader = Leader(extended_types=True)
        leader(OpCode.CREATE_CONTAINER, create(b"/c", 4))
        leader(OpCode.CREATE_TTL, create(b"/t", 5, ttl_ms=1))
        leader.apply()
        for path in (b"/c", b"/t"):
            txn = leader(OpCode.DELETE_CONTAINER, PathOnly(path), 0, (), 0)
            assert txn == Txn(leader.zxid, leader.zxid * 10, 0, 0, 20, 0, path, None, None)
        leader.apply()

    @pytest.mark.parametrize(
        ("path", "code"),
        [(b"/missing", E.NONODE), (b"/a", E.NOTEMPTY), (b"/a/b", E.BADVERSION), (b"/e", E.BADVERSION)],
    )
    def test_refuses_everything_else(self, leader: Leader, path: bytes, code: E) -> None:
        assert leader(OpCode.DELETE_CONTAINER, PathOnly(path), 0, (), 0).number == code

    def test_sees_a_child_that_is_only_outstanding(self, leader: Leader) -> None:
        leader(OpCode.CREATE_CONTAINER, create(b"/c", 4))
        leader.apply()
        leader.create(b"/c/n")
        assert leader(OpCode.DELETE_CONTAINER, PathOnly(b"/c"), 0, (), 0).number == E.NOTEMPTY


def test_a_refused_write_takes_its_zxid_and_zxids_only_grow(leader: Leader) -> None:
    assert leader.set(b"/missing").zxid == leader.zxid
    with pytest.raises(AssertionError, match="prepared"):
        leader.prepare.prepare(WriteRequest(S, 1, 5, b"", ()), leader.zxid, 0)


def test_what_is_applied_during_a_multi_is_forgotten_after_it() -> None:
    """A long one is prepared over several turns. What it is undone to must not bring back what is applied by then."""
    outstanding = Outstanding(DataTree())
    change = (1, True, 0, 0, 0, 0, None, 0, 5)
    outstanding.put(b"/a", change, ((b"/q",), 1, 100))
    outstanding.begin()
    outstanding.put(b"/b", (2, *change[1:]), ((b"/q",), 1, 100))
    outstanding.applied(1)
    assert outstanding.charged(b"/q") == (2, 200)
    outstanding.rollback()
    assert outstanding.charged(b"/q") == (0, 0)
    assert outstanding.changes == {}
    assert len(outstanding) == 0


def test_so_many_changes_that_are_applied_are_forgotten_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left says the same as the tree, until it is forgotten, too."""
    monkeypatch.setattr("datatree.outstanding.FORGOTTEN", 10)
    tree = DataTree()
    prepare = Prepare(tree, PrepareSettings())

    def asked(zxid: int, opcode: int, body: Body) -> Any:
        return prepare.prepare(WriteRequest(1, zxid, opcode, body.encode(), ()), zxid, 0)

    tree.apply(asked(1, OpCode.CREATE_SESSION, CreateSession(1)))
    prepare.applied(1)
    for zxid in range(2, 41):
        tree.apply(asked(zxid, OpCode.CREATE, Create(b"/%d" % zxid, b"", OPEN_ACL, 0)))
    later = asked(41, OpCode.SET_DATA, SetData(b"/40", b"x", 0))
    left = [len(prepare.outstanding)]
    while len(prepare.outstanding) > 1:
        prepare.applied(40)
        left.append(len(prepare.outstanding))
        assert left[-2] - left[-1] <= 10
        for number in (2, 20, 39):
            assert prepare.outstanding.view(b"/%d" % number) is not None
        change = prepare.outstanding.view(b"/40")
        assert change is not None
        assert change[2] == 1
    assert len(left) == 9, "each changes its parent, too"
    tree.apply(later)
    prepare.applied(41)
    assert len(prepare.outstanding) == len(prepare.outstanding.changes) == 0
