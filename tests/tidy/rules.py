"""The rules, out of their page."""

from __future__ import annotations

import attrs

from tests.tidy.sources import ROOT

PAGE = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")


@attrs.frozen
class Rule:
    name: str
    where: str
    test: str


def rules() -> dict[str, Rule]:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")
    ]
    found = {row[0]: Rule(row[1], row[4].strip("`"), row[5].strip("`")) for row in rows if row[0] != "id"}
    assert len(found) == sum(row[0] != "id" for row in rows), "an id stands twice"
    return found


RULES = rules()
