"""Freed memory goes back to the system once it is quiet, and not before."""

import gc
import os
import sys
import weakref

import pytest
import trio.testing

from zab.host.process import memory


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from /proc")
def test_pages_in_the_middle_of_the_heap_are_returned() -> None:
    kept = []
    dropped = []
    for _ in range(5_000):
        dropped.append(bytearray(16_000))
        kept.append(bytearray(600))
    full = resident_bytes()
    dropped.clear()
    memory.give_back()
    assert resident_bytes() < full - 40_000_000
    assert len(kept) == 5_000


def test_cycles_are_collected() -> None:
    class Cycle:
        pass

    gc.disable()
    try:
        cycle = Cycle()
        cycle.self = cycle  # type: ignore[attr-defined]
        gone = weakref.ref(cycle)
        del cycle
        assert gone() is not None
        memory.give_back()
        assert gone() is None
    finally:
        gc.enable()


async def test_it_is_done_once_after_a_burst_and_never_under_load(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[float] = []
    monkeypatch.setattr(memory, "give_back", lambda: done.append(trio.current_time()))

    async def at_once(function: object) -> None:
        function()  # type: ignore[operator]

    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
    applied = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.give_back_when_quiet, lambda: applied)
        await trio.sleep(4 * memory.PAUSE_SECONDS + 1)
        assert done == [], "nothing happened, so there is nothing to give back"
        for _ in range(3):
            applied += memory.QUIET_COUNT_MAX
            await trio.sleep(memory.PAUSE_SECONDS)
        assert done == [], "not under load"
        await trio.sleep(5 * memory.PAUSE_SECONDS)
        assert len(done) == 1
        nursery.cancel_scope.cancel()
