"""Runs programs of asyncio whose clients leave sockets of TLS to the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_asyncio(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`. The end of a transport inside TLS takes some turns of the loop, which nobody waits for: what
    is left is collected here, where it warns nobody, and not in a later test."""
    try:
        return asyncio.run(main)
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
