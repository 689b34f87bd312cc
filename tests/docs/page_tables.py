"""The tables of pages."""

from __future__ import annotations

import re


def rows(text: str, heading: str) -> list[tuple[str, ...]]:
    """The cells of each row below a heading whose first cell is a name."""
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])) for line in lines]
