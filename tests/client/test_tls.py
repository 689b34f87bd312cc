"""The client over TLS, against a scripted server on loopback with a certificate of its own."""

import ssl
from pathlib import Path

import pytest
import trio

from tests.client.scripted import ConnectionEndedError, Peer
from zab.client import NotConnectedError, connect
from zab.client.hosts import Host

CERTIFICATE = Path(__file__).parent / "testdata" / "localhost.pem"


async def listen(nursery: trio.Nursery) -> str:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            peer = Peer(stream, Host("localhost", 0))
            await peer.welcome()
            await peer.serve()
        except (ConnectionEndedError, trio.BrokenResourceError):
            return
        finally:
            await trio.aclose_forcefully(stream)

    listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, listeners)
    port = listeners[0].transport_listener.socket.getsockname()[1]
    return f"localhost:{port}"


async def test_a_session_over_tls(nursery: trio.Nursery) -> None:
    hosts = await listen(nursery)
    with trio.fail_after(60):
        async with connect(hosts, ssl_context=ssl.create_default_context(cafile=str(CERTIFICATE))) as zk:
            await zk.delete("/a")
    nursery.cancel_scope.cancel()


async def test_a_certificate_that_nobody_vouches_for_is_refused(nursery: trio.Nursery) -> None:
    hosts = await listen(nursery)
    with trio.fail_after(60), pytest.raises(NotConnectedError, match="CERTIFICATE_VERIFY_FAILED"):
        async with connect(hosts, ssl_context=ssl.create_default_context(), session_timeout_ms=2_000):
            raise AssertionError("entered")
    nursery.cancel_scope.cancel()
