"""Long answers of the admin server: a slow reader does not delay others."""

from typing import Any

import pytest
import trio

from tests.rigs.direct.members import SURROUNDINGS, Ensemble
from zab.host.http.http_server import HttpServer
from zab.host.loop.listener import open_listener
from zab.member.words.admin_commands import COMMANDS, Command
from zab.server import admin

GET = b"GET /commands/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def _long(_member: Any, _parameters: Any) -> Any:
    yield from ()
    return {"long": ["x" * 1_000] * 40_000}


async def test_who_reads_a_long_answer_slowly_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "ANSWERS_MAX", 1)
    monkeypatch.setattr(admin, "ANSWER_SECONDS_MAX", 1.0)
    monkeypatch.setitem(COMMANDS, "dirs", Command(_long))  # type: ignore[arg-type]
    member = Ensemble(1).servers[1].member
    told = admin.Admin(member.view, lambda: SURROUNDINGS, None, None, None, None)  # type: ignore[arg-type]
    listening = open_listener("127.0.0.1", 0)
    port = listening.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpServer(told.application(), 60_000, 8).serve, listening)
        async with await trio.open_tcp_stream("127.0.0.1", port) as slow:
            await slow.send_all(GET % b"dirs")
            assert (await slow.receive_some()).startswith(b"HTTP/1.1 200")
            nursery.start_soon(read_slowly, slow)
            async with await trio.open_tcp_stream("127.0.0.1", port) as other:
                with trio.fail_after(10):
                    await other.send_all(GET % b"ruok")
                    assert (await other.receive_some()).startswith(b"HTTP/1.1 200")
            nursery.cancel_scope.cancel()


async def read_slowly(stream: trio.SocketStream) -> None:
    """So that each piece is taken in time, and the whole in minutes."""
    while True:
        if not await stream.receive_some(1 << 16):
            return
        await trio.sleep(0.2)
