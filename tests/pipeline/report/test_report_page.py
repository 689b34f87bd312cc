"""The report's page, from facts that are made up: what it says, that it needs nothing else, and that nobody's data can
become part of it. The facts of real directories: `test_report`."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from matplotlib.figure import Figure

from tests.pipeline.rigs.page_elements import Elements
from tests.pipeline.rigs.report_sample import BUCKETS, HOSTILE, SINCE, sample_facts
from zab.pipeline.report.facts import (
    BUCKETS_MAX,
    KINDS,
    EnsembleFacts,
    Health,
    Locks,
    Scale,
    Sessions,
    Sizes,
    bucket_milliseconds,
    printable,
)
from zab.pipeline.report.page import page
from zab.pipeline.report.plots import (
    GOOD,
    NONE,
    SHAPES,
    WARN,
    Shape,
    _date_axis,
    _runs,
    bytes_text,
    count_text,
    milliseconds_text,
)
from zab.pipeline.report.sentences import sentences

pytestmark = pytest.mark.slow

MADE = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)


def bare_facts(name: str = "new") -> EnsembleFacts:
    """One session's one write, and nothing else known."""
    scale = Scale(SINCE, 100, 1)
    return EnsembleFacts(
        ensemble=name, since=SINCE, until=SINCE, first_zxid=1 << 32 | 1, last_zxid=1 << 32 | 1, transactions=1,
        operations=1, refused=0, scale=scale, writes={kind: (int(kind == "create"),) for kind in KINDS}, epochs=(),
        sessions=Sessions(0, 0, 0, 0), hot=(), path_count=1, locks=Locks(), sizes=Sizes(), members=(), health=Health(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("coverage", "runs"),
    [
        ([1.0, None, None, 1.0], [(GOOD, False, 0, 1), (GOOD, True, 1, 3), (GOOD, False, 3, 4)]),
        ([None, 0.5, None], [(WARN, True, 0, 1), (WARN, False, 1, 2), (WARN, True, 2, 3)]),
        ([1.0, 0.0, None, 1.0], [(GOOD, False, 0, 1), (NONE, False, 1, 2), (NONE, True, 2, 3), (GOOD, False, 3, 4)]),
        ([None, None], [(NONE, True, 0, 2)]),
        ([], []),
    ],
)
def test_a_quiet_ensemble_does_not_look_down(coverage: list[float | None], runs: list[object]) -> None:
    """Where nobody wrote, no log lacks anything: the strip goes on, thin, in the colour from before."""
    assert _runs(coverage) == runs


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are drawn and not written as SVG, which takes seconds: for tests of the texts around them."""
    monkeypatch.setattr("zab.pipeline.report.plots._svg", lambda _figure, prefix, _alt: f'<svg id="{prefix}"></svg>')


@pytest.mark.usefixtures("unwritten")
def test_a_quiet_ensemble_has_its_strip_from_end_to_end() -> None:
    facts = sample_facts()
    members = tuple(evolve(one, coverage=(1.0, *(None for _ in one.coverage[2:]), 1.0)) for one in facts.members)
    text = page([evolve(facts, members=members)], made=MADE, source="data")
    assert "A strip is thin where nobody wrote" in text


@pytest.fixture(scope="module")
def html() -> str:
    return page([sample_facts()], made=MADE, source="/data/<b>1</b>", version="0.1.0")


@pytest.fixture(scope="module")
def elements(html: str) -> Elements:
    return Elements(html)


def test_it_is_one_whole_document(elements: Elements) -> None:
    assert elements.open == []
    ids = [attributes["id"] for _, attributes in elements.elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 10
    tags = [tag for tag, _ in elements.elements]
    assert tags.count("svg") == 2 * 7
    assert tags.count("h1") == 1


def test_nothing_outside_the_page_is_referred_to(html: str, elements: Elements) -> None:
    ids = {attributes.get("id") for _, attributes in elements.elements}
    for tag, attributes in elements.elements:
        assert tag not in ("script", "link", "img", "iframe", "object", "embed", "base", "image", "foreignobject", "a")
        for name, value in attributes.items():
            assert name not in ("src", "srcset", "data", "action", "background")
            assert not name.startswith("on")
            if name.endswith("href"):
                assert value[0] == "#"
                assert value[1:] in ids
            for target in re.findall(r"url\(([^)]*)\)", value):
                assert target[0] == "#"
                assert target[1:] in ids
    assert "http" not in html.replace('http-equiv="Content-Security-Policy"', "")
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_texts_of_the_data_are_only_texts(html: str, elements: Elements) -> None:
    assert "<script" not in html
    assert "<b>" not in html
    assert re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", html) is None
    shown = printable(HOSTILE)
    assert shown in elements.text
    # As a label of a drawing, too: no formula is made of it.
    assert any("$\\frac{1}{2}$" in text for text in elements.texts)


def test_it_is_named_after_hostile_ensembles_too() -> None:
    found = Elements(page([bare_facts(HOSTILE)], made=MADE, source=HOSTILE))
    assert found.open == []
    assert not any(tag == "script" for tag, _ in found.elements)


def test_drawings_follow_the_colours_of_the_page(html: str, elements: Elements) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", html, re.DOTALL)
    defined = set(re.findall(r"--(\w+):", light))
    assert defined == set(re.findall(r"--(\w+):", dark))
    assert set(re.findall(r"var\(--(\w+)\)", html)) <= defined
    assert "prefers-color-scheme: dark" in html
    for tag, attributes in elements.elements:
        style = attributes.get("style", "")
        assert "font-family" not in style
        assert "#" not in re.sub(r"url\(#[^)]*\)", "", style), (tag, style)


def test_drawings_scale_and_say_what_they_show(elements: Elements) -> None:
    drawings = [attributes for tag, attributes in elements.elements if tag == "svg"]
    for attributes in drawings:
        assert "viewbox" in attributes
        assert "width" not in attributes
        assert "height" not in attributes
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"]) > 20
    assert {attributes["class"] for attributes in drawings} == {"wide", "narrow"}
    # Text stays text: it can be found, read out and copied.
    for label in ("operations a second", "open sessions", "hand-overs", "member 3", "/app/jobs/counter"):
        assert label in elements.texts


def test_it_begins_with_what_matters(elements: Elements) -> None:
    text = elements.text
    places = [
        text.index(told)
        for told in (
            "2 problems found.",
            "checksum of the batch body does not match",
            "The leader changed 2 times",
            "the largest wave, at 2026-11-02 06:00:00 UTC, was 48 sessions and took 211 ephemeral znodes with it.",
            "The hottest znode is /app/jobs/counter with 812 k writes, 14.5% of all.",
            "1 hold of locks overlapped.",
            "the longest hand-over took 5.4 s",
            "Writes over time",
        )
    ]
    assert places == sorted(places)


def test_tables_hold_the_numbers_of_the_drawings(elements: Elements) -> None:
    for told in ("0x900000001", "812,000", "812 ms", "2026-11-02 06:00:00 UTC", "offset 184,220", "31,000"):
        assert told in elements.text, told


@pytest.mark.usefixtures("unwritten")
def test_a_healthy_ensemble_is_called_healthy() -> None:
    facts = evolve(sample_facts(), health=Health(checked="Compared."))
    text = "".join(piece for _, piece in sentences(facts)[0])
    assert text == "All 3 members agree and their files are sound: no problem was found."
    assert 'class="card verdict"' in page([facts], made=MADE, source="/data")


@pytest.mark.usefixtures("unwritten")
def test_more_problems_than_are_shown_are_counted() -> None:
    facts = sample_facts()
    found = Elements(page([evolve(facts, health=evolve(facts.health, problem_count=1002))], made=MADE, source="/data"))
    assert "and 1,000 more: zab pipeline verify lists them all" in found.text


def test_hardly_anything_known_is_a_page_too() -> None:
    found = Elements(page([bare_facts()], made=MADE, source="/data"))
    assert found.open == []
    assert "Nothing in the log looks like a lock or an election." in found.text
    assert "1 operation in 1 ms" in found.text


def test_several_ensembles_share_one_page() -> None:
    found = Elements(page([sample_facts("prod"), bare_facts("test"), bare_facts("new")], made=MADE, source="/data"))
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for told in ("3 ensembles", "Ensemble prod", "Ensemble test", "Ensemble new"):
        assert told in found.text


@pytest.mark.parametrize(
    ("since_ms", "until_ms", "width_ms"),
    [
        (1_000, 1_000, 100),
        (1_000, 9_000, 100),
        (0, 86_400_000, 900_000),
        (123_456_789, 123_456_789 + 365 * 86_400_000, 7 * 86_400_000),
        (0, 1 << 45, 604_800_000 * 485),
    ],
)
def test_buckets_are_round_and_few(since_ms: int, until_ms: int, width_ms: int) -> None:
    found = bucket_milliseconds(since_ms, until_ms)
    assert until_ms // found - since_ms // found + 1 <= BUCKETS_MAX
    assert found == width_ms


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_scale_of_any_length_has_dates_below(shape: Shape) -> None:
    """matplotlib warns, and draws dozens, where it finds no interval for as many as fit."""
    axes = Figure().subplots()
    for factor in range(200):
        _date_axis(axes, shape, Scale(MADE, int(1000 * 1.1**factor), 1))
        assert 1 <= len(axes.get_xticks()) <= shape.date_count + 1, factor


def test_texts_are_made_visible() -> None:
    assert printable("/ünï/日本/🐎") == "/ünï/日本/🐎"
    assert printable("a\nb\x00c\u202ed\u200be\ud800") == "a\\u000ab\\u0000c\\u202ed\\u200be\\ud800"
    family = "\N{MAN}\u200d\N{HEAVY BLACK HEART}\ufe0f\u200d\N{GIRL}"
    assert printable(f"/{family}") == f"/{family}"
    assert printable("a\u200db \N{MAN}\u200d") == "a\\u200db \N{MAN}\\u200d"
    assert printable("x" * 1000 + "y", 11) == "xxxxx…xxxxy"
    assert len(printable("\n" * 1000, 60)) == 60


def test_numbers_are_short() -> None:
    assert [count_text(value) for value in (0, 12, 1234, 12_345, 4.5e6, 0.25)] == [
        "0", "12", "1,234", "12.3 k", "4.5 M", "0.25",
    ]  # fmt: skip
    assert [bytes_text(value) for value in (0, 512, 1536, 200 * 1024, 3 << 30)] == [
        "0 B", "512 B", "1.5 KiB", "200 KiB", "3 GiB",
    ]  # fmt: skip
    assert [milliseconds_text(value) for value in (0.4, 12, 3400, 300_000, 9_000_000, 864_000_000)] == [
        "0.4 ms", "12 ms", "3.4 s", "5 min", "2.5 h", "10 days",
    ]  # fmt: skip


def test_the_sample_fills_its_scale() -> None:
    facts = sample_facts()
    assert {len(counts) for counts in facts.writes.values()} == {BUCKETS}


def test_drawing_is_silent(tmp_path: Path) -> None:
    """Whatever a path is written in, and wherever matplotlib may keep its files."""
    (tmp_path / "file").touch()
    code = (
        "from zab.pipeline.report.plots import _bars, _plot\n"
        "_plot('a', 'b', 'c', 'd', lambda shape: _bars(shape, ['/\u540d\u524d'], [1.0], ['1'], '#123456'))"
    )
    environment = os.environ | {"MPLCONFIGDIR": str(tmp_path / "file" / "none")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_names_in_the_drawings_are_text_in_fonts_that_have_emoji() -> None:
    facts = sample_facts()
    hot = (evolve(facts.hot[0], path="/\N{HONEYBEE}/\u65e5\u672c"), *facts.hot[1:])
    text = page([evolve(facts, hot=hot)], made=MADE, source="/data")
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", text)
    assert drawn.count("/\N{HONEYBEE}/\u65e5\u672c") == len(SHAPES)
    families = re.findall(r"font(?:-family)?: ([^;]*(?:sans-serif|monospace)[^;]*);", text)
    assert len(families) == 3
    assert all("Apple Color Emoji" in family and "Noto Color Emoji" in family for family in families)
    assert "font-family: inherit" in text
