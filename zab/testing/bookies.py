"""Real bookies for a test, for clients of ledgers: they run in this process, each in a thread of its own, beside an
ensemble that keeps their metadata.

    with Bookies(3) as b:                   plain code
        b.metadata_service_uri, b.ensemble.hosts

    async with Bookies(3) as b:             trio or asyncio

Bookies are the same as those of `zab bookie run`: the same code, sockets and files. They listen on free loopback ports,
their data is in a temporary directory, and both are removed at the end of the block.

A bookie or a member that ends by itself fails the test: the next call raises BookieFailedError or MemberFailedError, at
the latest the end of the block.

Methods block only briefly, and may be called from any thread and from asynchronous code.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

import trio

from zab.bookie.configuration import why_not
from zab.client.coordination import OpenAccess, perform_steps
from zab.ledger.store.bookies import format_root
from zab.testing.bookie import Bookie
from zab.testing.bookie_settings import ROOT, BookiePlace, bookie_settings, check_count
from zab.testing.broker_settings import Value
from zab.testing.ensemble import PATIENCE_SECONDS, Ensemble
from zab.testing.errors import BookieFailedError, EnsembleError
from zab.testing.kit.in_thread import elsewhere
from zab.testing.kit.journals import kept
from zab.testing.kit.listeners import listeners
from zab.testing.kit.ports import free_ports

_PROBE_SECONDS: Final = 0.002
_TAIL_LINES: Final = 5


class Bookies:
    """Bookies for tests, and their ensemble. They are opened once."""

    noun: Final = "bookie"
    """What the reports of tests call one of them."""

    def __init__(
        self,
        count: int = 3,
        configuration: Mapping[str, Value] = MappingProxyType({}),
        *,
        members: int = 1,
        racks: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """`count` bookies, with these keys of a bookie's file, and an ensemble of so many members. `racks`: those of
        bookies, by their numbers. Raises ValueError for what cannot be."""
        check_count(count)
        self._keys = dict(configuration)
        self._racks = dict(racks)
        bookie_settings(BookiePlace("b1", 1, Path("/data")), "zk+hierarchical://127.0.0.1:1/ledgers", self._keys)
        reason = why_not()
        if reason is not None:
            raise EnsembleError(reason)
        self._count = count
        self.ensemble = Ensemble(members)
        """Where the metadata is."""
        self._bookies: dict[int, Bookie] = {}
        self._undo: contextlib.ExitStack | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<bookies {', '.join(f'{each.id}: {each.state}' for each in self._bookies.values())}>"

    # ------------------------------------------------------------------------------------------------------ the block

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()
        self._tell_failures(error)

    async def __aenter__(self) -> Self:
        try:
            await elsewhere(self._open)
        except asyncio.CancelledError:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await elsewhere(self._close)
        self._tell_failures(error)

    def _open(self) -> None:
        """Format the root, start all of them, and return when they serve."""
        if self._undo is not None:
            raise EnsembleError("bookies are opened once: make others")
        self._undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.callback(self._close)
            self._undo.enter_context(kept())
            self._undo.enter_context(self.ensemble)
            # In a thread of its own: the caller may be a task of trio.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(trio.run, self._format).result()
            directory = Path(self._undo.enter_context(tempfile.TemporaryDirectory(prefix="zab-testing-")))
            for number, port in enumerate(free_ports(self._count), 1):
                place = BookiePlace(f"b{number}", port, directory / f"b{number}")
                keys = {**self._keys, **({"rack": self._racks[number]} if number in self._racks else {})}
                settings = bookie_settings(place, self.metadata_service_uri, keys)
                self._bookies[number] = Bookie(number, place, settings, self._end_session)
            for tell in listeners:
                tell(self)
            for bookie in self._bookies.values():
                self._undo.callback(bookie.close)
                bookie.begin()
            self.wait_until_serving()
            undo.pop_all()

    async def _format(self) -> None:
        async with self.ensemble.connect() as client:
            await perform_steps(client, format_root(ROOT, str(uuid.uuid4())), OpenAccess().acl)

    def _close(self) -> None:
        """End everything, in reverse order. No-op the second time."""
        self._is_closed = True
        undo, self._undo = self._undo, contextlib.ExitStack()
        if undo is not None:
            undo.close()

    def _tell_failures(self, error: BaseException | None) -> None:
        """Raise the failure of a bookie, or add it to the current exception."""
        failures: list[BookieFailedError] = [each.failure for each in self._bookies.values() if each.failure]
        if error is not None:
            for failed in failures:
                error.add_note(str(failed))
        elif failures:
            raise failures[0]

    def _end_session(self, session: int) -> None:
        if self.ensemble.leader is not None:
            # One that has expired is not known any more.
            with contextlib.suppress(ValueError):
                self.ensemble.expire(session)

    # --------------------------------------------------------------------------------------------------- what there is

    @property
    def members(self) -> Mapping[int, Bookie]:
        """The bookies by their numbers, from 1; bookie 1 is called `b1`. The members of the ensemble are
        `ensemble.members`."""
        return MappingProxyType(self._bookies)

    @property
    def root(self) -> str:
        """The root of all ledgers."""
        return ROOT

    @property
    def metadata_service_uri(self) -> str:
        """What clients of BookKeeper are given."""
        return f"zk+hierarchical://{self.ensemble.hosts.replace(',', ';')}{ROOT}"

    @property
    def journal(self) -> str:
        """The journals of all bookies, each under its name."""
        return "\n".join(f"bookie {each.id}:\n{each.journal}" for each in self._bookies.values())

    # ---------------------------------------------------------------------------------------------------- what is done

    def start(self, *numbers: int) -> None:
        """Run these bookies, or all, and return when all that run serve."""
        for bookie in self._chosen(numbers):
            bookie.start()
        self.wait_until_serving()

    def stop(self, *numbers: int) -> None:
        """End these bookies, or all, as an operator does."""
        for bookie in self._chosen(numbers):
            bookie.stop()

    def kill(self, *numbers: int) -> None:
        """End these bookies, or all, as `kill -9` does."""
        for bookie in self._chosen(numbers):
            bookie.kill()

    def restart(self, *numbers: int) -> None:
        """Stop these bookies, or all, one after the other, start each again on its port, and return when all that run
        serve."""
        for bookie in self._chosen(numbers):
            bookie.restart()
            self.wait_until_serving()

    def pause(self, *numbers: int) -> None:
        """These bookies, or all, stand still. Others notice when their sessions expire."""
        for bookie in self._chosen(numbers):
            bookie.pause()

    def resume(self, *numbers: int) -> None:
        """These bookies, or all, go on."""
        for bookie in self._chosen(numbers):
            bookie.resume()

    def restore(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Restore the initial state: all run, with empty disks; there are no ledgers, and the ensemble's tree has
        nothing but the root of ledgers. Raises EnsembleError if that takes longer than `seconds`."""
        self.resume()
        self.kill()
        self.ensemble.restore(seconds=seconds)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(trio.run, self._format).result()
        for bookie in self._bookies.values():
            shutil.rmtree(bookie.directory, ignore_errors=True)
            bookie.begin()
        self.wait_until_serving(seconds=seconds)

    def wait_until_serving(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until all bookies that run and are not paused are registered. Raises EnsembleError after `seconds`."""
        self.wait_until(
            lambda: all(
                each.state == "serving" for each in self._bookies.values() if each.is_running and not each.is_paused
            ),
            "not serving",
            seconds=seconds,
        )

    async def until_serving(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait like `wait_until_serving`, without blocking the event loop."""
        await elsewhere(lambda: self.wait_until_serving(seconds=seconds))

    def wait_until(self, is_so: Callable[[], bool], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until something is so. Raises EnsembleError, with `what` it is not, after `seconds`."""
        began = time.monotonic()
        while True:
            if self._is_closed:
                raise EnsembleError("the bookies are closed")
            for bookie in self._bookies.values():
                bookie.raise_failure()
            if is_so():
                return
            if time.monotonic() >= began + seconds:
                raise EnsembleError(f"{what} after {time.monotonic() - began:.0f} s: {self!r}\n{self._tails()}")
            time.sleep(_PROBE_SECONDS)

    def _chosen(self, numbers: tuple[int, ...]) -> list[Bookie]:
        if self._is_closed or self._undo is None:
            raise EnsembleError("the bookies are not open")
        for bookie in self._bookies.values():
            bookie.raise_failure()
        for number in numbers:
            if number not in self._bookies:
                raise ValueError(f"there is no bookie {number}: there are {', '.join(map(str, self._bookies))}")
        return [self._bookies[number] for number in numbers] or [*self._bookies.values()]

    def _tails(self) -> str:
        tails = []
        for each in self._bookies.values():
            tails += [f"bookie {each.id}: {line}" for line in each.journal.splitlines()[-_TAIL_LINES:]]
        return "\n".join(tails)
