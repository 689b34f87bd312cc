"""Session ids, passwords and timeouts."""

import pytest

from datatree.znode import is_ephemeral
from session.identity import PASSWORD_BYTES, SessionIds, is_of_server, local_key, negotiate, password, valid_password

# The low 40 bits of this time are 0x8b_cfe5_6800.
WALL_MS = 0x018B_CFE5_6800


def test_an_id_is_server_time_and_counter():
    ids = SessionIds(3, WALL_MS)
    assert [f"{ids.next():016x}" for _ in range(2)] == ["038bcfe568000000", "038bcfe568000001"]


def test_only_the_low_byte_of_the_server_counts_and_ids_are_signed():
    assert SessionIds(0x103, WALL_MS).next() == SessionIds(3, WALL_MS).next()
    high = SessionIds(0xC1, WALL_MS).next()
    assert high < 0
    assert f"{high & (1 << 64) - 1:016x}" == "c18bcfe568000000"


@pytest.mark.parametrize("server_id", [0x80, 0xFF])
def test_tops_that_mark_containers_and_ttls_are_never_used(server_id):
    assert SessionIds(server_id, WALL_MS).next() >> 56 == 0


@pytest.mark.parametrize("server_id", range(256))
def test_every_id_is_one_that_an_ephemeral_may_have(server_id):
    ids = SessionIds(server_id, WALL_MS)
    for _ in range(3):
        id_ = ids.next()
        assert -(1 << 63) <= id_ < 1 << 63
        assert id_ != 0
        assert is_ephemeral(id_)


def test_the_counter_carries_into_the_time_and_never_into_the_server():
    ids = SessionIds(3, WALL_MS)
    for _ in range(1 << 16):
        last = ids.next()
    assert f"{last:016x}" == "038bcfe56800ffff"
    assert f"{ids.next():016x}" == "038bcfe568010000"
    ids = SessionIds(2, (1 << 40) - 1)
    ids._low |= 0xFFFF
    assert f"{ids.next():016x}" == "02ffffffffffffff"
    assert f"{ids.next():016x}" == "0200000000000000"


def test_zero_is_no_id():
    assert SessionIds(0, 0).next() == 1


def test_a_later_start_does_not_repeat_ids():
    assert SessionIds(3, WALL_MS + 1).next() - SessionIds(3, WALL_MS).next() == 1 << 16


def test_a_password_opens_its_session_in_its_ensemble_and_nothing_else():
    key, other = bytes(32), bytes(31) + b"\x01"
    mine = password(key, -5)
    assert len(mine) == PASSWORD_BYTES
    assert mine == password(key, -5)
    assert valid_password([key], -5, mine)
    assert valid_password([other, key], -5, mine), "it was made with the key before"
    assert not valid_password([other], -5, mine)
    assert not valid_password([], -5, mine)
    assert not valid_password([key], 5, mine)
    assert not valid_password([key], -5, mine[:-1])
    assert not valid_password([key], -5, b"")
    assert not valid_password([key], -5, bytes(16))


def test_a_session_that_one_server_alone_knows_has_a_password_of_another_kind():
    key = bytes(range(32))
    assert local_key(key) != key
    assert not valid_password([key], 5, password(local_key(key), 5))
    assert not valid_password([local_key(key)], 5, password(key, 5))
    assert not valid_password([local_key(key)], 5, password(local_key(bytes(32)), 5))


@pytest.mark.parametrize("server_id", [0, 1, 0x7F, 0x80, 0xC1, 0xFF, 0x103])
def test_an_id_tells_the_server_that_made_it(server_id):
    id_ = SessionIds(server_id, WALL_MS).next()
    assert is_of_server(id_, server_id)
    assert not is_of_server(id_, server_id + 2)


def test_no_password_opens_session_zero():
    key = bytes(32)
    assert not valid_password([key], 0, password(key, 0))


@pytest.mark.parametrize(
    ("asked", "given"),
    [(0, 4000), (-5, 4000), (-(2**31), 4000), (4000, 4000), (39999, 39999), (40000, 40000), (10**9, 40000)],
)
def test_a_timeout_is_clamped_and_not_rounded(asked, given):
    assert negotiate(asked, 4000, 40000) == given
