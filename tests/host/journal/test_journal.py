"""The journal: one line per event, and a terminal that stops reading stops nobody."""

import io
import json
import logging
import re
import threading

import pytest

from zab.host.journal import journal as module
from zab.host.journal.journal import (
    LINES_AT_ONCE,
    REPEAT_SECONDS,
    SELDOM_SECONDS,
    SENTENCES_MAX,
    Journal,
    Repeats,
    open_journal,
    written,
)
from zab.host.journal.rotating_file import RotatingFile


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
    assert re.search(r"WARNING zab\.journal \d+ lines were dropped here: nobody read them fast enough$", lines[-2])


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
    seldom = Journal("links", is_of_strangers=True, monotonic=lambda: now)
    for number in range(5):
        seldom.warning("link is refused", link=number)
    seldom.warning("stranger is gone", link=9)
    now += SELDOM_SECONDS
    for number in range(5, 7):
        seldom.warning("link is refused", link=number)
    writer.close()
    said = [line.partition("zab.links ")[2] for line in stream.getvalue().splitlines()]
    assert said == ["link is refused link=0", "stranger is gone link=9", "link is refused link=5 left_out=4"]


def test_a_warning_that_comes_again_and_again_becomes_seldom_and_says_how_many_were_left_out(restored):
    now = 100.0
    stream = io.StringIO()
    writer = open_journal(stream=stream)
    journal = Journal("server", monotonic=lambda: now)
    for number in range(LINES_AT_ONCE + 30):
        journal.warning("cannot listen", attempt=number)
        journal.info("is told always")
    journal.error("something else")
    now += REPEAT_SECONDS
    journal.warning("cannot listen", attempt=99)
    journal.warning("cannot listen", attempt=100)
    writer.close()
    said = [line.partition("zab.server ")[2] for line in stream.getvalue().splitlines()]
    warnings = [line for line in said if line.startswith("cannot listen")]
    assert len(warnings) == LINES_AT_ONCE + 1
    assert warnings[-1] == "cannot listen attempt=99 left_out=30"
    assert said.count("is told always") == LINES_AT_ONCE + 30
    assert "something else" in said


def test_what_is_remembered_of_sentences_is_bounded_and_the_oldest_goes():
    repeats = Repeats(1, 1000, lambda: 0.0)
    for number in range(SENTENCES_MAX + 1):
        assert repeats.admit(f"sentence {number}") == 0
    assert len(repeats._sentences) == SENTENCES_MAX
    assert repeats.admit(f"sentence {SENTENCES_MAX}") is None
    assert repeats.admit("sentence 0") == 0


def test_a_line_of_json_has_its_values_apart(restored):
    stream = io.StringIO()
    writer = open_journal(stream=stream, as_json=True)
    Journal("links").warning("link is\nlost", sid=3, inbound=True, reason=None, name=b"\x01", place=("a", 1))
    try:
        raise RuntimeError("a bug")
    except RuntimeError:
        logging.getLogger("zab.x").exception("broken")
    writer.close()
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    values = {"sid": 3, "inbound": True, "reason": None, "name": "01", "place": "('a', 1)"}
    assert first == {"level": "WARNING", "logger": "zab.links", "sentence": "link is\nlost", "values": values}
    assert second["sentence"] == "broken"
    assert "RuntimeError: a bug" in second["traceback"]


def test_a_file_takes_the_lines_and_what_it_does_not_take_is_counted(restored, tmp_path):
    class Failing(RotatingFile):
        def write(self, chunk):
            if b"too much" in chunk:
                raise OSError(28, "No space left on device")
            super().write(chunk)

    writer = open_journal(sink=Failing(str(tmp_path / "server.log"), 1 << 20, 2))
    journal = Journal("server")
    for sentence in ("before", "too much", "too much", "after"):
        journal.info(sentence)
    writer.close()
    lines = [line.split(" ", 1)[1] for line in (tmp_path / "server.log").read_text().splitlines()]
    assert lines == [
        "INFO  zab.server before",
        "WARNING zab.journal 2 lines are lost here: the file could not be written",
        "INFO  zab.server after",
    ]
