"""Sentences say who does what, in the words of the field: phrases that a reader stumbles over are counted.

This test knows the kinds of them that a pattern finds. `LEFT` says how many each directory may have: the numbers only
fall.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final

from tests.tidy.sources import ROOT, SOURCES, TESTS, at, report, text_of

OPENINGS: Final = re.compile(
    r'\s*"""(Of|As (?:of|in|for|the)|(?:By|For|From|In|On|With) (?:whom|which)|See the module|That (?:of|which)'
    r"|The same|Those|Whom?)\b"
)
"""How no docstring begins: it says what something is, or does, and not what it belongs to."""

_PROCESSES: Final = r"(?:servers?|members?|peers?|process(?:es)?|leaders?|followers?|observers?|learners?|candidates?)"
_LAGS: Final = "".join(
    rf"(?<!{verb} behind)" for verb in ("fall", "falls", "fell", "fallen", "falling", "lag", "lags", "far")
)
_SHIELDED: Final = r"(?! (?:the |its |their )?(?:leader|others?|leader's|others')\b| an? |ing\b)"
PHRASES: Final = {
    "any process or person": r"\bwho(?:m|se)?ever\b",
    "again": r"\banew\b",
    "no longer": r"\b(?:is|are|was|were|has|have|there|here|none|nothing|nobody|one|it|them) any more\b",
    "this member's, its own": r"\b(?:the|an) own\b",
    "after": rf"\bbehind\b{_LAGS}{_SHIELDED}",
    "except for": r"\bbut for\b",
    "available, supported": r"\b(?:to be|is|are) had\b",
    "it": r"\b(?:he|him|himself|his)\b",
    "that": rf"\b{_PROCESSES},? whom?\b",
    "different from": r"\banother(?: \w+)? than\b",
    "belongs to, concerns": r"\b(?:is|are|was|were) of (?!no\b|use\b|type\b|size\b|length\b)",
    "none of": r"\bnothing of\b",
    "is in, is at": r"\b(?:stands?|stood) (?:in|at|on|here|there|beside|before|after|above|below|under|behind)\b",
    "as for, like": r"\bas of an?\b",
    "one like it": r"\bsuch an? one\b",
    "earlier": r"\bof before\b",
    "bundled with it": r"\bcomes? along\b",
    "does not use": r"\bgoes without\b",
    "reports": r"\bsays? of (?:it|them|him|her)sel(?:f|ves)\b",
}
"""Better words, and what they are better than."""

LEFT: Final = {
    "CHANGELOG.md": 0,
    "CONTRIBUTING.md": 0,
    "README.md": 0,
    "datatree/": 0,
    "docs/": 0,
    "session/": 0,
    "tests/": 0,
    "zab/": 0,
    "zab/cli/": 0,
    "zab/cli/pipeline/": 0,
    "zab/cli/znodes/": 0,
    "zab/client/": 0,
    "zab/jute/": 0,
    "zab/operations/": 0,
    "zab/pipeline/": 0,
    "zab/protocol/": 0,
    "zab/quorum/": 0,
    "zab/service/": 0,
    "zab/tls/": 0,
    "zab/wire/": 0,
}
"""How many a directory may have, without those below it that are listed. Lower it when you rewrite a page."""

SLACK: Final = 50
"""A directory that has fewer than its number by more than this has to lower it."""

THIS: Final = Path(__file__)
_STRING_OR_COMMENT: Final = re.compile(
    r"""(\"{3}|'{3})(?:[^\\]|\\.)*?\1|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|#[^\n]*""", re.DOTALL
)


def test_no_directory_has_more_phrases_to_stumble_over() -> None:
    found = []
    for name, most in LEFT.items():
        places = _found_in(name)
        if len(places) > most:
            found += [f"{name}: {len(places)} phrases, at most {most}; among them:", *places[:20]]
    report(found)


def test_what_was_rewritten_stays_so() -> None:
    counts = {name: len(_found_in(name)) for name in LEFT}
    report([f"{name}: lower it to {counts[name]} in LEFT" for name in LEFT if counts[name] < LEFT[name] - SLACK])


def _found_in(name: str) -> list[str]:
    return [
        f"{place}: {what!r}, say: {better}"
        for place, what, better in _all_found()
        if name == max((each for each in LEFT if place.startswith(each)), key=len, default="")
    ]


@cache
def _all_found() -> tuple[tuple[str, str, str], ...]:
    """(file and line, phrase, better words), in the sources, the tests and the pages."""
    found = []
    for path in [*SOURCES, *TESTS]:
        if path != THIS:
            found += [*_phrases(path, _words_of_prose(text_of(path))), *_openings(path)]
    outside = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for path in sorted([*(ROOT / "docs").rglob("*.md"), *outside]):
        found += _phrases(path, _words(text_of(path), 1))
    return tuple(found)


def _openings(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(text_of(path).splitlines(), 1):
        opening = OPENINGS.match(line)
        if opening:
            yield at(path, number), opening[1] + " …", "what it is or does"


def _words_of_prose(source: str) -> list[tuple[str, int]]:
    """Only strings and comments are prose. What is side by side is read as one, as the lines of a comment are."""
    words: list[tuple[str, int]] = []
    end, line = 0, 1
    for match in _STRING_OR_COMMENT.finditer(source):
        between = source[end : match.start()]
        if between.strip():
            words.append(("|", line))
        line += between.count("\n")
        words += _words(match[0].lstrip("# "), line)
        line += match[0].count("\n")
        end = match.end()
    return words


def _words(text: str, first: int) -> list[tuple[str, int]]:
    """Each word, and its line."""
    return [(word, number) for number, line in enumerate(text.split("\n"), first) for word in line.split()]


def _phrases(path: Path, words: list[tuple[str, int]]) -> Iterator[tuple[str, str, str]]:
    text = " ".join(word for word, _ in words)
    begins = list(accumulate((len(word) + 1 for word, _ in words), initial=0))
    for better, pattern in PHRASES.items():
        for match in re.finditer(pattern, text):
            yield at(path, words[bisect_right(begins, match.start()) - 1][1]), match[0], better
