"""The job thread: order, slices, and an end that does not wait for ever."""

import itertools
import threading
import time

import pytest

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.host.storage.job_thread import JobThread


@pytest.fixture
def jobs():
    jobs = JobThread("jobs of a test")
    jobs.start()
    yield jobs
    assert jobs.close(PATIENCE_SECONDS)


def test_jobs_run_one_after_the_other_in_their_order(jobs):
    done, over = [], threading.Event()
    for number in range(100):
        jobs.run(lambda number=number: done.append((number, threading.current_thread().name)))
    jobs.run(over.set)
    assert over.wait(PATIENCE_SECONDS)
    assert done == [(number, "jobs of a test") for number in range(100)]


def test_a_job_in_slices_rests_for_as_long_as_each_slice_took(jobs):
    slices, results = [], []
    over = threading.Event()

    def work():
        slices.append(time.monotonic())
        time.sleep(0.01)
        return len(slices) == 4

    def job():
        results.append(jobs.in_slices(work))
        over.set()

    jobs.run(job)
    assert over.wait(PATIENCE_SECONDS)
    assert results == [True]
    assert len(slices) == 4
    assert all(later - earlier >= 0.02 for earlier, later in itertools.pairwise(slices))


def test_closing_ends_the_job_in_slices_after_a_slice_and_drops_what_is_queued():
    jobs = JobThread("jobs")
    begun = threading.Event()
    results, dropped = [], []

    def work():
        begun.set()
        return False

    def job():
        jobs.pause(0)
        results.append(jobs.in_slices(work))

    jobs.run(job)
    jobs.run(lambda: dropped.append(1))
    jobs.start()
    assert begun.wait(PATIENCE_SECONDS)
    assert jobs.close(PATIENCE_SECONDS)
    assert (results, dropped) == ([False], [])


def test_closing_cuts_a_pause_short_and_says_when_a_job_does_not_end():
    jobs = JobThread("jobs")
    begun, may_end = threading.Event(), threading.Event()

    def job():
        begun.set()
        jobs.pause(3600)
        may_end.wait(PATIENCE_SECONDS)

    jobs.run(job)
    jobs.start()
    assert begun.wait(PATIENCE_SECONDS)
    assert not jobs.close(0.05)
    may_end.set()
    assert jobs.close(PATIENCE_SECONDS)


def test_a_thread_that_was_never_started_closes_at_once():
    assert JobThread("jobs").close(PATIENCE_SECONDS)
