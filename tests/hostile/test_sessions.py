"""Whose session is it: attacks of anonymous clients on the sessions of others."""

from __future__ import annotations

import contextlib
import os
import struct

import pytest

from datatree.acl import digest_identity
from datatree.jute import Reader
from datatree.requests import AddAuth, CreateSession, GetChanges
from session.identity import SessionId, password
from tests.hostile.ensembles import Target
from tests.hostile.raw import Client, clients, text
from zab.jute.change_pages import read_page

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]
SECURE_TOO = True

OWNER_OFFSET = 44
"""The offset of ephemeralOwner in a stat."""


@pytest.fixture
def victim(target: Target):  # type: ignore[no-untyped-def]
    """A client at the leader that holds a lock."""
    client = Client(target.leader.client_port)
    assert client.create("/lock", flags=1) == 0
    yield client
    # With its session, or the next one would find the lock of this one, and lose it when that expires.
    with contextlib.suppress(EOFError, ConnectionError):
        client.call(-11)
    client.close()


def owner_of_lock(attacker: Client) -> int:
    """Anybody may know the id of a session: it is in the stat of what it owns."""
    error, stat = attacker.call(3, text(b"/lock") + b"\0")
    assert error == 0
    return int.from_bytes(stat[OWNER_OFFSET : OWNER_OFFSET + 8], "big", signed=True)


def is_taken_up(port: int, session: int, offered: bytes) -> bool:
    attacker = Client(port, session, offered)
    attacker.close()
    return attacker.given.session_id != 0


def test_what_clients_are_told_makes_no_password(target: Target, victim: Client) -> None:
    """Anybody reads the id of a lock's owner, and all that the feed of changes says about the history; the key of
    passwords followed from that once. Now it is random, and no client is told anything that it is made of."""
    with target.attacked(), contextlib.closing(Client(target.follower.client_port)) as attacker:
        owner = owner_of_lock(attacker)
        assert owner == victim.given.session_id
        error, body = attacker.call(1000, GetChanges(0, -1, b"", b"/", 1 << 20, 0).encode(), xid=-16)
        assert error == 0
        history_id = read_page(Reader(body)).history_id
        keys = [history_id * 2, history_id + bytes(16), bytes(16) + history_id, bytes(32)]
        keys += [body[at : at + 32] for at in range(min(200, len(body) - 32))]
        for key in keys:
            assert not is_taken_up(target.follower.client_port, owner, password(key, SessionId(owner)))
            attacker.ping()
            victim.ping()
        assert attacker.call(3, text(b"/lock") + b"\0")[0] == 0, "the lock is held"
    assert victim.set_data("/lock", b"mine") == 0


def test_guessing_passwords(target: Target, victim: Client) -> None:
    """Anybody offers passwords for the session of another one, of any length: each costs a connection, and 2^128 of
    them are too many."""
    owner = victim.given.session_id
    right = victim.given.password
    offers = [b"", right[:15], right + b"\0", bytes(16), b"\xff" * 16, bytes(4000)]
    offers += [bytes([right[0] ^ 1]) + right[1:], *(os.urandom(16) for _ in range(90))]
    with target.attacked():
        for number, offered in enumerate(offers):
            assert not is_taken_up(target.members[number % 3].client_port, owner, offered)
            victim.ping()
    assert victim.set_data("/lock", b"mine") == 0


def test_ids_and_numbers_that_nobody_was_given(target: Target) -> None:
    """Anybody says anything in the handshake: ids of nobody, zxids from the future, timeouts without end. Nobody is let
    in by that, and a timeout is what the configuration allows."""
    with target.attacked():
        member = target.follower
        for session in (1, -1, (1 << 63) - 1, -(1 << 63)):
            assert not is_taken_up(member.client_port, session, bytes(16))
        for timeout_ms in (-(1 << 31), -1, 0, (1 << 31) - 1):
            client = Client(member.client_port, timeout_ms=timeout_ms)
            assert 400 <= client.given.timeout_ms <= 40_000
            client.call(-11)
            client.close()
        with pytest.raises((EOFError, ConnectionError)):
            Client(member.client_port, last_zxid=(1 << 63) - 1)
        client = Client(member.client_port, last_zxid=-(1 << 63))
        client.call(-11)
        client.close()


def test_operations_that_only_members_may_ask_for(target: Target, victim: Client) -> None:
    """A client sends what members send each other: createSession for the session of another one, deleteContainer,
    error, and operations that do not exist. They are unknown to it."""
    with target.attacked():
        for opcode, body in (
            (-10, CreateSession(1).encode()),
            (20, text(b"/lock")),
            (-1, b""),
            (0, b""),
            (13, text(b"/lock") + bytes(4)),
            (1 << 30, b""),
            (-(1 << 31), b""),
        ):
            attacker = Client(target.follower.client_port)
            with contextlib.suppress(EOFError, ConnectionError):
                error, _ = attacker.call(opcode, body)
                assert error != 0
            attacker.close()
    assert victim.set_data("/lock", b"mine") == 0


@pytest.mark.longest
def test_sessions_by_the_hundred(target: Target) -> None:
    """Anybody opens session after session and leaves: each is small, and all end after their timeout at the latest."""
    with target.attacked():
        for round_ in range(6):
            with clients(target.members[round_ % 3].client_port, 50, timeout_ms=1):
                pass


def test_super_by_name(target: Target) -> None:
    """A client claims to be the superuser: by a digest that is not set, by schemes that clients cannot prove. Nothing
    comes of it."""
    with target.attacked():
        owner = Client(target.leader.client_port)
        owner.call(100, AddAuth(b"digest", b"alice:pw").encode(), xid=-4)
        owner.create("/secret", b"TOP SECRET", acl=((31, *digest_identity(b"alice:pw")),))
        for scheme, auth in (
            (b"digest", b"super:"),
            (b"digest", b"super:super"),
            (b"super", b""),
            (b"super", b"super"),
            (b"x509", b"CN=super"),
            (b"sasl", b"super"),
            (b"ip", b"127.0.0.1"),
            (b"world", b"anyone"),
            (b"", b""),
        ):
            attacker = Client(target.leader.client_port)
            with contextlib.suppress(EOFError, ConnectionError):
                attacker.call(100, AddAuth(scheme, auth).encode(), xid=-4)
                error, data = attacker.get_data("/secret")
                assert (error, data) == (-102, b""), scheme
            attacker.close()
        owner.call(2, text(b"/secret") + struct.pack(">i", -1))
        owner.close()


def test_identities_without_end(target: Target) -> None:
    """A client adds an identity after the other, so that each check of a permission costs more."""
    with target.attacked():
        attacker = Client(target.leader.client_port)
        asked = b"".join(
            attacker.request(100, AddAuth(b"digest", b"user%d:pw" % number).encode(), xid=-4)
            for number in range(20_000)
        )
        with contextlib.suppress(OSError):
            attacker.sock.sendall(asked)
            attacker.sock.sendall(b"".join(attacker.request(4, text(b"/lock") + b"\0") for _ in range(2000)))
            attacker.get()
        attacker.close()
