"""Runs blocking work in a thread, for callers in trio and asyncio."""

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
    """The event loop of the caller."""

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
    """The result of `work`. A cancelled caller still waits for its end, so that it never runs on alone."""
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
    """Puts the result of some work, or its exception, into a future."""

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
