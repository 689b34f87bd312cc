"""Finds tables and lists that a rewrap of lines has torn.

Each function gets the lines of one text, and yields the index of each wrong line, and what to do instead.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

WIDTH = 120
GAP = re.compile(r"(?<=[^ ]) {3,}(?=[^ ])")
COLUMN = re.compile(r"(?<=[^ ]) {2,}(?=[^ ])")
WORD = re.compile(r"[(`]*[\w.'-]+`?[,;:.)]*")
DRAWING = re.compile(r"[│├└─]| <?->? ")
ITEM = re.compile(r" *(?:[-*]|([1-9]\d?)\.) (?=[^ ])")
ITEM_WITHIN = re.compile(r"(?:[.;:,]|\band|\bor) [-*] (?:\*\*|[A-Za-z`])")


def torn_tables(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """A line that goes on from a full one is indented to a column of the table; any other line begins a row."""
    for first, block in _paragraphs(lines):
        gaps = [{gap.end() for gap in GAP.finditer(line)} for line in block]
        ends = [{gap.end() for gap in COLUMN.finditer(line)} for line in block]
        for number in range(1, len(block)):
            before, line, after = block[number - 1], block[number], [*block, ""][number + 1]
            columns = set().union(*gaps[:number], *gaps[number + 1 :])
            is_table = any(gaps) and any(ends[:number])
            if not is_table or DRAWING.search(line) or ends[number] & columns:
                continue
            word = line.split()[0]
            is_full = len(before) + 1 + len(word) > WIDTH
            is_indented = indent(line) >= min(set().union(*ends[:number]))
            is_name = not ends[number] and indent(after) in columns
            if is_full and WORD.fullmatch(word) and not is_indented and not is_name:
                yield first + number, "indent it to the column of its table, or begin the row on a line of its own"


def torn_lists(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each item begins a line; its other lines are indented."""
    for first, block in _paragraphs(lines):
        margin = -1
        for number, line in enumerate(block):
            item = ITEM.match(line)
            if item:
                margin = indent(line)
            elif indent(line) <= margin:
                yield first + number, "indent it like the other lines of its item"
            if ITEM_WITHIN.search(line) or (item and item[1] and f". {int(item[1]) + 1}. " in line):
                yield first + number, "an item of the list begins within this line"


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """(index of its first line, its lines)"""
    for is_empty, block in groupby(enumerate(lines), lambda each: each[1].strip() in ("", '"""')):
        if not is_empty:
            numbered = list(block)
            yield numbered[0][0], [line for _, line in numbered]


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())
