"""The keeper of the shell's session: one at a time, and none after what was cancelled or failed."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio
import trio.testing

from zab.cli.znodes.opening import Opener
from zab.cli.znodes.session_keeper import SessionKeeper
from zab.client import Client, ConnectionLossError


class Sessions:
    """The keepers, by name. Their messages are in `said`."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.said: list[str] = []
        self.at_begin: Callable[[], None] = lambda: None

    def opener(self, name: str, *, answers: bool = True, failure: Exception | None = None) -> Opener:
        @asynccontextmanager
        async def client() -> AsyncIterator[Client]:
            if failure is not None:
                raise failure
            if not answers:
                self.said.append(f"{name} is awaited")
                await trio.sleep_forever()
            self.open.append(name)
            try:
                yield cast("Client", name)
            finally:
                self.open.remove(name)

        return client

    def begin(self, zk: Client) -> None:
        self.said.append(f"{zk} begins")
        self.at_begin()

    def finish(self) -> None:
        self.said.append("it ends")

    async def beside(self, _zk: Client) -> None:
        await trio.sleep_forever()


async def test_one_session_after_the_other() -> None:
    sessions = Sessions()
    async with trio.open_nursery() as nursery:
        keeper = SessionKeeper(sessions, sessions.beside, nursery)
        await keeper.change(sessions.opener("first"))
        assert sessions.open == ["first"]
        await keeper.change(sessions.opener("second"))
        assert sessions.open == ["second"]
        await keeper.change(None)
        await keeper.change(None)
        assert sessions.open == []
    assert sessions.said == ["first begins", "it ends", "second begins", "it ends"]


@pytest.mark.parametrize("failure", [ConnectionLossError(), ValueError("no server")])
async def test_what_keeps_a_session_from_being_opened_is_raised(failure: Exception) -> None:
    sessions = Sessions()
    async with trio.open_nursery() as nursery:
        keeper = SessionKeeper(sessions, sessions.beside, nursery)
        await keeper.change(sessions.opener("first"))
        with pytest.raises(type(failure)):
            await keeper.change(sessions.opener("second", failure=failure))
        assert sessions.open == []
        await keeper.change(sessions.opener("third"))
        assert sessions.open == ["third"]
        await keeper.change(None)


async def test_a_session_that_is_no_longer_wanted_does_not_begin_later(autojump_clock: trio.testing.MockClock) -> None:
    sessions = Sessions()
    async with trio.open_nursery() as nursery:
        keeper = SessionKeeper(sessions, sessions.beside, nursery)
        await keeper.change(sessions.opener("first"))
        with trio.move_on_after(1):
            await keeper.change(sessions.opener("second", answers=False))
        # Nothing is left in the nursery.
    assert sessions.said == ["first begins", "it ends", "second is awaited"]


async def test_a_session_that_begins_when_it_is_cancelled_ends() -> None:
    sessions = Sessions()
    async with trio.open_nursery() as nursery:
        keeper = SessionKeeper(sessions, sessions.beside, nursery)
        with trio.CancelScope() as scope:
            sessions.at_begin = scope.cancel
            await keeper.change(sessions.opener("first"))
        assert scope.cancelled_caught
        assert sessions.open == []
        sessions.at_begin = lambda: None
        await keeper.change(sessions.opener("second"))
        assert sessions.open == ["second"]
        await keeper.change(None)
    assert sessions.said[-2:] == ["second begins", "it ends"]
