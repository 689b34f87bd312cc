"""The rules of the loop, on real sockets and the real clock."""

import errno
import os
import resource
import socket
import struct
import threading
import time

import pytest
import trio
import trio.testing

from zab.host.loop import listener as listener_module
from zab.host.loop.listener import PAUSE_MS, Listener, open_listener
from zab.host.loop.loop import Loop, PolledSocket, now_ms
from zab.host.loop.mailbox import Mailbox
from zab.host.loop.poller import BROKEN, READ, WRITE, SelectorPoller, make_poller


class Script:
    """A turn that runs the next of the given steps; each returns the deadline of the next turn (None: at once)."""

    def __init__(self, loop, *steps):
        self.loop = loop
        self.steps = list(steps)
        self.count = 0
        self.deadline = None

    def take(self):
        self.count += 1
        if not self.steps:
            self.loop.stop()
            return True
        self.deadline = self.steps.pop(0)()
        return self.deadline is None

    def next_deadline(self):
        return self.deadline


class Recorder(PolledSocket):
    def __init__(self, sock):
        super().__init__(sock)
        self.masks = []

    def on_ready(self, mask):
        self.masks.append(mask)


@pytest.fixture(params=[make_poller, SelectorPoller])
def loop(request, monkeypatch):
    """With the poller of this system, and with that of others."""
    monkeypatch.setattr("zab.host.loop.loop.make_poller", request.param)
    loop = Loop()
    yield loop
    trio.run(close, loop)


async def close(loop):
    loop.close()


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def take(mailbox):
    return [mailbox.items.popleft() for _ in range(len(mailbox.items))]


def in_ms(wait_ms):
    return lambda: now_ms() + wait_ms


def seconds_of_two_waits():
    loop = Loop()
    script = Script(loop, in_ms(30), in_ms(20))
    started = time.monotonic()
    assert trio.run(run_with_limit, loop, script)
    assert script.count == 3
    trio.run(close, loop)
    return time.monotonic() - started


def test_turn_is_taken_when_its_deadline_passes_and_not_before():
    # The machine may make some of them late, but not each.
    took = [seconds_of_two_waits() for _ in range(10)]
    assert 0.049 <= min(took) < 0.5


def test_deadline_in_the_past_is_a_turn_at_once_and_lets_other_tasks_run(loop):
    turns_of_others = []

    async def count():
        while True:
            turns_of_others.append(1)
            await trio.lowlevel.checkpoint()

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await loop.run(Script(loop, *[in_ms(-5)] * 20))
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert len(turns_of_others) >= 20


def test_every_turn_that_does_not_wait_ends_in_a_checkpoint(loop):
    turns_of_others = []
    lags = []

    async def other():
        while True:
            turns_of_others.append(1)
            await trio.lowlevel.checkpoint()

    def busy():
        lags.append(len(lags) - len(turns_of_others))

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await loop.run(Script(loop, *[busy] * 50))
            nursery.cancel_scope.cancel()

    trio.run(main)
    # Tasks of one pass of trio run in random order.
    assert max(lags) <= 1


def test_other_tasks_run_while_there_is_always_something_ready(loop, pair, monkeypatch):
    monkeypatch.setattr("zab.host.loop.loop._LINGER_TOTAL_NS", 0)
    ours, theirs = pair
    theirs.send(b"never read")
    loop.watch(Recorder(ours), READ)
    turns_of_others, seen = [], []

    async def other():
        while True:
            turns_of_others.append(1)
            await trio.lowlevel.checkpoint()

    def busy():
        seen.append(len(turns_of_others))
        return now_ms() + 60_000

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await loop.run(Script(loop, *[busy] * 50))
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert seen[-1] >= 48


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("_once_more", range(10))
def test_task_that_a_turn_has_woken_runs_before_the_loop_lingers(loop, pair, monkeypatch, hops, _once_more):
    """A vote would wait for that moment at each step of an election. Tasks of one pass of trio run in random order, and
    the next turns find something at once."""
    notes = []
    events = [trio.Event() for _ in range(hops)]
    poll = loop._poll

    def noted(timeout, count):
        if timeout:
            notes.append("lingers")
        return poll(timeout, count)

    async def hop(number):
        await events[number].wait()
        notes.append(number)
        if number + 1 < hops:
            events[number + 1].set()

    def give_work():
        notes.append("turn")
        pair[1].send(b"x")
        events[0].set()
        return now_ms() + 60_000

    async def main():
        async with trio.open_nursery() as nursery:
            for number in range(hops):
                nursery.start_soon(hop, number)
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(loop, "_poll", noted)
            loop.watch(Recorder(pair[0]), READ)
            pair[1].send(b"x")
            await loop.run(Script(loop, give_work, *[in_ms(60_000)] * 8))

    trio.run(main)
    after = notes[notes.index("turn") + 1 :]
    assert [note for note in after if note != "lingers"] == list(range(hops))
    assert "lingers" not in after[: after.index(hops - 1)]


