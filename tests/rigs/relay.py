"""A network between the members of an ensemble: all that they send each other passes through relays, which obey a test.

    with network(ports) as net:            ports: {server id: (quorum port, election port)}, where each really listens
        net.lines(1)                       the server lines for the file of server 1: the others through relays
        net.cut(1, 2)                      none of what 1 sends reaches 2; 2 still reaches 1
        net.slow(1, 2, seconds=0.2)        it reaches 2 so much later
        net.lose(1, 2, share=0.1)          so many pieces come only after RETRANSMISSION_SECONDS, and those after them
        net.break_links(1, 2)              the connections between them break
        net.heal()

As in a network that is cut, connections do not end: what is sent waits, and goes on when it is healed. What is lost is
sent again by TCP, so that it is late. Dials to a member that is cut off come to nothing, and do not end either.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping

import trio

from tests.rigs.waiting import PATIENCE_SECONDS

HOST = "127.0.0.1"
PIECE_BYTES = 64 * 1024
RETRANSMISSION_SECONDS = 0.3
"""Linux sends again after 0.2 s, and doubles that."""
BUFFERED_PIECES = 64

_GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class Network:
    """Relays between servers. Methods may be called by any thread."""

    def __init__(self, ports: Mapping[int, tuple[int, int]], seed: int) -> None:
        self._ports = ports
        self._random = random.Random(seed)
        self._relays: dict[tuple[int, int, int], int] = {}
        """(from, to, which of the two ports): the port of the relay."""
        self._cut: set[tuple[int, int]] = set()
        self._late: dict[tuple[int, int], float] = {}
        self._lost: dict[tuple[int, int], float] = {}
        self._open: dict[trio.CancelScope, frozenset[int]] = {}
        self.carried_bytes = 0
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)

    # ------------------------------------------------------------------------------------------------- what it obeys

    def lines(self, own: int) -> dict[str, str]:
        """Server lines, as they are in the file of one member: that of its own names where it really listens."""
        return {
            f"server.{sid}": f"{HOST}:{quorum}:{election}"
            for sid in self._ports
            for quorum, election in [
                self._ports[sid] if sid == own else (self._relays[own, sid, 0], self._relays[own, sid, 1])
            ]
        }

    def cut(self, source: int, sink: int) -> None:
        self._do(lambda: self._cut.add((source, sink)))

    def part(self, one: int, other: int) -> None:
        """Both ways."""
        self._do(lambda: self._cut.update({(one, other), (other, one)}))

    def slow(self, source: int, sink: int, *, seconds: float) -> None:
        self._do(lambda: self._late.update({(source, sink): seconds}))

    def lose(self, source: int, sink: int, *, share: float) -> None:
        self._do(lambda: self._lost.update({(source, sink): share}))

    def break_links(self, one: int, other: int) -> None:
        self._do(lambda: self._break(frozenset({one, other})))

    def heal(self) -> None:
        self._do(self._heal)

    # ---------------------------------------------------------------------------------------------------- how it runs

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(PATIENCE_SECONDS):
            raise TimeoutError("the relays do not listen")
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()

    def _do(self, change: Callable[[], object]) -> None:
        def changed() -> None:
            change()
            self._changed.set()
            self._changed = trio.Event()

        trio.from_thread.run_sync(changed, trio_token=self._token)

    def _break(self, pair: frozenset[int]) -> None:
        for scope, ends in list(self._open.items()):
            if ends == pair:
                scope.cancel()

    def _heal(self) -> None:
        self._cut.clear()
        self._late.clear()
        self._lost.clear()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:
            self._failed = error
            raise
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._changed = trio.Event()
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            for source in self._ports:
                for sink, ports in self._ports.items():
                    for which, port in enumerate(ports if source != sink else ()):
                        [listener] = await trio.open_tcp_listeners(0, host=HOST)
                        self._relays[source, sink, which] = listener.socket.getsockname()[1]
                        nursery.start_soon(self._listen, listener, source, sink, port)
            self._ready.set()

    async def _listen(self, listener: trio.SocketListener, source: int, sink: int, port: int) -> None:
        async def relay(near: trio.SocketStream) -> None:
            with trio.CancelScope() as scope, contextlib.suppress(*_GONE):
                self._open[scope] = frozenset({source, sink})
                try:
                    await self._passed(source, sink)
                    async with near, await trio.open_tcp_stream(HOST, port) as far, trio.open_nursery() as nursery:
                        nursery.start_soon(self._carry, source, sink, near, far, nursery.cancel_scope)
                        nursery.start_soon(self._carry, sink, source, far, near, nursery.cancel_scope)
                finally:
                    del self._open[scope]
                    near.socket.close()

        await trio.serve_listeners(relay, [listener])

    async def _carry(
        self, source: int, sink: int, near: trio.SocketStream, far: trio.SocketStream, both: trio.CancelScope
    ) -> None:
        """One direction, to its end. Pieces keep their order, however late they are."""
        send, receive = trio.open_memory_channel[tuple[float, bytes]](BUFFERED_PIECES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._deliver, source, sink, receive, far, both)
            async with send:
                with contextlib.suppress(*_GONE):
                    while piece := await near.receive_some(PIECE_BYTES):
                        await send.send((trio.current_time() + self._delay(source, sink), piece))

    def _delay(self, source: int, sink: int) -> float:
        is_lost = self._random.random() < self._lost.get((source, sink), 0.0)
        return self._late.get((source, sink), 0.0) + (RETRANSMISSION_SECONDS if is_lost else 0.0)

    async def _deliver(
        self,
        source: int,
        sink: int,
        pieces: trio.MemoryReceiveChannel[tuple[float, bytes]],
        far: trio.SocketStream,
        both: trio.CancelScope,
    ) -> None:
        try:
            async for due, piece in pieces:
                await trio.sleep_until(due)
                await self._passed(source, sink)
                await far.send_all(piece)
                self.carried_bytes += len(piece)
            await self._passed(source, sink)
            await far.send_eof()
        except _GONE:
            both.cancel()

    async def _passed(self, source: int, sink: int) -> None:
        """Returns when nothing is cut between these two, in this direction."""
        while (source, sink) in self._cut:
            await self._changed.wait()


@contextlib.contextmanager
def network(ports: Mapping[int, tuple[int, int]], seed: int = 0) -> Iterator[Network]:
    """Its relays listen when the block is entered."""
    net = Network(ports, seed)
    net.start()
    try:
        yield net
    finally:
        net.stop()
