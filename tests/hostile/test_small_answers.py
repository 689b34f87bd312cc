"""Small requests with small answers, and refusals, that cost much work: by the hundred, from one connection.

What counts as work is in `zab.member.state.work`, and how it is counted in `tests/member/state/test_work.py`.
"""

from __future__ import annotations

import struct

import pytest

from datatree.opcodes import OpCode
from datatree.requests import GetChildrenPage, PathKind, PathOnly, SetData
from tests.hostile.ensembles import Target
from tests.hostile.raw import Client, acl_body, clients, create_body, make_crowd, multi_body, networks, text

SECURE_TOO = ()

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

BAD_ARGUMENTS, INVALID_ACL = -8, -114
ASKED = 300
CROWD = 4_900
PAGED = 80_000
DEPTH = 2_000


@pytest.fixture
def attacker(target: Target):  # type: ignore[no-untyped-def]
    """A client at the leader."""
    client = Client(target.leader.client_port)
    yield client
    client.close()


def ask(attacker: Client, opcode: int, body: bytes, count: int = ASKED) -> set[int]:
    """The errors of so many that are sent at once."""
    attacker.sock.sendall(b"".join(attacker.request(opcode, body) for _ in range(count)))
    return {attacker.reply()[0] for _ in range(count)}


def remove(attacker: Client, path: str, count: int) -> None:
    for first in range(0, count, 1000):
        names = range(first, min(count, first + 1000))
        parts = [(OpCode.DELETE, text(b"%s/%06d" % (path.encode(), name)) + struct.pack(">i", -1)) for name in names]
        assert attacker.call(OpCode.MULTI, multi_body(parts))[0] == 0


def test_multi_reads_of_more_than_an_answer_has_room_for(target: Target, attacker: Client) -> None:
    """50 bytes ask for two megabytes. That it is too much is known before any of it is made."""
    with target.attacked():
        attacker.create("/big", b"x" * 1_000_000)
        body = multi_body([(OpCode.GET_DATA, text(b"/big") + b"\0")] * 2)
        assert ask(attacker, OpCode.MULTI_READ, body) == {BAD_ARGUMENTS}
        attacker.call(OpCode.DELETE, text(b"/big") + struct.pack(">i", -1))


@pytest.mark.longest
def test_pages_of_a_crowd_with_a_prefix(target: Target, attacker: Client) -> None:
    """One name is found for as many as may be compared; and pages of as many as there may be."""
    make_crowd(attacker, "/paged", PAGED)
    with target.attacked():
        for prefix, count in ((b"000001", ASKED), (b"", 30)):
            page = GetChildrenPage(b"/paged", b"", prefix, 5_000).encode()
            assert ask(attacker, OpCode.GET_CHILDREN_PAGE, page, count) == {0}
    remove(attacker, "/paged", PAGED)


def test_multi_reads_of_as_many_parts_as_may_be(target: Target, attacker: Client) -> None:
    """Ten thousand parts are found in one slice, and written down in many."""
    attacker.create("/read", b"x" * 80)
    parts = [(OpCode.GET_DATA, text(path) + b"\0") for path in (b"/read", b"/none")] * 5_000
    with target.attacked():
        for _ in range(10):
            assert ask(attacker, OpCode.MULTI_READ, multi_body(parts), 2) == {0}
    attacker.call(OpCode.DELETE, text(b"/read") + struct.pack(">i", -1))


def test_pings_and_proofs_without_end(target: Target) -> None:
    """Each is answered at once, whatever waits, and costs a few bytes to ask for."""
    proof = struct.pack(">i", 0) + text(b"digest") + text(b"me:x")
    with target.attacked(), clients(target.leader.client_port, 20) as crowd:
        for client in crowd:
            ping, auth = client.request(OpCode.PING, b"", xid=-2), client.request(OpCode.AUTH, proof, xid=-4)
            client.sock.sendall(ping * 3_000 + auth * 1_000)
        for client in crowd:
            assert {client.reply()[0] for _ in range(4_000)} == {0}


def test_credentials_of_a_megabyte_that_are_no_text(target: Target, attacker: Client) -> None:
    """Half pairs are replaced one by one in what is hashed for a digest, and in the ids of a list."""
    half_pairs = b"\xed\xa0\x80a" * 250_000
    proof = struct.pack(">i", 0) + text(b"digest") + text(b"me:" + half_pairs)
    listed = text(b"/none") + acl_body([(31, b"digest", half_pairs)]) + struct.pack(">i", -1)
    with target.attacked():
        for _ in range(5):
            assert attacker.call(OpCode.AUTH, proof, xid=-4)[0] == 0
            assert ask(attacker, OpCode.SET_ACL, listed, 2) == {INVALID_ACL}


def test_lists_of_permissions_set_over_and_over(target: Target, attacker: Client) -> None:
    """Each of 251 networks of each list is looked at before it is stored."""
    attacker.create("/listed")
    body = text(b"/listed") + acl_body([*networks(250), (31, b"world", b"anyone")]) + struct.pack(">i", -1)
    with target.attacked():
        assert ask(attacker, OpCode.SET_ACL, body, 250) == {0}
    attacker.call(OpCode.DELETE, text(b"/listed") + struct.pack(">i", -1))


def test_ephemerals_and_descendants_asked_for_without_end(target: Target, attacker: Client) -> None:
    """Each request looks at thousands of names, and its answer has none of them."""
    with target.attacked():
        make_crowd(attacker, "/owned", CROWD, flags=1)
        assert ask(attacker, OpCode.GET_EPHEMERALS, PathOnly(b"/zz").encode()) == {0}
        assert ask(attacker, OpCode.GET_ALL_CHILDREN_NUMBER, PathOnly(b"/owned").encode()) == {0}


def test_writes_to_a_path_of_thousands_of_components(target: Target, attacker: Client) -> None:
    """Somebody watches something recursively, and has a quota, elsewhere: no prefix of the path is looked up."""
    with target.attacked():
        assert attacker.call(OpCode.ADD_WATCH, PathKind(b"/zzz", 1).encode())[0] == 0
        made = 0
        while made < DEPTH:
            some = range(made + 1, min(DEPTH, made + 200) + 1)
            parts = [(OpCode.CREATE, create_body("/d" * depth)) for depth in some]
            assert attacker.call(OpCode.MULTI, multi_body(parts))[0] == 0
            made = some[-1]
        body = SetData(b"/d" * DEPTH, b"", -1).encode()
        for _ in range(5):
            assert attacker.call(OpCode.MULTI, multi_body([(OpCode.SET_DATA, body)] * 200))[0] == 0


def test_permissions_that_stand_for_too_many(target: Target, attacker: Client) -> None:
    """With 62 identities, 256 entries of `auth` would be 16,000: none is made before they are refused."""
    with target.attacked():
        attacker.create("/acl")
        for number in range(62):
            body = struct.pack(">i", 0) + text(b"digest") + text(b"u%d:" % number)
            assert attacker.call(OpCode.AUTH, body, xid=-4)[0] == 0
        listed = acl_body([(31, b"auth", b"%d" % number) for number in range(256)])
        body = text(b"/acl") + listed + struct.pack(">i", -1)
        assert ask(attacker, OpCode.SET_ACL, body) == {INVALID_ACL}
