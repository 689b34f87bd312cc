"""What is said while a line is being read, is about to be, or just was; a pipe of prompt_toolkit's is the keyboard."""

import io
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output
from trio.testing import wait_all_tasks_blocked

from zab.cli.znodes.prompt import Prompt


class Screen(io.StringIO):
    """What was written, from whichever thread, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._token: trio.lowlevel.TrioToken | None = None
        self._changed = trio.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self._token is not None:
            self._token.run_sync_soon(lambda: self._changed.set())
        return count

    async def until(self, text: str, start: int = 0) -> int:
        """Where `text` stands, at `start` or after it."""
        self._token = trio.lowlevel.current_trio_token()
        with trio.fail_after(60):
            while (found := self.getvalue().find(text, start)) < 0:
                await self._changed.wait()
                self._changed = trio.Event()
        return found


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def keys(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> Iterator[PipeInput]:
    monkeypatch.setenv("TERM", "xterm")
    output = Vt100_Output(screen, lambda: Size(24, 80), enable_cpr=False)
    with create_pipe_input() as keyboard, create_app_session(keyboard, output):
        yield keyboard


@pytest.fixture
def prompt(keys: PipeInput) -> Prompt:
    numbers = itertools.count()
    return Prompt(PromptSession(), lambda: f"<drawn {next(numbers)}>")


async def test_what_is_said_between_two_lines_is_printed_at_once(
    prompt: Prompt, keys: PipeInput, screen: Screen
) -> None:
    prompt.say("before", screen)
    assert screen.getvalue().endswith("before\n")
    keys.send_text("one\r")
    assert await prompt.read() == "one"
    prompt.say("between", screen)
    assert screen.getvalue().endswith("between\n")
    keys.send_text("two\r")
    assert await prompt.read() == "two"


async def test_what_is_said_to_a_prompt_is_above_it_and_the_prompt_is_drawn_anew(
    prompt: Prompt, keys: PipeInput, screen: Screen
) -> None:
    lines = []

    async def read() -> None:
        lines.append(await prompt.read())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        keys.send_text("half")
        at = await screen.until("half")
        prompt.say("first", screen)
        prompt.say("second", screen)
        at = await screen.until("first\n", at)
        at = await screen.until("second\n", at)
        at = await screen.until("<drawn", at)
        await screen.until("half", at)
        keys.send_text(" a line\r")
    assert lines == ["half a line"]


async def test_what_is_said_before_the_prompt_has_a_loop_is_printed_by_it(keys: PipeInput, screen: Screen) -> None:
    may_begin = threading.Event()

    class SlowSession(PromptSession[str]):
        def prompt(self, *arguments: Any, **options: Any) -> str:
            may_begin.wait()
            return super().prompt(*arguments, **options)

    prompt = Prompt(SlowSession(), lambda: "<drawn>")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt.read)
        await wait_all_tasks_blocked()
        prompt.say("early", screen)
        assert "early" not in screen.getvalue()
        may_begin.set()
        await screen.until("early")
        keys.send_text("\r")


@pytest.mark.parametrize("is_closed", [False, True])
async def test_what_the_loop_does_not_come_to_is_printed_when_the_line_is_read(
    prompt: Prompt, keys: PipeInput, screen: Screen, is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a loop that ends between the two: it takes the call and forgets it, or is closed and says so."""

    def call() -> None:
        if is_closed:
            raise RuntimeError("Event loop is closed")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt.read)
        keys.send_text("half")
        await screen.until("half")
        monkeypatch.setattr(prompt, "_call_prompt", call)
        prompt.say("late", screen)
        assert "late" not in screen.getvalue()
        keys.send_text("\r")
    assert screen.getvalue().endswith("late\n")
    assert screen.getvalue().count("late") == 1


async def test_a_dumb_terminal_is_written_to_at_once(
    prompt: Prompt, keys: PipeInput, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt.read)
        await wait_all_tasks_blocked()
        prompt.say("at once", screen)
        assert "at once\n" in screen.getvalue()
        keys.send_text("\r")