def test_waits_share_one_cancel_scope_until_a_deadline_passes(loop, pair, monkeypatch):
    scopes = []
    real = trio.CancelScope

    def counted(*args, **kwargs):
        scopes.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(trio, "CancelScope", counted)
    watched = Recorder(pair[0])
    loop.watch(watched, READ)
    pair[1].send(b"x")  # never received: every wait ends at once
    trio.run(loop.run, Script(loop, *[in_ms(10_000)] * 50, in_ms(1), in_ms(-1)))
    assert len(watched.masks) >= 50
    assert len(scopes) <= 4


def test_whoever_left_before_it_was_told_is_not_told(loop):
    """A descriptor closed in a turn may name another socket in the same turn."""
    first_ours, first_theirs = socket.socketpair()
    second_ours, second_theirs = socket.socketpair()
    log = []

    class Closer(Recorder):
        def on_ready(self, mask):
            super().on_ready(mask)
            if log:
                return
            # Both are ready in this turn. Anyone who comes first discards the other one.
            other = watched[1 - watched.index(self)]
            loop.discard(other)
            assert other.socket.fileno() >= 0, "closed within the turn"
            log.append(self)

    watched = [Closer(first_ours), Closer(second_ours)]
    for each in watched:
        loop.watch(each, READ)
    first_theirs.send(b"x")
    second_theirs.send(b"x")
    trio.run(loop.run, Script(loop, in_ms(0)))
    assert len(log) == 1
    loser = watched[1 - watched.index(log[0])]
    assert loser.masks == []
    assert loser.gone
    assert loser.socket.fileno() == -1
    first_theirs.close()
    second_theirs.close()


def test_discarded_socket_leaves_the_selector_at_once_and_closes_at_the_end_of_the_turn(loop, pair):
    watched = Recorder(pair[0])
    loop.watch(watched, READ)
    seen = []

    def step():
        loop.discard(watched)
        loop.discard(watched)
        seen.append((watched.interest, pair[0].fileno() >= 0))
        return now_ms()

    trio.run(loop.run, Script(loop, step))
    assert seen == [(0, True)]
    assert pair[0].fileno() == -1


def test_released_socket_is_watched_no_more_and_stays_open(loop, pair):
    watched = Recorder(pair[0])
    loop.watch(watched, READ)
    loop.release(watched)
    pair[1].send(b"x")
    trio.run(loop.run, Script(loop, in_ms(5)))
    assert watched.masks == []
    assert pair[0].recv(10) == b"x"


def test_interest_follows_watch(loop, pair):
    watched = Recorder(pair[0])
    pair[1].send(b"x")

    def watching(interest):
        def step():
            watched.masks.clear()
            loop.watch(watched, interest)
            return now_ms() - 1

        return step

    seen = []

    def look():
        seen.append(list(watched.masks))

    steps = []
    for interest in (READ, WRITE, READ | WRITE, 0):
        steps += [watching(interest), look]
    trio.run(loop.run, Script(loop, *steps))
    assert seen == [[READ], [WRITE], [READ | WRITE], []]


