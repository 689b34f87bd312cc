"""docs/reference/rules.md has every rule that the code cites, and the code cites each by its letter and its name."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.rules import RULES
from tests.tidy.sources import ROOT, SOURCES, at, report, text_of

CITED = re.compile(r"(?<![\w\"-])([A-CE-HOS]\d{1,2})(?![\w.])((?:\s+\w+){0,3})")


def cited(path: Path) -> list[tuple[int, str, str]]:
    """(line, id, the words after it) of every citation."""
    text = text_of(path)
    return [
        (text.count("\n", 0, found.start()) + 1, found[1], " ".join(found[2].split())) for found in CITED.finditer(text)
    ]


def test_every_citation_names_its_rule() -> None:
    found = []
    for path in SOURCES:
        for line, id_, words in cited(path):
            rule = RULES.get(id_)
            if rule is None:
                found.append(f"{at(path, line)}: {id_} is no rule of docs/reference/rules.md")
            elif not words.startswith(rule.name):
                found.append(f"{at(path, line)}: say '{id_} {rule.name}'")
    report(found)


def test_every_rule_is_cited_where_it_is_kept() -> None:
    found = []
    for id_, rule in RULES.items():
        assert (ROOT / rule.where).is_file(), rule.where
        if id_ not in {other for _, other, _ in cited(ROOT / rule.where)}:
            found.append(f"{rule.where}: cite '{id_} {rule.name}' where it is kept")
    report(found)


def test_every_rule_has_a_test() -> None:
    report(
        [
            f"docs/reference/rules.md: {id_} names {rule.test}, which is not there"
            for id_, rule in RULES.items()
            if not (ROOT / rule.test).is_file()
        ]
    )


def test_names_are_short_and_each_rule_has_its_own() -> None:
    names = [rule.name for rule in RULES.values()]
    assert len(set(names)) == len(names)
    assert max(len(name.split()) for name in names) <= 3
