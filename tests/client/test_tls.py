"""The client over TLS, against servers on loopback with certificates of their own: how it fails, and in which words.

What TLS has against all servers ends the client at once: these tests wait for the error.
"""

import re
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.client.scripted import ConnectionEndedError, Peer
from tests.rigs.certificates import Certificates, server_context
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client import ConnectionLossError, NotConnectedError, Settings, TlsError, connect
from zab.client.core.hosts import Host
from zab.testing.kit.ports import free_ports

QUICK = Settings(session_timeout_ms=2_000)
Served = Callable[[trio.abc.Stream], Awaitable[None]]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


async def answer(stream: trio.abc.Stream) -> None:
    """A server that takes the session and every request."""
    try:
        peer = Peer(stream, Host("localhost", 0))
        await peer.welcome()
        await peer.serve()
    except (ConnectionEndedError, trio.BrokenResourceError):
        return
    finally:
        await trio.aclose_forcefully(stream)


async def judge(context: ssl.SSLContext, stream: trio.abc.Stream) -> None:
    """A server that judges a handshake to its end, and says what it has against the client. trio's leaves that out."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(incoming, outgoing, server_side=True)
    async with stream:
        while True:
            try:
                ours.do_handshake()
            except ssl.SSLWantReadError:
                await stream.send_all(outgoing.read())
                incoming.write(await stream.receive_some())
            except ssl.SSLError:
                break
        await stream.send_all(outgoing.read())
        assert isinstance(stream, trio.SocketStream)
        await stream.send_eof()
        while await stream.receive_some():
            pass


async def refuse(stream: trio.abc.Stream) -> None:
    """A port without TLS: what is no length of a frame ends the connection."""
    await stream.receive_some(4)
    await trio.aclose_forcefully(stream)


async def listen(nursery: trio.Nursery, served: Served, context: ssl.SSLContext | None = None, port: int = 0) -> int:
    if context is None:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, served, listeners)
        return int(listeners[0].socket.getsockname()[1])
    secured = await trio.open_ssl_over_tcp_listeners(port, context, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, served, secured)
    return int(secured[0].transport_listener.socket.getsockname()[1])


def client_context(trusted: Path, own: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(trusted / "truststore.pem"))
    if own is not None:
        context.load_cert_chain(own / "keystore.pem")
    return context


async def refused(hosts: str, tls: ssl.SSLContext | None, settings: Settings = QUICK) -> NotConnectedError:
    with trio.fail_after(PATIENCE_SECONDS), pytest.raises(NotConnectedError) as caught:
        async with connect(hosts, tls=tls, settings=settings):
            raise AssertionError("entered")
    return caught.value


async def test_a_session_over_tls(nursery: trio.Nursery, certificates: Certificates) -> None:
    member, alice = certificates.member("localhost", "127.0.0.1"), certificates.client("alice")
    port = await listen(nursery, answer, server_context(member))
    with trio.fail_after(PATIENCE_SECONDS):
        for host in ("localhost", "127.0.0.1"):
            async with connect(f"{host}:{port}", tls=client_context(alice, alice)) as zk:
                await zk.delete("/a")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("hosts", "begins_in", "said"),
    [
        (["localhost"], -11, "its certificate has expired"),
        (["localhost"], 1, "its certificate is not valid yet: compare the clocks"),
        (["elsewhere"], 0, "its certificate is for another host: Hostname mismatch, .*'localhost'"),
    ],
)
async def test_a_server_that_does_not_prove_its_name_is_refused_at_once(
    nursery: trio.Nursery, certificates: Certificates, hosts: list[str], begins_in: int, said: str
) -> None:
    member = certificates.member(*hosts, begins_in=begins_in)
    port = await listen(nursery, answer, server_context(member, wants_clients=False))
    error = await refused(f"localhost:{port}", client_context(certificates.client("alice")))
    assert isinstance(error, TlsError)
    assert re.fullmatch(rf"CONNECTIONLOSS: localhost:{port}: {said}.*", str(error))
    nursery.cancel_scope.cancel()


async def test_a_server_whom_nobody_vouches_for_is_refused(nursery: trio.Nursery, certificates: Certificates) -> None:
    member = certificates.member("localhost")
    port = await listen(nursery, answer, server_context(member, wants_clients=False))
    # The authority of clients vouches for no server.
    error = await refused(f"localhost:{port}", client_context(member))
    assert isinstance(error, TlsError)
    assert f"localhost:{port}: no authority that this client trusts signed its certificate" in str(error)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_server_that_wants_a_certificate_says_so(
    nursery: trio.Nursery, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    context = server_context(certificates.member("localhost"))
    context.maximum_version = version
    port = await listen(nursery, partial(judge, context))
    error = await refused(f"localhost:{port}", client_context(certificates.client("alice")))
    assert isinstance(error, TlsError)
    assert f"localhost:{port}: it wants a certificate of the client, which a key store has" in str(error)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("begins_in", "said"),
    [(0, "it does not trust the authority"), (-11, "it says that the client's certificate has expired")],
)
async def test_a_certificate_that_the_server_refuses_is_named(
    nursery: trio.Nursery, certificates: Certificates, begins_in: int, said: str
) -> None:
    port = await listen(nursery, partial(judge, server_context(certificates.member("localhost"))))
    alice = certificates.client("alice", begins_in=begins_in)
    # The authority of members vouches for no client.
    own = certificates.member("other") if begins_in == 0 else alice
    error = await refused(f"localhost:{port}", client_context(alice, own))
    assert isinstance(error, TlsError)
    assert f"localhost:{port}: {said}" in str(error)
    nursery.cancel_scope.cancel()


async def test_a_port_without_tls_is_named(nursery: trio.Nursery, certificates: Certificates) -> None:
    """At the end of the wait: a server that does not serve at the moment may close connections, too."""
    port = await listen(nursery, refuse)
    error = await refused(f"localhost:{port}", client_context(certificates.client("alice")))
    assert not isinstance(error, TlsError)
    assert f"localhost:{port}: it closed the connection within the handshake, as a port without TLS does" in str(error)
    nursery.cancel_scope.cancel()


async def test_a_port_with_tls_is_named_to_who_does_not_speak_it(nursery: trio.Nursery) -> None:
    async def alert(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        # A record of type alert: fatal, unexpected_message.
        await stream.send_all(b"\x15\x03\x03\x00\x02\x02\x0a")
        await stream.aclose()

    error = await refused(f"localhost:{await listen(nursery, alert)}", None)
    assert "the server speaks TLS on this port, and this client does not" in str(error)
    nursery.cancel_scope.cancel()


async def test_a_server_that_never_finishes_the_handshake_holds_nobody_up(
    nursery: trio.Nursery, certificates: Certificates
) -> None:
    reached = trio.Event()

    async def mute(stream: trio.abc.Stream) -> None:
        reached.set()
        await trio.sleep_forever()

    silent = await listen(nursery, mute)
    alice = certificates.client("alice")
    # The server has longer than the caller waits: if both ended at once, either might be told.
    patient = Settings(session_timeout_ms=60_000, connect_wait_ms=2_000)
    error = await refused(f"localhost:{silent}", client_context(alice), patient)
    assert f"localhost:{silent}: no answer yet" in str(error)
    assert reached.is_set()
    good = await listen(nursery, answer, server_context(certificates.member("localhost"), wants_clients=False))
    with trio.fail_after(PATIENCE_SECONDS):
        for _ in range(3):
            async with connect(f"localhost:{silent},localhost:{good}", tls=client_context(alice), settings=QUICK) as zk:
                await zk.delete("/a")
    nursery.cancel_scope.cancel()


async def test_one_bad_server_does_not_keep_from_the_others(nursery: trio.Nursery, certificates: Certificates) -> None:
    bad = await listen(nursery, answer, server_context(certificates.member("elsewhere"), wants_clients=False))
    good = await listen(nursery, answer, server_context(certificates.member("localhost"), wants_clients=False))
    tls = client_context(certificates.client("alice"))
    with trio.fail_after(PATIENCE_SECONDS):
        for _ in range(4):
            async with connect(f"localhost:{bad},localhost:{good}", tls=tls) as zk:
                await zk.delete("/a")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("hosts", ["bad:1,down:1", "down:1,bad:1"])
async def test_what_tls_has_against_one_server_is_said_beside_the_failure_of_another(
    autojump_clock: MockClock, hosts: str
) -> None:
    """Whichever failed last. The client waits: one of them may come up."""

    async def dial(host: Host) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if host.name == "down":
            raise ConnectionRefusedError("connection refused")
        refusal = ssl.SSLCertVerificationError()
        refusal.verify_code, refusal.verify_message = 62, "not this one"
        raise trio.BrokenResourceError from refusal

    start = trio.current_time()
    with pytest.raises(NotConnectedError) as caught:
        async with connect(hosts, dial=dial, settings=QUICK, random=Random(1)):
            raise AssertionError("entered")
    assert not isinstance(caught.value, TlsError)
    assert "bad:1: its certificate is for another host: not this one" in str(caught.value)
    assert trio.current_time() - start == pytest.approx(2)


async def test_a_client_that_was_connected_goes_on_trying_and_says_why(
    nursery: trio.Nursery, certificates: Certificates
) -> None:
    """Certificates are renewed; until then every request names the reason."""
    good, bad = certificates.member("localhost"), certificates.member("elsewhere")
    [port] = free_ports(1)

    async def serve(directory: Path, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        context = server_context(directory, wants_clients=False)
        with trio.CancelScope() as scope:
            listeners = await trio.open_ssl_over_tcp_listeners(port, context, host="127.0.0.1")
            task_status.started(scope)
            await trio.serve_listeners(answer, listeners)

    settings = Settings(session_timeout_ms=10_000, request_wait_ms=200)
    with trio.fail_after(PATIENCE_SECONDS):
        serving = await nursery.start(serve, good)
        tls = client_context(certificates.client("alice"))
        async with connect(f"localhost:{port}", tls=tls, settings=settings) as zk:
            await zk.delete("/a")
            serving.cancel()
            serving = await nursery.start(serve, bad)
            said = ""
            while "its certificate is for another host" not in said:
                with pytest.raises(ConnectionLossError) as caught:
                    await zk.delete("/a")
                said = str(caught.value)
            serving.cancel()
            await nursery.start(serve, good)
            async for state in zk.states():
                if state.is_connected:
                    break
            await zk.delete("/a")
    nursery.cancel_scope.cancel()
