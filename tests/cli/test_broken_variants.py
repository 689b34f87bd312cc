"""What the commands promise, broken on purpose: the checks must notice. A check that cannot fail is none."""

import io
import signal
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio

from tests.cli.pipeline.interrupts import Collected, Context, interrupt, spark
from tests.cli.valued_options import VALUED
from zab.cli import data_command, terminal
from zab.cli.pipeline.interrupts import Interrupts
from zab.cli.znodes import caller
from zab.client import EventType, State, Watcher, WatchEvent
from zab.client.on_trio import OnTrio

CHANGE = WatchEvent(EventType.DATA_CHANGED, "/a", State.CONNECTED, 7)


class Listener:
    """A client that waits for a change."""

    def __init__(self) -> None:
        self.told: list[State] = []

    def tell(self, state: State) -> None:
        self.told.append(state)


def a_lost_server_is_no_change() -> None:
    async def wait() -> None:
        backend = OnTrio(cast("Any", None), resolves=False)
        watcher, listener = Watcher(backend, 10, lambda _watcher: None), Listener()
        for state in (State.CONNECTING, State.CONNECTED):
            watcher.deliver(WatchEvent(EventType.SESSION, "", state))
        watcher.deliver(CHANGE)
        assert await caller.next_change(watcher, cast("Any", listener)) == CHANGE
        assert listener.told == [State.CONNECTING, State.CONNECTED]

    trio.run(wait)


def every_event_counts(patch: pytest.MonkeyPatch) -> None:
    async def next_event(watcher: Watcher, _caller: object) -> WatchEvent:
        return await watcher.receive()

    patch.setattr(caller, "next_change", next_event)


def no_interrupt_is_lost() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts, spark(interrupts, Context()):
        Collected(interrupt)


def interrupts_are_raised_where_they_come(patch: pytest.MonkeyPatch) -> None:
    def raises(_self: Interrupts, number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    patch.setattr(Interrupts, "_note", raises)


def handlers_stay_with_spark(patch: pytest.MonkeyPatch) -> None:
    """PySpark's own, which it sets when its context is made, is not replaced."""
    set_handler = signal.signal

    def once(number: int, handler: Any) -> Any:
        is_ours_again = getattr(handler, "__name__", "") == "_note" and signal.getsignal(number) is not before
        return None if is_ours_again else set_handler(number, handler)

    before = signal.getsignal(signal.SIGINT)
    patch.setattr(signal, "signal", once)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def data_does_not_command_a_terminal() -> None:
    screen = Screen()
    terminal.say("\x1b[2J\x9b", screen)
    assert screen.getvalue() == "\\x1b[2J\\x9b\n"


def terminals_are_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Screen, "isatty", lambda _screen: False)


def a_number_is_data() -> None:
    assert data_command.numbers_last(["/a", "-5", "-v", "-1"], VALUED) == ["-v", "-1", "--", "/a", "-5"]


def values_are_words_as_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(data_command, "_wants_value", lambda _word, _valued: False)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (a_lost_server_is_no_change, every_event_counts),
        (no_interrupt_is_lost, interrupts_are_raised_where_they_come),
        (no_interrupt_is_lost, handlers_stay_with_spark),
        (data_does_not_command_a_terminal, terminals_are_files),
        (a_number_is_data, values_are_words_as_others),
    ],
)
def test_a_broken_variant_is_noticed(
    check: Callable[[], None], broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        check()
        with monkeypatch.context() as patch:
            broken(patch)
            with pytest.raises((AssertionError, pytest.fail.Exception)):
                check()
    finally:
        signal.signal(signal.SIGINT, before)
