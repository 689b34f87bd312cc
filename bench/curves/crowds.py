"""Curves of many sessions: they wait for a change, pass a lock on, come and go, or idle.

Each is a function from the field to its curve, as in `growth`. The crowd (crowd.c) is the generator; of locks it is
kazoo, in threads of this process, so a hand-over has kazoo's own time in it on both sides.
"""

from __future__ import annotations

import threading
import time
from functools import partial

from kazoo.client import KazooClient

from bench.cells import Result, idle_crowd, run_crowd
from bench.curves.field import RUN_WARMUP_SECONDS, Field, Take, right
from bench.curves.figures import Curve, Series
from bench.process_tree import ran_seconds, running_ns
from tests.rigs.zookeeper_server import ZooKeeperEnsemble

LOCK = "/locks/one"
KAZOO_SECONDS = 60.0
IDLE_SECONDS_MIN = 1.0


def watches(field: Field) -> Curve:
    """A change of one znode, and the moment at which the last has its event."""
    operations = {
        "watch": "a watch of each, set again for each change",
        "recursive": "a recursive watch of each on the parent",
    }
    series = [Series(name, "ms until the last has its event", more_is_better=False) for name in operations.values()]
    curve = Curve("watches", "Watches", "sessions that watch", series)
    with field.ensembles() as both:
        takes = [
            Take(name, count, partial(_event_milliseconds, field, operation, count))
            for count in field.crowds(10, 100, 1_000, 10_000)
            for operation, name in operations.items()
        ]
        field.measure(curve, both, takes)
    return curve


def sessions(field: Field) -> Curve:
    """Sessions that are opened and closed, each with a connection of its own."""
    name = "opened and closed"
    curve = Curve("sessions", "Sessions that come and go", "sessions at a time", [Series(name, "sessions a second")])
    with field.ensembles() as both:
        takes = [Take(name, count, partial(_sessions_per_second, field, count)) for count in field.sizes(1, 10, 100)]
        field.measure(curve, both, takes)
    return curve


def idle(field: Field) -> Curve:
    """Sessions that only ping, every five seconds."""
    name = "all members together"
    unit = "ms of processor time a second"
    curve = Curve("idle", "Idle sessions", "sessions that ping every 5 s", [Series(name, unit, more_is_better=False)])
    with field.ensembles() as both:
        counts = field.crowds(100, 1_000, 10_000)
        field.measure(curve, both, [Take(name, count, partial(_idle_milliseconds, field, count)) for count in counts])
    return curve


def _event_milliseconds(field: Field, operation: str, count: int, ensemble: ZooKeeperEnsemble) -> float:
    return _run(field, operation, count, ensemble).p50_us / 1000


def _sessions_per_second(field: Field, count: int, ensemble: ZooKeeperEnsemble) -> float:
    return _run(field, "sessions", count, ensemble).per_second


def _run(field: Field, operation: str, count: int, ensemble: ZooKeeperEnsemble) -> Result:
    warmup_seconds = min(RUN_WARMUP_SECONDS, field.seconds)
    return right(run_crowd(ensemble.hosts, operation, count, seconds=field.seconds, warmup_seconds=warmup_seconds))


def _idle_milliseconds(field: Field, count: int, ensemble: ZooKeeperEnsemble) -> float:
    """In each second, while so many sessions ping; after a moment, in which what opened them has been dealt with."""
    with idle_crowd(ensemble.hosts, count):
        time.sleep(min(IDLE_SECONDS_MIN, field.seconds))
        start, before = time.monotonic(), _running_ns(ensemble)
        time.sleep(max(IDLE_SECONDS_MIN, field.seconds))
        used, passed = ran_seconds(before, _running_ns(ensemble)), time.monotonic() - start
    return used / passed * 1000


def _running_ns(ensemble: ZooKeeperEnsemble) -> dict[int, int]:
    return {thread: ns for member in ensemble.members for thread, ns in running_ns(member.pid).items()}


def locks(field: Field) -> Curve:
    """A lock of kazoo's that is passed from client to client, as fast as they can."""
    name = "kazoo's lock"
    curve = Curve("locks", "Locks", "clients that want the lock", [Series(name, "hand-overs a second")])
    with field.ensembles() as both:
        takes = [Take(name, count, partial(_handovers_per_second, field, count)) for count in field.sizes(2, 10, 30)]
        field.measure(curve, both, takes)
    return curve


def _handovers_per_second(field: Field, count: int, ensemble: ZooKeeperEnsemble) -> float:
    """How often in a second another client got the lock than had it before."""
    clients = [KazooClient(ensemble.hosts, timeout=KAZOO_SECONDS) for _ in range(count)]
    contest = _Contest(field.seconds)
    threads = [threading.Thread(target=contest.run, args=(client, number)) for number, client in enumerate(clients)]
    try:
        for client in clients:
            client.start(KAZOO_SECONDS)
        clients[0].ensure_path(LOCK)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for client in clients:
            client.stop()
            client.close()
    if contest.error is not None:
        raise contest.error
    return contest.count / contest.measured_seconds


class _Contest:
    """Counts hand-overs from the first one on, which shows that all is running, for so many seconds and at least one.
    What it knows only the holder of the lock changes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.count = 0
        self.measured_seconds = 0.0
        self.error: Exception | None = None
        self._holder: int | None = None
        self._start: float | None = None
        self._ended = threading.Event()

    def run(self, client: KazooClient, number: int) -> None:
        try:
            while not self._ended.is_set():
                with client.Lock(LOCK, str(number)):
                    self._note(number)
        except Exception as error:  # noqa: BLE001  (it is raised by who waits for the threads)
            self.error = error
            self._ended.set()

    def _note(self, number: int) -> None:
        now = time.monotonic()
        if self._holder not in (None, number) and not self._ended.is_set():
            if self._start is None:
                self._start = now
            else:
                self.count += 1
                self.measured_seconds = now - self._start
                if self.measured_seconds >= self.seconds:
                    self._ended.set()
        self._holder = number
