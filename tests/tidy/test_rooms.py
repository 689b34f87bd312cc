"""The rooms of the house and the arrows between them: docs/architecture.md has the table, and the code keeps to it."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import attrs

from tests.tidy.sources import MODULES, ROOT, SOURCES, at, imports, module_of, modules_imported, parsed, report, within

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

OUTSIDE = frozenset(
    {
        *("asyncio", "logging", "multiprocessing", "os", "pathlib", "queue", "random", "select", "selectors", "signal"),
        *("socket", "ssl", "subprocess", "tempfile", "threading", "time", "trio"),
    }
)
"""What a pure room never imports, nor does anything that it imports: its inputs and outputs are arguments."""


@attrs.frozen
class Room:
    """A row of the table."""

    name: str
    ours: frozenset[str]
    others: frozenset[str]
    pure: bool

    @property
    def package(self) -> str:
        return self.name.removesuffix("/*.py").replace("/", ".")


def rooms() -> list[Room]:
    section = PAGE.split("\n## Rooms\n", 1)[1].split("\n## ", 1)[0]
    found = []
    for line in section.splitlines():
        if line.startswith("| `"):
            name, _, ours, others, pure = (cell.strip() for cell in line.strip("|").split("|"))
            found.append(Room(name.strip("`"), _names(ours), _names(others), pure == "pure"))
    return found


def _names(cell: str) -> frozenset[str]:
    return frozenset(re.findall(r"`([^`]+)`", cell))


ROOMS = rooms()


@cache
def room_of(module: str) -> Room:
    """The innermost room."""
    return max((room for room in ROOMS if within(module, {room.package})), key=lambda room: len(room.package))


@cache
def closure(module: str) -> frozenset[str]:
    """A module and everything of this project that it imports, at whatever remove."""
    found, pending = {module}, [module]
    while pending:
        new = modules_imported(MODULES[pending.pop()]) - found
        found |= new
        pending += new
    return frozenset(found)


def test_every_source_is_in_a_room_and_every_room_has_sources() -> None:
    packages = {room_of(module_of(path)).package for path in SOURCES}
    assert packages == {room.package for room in ROOMS}
    for room in ROOMS:
        assert (ROOT / room.name.removesuffix("/*.py")).is_dir(), room.name


def test_imports_follow_the_table() -> None:
    allowed_of = {room: {name.removesuffix("/*.py").replace("/", ".") for name in room.ours} for room in ROOMS}
    found = []
    for path in SOURCES:
        room = room_of(module_of(path))
        if room.package == "zab" and path.name == "__init__.py":
            continue
        for line, name in imports(parsed(path)):
            top = name.split(".")[0]
            if top in sys.stdlib_module_names:
                continue
            module = next((m for m in (name, name.rpartition(".")[0]) if m in MODULES), None)
            if module is None:
                is_allowed = within(name, room.others)
            else:
                other = room_of(module)
                is_allowed = other is room or bool({module, other.package} & allowed_of[room])
            if not is_allowed:
                found.append(f"{at(path, line)}: {room.name} may not import {name}")
    report(found)


def test_pure_rooms_are_pure_in_everything_that_they_import() -> None:
    found = []
    for path in SOURCES:
        module = module_of(path)
        if not room_of(module).pure:
            continue
        for other in closure(module):
            for line, name in imports(parsed(MODULES[other])):
                # The class is only a type there: an instance with its seed is handed in.
                if name.split(".")[0] in OUTSIDE and name != "random.Random":
                    found.append(f"{module} is not pure: {at(MODULES[other], line)} imports {name}")
    report(found)


def test_the_table_names_no_arrow_that_nobody_uses() -> None:
    used: dict[str, set[str]] = {room.package: set() for room in ROOMS}
    for path in SOURCES:
        room = room_of(module_of(path))
        for module in modules_imported(path):
            used[room.package] |= {module, room_of(module).package}
    for room in ROOMS:
        unused = {name for name in room.ours if name.removesuffix("/*.py").replace("/", ".") not in used[room.package]}
        assert not unused, f"{room.name} imports nothing of {sorted(unused)}"


def test_the_paths_that_the_page_names_exist() -> None:
    for path in re.findall(r"`((?:zab|datatree|session|tests|docs|bench)/[\w/.]*)`", PAGE):
        assert (ROOT / path).exists() or Path(ROOT / f"{path}.py").exists(), path
