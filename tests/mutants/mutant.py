"""What a mutant is: one rule of the code, taken out, and the test that has to notice.

    mutant votes_ignore_history
    rules  A3
    killer tests/protocol/test_known_bugs.py::test_votes_are_ordered_by_epoch_before_history
    file   zab/protocol/election.py
    -    return vote.epoch, vote.zxid, vote.marked, vote.leader
    +    return vote.epoch, vote.epoch, vote.marked, vote.leader

So they are in `tests/testdata/mutants/*.txt`, with an empty line between two. The lines after `file` are those of the
source: with "-" they go, with "+" they come, with a blank they stay and only say where. They have to be found there
once, in this order, without others between them. A mutant that changes several places has several `file`.

`rules` are those of docs/reference/rules.md that it breaks, or "-": then it breaks the protocol of the paper, or
ZooKeeper's. `killer` is the id of a test or of a file of tests, or `simulate:N`, the seed N of `zab simulate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

SIMULATED = "simulate:"
DIRECTORY = Path(__file__).parents[1] / "testdata" / "mutants"


class MutantError(Exception):
    """A mutant that cannot be read, or that cannot be made of these sources."""


@attrs.frozen
class Edit:
    """One place: lines of a file, and what is there without the rule."""

    path: str
    """Relative to the repository."""
    old: str
    new: str


@attrs.frozen
class Mutant:
    """One rule of the code, switched off."""

    name: str
    rules: tuple[str, ...]
    killer: str
    edits: tuple[Edit, ...]

    def texts(self, root: Path) -> dict[str, str]:
        """Path -> source without the rule. Raises MutantError when the sources are not those that it was made for."""
        found: dict[str, str] = {}
        for edit in self.edits:
            if edit.new == edit.old:
                raise MutantError(f"{self.name}: {edit.path} stays as it is:\n{edit.old}")
            text = found.get(edit.path)
            if text is None:
                text = (root / edit.path).read_text(encoding="utf-8")
            # Whole lines: what a file begins with has none before it.
            count = f"\n{text}".count(f"\n{edit.old}")
            if count != 1:
                raise MutantError(f"{self.name}: {edit.path} has this {count} times, not once:\n{edit.old}")
            found[edit.path] = f"\n{text}".replace(f"\n{edit.old}", f"\n{edit.new}")[1:]
        return found


def mutants() -> list[Mutant]:
    """All of them, in the order of the files."""
    return [mutant for path in sorted(DIRECTORY.glob("*.txt")) for mutant in read(path.read_text(encoding="utf-8"))]


def read(text: str) -> Iterator[Mutant]:
    """The mutants of a text. Raises MutantError."""
    for block in text.split("\n\nmutant "):
        lines = block.removeprefix("mutant ").rstrip("\n").split("\n")
        if len(lines) < 5 or not lines[1].startswith("rules ") or not lines[2].startswith("killer "):
            raise MutantError(f"not a mutant: {lines[:3]}")
        rules = [rule for rule in lines[1].split()[1:] if rule != "-"]
        yield Mutant(lines[0].strip(), tuple(rules), lines[2].split(maxsplit=1)[1], tuple(_edits(lines[3:])))


def _edits(lines: list[str]) -> Iterator[Edit]:
    starts = [number for number, line in enumerate(lines) if line.startswith("file ")]
    if not starts or starts[0] != 0:
        raise MutantError(f"no file: {lines[:1]}")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        changed = lines[start + 1 : end]
        if any(line[:1] not in ("-", "+", " ", "") for line in changed) or not any(
            line[:1] in "-+" for line in changed
        ):
            raise MutantError(f"no change: {changed}")
        old = "".join(f"{line[1:]}\n" for line in changed if not line.startswith("+"))
        new = "".join(f"{line[1:]}\n" for line in changed if not line.startswith("-"))
        yield Edit(lines[start].split(maxsplit=1)[1], old, new)