def test_h1_a_turn_is_told_of_all_that_are_ready(loop, descriptors):
    pairs = [socket.socketpair() for _ in range(1200)]
    watched = [Recorder(ours) for ours, _ in pairs]
    for each, (_, theirs) in zip(watched, pairs, strict=True):
        loop.watch(each, READ)
        theirs.send(b"x")
    trio.run(loop.run, Script(loop, lambda: None))
    assert all(each.masks for each in watched)
    for _, theirs in pairs:
        theirs.close()


@pytest.fixture
def descriptors():
    """Enough of them for some thousand sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("interest", [READ, WRITE])
def test_broken_socket_is_ready_for_whatever_it_is_waited_for(loop, interest):
    listening = open_listener("127.0.0.1", 0)
    ours = socket.create_connection(listening.getsockname())
    theirs, _ = listening.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()  # a reset
    watched = Recorder(ours)
    loop.watch(watched, interest)
    trio.run(loop.run, Script(loop, lambda: now_ms() - 1, lambda: None))
    assert watched.masks
    assert all(mask & BROKEN == 0 and mask & interest for mask in watched.masks)
    listening.close()


def test_timers_are_called_in_their_order_before_the_turn_that_they_bring(loop):
    called = []
    start = now_ms()
    for name, wait_ms in (("late", 40), ("soon", 20), ("never", 3_600_000)):
        loop.timer(lambda now, name=name: called.append((name, now - start))).set(start + wait_ms)
    seen = []

    class Turn:
        def take(self):
            seen.append(len(called))
            if len(called) == 2:
                loop.stop()
            return False

        def next_deadline(self):
            return now_ms() + 60_000

    assert trio.run(run_with_limit, loop, Turn())
    assert seen[0] == 0
    assert [name for name, _ in called] == ["soon", "late"]
    assert called[0][1] >= 20
    assert called[1][1] >= 40


def test_timer_keeps_the_earlier_of_two_times_and_is_called_once(loop):
    called = []
    timer = loop.timer(called.append)
    timer.set(500)
    timer.set(900)
    timer.set(300)
    loop.call_due(299)
    assert called == []
    loop.call_due(300)
    loop.call_due(1000)
    assert called == [300]
    timer.set(1100)
    loop.call_due(1100)
    assert called == [300, 1100]
    assert not loop._timers


def test_wake_from_a_thread_ends_a_wait(loop):
    mailbox = Mailbox(loop.wake)
    taken = []

    def turn():
        taken.extend(take(mailbox))
        return now_ms() if taken else now_ms() + 60_000

    thread = threading.Timer(0.02, mailbox.put, ["news"])
    thread.start()
    started = time.monotonic()
    trio.run(loop.run, Script(loop, turn, turn))
    thread.join()
    assert taken == ["news"]
    assert time.monotonic() - started < 50


def test_no_wake_up_is_lost_between_the_turn_and_the_wait(loop):
    """A thread posts as fast as it can; each post must be taken, without the far deadline passing."""
    mailbox = Mailbox(loop.wake)
    count = 20_000
    taken = []

    class Turn:
        def take(self):
            taken.extend(take(mailbox))
            if len(taken) == count:
                loop.stop()
            return False

        def next_deadline(self):
            return now_ms() + 60_000

    thread = threading.Thread(target=lambda: [mailbox.put(number) for number in range(count)])
    thread.start()
    with_limit = trio.run(run_with_limit, loop, Turn())
    thread.join()
    assert with_limit
    assert taken == list(range(count))


async def run_with_limit(loop, turn):
    with trio.move_on_after(50) as scope:
        await loop.run(turn)
    return not scope.cancelled_caught


def test_wake_costs_no_system_call_while_the_loop_is_awake(loop):
    sent = []
    waker = loop._waker

    class Counting:
        def send(self, data):
            sent.append(data)
            return waker.send(data)

        def close(self):
            waker.close()

    loop._waker = Counting()

    def step():
        for _ in range(100):
            loop.wake()
        return now_ms() + 60_000

    trio.run(loop.run, Script(loop, step))
    assert sent == []


def test_wake_during_a_turn_leads_to_the_next_one_without_a_way_through_trio(loop):
    class Steps(trio.abc.Instrument):
        count = 0

        def before_task_step(self, task):
            self.count += 1

    steps = Steps()
    seen = []

    def busy():
        seen.append(steps.count)
        loop.wake()
        return now_ms() + 60_000

    def last():
        seen.append(steps.count)
        loop.stop()
        return now_ms()

    loop.wake()
    trio.run(loop.run, Script(loop, busy, busy, last), instruments=[steps])
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_stop_from_outside_ends_a_wait(loop):
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loop.run, Script(loop, in_ms(60_000)))
            await trio.sleep(0.02)
            loop.stop()

    started = time.monotonic()
    trio.run(main)
    assert time.monotonic() - started < 50


def test_cancellation_from_outside_passes_through(loop):
    async def main():
        with trio.move_on_after(0.02) as scope:
            await loop.run(Script(loop, in_ms(60_000)))
        assert scope.cancelled_caught

    trio.run(main)


def test_close_announces_the_selector_to_trio_before_it_closes():
    """Otherwise a task that waits for it would wait for ever, or for a file of somebody else."""

    async def main():
        loop = Loop()
        outcome = []

        async def wait():
            try:
                await trio.lowlevel.wait_readable(loop._poller)
            except trio.ClosedResourceError:
                outcome.append("closed")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            loop.close()
        assert outcome == ["closed"]

    trio.run(main)


def test_close_closes_everything_watched(pair):
    async def main():
        loop = Loop()
        paused = Recorder(pair[0])
        loop.watch(paused, READ)
        loop.watch(paused, 0)
        loop.watch(Recorder(pair[1]), READ)
        loop.close()
        assert pair[0].fileno() == pair[1].fileno() == -1

    descriptors = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    trio.run(main)
    if descriptors is not None:
        assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_accept_pauses_when_the_process_is_out_of_descriptors(loop, monkeypatch):
    clock = [1000]
    monkeypatch.setattr(listener_module, "now_ms", lambda: clock[0])
    sock = open_listener("127.0.0.1", 0)
    address = sock.getsockname()
    listener = Listener(loop, sock, lambda: None)
    with socket.create_connection(address):
        failing = FailingAccept(sock)
        listener.socket = failing
        assert listener.accept() == []
        assert failing.calls == 1
        assert listener.interest == 0, "it would spin: the socket stays readable"
        assert listener.resume_at == 1000 + PAUSE_MS
        listener.resume_if_due(1000 + PAUSE_MS - 1)
        assert listener.interest == 0
        listener.socket = sock
        listener.resume_if_due(1000 + PAUSE_MS)
        assert listener.interest == READ
        [(accepted, (host, _port))] = listener.accept()
        assert host == "127.0.0.1"
        accepted.close()


class FailingAccept:
    def __init__(self, sock):
        self.sock = sock
        self.calls = 0

    def fileno(self):
        return self.sock.fileno()

    def accept(self):
        self.calls += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_connection_that_is_gone_before_it_is_accepted_stops_nothing(loop):
    sock = open_listener("127.0.0.1", 0)
    listener = Listener(loop, sock, lambda: None)
    outcomes = [ConnectionAbortedError(errno.ECONNABORTED, "gone"), BlockingIOError()]

    class Aborting:
        def accept(self):
            raise outcomes.pop(0)

    listener.socket = Aborting()
    assert listener.accept() == []
    assert listener.interest == READ
    assert outcomes == []
    listener.socket = sock


@pytest.mark.parametrize("host", ["", "0.0.0.0", "127.0.0.1"])
def test_listener_takes_connections_of_its_address(loop, host):
    sock = open_listener(host, 0)
    listener = Listener(loop, sock, lambda: None)
    with socket.create_connection(("127.0.0.1", sock.getsockname()[1])) as client:
        deadline = time.monotonic() + 60
        while not (accepted := listener.accept()):
            assert time.monotonic() < deadline
        assert accepted[0][1][1] == client.getsockname()[1]
        accepted[0][0].close()
