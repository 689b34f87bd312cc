"""The echo service on the kernel: a loop, client sockets, a log thread, and a disk."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import trio

from tests.host.echo.echo import (
    CLIENT_PROTOCOL,
    Answer,
    Append,
    Echo,
    EchoLog,
    EchoTurn,
    StorageFailed,
)
from zab.host.loop.loop import Loop
from zab.host.loop.mailbox import Mailbox
from zab.host.loop.sockets import ClientSockets
from zab.host.storage.disk import RealDisk
from zab.host.storage.log_thread import LogThread

STOP_SECONDS = 5.0
SLOW_MS = 1000


def _nothing(_took_ms: int) -> None:
    pass


async def serve(
    directory: str,
    listening: socket.socket,
    *,
    log_of: Callable[[RealDisk], EchoLog] = EchoLog,
    task_status: trio.TaskStatus[EchoLog] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Echo until cancelled; raises HaltedError when the log cannot be written. Owns the socket from here on."""
    disk = RealDisk(directory)
    try:
        log = await trio.to_thread.run_sync(log_of, disk)
        loop = Loop()
        mailbox: Mailbox[Answer] = Mailbox(loop.wake)
        log_thread: LogThread[Append, Answer] = LogThread(
            log, mailbox, SLOW_MS, say_slow=_nothing, timed=_nothing, failed=StorageFailed
        )
        clients = ClientSockets(loop, CLIENT_PROTOCOL)
        clients.listen(listening)
        turn = EchoTurn(
            Echo(log.count), clients, monotonic_ns=time.monotonic_ns, append=log_thread.put, answers=mailbox.items
        )
        log_thread.start()
        task_status.started(log)
        try:
            await loop.run(turn)
        finally:
            loop.close()
            log_thread.close(STOP_SECONDS)
    finally:
        disk.close()
