"""The wires between members, which a test can cut: relays, in a thread that runs trio.

    dial            in the thread of a member, in place of a connection to another one: a connection to the relay, which
                    is told who dials whom, and opens the other half
    set_cut(pairs)  from now on nothing passes between the members of these pairs, in both directions

A wire that is cut loses nothing and closes nothing: bytes, ends of streams and new connections wait in it until it is
whole again, as TCP waits while its segments are lost. So the members find out as they do in production: by what they
do not hear.

Each connection at the relay begins with `_HEAD`: the id of who dials, and the port of who is meant.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Final

import trio

from zab.host.loop.dial import Address
from zab.testing.kit.ports import HOST

_HEAD: Final = struct.Struct(">BH")
_PIECE_BYTES: Final = 65536
_GONE: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class Wires:
    """Between one group of members. `sid_at` says which member listens on a port."""

    def __init__(self, sid_at: Mapping[int, int]) -> None:
        self._sid_at = sid_at
        self._cut: frozenset[frozenset[int]] = frozenset()
        self._changed: trio.Event
        self._token: trio.lowlevel.TrioToken
        self._scope: trio.CancelScope
        self._port: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, name="zab wires", daemon=True)

    def start(self) -> None:
        """Returns when they can be dialled. Raises OSError."""
        self._thread.start()
        self._port.result()

    def close(self) -> None:
        """Break all connections, and end the thread."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()

    def set_cut(self, pairs: Iterable[frozenset[int]]) -> None:
        """Nobody else is cut off from each other."""
        done: Future[None] = Future()
        cut = frozenset(pairs)

        def set_it() -> None:
            self._cut = cut
            self._changed.set()
            self._changed = trio.Event()
            done.set_result(None)

        self._token.run_sync_soon(set_it)
        done.result()

    def is_cut(self, one: int, two: int) -> bool:
        return frozenset((one, two)) in self._cut

    async def dial(self, own: int, address: Address) -> trio.SocketStream:
        """As `zab.host.loop.dial.dial`, for the member `own`; all members are on this machine."""
        stream = await trio.open_tcp_stream(HOST, self._port.result())
        with contextlib.ExitStack() as undo:
            undo.callback(stream.socket.close)
            try:
                await stream.send_all(_HEAD.pack(own, address.port))
            except trio.BrokenResourceError as error:
                raise OSError("the wires between these members are gone") from error
            undo.pop_all()
        return stream

    # ------------------------------------------------------------------------------------------------- in their thread

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except OSError as error:
            self._port.set_exception(error)

    async def _serve(self) -> None:
        self._changed = trio.Event()
        with trio.CancelScope() as self._scope:
            listeners = await trio.open_tcp_listeners(0, host=HOST)
            self._token = trio.lowlevel.current_trio_token()
            self._port.set_result(listeners[0].socket.getsockname()[1])
            await trio.serve_listeners(self._relay, listeners)

    async def _relay(self, near: trio.SocketStream) -> None:
        with contextlib.suppress(*_GONE):
            head = b""
            while len(head) < _HEAD.size:
                piece = await near.receive_some(_HEAD.size - len(head))
                if not piece:
                    return
                head += piece
            own, port = _HEAD.unpack(head)
            other = self._sid_at.get(port)
            if other is None:
                return
            pair = frozenset((own, other))
            await self._pass(pair)
            async with await trio.open_tcp_stream(HOST, port) as far, trio.open_nursery() as nursery:
                nursery.start_soon(self._carry, pair, near, far, nursery.cancel_scope)
                nursery.start_soon(self._carry, pair, far, near, nursery.cancel_scope)

    async def _carry(
        self, pair: frozenset[int], source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope
    ) -> None:
        """One direction, up to the end of its stream. What breaks one direction ends both."""
        try:
            while True:
                piece = await source.receive_some(_PIECE_BYTES)
                await self._pass(pair)
                if not piece:
                    await sink.send_eof()
                    return
                await sink.send_all(piece)
        except _GONE:
            await self._pass(pair)
            both.cancel()

    async def _pass(self, pair: frozenset[int]) -> None:
        """Returns when these two are not cut off from each other."""
        while pair in self._cut:
            await self._changed.wait()
