"""Waiting, from trio and from asyncio, for what blocks in plain code: it is done in a thread meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import TypeVar

import trio

T = TypeVar("T")


class Library(Enum):
    """Under which the caller runs."""

    TRIO = "trio"
    ASYNCIO = "asyncio"
    NONE = "none"


def library() -> Library:
    if trio.lowlevel.in_trio_task():
        return Library.TRIO
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return Library.NONE
    return Library.ASYNCIO


async def elsewhere(work: Callable[[], T]) -> T:
    """What `work` returns. Who is cancelled waits for its end all the same: nothing of it goes on behind him."""
    if library() is Library.TRIO:
        with trio.CancelScope(shield=True):
            return await trio.to_thread.run_sync(work)
    done: Future[T] = Future()
    thread = threading.Thread(target=_do, args=(work, done), name="zab testing", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(asyncio.wrap_future(done))
    finally:
        thread.join()


class _Into:
    """What comes of some work, its exception among it, goes into a future."""

    def __init__(self, done: Future[T]) -> None:
        self._done = done

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if error is not None:
            self._done.set_exception(error)
        return True


def _do(work: Callable[[], T], done: Future[T]) -> None:
    with _Into(done):
        done.set_result(work())
