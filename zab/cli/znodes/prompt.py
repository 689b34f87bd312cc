"""The prompt of `zab shell`, and what is printed while it is shown.

Two threads use the terminal: prompt_toolkit reads a line in a worker thread, with its own event loop, and trio's thread
prints events of the session. Only one of them writes at a time:

    no line is being read     `say` prints at once
    a line is being read      `say` queues the text, and the prompt's loop prints it above the line
    the line was read         `read` prints what is still queued, before it returns

A dumb terminal has no line to print above: there `say` always prints at once.

prompt_toolkit's `patch_stdout` was rejected. It prints everything from a third thread, some time later. The output of a
command may then come after the next prompt, which is not drawn again. And a thread that prints while the loop of a
prompt is ending loses its text, or fails.

Invariants: each text is printed once, in the order of the calls. `read` first prints everything that was queued, so the
prompt is the last thing on the screen.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.utils import is_dumb_terminal

from zab.cli.terminal import say

__all__ = ["Prompt"]


class Prompt:
    """Reads lines with `session`; `message` is called whenever the prompt is drawn. `read` and `say` are for trio's
    thread."""

    def __init__(self, session: PromptSession[str], message: Callable[[], str]) -> None:
        self._session = session
        self._message = message
        self._waiting: deque[tuple[str, TextIO]] = deque()
        self._is_reading = False
        self._call_prompt: Callable[[], object] | None = None
        self._is_due = False

    async def read(self) -> str:
        """The next line. Raises KeyboardInterrupt for Ctrl-C, EOFError for Ctrl-D."""
        self._is_reading = True
        try:
            return await trio.to_thread.run_sync(self._ask, abandon_on_cancel=True)
        finally:
            self._is_reading = False
            self._print()

    def say(self, text: str, file: TextIO) -> None:
        """Prints `text` and the end of its line to `file`, which is the terminal, or anything else."""
        self._waiting.append((text, file))
        call_prompt = self._call_prompt
        if not self._is_reading or is_dumb_terminal():
            self._print()
        elif call_prompt is not None:
            # The loop may be closed: then the line is read, and `read` prints.
            with suppress(RuntimeError):
                call_prompt()

    # In the worker thread.

    def _ask(self) -> str:
        try:
            # Signals belong to the main thread, where trio is.
            return self._session.prompt(self._message, handle_sigint=False, pre_run=self._begin)
        finally:
            self._call_prompt = None

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._is_due = False
        self._call_prompt = lambda: loop.call_soon_threadsafe(self._print_above)
        # For text queued before: `say` queues it before it looks for the loop.
        self._call_prompt()

    def _print_above(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            run_in_terminal(self._print)

    # In the thread that may write.

    def _print(self) -> None:
        self._is_due = False
        while self._waiting:
            text, file = self._waiting.popleft()
            say(text, file, flush=True)
