"""Jobs, and workers that share them: a small application on plain znodes.

    /jobs/waiting/job-0000000007    what is to be done
    /jobs/taken/job-0000000007      ephemeral: who is at it; gone with the session of a worker that dies
    /jobs/done/job-0000000007       what came of it

    submit(zk, b"…")                one more job; its name
    result(zk, name)                what came of it, as soon as it is done
    work(connect, "anna", do)       do jobs, for ever, with one session after the other

A job may be begun more than once, when the worker that had it loses its session. What came of it is written once: in
one transaction with the end of the job, which only the session can commit that has the job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from zab.client import Client, NodeExistsError, NoNodeError, RequestError, SessionExpiredError, WatchOverflowError

ROOT = "/jobs"
WAITING, TAKEN, DONE = f"{ROOT}/waiting", f"{ROOT}/taken", f"{ROOT}/done"

Connect = Callable[[], AbstractAsyncContextManager[Client]]
Do = Callable[[bytes], Awaitable[bytes]]


async def set_up(zk: Client) -> None:
    """Make what all others need; it may be there already."""
    for path in (WAITING, TAKEN, DONE):
        await zk.retrying().ensure_path(path)


async def submit(zk: Client, job: bytes) -> str:
    path = await zk.retrying().create(f"{WAITING}/job-", job, sequence=True)
    return path.rpartition("/")[2]


async def result(zk: Client, name: str) -> bytes:
    """Waits until the job is done."""
    view = zk.retrying()
    async with zk.watch(f"{DONE}/{name}") as events:
        while True:
            try:
                data, _ = await view.get(f"{DONE}/{name}")
            except NoNodeError:
                await events.receive()
            else:
                return data or b""


async def work(connect: Connect, worker: str, do: Do) -> None:
    """Do one job after the other. When the session is over, so is the job that it had: whoever finds it does it."""
    while True:
        try:
            async with connect() as zk:
                await set_up(zk)
                await _work_in_session(zk, worker, do)
        except (RequestError, SessionExpiredError, WatchOverflowError):
            continue


async def _work_in_session(zk: Client, worker: str, do: Do) -> None:
    view = zk.retrying()
    async with zk.watch(ROOT, recursive=True) as events:
        while True:
            for name in await view.get_children(WAITING):
                if await _take(zk, name, worker):
                    await _finish(zk, name, do)
            # Something has changed; or the connection came back, and something may have changed.
            await events.receive()
            while events.receive_nowait():
                pass


async def _take(zk: Client, name: str, worker: str) -> bool:
    view = zk.retrying()
    try:
        await view.create(f"{TAKEN}/{name}", worker.encode(), ephemeral=True)
    except NodeExistsError:
        return False
    if await view.exists(f"{WAITING}/{name}") is None:
        # It was done between the look and the grip.
        await view.delete(f"{TAKEN}/{name}")
        return False
    return True


async def _finish(zk: Client, name: str, do: Do) -> None:
    view = zk.retrying()
    job, _ = await view.get(f"{WAITING}/{name}")
    outcome = await do(job or b"")
    async with view.transaction() as end:
        end.create(f"{DONE}/{name}", outcome)
        end.delete(f"{WAITING}/{name}")
        end.delete(f"{TAKEN}/{name}")
