"""Sentences say who does what, in the words of the field: none has a phrase that a reader stumbles over.

This test knows the kinds of them that a pattern finds.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
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

ANY: Final = re.compile("|".join(PHRASES.values()))

THIS: Final = Path(__file__)
_STRING_OR_COMMENT: Final = re.compile(
    r"""(\"{3}|'{3})(?:[^\\]|\\.)*?\1|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|#[^\n]*""", re.DOTALL
)


def test_no_sentence_has_a_phrase_to_stumble_over() -> None:
    found = []
    for path in [*SOURCES, *TESTS]:
        if path != THIS:
            found += [*_phrases(path, _words_of_prose(text_of(path))), *_openings(path)]
    outside = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for path in sorted([*(ROOT / "docs").rglob("*.md"), *outside]):
        found += _phrases(path, _words(text_of(path), 1))
    report(sorted(found))


def _openings(path: Path) -> Iterator[str]:
    for number, line in enumerate(text_of(path).splitlines(), 1):
        opening = OPENINGS.match(line)
        if opening:
            yield f"{at(path, number)}: '{opening[1]} …', say: what it is or does"


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


def _phrases(path: Path, words: list[tuple[str, int]]) -> Iterator[str]:
    text = " ".join(word for word, _ in words)
    if not ANY.search(text):
        return
    begins = list(accumulate((len(word) + 1 for word, _ in words), initial=0))
    for better, pattern in PHRASES.items():
        for match in re.finditer(pattern, text):
            line = words[bisect_right(begins, match.start()) - 1][1]
            yield f"{at(path, line)}: {match[0]!r}, say: {better}"
