"""The log thread, with a storage that the test holds back, and with real files."""

import threading
import time

import attrs
import pytest

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.host.loop.mailbox import Mailbox
from zab.host.storage.log_thread import IDLE_SECONDS, LogThread
from zab.protocol.effects import AppendBatches, DrainLog
from zab.protocol.events import Durable, LogDrained


@attrs.frozen
class Failed:
    reason: str


class Gate:
    """A storage that waits, before each cycle, until the test lets it go on."""

    def __init__(self):
        self.may_go = threading.Semaphore(0)
        self.cycles = []
        self.begun = threading.Semaphore(0)
        self.idle_count = 0
        self.idled = threading.Semaphore(0)
        self.error = None
        self.closed = False

    def perform(self, effects):
        self.begun.release()
        assert self.may_go.acquire(timeout=PATIENCE_SECONDS)
        self.cycles.append(list(effects))
        if self.error is not None:
            raise self.error
        return [LogDrained(effect) for effect in effects]

    def is_awaited(self, answer):
        return True

    def idle(self):
        self.idle_count += 1
        self.idled.release()

    def close(self):
        self.closed = True


class Thread:
    def __init__(self, storage, slow_ms=60_000):
        self.arrived = threading.Event()
        self.mailbox = Mailbox(self.arrived.set)
        self.slow = []
        self.timed = []
        self.thread = LogThread(
            storage, self.mailbox, slow_ms, say_slow=self.slow.append, timed=self.timed.append, failed=Failed
        )
        self.thread.start()

    def answers(self, count):
        answers = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(answers) < count:
            assert time.monotonic() < deadline, answers
            self.arrived.wait(PATIENCE_SECONDS)
            self.arrived.clear()
            answers += [self.mailbox.items.popleft() for _ in range(len(self.mailbox.items))]
        return answers


@pytest.fixture
def gate():
    return Gate()


def wait(semaphore):
    assert semaphore.acquire(timeout=PATIENCE_SECONDS)


def test_all_effects_that_wait_are_one_cycle_answered_in_order(gate):
    thread = Thread(gate)
    thread.thread.put(1)
    wait(gate.begun)
    for number in range(2, 10):
        thread.thread.put(number)
    gate.may_go.release(2)
    assert thread.answers(9) == [LogDrained(number) for number in range(1, 10)]
    assert gate.cycles == [[1], list(range(2, 10))]
    gate.may_go.release()
    assert thread.thread.close(PATIENCE_SECONDS)


def test_a_thread_that_drops_what_is_queued_ends_after_what_is_under_way_and_leaves_the_files(gate):
    thread = Thread(gate)
    thread.thread.put(1)
    wait(gate.begun)
    thread.thread.put(2)
    assert not thread.thread.close(0.0, drops=True)
    gate.may_go.release(2)
    assert thread.answers(1) == [LogDrained(1)]
    assert thread.thread.close(PATIENCE_SECONDS, drops=True)
    assert (gate.cycles, gate.closed) == ([[1]], False)


@pytest.mark.parametrize("awaited_from", [1, 3, 4])
def test_answer_that_nobody_waits_for_wakes_nobody_and_comes_with_the_next_one(gate, awaited_from):
    found = []

    def is_awaited(answer):
        found.append(answer in thread.mailbox.items)
        return answer.generation >= awaited_from

    gate.is_awaited = is_awaited
    gate.may_go.release(10)
    thread = Thread(gate)
    for number in (1, 2, 3):
        thread.thread.put(number)
    assert thread.thread.close(PATIENCE_SECONDS)
    assert thread.arrived.is_set() is (awaited_from <= 3)
    assert list(thread.mailbox.items) == [LogDrained(1), LogDrained(2), LogDrained(3)]
    assert found == [True, True, True], "who begins to wait while it is asked finds the answer"


def test_idle_is_said_once_after_a_pause_and_again_after_more_work(gate):
    thread = Thread(gate)
    gate.may_go.release(100)
    wait(gate.idled)
    time.sleep(3 * IDLE_SECONDS)
    assert gate.idle_count == 1
    started = time.monotonic()
    thread.thread.put(1)
    thread.answers(1)
    wait(gate.idled)
    assert time.monotonic() - started >= IDLE_SECONDS * 0.9
    assert gate.idle_count == 2
    assert thread.thread.close(PATIENCE_SECONDS)


