"""The bounds of HTTP: whatever a client sends or does not read, others are answered."""

import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing

from tests.rigs.certificates import Certificates, quorum_store_lines
from zab.host.http.http_server import HEAD_BYTES_MAX, HttpServer
from zab.host.loop.listener import open_listener
from zab.member.settings.zoo_cfg import parse
from zab.server.tls_settings import admin_stores

GET = b"GET /%s HTTP/1.1\r\nHost: here\r\n\r\n"
UPGRADE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\n"
OK = b"HTTP/1.1 200 \r\n"


async def application(scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """/small is a word, /large is a GiB, /wrong is a fault."""
    assert scope["type"] == "http"
    if scope["path"] == "/wrong":
        raise KeyError("a fault of the application")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1 << 14 if scope["path"] == "/large" else 0):
        await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[int]:
    """The port."""
    server = HttpServer(application, **{"idle_ms": 60_000, "connections_max": 8, **options})
    listening = open_listener("127.0.0.1", 0)
    port = listening.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, listening)
        yield port
        nursery.cancel_scope.cancel()
    with pytest.raises(OSError, match="failed"):
        await trio.open_tcp_stream("127.0.0.1", port)


async def until_end(stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> bytes:
    received = b""
    try:
        while piece := await stream.receive_some():
            received += piece
    except trio.BrokenResourceError:
        pass
    return received


async def ask(stream: trio.SocketStream | trio.SSLStream[trio.SocketStream], path: bytes = b"small") -> bytes:
    """The answer, whose end is the word."""
    await stream.send_all(GET % path)
    received = b""
    while not received.endswith(b"0\r\n\r\n"):
        piece = await stream.receive_some()
        assert piece, received
        received += piece
    return received


async def test_requests_of_a_connection_are_answered_one_after_the_other() -> None:
    async with serving() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for _ in range(3):
            answer = await ask(stream)
            assert answer.startswith(OK)
            assert b"4\r\nhttp\r\n" in answer


async def test_more_connections_than_the_limit_are_closed_and_there_is_room_again() -> None:
    async with serving(connections_max=2) as port:
        first, second = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2)]
        await ask(first)
        await ask(second)
        async with await trio.open_tcp_stream("127.0.0.1", port) as third:
            assert await until_end(third) == b""
        await ask(first)
        await second.aclose()
        with trio.fail_after(60):
            await until_answered(port)
        await first.aclose()


async def until_answered(port: int) -> None:
    """A place is free once a connection is ended."""
    while True:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(GET % b"small")
                if (await until_one(stream)).startswith(OK):
                    return


async def until_one(stream: trio.SocketStream) -> bytes:
    return bytes(await stream.receive_some())


async def test_a_fault_of_the_application_is_500_and_no_end() -> None:
    async with serving() as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(GET % b"wrong")
            assert (await until_one(stream)).startswith(b"HTTP/1.1 500 ")
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await ask(stream)


async def trickle(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        for byte in GET % (b"x" * 3000):
            await stream.send_all(bytes([byte]))
            await trio.sleep(0.02)


async def test_a_request_that_trickles_is_ended_however_often_a_byte_comes() -> None:
    async with serving(idle_ms=300) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trickle, stream)
                assert await until_end(stream) == b""
                nursery.cancel_scope.cancel()


async def test_who_reads_nothing_of_a_long_answer_is_ended() -> None:
    async with (
        serving(idle_ms=300, connections_max=1) as port,
        await trio.open_tcp_stream("127.0.0.1", port) as stream,
    ):
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await stream.send_all(GET % b"large")
        await until_one(stream)
        with trio.fail_after(60):
            await until_answered(port)


