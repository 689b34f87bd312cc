"""The journal: one line per event, and a terminal that stops reading stops nobody."""

import io
import logging
import re
import threading

import pytest

from zab.host import journal as module
from zab.host.journal import SELDOM_SECONDS, Journal, SeldomJournal, open_journal, written


@pytest.fixture
def restored(monkeypatch):
    monkeypatch.setattr(module, "_STOP_SECONDS", 60)
    logger = logging.getLogger("zab")
    before = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "true"),
        (7, "7"),
        (b"\x01\xff", "01ff"),
        ("plain", "plain"),
        ("two words", '"two words"'),
        ("", '""'),
        ('a"b', '"a\\"b"'),
        ("a=b", '"a=b"'),
        ("line\nbreak", '"line\\nbreak"'),
    ],
)
def test_values(value, text):
    assert written(value) == text


def test_line_has_time_level_name_sentence_and_pairs(restored):
    stream = io.StringIO()
    writer = open_journal(stream=stream)
    Journal("links").warning("link is lost", sid=3, reason="closed by the other side")
    writer.close()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING zab\.links link is lost sid=3"
        r' reason="closed by the other side"\n',
        stream.getvalue(),
    )


def test_sentence_from_elsewhere_stays_one_line(restored):
    stream = io.StringIO()
    writer = open_journal(stream=stream)
    Journal("host").info("peer said\nforged line")
    writer.close()
    assert stream.getvalue().count("\n") == 1


def test_debug_is_off_unless_asked_for(restored):
    stream = io.StringIO()
    writer = open_journal(stream=stream)
    Journal("host").debug("details")
    writer.close()
    assert stream.getvalue() == ""


def test_stream_that_stops_reading_stops_nobody_and_what_is_lost_is_counted(restored, monkeypatch):
    monkeypatch.setattr(module, "LINES_MAX", 10)
    reads = threading.Event()

    class Stuck(io.StringIO):
        def write(self, text):
            reads.wait(60)
            return super().write(text)

    stream = Stuck()
    writer = open_journal(stream=stream)
    journal = Journal("host")
    for number in range(100):
        journal.info("event", number=number)
    reads.set()
    while writer._lines.qsize():
        pass
    journal.info("event", number=100)
    writer.close()
    lines = stream.getvalue().splitlines()
    assert lines[-1].endswith("number=100")
    assert re.fullmatch(r"\d\d lines were dropped here: nobody read them fast enough", lines[-2])


def test_broken_stream_ends_the_writer_quietly(restored):
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    writer = open_journal(stream=Broken())
    Journal("host").info("event")
    Journal("host").info("event")
    writer.close()
    assert not writer._thread.is_alive()


def test_lines_about_strangers_are_seldom_and_say_how_many_were_left_out(restored):
    now = 100.0
    stream = io.StringIO()
    writer = open_journal(stream=stream)
    seldom = SeldomJournal(Journal("links"), lambda: now)
    for number in range(5):
        seldom.warning("link is refused", link=number)
    seldom.warning("stranger is gone", link=9)
    now += SELDOM_SECONDS
    for number in range(5, 7):
        seldom.warning("link is refused", link=number)
    writer.close()
    said = [line.partition("zab.links ")[2] for line in stream.getvalue().splitlines()]
    assert said == ["link is refused link=0", "stranger is gone link=9", "link is refused link=5 left_out=4"]
