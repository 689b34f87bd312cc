"""A nursery that a block of the client has for itself, of which its caller sees nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def hidden_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery; what the block raises is raised unchanged, not in a group."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        alone = group.exceptions[0]
        context = alone.__context__
        try:
            raise alone
        finally:
            alone.__context__ = context
