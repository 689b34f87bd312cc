"""The pages of the documentation: their links lead somewhere, their tables are whole, and the index has them all."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.tidy.sources import ROOT, at, report
from tests.tidy.torn import torn_lists

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("bench/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
TABLE_HEAD = re.compile(r"\|[-| :]+\|")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines outside of code blocks, with their numbers."""
    is_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def anchors(path: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    found: Counter[str] = Counter()
    for _, line in prose(path):
        if line.startswith("#"):
            words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            found[re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")] += 1
    return {f"{each}-{n}" if n else each for each, count in found.items() for n in range(count)}


def test_every_link_leads_to_a_file_and_to_a_heading_of_it() -> None:
    found = []
    for path in PAGES:
        for number, line in prose(path):
            for link in LINK.findall(line):
                if re.match(r"\w+:", link):
                    continue
                name, _, anchor = link.partition("#")
                target = path.parent / name if name else path
                if not target.exists():
                    found.append(f"{at(path, number)}: {link} does not exist")
                elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                    found.append(f"{at(path, number)}: {link} is no heading of that page")
    report(found)


def test_extras_are_installed_from_the_clone() -> None:
    """`pip install 'zab[…]'` would look for the package in an index, which does not have it."""
    found = []
    # The changelog says which extra brings what, for every way of installing.
    for path in (path for path in PAGES if path.name != "CHANGELOG.md"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"pip install [^`]*\bzab\[", line):
                found.append(f"{at(path, number)}: installs {line.strip()!r}, and not '.[…]' in the clone")
    report(found)


def test_every_extra_that_is_named_exists() -> None:
    """pip only warns about an extra that does not exist, and installs nothing for it."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    found = []
    sources = [path for room in ("zab", "datatree", "session") for path in (ROOT / room).rglob("*.py")]
    for path in [*PAGES, *sources]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for names in re.findall(r"(?:\bzab|'\.)\[([a-z]+(?:,[a-z]+)*)\]", line):
                found += [f"{at(path, number)}: no extra {name}" for name in set(names.split(",")) - extras]
    report(found)


def test_no_table_is_broken() -> None:
    """Each line of a table follows another line of it, or is its head."""
    found = []
    for path in PAGES:
        lines = [(0, ""), *prose(path), (0, "")]
        for ((_, before), (number, line)), (_, after) in zip(pairwise(lines), lines[2:], strict=False):
            if line.startswith("|") and not before.startswith("|") and not TABLE_HEAD.fullmatch(after):
                found.append(f"{at(path, number)}: a table without a head; is there a blank line in it?")
    report(found)


def test_no_list_is_torn_by_a_rewrap() -> None:
    found = []
    for path in PAGES:
        numbers, lines = zip(*prose(path), strict=True)
        found += [f"{at(path, numbers[number])}: {what}" for number, what in torn_lists(lines)]
    report(found)


def test_the_index_has_every_page() -> None:
    index = DOCS / "index.md"
    names = [str(path.relative_to(DOCS)) for path in PAGES if path.is_relative_to(DOCS) and path != index]
    report([f"{name} is not linked from docs/index.md" for name in names if f"]({name})" not in index.read_text()])
