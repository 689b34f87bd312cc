"""What one command has asked of servers so far: for a terminal while none is found, and for the error when its time is
over.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from datatree.opcodes import WRITES, OpCode
from zab.cli.terminal import say
from zab.client import Observer, State
from zab.client.nursery import hidden_nursery

__all__ = ["Asked"]

QUIET_SECONDS: Final = 2.0
"""So long a search for a server is silent."""

_WRITES: Final = frozenset(OpCode(each).spelled for each in WRITES)


class Asked(Observer):
    """The observer of the session. `has_written`: whether a write was asked for; a command sets it back."""

    def __init__(self) -> None:
        self.has_written = False
        self._has_session = False
        self._last = ""
        """Why the last server did not take the session."""

    def state_changed(self, state: State) -> None:
        self._has_session = self._has_session or state.is_connected

    def server_lost(self, host: str, reason: str) -> None:
        self._last = f"{host}: {reason}"

    def request_begun(self, name: str) -> None:
        self.has_written = self.has_written or name in _WRITES

    @asynccontextmanager
    async def searching(self, hosts: str) -> AsyncIterator[None]:
        """The block opens a session. A terminal is told where a server is looked for, if that takes a while."""
        self._has_session, self._last = False, ""
        async with hidden_nursery() as nursery:
            if sys.stderr.isatty():
                nursery.start_soon(self._tell, hosts)
            yield
            nursery.cancel_scope.cancel()

    async def _tell(self, hosts: str) -> None:
        await trio.sleep(QUIET_SECONDS)
        if not self._has_session:
            say(f"zab: looking for a server at {hosts}{self._why}", sys.stderr, flush=True)

    @property
    def _why(self) -> str:
        return f" ({self._last})" if self._last else ""

    def so_far(self, hosts: str) -> str:
        """What is to be added when the time is over."""
        if not self._has_session:
            return f"; no server at {hosts} took the session{self._why}"
        return "; whether a write was done is unknown" if self.has_written else ""
