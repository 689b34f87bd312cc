"""Clients that try to get in where a login is required: with what they overheard, with what they guess, with anything.
Nobody gets in but who has the password, nothing is done for the others, and nobody else notices."""

from __future__ import annotations

from random import Random

import pytest

from datatree.opcodes import OpCode
from datatree.requests import AddAuth, Sasl
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.member.clients.events import UsersRead
from zab.wire.login.digest_md5 import ZOOKEEPER_REALM, ZOOKEEPER_URI, DigestMd5Error, key_of, respond

RUNS = 120
PASSWORD = "of bob"
LINES = {"sasl__usersFile": "/users", "sessionRequireClientSASLAuth": "true", "superUser": "bob"}


def an_ensemble() -> Ensemble:
    ensemble = Ensemble(1, **LINES)
    ensemble.leader.answers.append(UsersRead({"bob": key_of("bob", ZOOKEEPER_REALM, PASSWORD)}))
    ensemble.settle()
    return ensemble


def answered(asked: bytes, password: str = PASSWORD) -> bytes:
    try:
        return respond(asked, user="bob", password=password, cnonce=b"cnonce", uri=ZOOKEEPER_URI).message
    except DigestMd5Error:
        return b""


def asked_of(client: Client) -> bytes:
    """The challenge that the server sent last, if any."""
    bodies = [item[4] for item in client.received if item[0] == "reply" and isinstance(item[4], bytes)]
    return next((body for body in reversed(bodies) if body.startswith(b"realm=")), b"")


def changed(rng: Random, said: bytes) -> bytes:
    """One byte, or one directive, less or more or otherwise."""
    at = rng.randrange(len(said))
    parts = said.split(b",")
    number = rng.randrange(len(parts))
    return rng.choice(
        (
            said[:at] + bytes([said[at] ^ 1 << rng.randrange(8)]) + said[at + 1 :],
            said[:at],
            said[:at] + rng.randbytes(3) + said[at:],
            b",".join(parts[:number] + parts[number + 1 :]),
            b",".join([*parts, parts[number]]),
            b",".join([*parts, b'authzid="super"']),
            said + b"," * 5_000,
        )
    )


def attempt(rng: Random, thief: Client, overheard: list[bytes]) -> bytes:
    asked = asked_of(thief)
    tokens = [
        b"",
        rng.randbytes(rng.randrange(200)),
        rng.choice(overheard),
        changed(rng, rng.choice(overheard)),
        answered(asked, "guess"),
        answered(rng.choice((asked, b'realm="zk-sasl-md5",nonce="x",algorithm=md5-sess')), "guess"),
    ]
    return rng.choice(
        (
            *(thief.request(OpCode.SASL, Sasl(token).encode()) for token in tokens),
            thief.request(OpCode.SASL, rng.randbytes(rng.randrange(8))),
            thief.request(OpCode.AUTH, AddAuth(rng.choice((b"sasl", b"super", b"digest", b"ip")), b"bob:x").encode()),
            thief.create(b"/thief"),
            thief.request(rng.choice((OpCode.PING, OpCode.CLOSE_SESSION, OpCode.MULTI, OpCode.GET_CHANGES)), b""),
        )
    )


@pytest.mark.parametrize("part", range(4))
def test_nobody_gets_in_without_the_password(part: int) -> None:
    for seed in range(part * RUNS // 4, (part + 1) * RUNS // 4):
        rng = Random(seed)
        ensemble = an_ensemble()
        overheard = []
        for _ in range(2):
            bob = ensemble.session()
            ensemble.do(bob, bob.request(OpCode.SASL, Sasl(b"").encode()))
            overheard.append(log_in(ensemble, bob))
        thieves = [ensemble.session() for _ in range(3)]
        for _ in range(rng.randrange(1, 30)):
            thief = rng.choice(thieves)
            if not thief.is_closed:
                thief.say(attempt(rng, thief, overheard))
            if rng.random() < 0.7:
                ensemble.settle()
        ensemble.settle()
        for thief in thieves:
            schemes = {scheme for scheme, _ in thief.connection.identities}
            assert not schemes & {b"sasl", b"super"}, f"run {seed}"
        assert ensemble.leader.member.tree.get(b"/thief") is None, f"run {seed}"
        assert ensemble.do(bob, bob.create(b"/bob"))[0][1] == 0, f"run {seed}"


def log_in(ensemble: Ensemble, bob: Client) -> bytes:
    """What was to be heard of it."""
    nonce = bob.connection.sasl_nonce
    assert nonce
    said = answered(b'realm="zk-sasl-md5",nonce="%s",charset=utf-8,algorithm=md5-sess' % nonce)
    assert ensemble.do(bob, bob.request(OpCode.SASL, Sasl(said).encode()))[0][1] == 0
    assert (b"sasl", b"bob") in bob.connection.identities
    return said
