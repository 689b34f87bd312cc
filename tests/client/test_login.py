"""The login by SASL DIGEST-MD5: before all else on every connection, and an end of the client where it is refused."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.request_decoding import decode
from tests.client.scripted import ConnectionEndedError, Peer, ScriptedServers
from tests.rigs.zookeeper_server import zookeeper
from zab.client import (
    AuthFailedError,
    LoginRefusedError,
    NotConnectedError,
    SaslLogin,
    SessionExpiredError,
    Settings,
    State,
    connect,
)
from zab.jute.replies import reply
from zab.wire.login.digest_md5 import (
    ZOOKEEPER_REALM,
    ZOOKEEPER_URI,
    DigestMd5Error,
    challenge,
    check,
    key_of,
)

ALICE = SaslLogin("alice", "secret")
HOSTS = "one:1,two:1,three:1"


def client(servers: ScriptedServers, sasl: SaslLogin = ALICE, **options: Any) -> Any:
    settings = Settings(session_timeout_ms=9000)
    return connect(HOSTS, settings=settings, dial=servers.dial, random=Random(1), sasl=sasl, **options)


def token_of(opcode: int, body: bytes) -> bytes:
    assert opcode == OpCode.SASL
    return bytes(decode(opcode, body).token)


def token_reply(xid: int, token: bytes | None) -> bytes:
    body = b"\xff\xff\xff\xff" if token is None else len(token).to_bytes(4, "big") + token
    return reply(xid, 5, 0, body)


async def log_in(peer: Peer, password: str = "secret") -> tuple[str, bytes]:
    """The server's side: the user, and the client's response. Answers AUTHFAILED, and ends, where it proves nothing."""
    xid, opcode, body = await peer.request()
    assert token_of(opcode, body) == b""
    await peer.send(token_reply(xid, challenge(ZOOKEEPER_REALM, b"a nonce")))
    xid, opcode, body = await peer.request()
    response = token_of(opcode, body)
    keys = {"alice": key_of("alice", ZOOKEEPER_REALM, password)}
    try:
        user, proof = check(response, realm=ZOOKEEPER_REALM, nonce=b"a nonce", uri=ZOOKEEPER_URI, key_of_user=keys.get)
    except DigestMd5Error:
        await peer.send(reply(xid, 5, int(ErrorCode.AUTHFAILED)))
        raise ConnectionEndedError from None
    await peer.send(token_reply(xid, proof))
    return user, response


async def test_the_login_goes_before_identities_and_watches_on_every_connection(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    seen: list[list[int]] = []
    responses = []

    async def script(peer: Peer) -> None:
        await peer.welcome()
        user, response = await log_in(peer)
        assert user == "alice"
        responses.append(response)
        opcodes: list[int] = []
        seen.append(opcodes)

        def note(xid: int, opcode: int, body: bytes) -> bytes | None:
            opcodes.append(opcode)
            if len(seen) == 1 and opcode == OpCode.EXISTS:
                raise ConnectionEndedError
            return None

        await peer.serve(note)

    async with client(ScriptedServers(nursery, script), auth=[("digest", "a:b")]) as zk:
        with pytest.raises(Exception, match="CONNECTIONLOSS"):
            await zk.exists("/a")
        async for state in zk.states():
            if state is State.CONNECTED:
                break
        await zk.delete("/a")
    assert [opcodes[0] for opcodes in seen] == [OpCode.AUTH, OpCode.AUTH]
    # No two connections share a nonce of the client.
    assert len({response.partition(b"cnonce=")[2][:34] for response in responses}) == 2


async def test_nobody_is_connected_before_the_login_is_done(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    proving = trio.Event()
    quiet = []

    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, _, _ = await peer.request()
        with trio.move_on_after(1):
            quiet.append(await peer.request())
        await peer.send(token_reply(xid, challenge(ZOOKEEPER_REALM, b"n")))
        xid, _, body = await peer.request()
        keys = {"alice": key_of("alice", ZOOKEEPER_REALM, "secret")}
        _, proof = check(
            token_of(OpCode.SASL, body), realm=ZOOKEEPER_REALM, nonce=b"n", uri=ZOOKEEPER_URI, key_of_user=keys.get
        )
        with trio.move_on_after(1):
            quiet.append(await peer.request())
        proving.set()
        await peer.send(token_reply(xid, proof))
        await peer.serve()

    async with client(ScriptedServers(nursery, script)) as zk:
        assert proving.is_set()
        await zk.delete("/a")
    assert not quiet


async def test_a_refused_login_ends_the_client_at_once(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        await log_in(peer, password="another")

    servers = ScriptedServers(nursery, script)
    with pytest.raises(LoginRefusedError, match=r"^AUTHFAILED: the login: the server refused it$"):
        async with client(servers):
            raise AssertionError("entered")
    assert len(servers.peers) == 1


async def test_a_login_that_is_refused_later_ends_the_client_too(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The password was changed meanwhile."""

    async def script(peer: Peer) -> None:
        await peer.welcome()
        await log_in(peer, password="secret" if len(servers.peers) == 1 else "another")
        await peer.request()

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        with pytest.raises(Exception, match="CONNECTIONLOSS"):
            await zk.delete("/a")
        with pytest.raises(LoginRefusedError):
            await zk.delete("/a")
        assert zk.state is State.AUTH_FAILED
    assert len(servers.peers) == 2


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (b"rspauth=00000000000000000000000000000000", "did not prove that it knows the password"),
        (b"", "does not offer SASL DIGEST-MD5"),
        (None, "does not offer SASL DIGEST-MD5"),
    ],
)
async def test_a_server_that_does_not_have_the_password_is_not_believed(
    autojump_clock: MockClock, nursery: trio.Nursery, proof: bytes | None, said: str
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, _, _ = await peer.request()
        await peer.send(token_reply(xid, challenge(ZOOKEEPER_REALM, b"n")))
        xid, _, _ = await peer.request()
        await peer.send(token_reply(xid, proof))
        await peer.serve()

    with pytest.raises(LoginRefusedError, match=said):
        async with client(ScriptedServers(nursery, script)):
            raise AssertionError("entered")


@pytest.mark.parametrize("token", [None, b"", b"nonsense", b'realm="r",nonce="n",algorithm=md5'])
async def test_what_is_no_challenge_ends_the_client(
    autojump_clock: MockClock, nursery: trio.Nursery, token: bytes | None
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        xid, _, _ = await peer.request()
        await peer.send(token_reply(xid, token))
        await peer.serve()

    with pytest.raises(LoginRefusedError) as caught:
        async with client(ScriptedServers(nursery, script)):
            raise AssertionError("entered")
    assert "secret" not in str(caught.value)


async def test_a_connection_that_breaks_within_the_login_is_tried_elsewhere(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        if len(servers.peers) == 1:
            await peer.request()
            return
        await log_in(peer)
        await peer.serve()

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        await zk.delete("/a")
    assert len(servers.peers) == 2


async def test_a_login_that_is_never_answered_holds_nobody_up(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """Nor one of whom a byte comes now and then: it is not silent."""

    async def script(peer: Peer) -> None:
        if len(servers.peers) == 1:
            await peer.welcome()
            await peer.request()
            while True:
                await trio.sleep(0.5)
                await peer.send(reply(-2, 1))
        if len(servers.peers) == 2:
            await peer.frame()
            for byte in (100).to_bytes(4, "big") + bytes(100):
                await trio.sleep(0.5)
                await peer.send(bytes([byte]))
        await peer.welcome()
        await log_in(peer)
        await peer.serve()

    servers = ScriptedServers(nursery, script)
    async with client(servers) as zk:
        await zk.delete("/a")
    assert [time - servers.dialed[0][0] for time, _ in servers.dialed] == pytest.approx([0, 3, 6], abs=0.01)


async def test_a_session_that_is_over_is_over_before_the_login(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    async def script(peer: Peer) -> None:
        await peer.expire()

    with pytest.raises(SessionExpiredError):
        async with client(ScriptedServers(nursery, script), resume=(1, bytes(16))):
            raise AssertionError("entered")


def test_a_password_stands_in_no_text() -> None:
    assert "secret" not in repr(ALICE)
    for user, password in (("", "secret"), ("alice", "")):
        with pytest.raises(ValueError) as caught:
            SaslLogin(user, password)
        assert "secret" not in str(caught.value)


JAAS = """Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_alice="secret";
};
"""


@pytest.fixture(scope="module")
def real_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jaas: Path = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    jaas.write_text(JAAS)
    properties = {
        "java.security.auth.login.config": str(jaas),
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    with zookeeper(1, properties=properties) as servers:
        yield servers.hosts


@pytest.mark.java
async def test_a_real_zookeeper_takes_the_login(real_hosts: str) -> None:
    with trio.fail_after(60):
        async with connect(real_hosts, sasl=ALICE) as zk:
            assert ("sasl", "alice") in await zk.who_am_i()


@pytest.mark.java
async def test_a_real_zookeeper_refuses_another_password(real_hosts: str) -> None:
    with trio.fail_after(60), pytest.raises(LoginRefusedError) as caught:
        async with connect(real_hosts, sasl=SaslLogin("alice", "another")):
            raise AssertionError("entered")
    assert isinstance(caught.value, AuthFailedError)
    assert not isinstance(caught.value, NotConnectedError)