async def test_a_stop_waits_for_nobody_who_reads_nothing() -> None:
    with trio.fail_after(30):
        async with serving() as port:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await stream.send_all(GET % b"large")
            await until_one(stream)
            await trio.testing.wait_all_tasks_blocked(0.05)
        await stream.aclose()


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"srvr\n\n\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * (HEAD_BYTES_MAX + 70_000) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: nonsense\r\nContent-Length: 3\r\n\r\n",
        UPGRADE % b"websocket" + b"Sec-WebSocket-Version: 13\r\n\r\n",
        UPGRADE % b"websocket" + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        UPGRADE % b"h2c" + b"HTTP2-Settings: AAMAAABk\r\n\r\n",
        bytes(range(256)) * 40,
    ],
    ids=["http2", "tls", "word", "long head", "encoding", "no websocket", "websocket", "h2c", "bytes"],
)
async def test_what_is_no_http_ends_its_own_connection(sent: bytes) -> None:
    async with serving(idle_ms=2_000) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            with trio.fail_after(10):
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(sent)
                assert not (await until_end(stream)).startswith(OK)
        async with await trio.open_tcp_stream("127.0.0.1", port) as other:
            await ask(other)


async def test_requests_with_wrong_bytes_end_their_own_connection() -> None:
    """Whole requests, headers and upgrades, in each of which some bytes are others, are missing, or come twice."""
    random = Random(13)
    whole = [GET % b"small", UPGRADE % b"h2c" + b"HTTP2-Settings: AAMAAABk\r\n\r\n"]
    whole.append(b"POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    whole.append(b"GET /small HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello" + GET % b"large")
    async with serving(idle_ms=500, connections_max=64) as port:
        async with trio.open_nursery() as nursery:
            for _ in range(300):
                sent = bytearray(random.choice(whole))
                for _ in range(random.randrange(1, 6)):
                    at = random.randrange(len(sent))
                    piece = random.choice((b"", bytes([random.randrange(256)]), sent[at : at + 20] * 2))
                    sent[at : at + random.randrange(3)] = piece
                nursery.start_soon(say, port, bytes(sent))
                await trio.lowlevel.checkpoint()
        async with await trio.open_tcp_stream("127.0.0.1", port) as other:
            await ask(other)


async def say(port: int, sent: bytes) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(sent)
            await stream.receive_some()


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Certificates(tmp_path_factory.mktemp("certificates")).member("localhost")


def context_of(member: Path, **keys: str) -> ssl.SSLContext:
    lines = {**quorum_store_lines(member), "admin.forceHttps": "true", **keys}
    lines.pop("sslQuorum", None)
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    return admin_stores(parse(f"dataDir=/d\nclientPort=1\n{text}", "zoo.cfg")).content


def speaking(member: Path, *, shows: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(member / "quorum.truststore.pem"))
    if shows:
        context.load_cert_chain(str(member / "keystore.pem"))
    return context


async def over_tls(port: int, context: ssl.SSLContext) -> bytes:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True) as secured:
        return await ask(secured)


async def test_https_alone(member: Path) -> None:
    async with serving(context=context_of(member), takes_plain=False, idle_ms=5_000) as port:
        assert b"5\r\nhttps\r\n" in await over_tls(port, speaking(member))
        async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
            await plain.send_all(GET % b"small")
            assert not (await until_end(plain)).startswith(b"HTTP")


async def test_both_on_one_port_and_who_says_nothing_is_ended(member: Path) -> None:
    async with serving(context=context_of(member), takes_plain=True, idle_ms=1_000) as port:
        assert b"5\r\nhttps\r\n" in await over_tls(port, speaking(member))
        async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
            assert b"4\r\nhttp\r\n" in await ask(plain)
        async with await trio.open_tcp_stream("127.0.0.1", port) as mute:
            with trio.fail_after(30):
                assert await until_end(mute) == b""


async def test_a_certificate_is_asked_for(member: Path) -> None:
    context = context_of(member, **{"admin.needClientAuth": "true"})
    async with serving(context=context, takes_plain=False) as port:
        assert b"5\r\nhttps\r\n" in await over_tls(port, speaking(member, shows=True))
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        secured = trio.SSLStream(stream, speaking(member), server_hostname="localhost", https_compatible=True)
        async with secured:
            # In TLS 1.3 the server judges after the handshake of the client.
            with suppress(trio.BrokenResourceError):
                await secured.send_all(GET % b"small")
            assert await until_end(secured) == b""