def test_nudge_makes_an_idle_storage_look_again_and_a_busy_one_is_left_alone(gate):
    thread = Thread(gate)
    gate.may_go.release(100)
    wait(gate.idled)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while gate.idle_count < 2:
        thread.thread.nudge()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert gate.cycles == []
    assert thread.thread.close(PATIENCE_SECONDS)


def test_mark_that_moves_while_the_storage_idles_is_seen(gate):
    """What `nudge` tells of must never wait for the next append."""
    seen = []
    mark = [0]
    thread = None

    def idle():
        seen.append(mark[0])
        if mark[0] == 0:
            # The loop moves the mark after it was read here and before the thread sleeps.
            mark[0] = 7
            thread.thread.nudge()

    gate.idle = idle
    thread = Thread(gate)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while seen[-1:] != [7]:
        assert time.monotonic() < deadline, seen
        time.sleep(0.005)
    assert thread.thread.close(PATIENCE_SECONDS)


def test_failure_is_final_and_said(gate):
    gate.error = OSError(28, "No space left on device")
    thread = Thread(gate)
    thread.thread.put(1)
    thread.thread.put(2)
    gate.may_go.release(5)
    [failed] = thread.answers(1)
    assert isinstance(failed, Failed)
    assert "No space left on device" in failed.reason
    thread.thread.put(3)
    assert thread.thread.close(PATIENCE_SECONDS)
    assert len(gate.cycles) == 1
    assert not gate.closed


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_bug_ends_the_thread_and_is_said(gate):
    gate.error = AssertionError("does not follow")
    thread = Thread(gate)
    thread.thread.put(1)
    gate.may_go.release()
    [failed] = thread.answers(1)
    assert "AssertionError: does not follow" in failed.reason
    assert thread.thread.close(PATIENCE_SECONDS)


def test_close_carries_out_what_is_queued_then_closes_the_storage(gate):
    thread = Thread(gate)
    for number in range(5):
        thread.thread.put(number)
    gate.may_go.release(100)
    assert thread.thread.close(PATIENCE_SECONDS)
    assert thread.answers(5) == [LogDrained(number) for number in range(5)]
    assert gate.closed


def test_close_gives_up_on_a_disk_that_hangs(gate):
    thread = Thread(gate)
    thread.thread.put(1)
    assert not thread.thread.close(0.05)
    gate.may_go.release(5)
    assert thread.thread.close(PATIENCE_SECONDS)


def test_slow_cycle_is_said(gate):
    thread = Thread(gate, slow_ms=20)
    thread.thread.put(1)
    wait(gate.begun)
    time.sleep(0.03)
    gate.may_go.release()
    thread.answers(1)
    assert thread.thread.close(PATIENCE_SECONDS)
    [slow_ms] = thread.slow
    assert slow_ms >= 20
    assert thread.timed == [slow_ms]


def test_cycle_that_is_not_slow_is_not_said(gate):
    thread = Thread(gate, slow_ms=60_000)
    gate.may_go.release()
    thread.thread.put(1)
    thread.answers(1)
    assert thread.thread.close(PATIENCE_SECONDS)
    assert thread.slow == []
    assert len(thread.timed) == 1


def test_real_storage_in_the_thread(tmp_path):
    from tests.member.storage.storage_setup import batches_from, open_storage

    storage = open_storage(tmp_path)
    thread = Thread(storage)
    history = batches_from(storage, 20)
    for batch in history:
        thread.thread.put(AppendBatches(1, [batch]))
    thread.thread.put(DrainLog(2))
    answers = []
    while LogDrained(2) not in answers:
        answers += thread.answers(1)
    assert answers[-2] == Durable(1, history[-1].zxid)
    assert all(isinstance(answer, Durable) for answer in answers[:-1])
    assert [answer.zxid for answer in answers[:-1]] == sorted({answer.zxid for answer in answers[:-1]})
    assert thread.thread.close(PATIENCE_SECONDS)
    storage.disk.close()
