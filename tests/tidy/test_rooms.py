"""The rooms of the house and the arrows between them: docs/explanation/architecture.md has the table, and the code
keeps to it."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import attrs
import pytest

from tests.tidy.import_closure import closure
from tests.tidy.sources import MODULES, ROOT, SOURCES, at, imports, module_of, modules_imported, parsed, report, within

PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
OUTSIDE = frozenset(
    {
        *("asyncio", "logging", "multiprocessing", "os", "pathlib", "queue", "random", "select", "selectors", "signal"),
        *("socket", "ssl", "subprocess", "tempfile", "threading", "time", "trio"),
    }
)
"""What a pure room never imports, nor does anything that it imports: its inputs and outputs are arguments."""


def package_of(name: str) -> str:
    """The package of a directory, of the files directly in one, or of one file."""
    return name.removesuffix("/*.py").removesuffix(".py").replace("/", ".")


@attrs.frozen
class Room:
    """A row of the table."""

    name: str
    ours: frozenset[str]
    others: frozenset[str]
    pure: bool

    @property
    def package(self) -> str:
        return package_of(self.name)


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rooms() -> list[Room]:
    found = []
    for line in section("Rooms").splitlines():
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


def test_every_source_is_in_a_room_and_every_room_has_sources() -> None:
    packages = {room_of(module_of(path)).package for path in SOURCES}
    assert packages == {room.package for room in ROOMS}
    for room in ROOMS:
        assert (ROOT / room.name.removesuffix("/*.py")).exists(), room.name


def test_imports_follow_the_table() -> None:
    allowed_of = {room: set(map(package_of, room.ours)) for room in ROOMS}
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
                is_allowed = module == "zab" or other is room or bool({module, other.package} & allowed_of[room])
            if not is_allowed:
                found.append(f"{at(path, line)}: {room.name} may not import {name}")
    report(found)


@cache
def _impure_imports(module: str) -> tuple[str, ...]:
    """Where this module itself imports what a pure room must not reach."""
    # The class is only a type there: an instance with its seed is handed in.
    return tuple(
        f"{at(MODULES[module], line)} imports {name}"
        for line, name in imports(parsed(MODULES[module]))
        if name.split(".")[0] in OUTSIDE and name != "random.Random"
    )


def test_pure_rooms_are_pure_in_everything_that_they_import() -> None:
    found = []
    for path in SOURCES:
        module = module_of(path)
        if room_of(module).pure:
            for other in closure(module):
                found += [f"{module} is not pure: {each}" for each in _impure_imports(other)]
    report(found)


def test_the_table_names_no_arrow_that_nobody_uses() -> None:
    used: dict[str, set[str]] = {room.package: set() for room in ROOMS}
    for path in SOURCES:
        room = room_of(module_of(path))
        for module in modules_imported(path):
            used[room.package] |= {module, room_of(module).package}
    for room in ROOMS:
        unused = {name for name in room.ours if package_of(name) not in used[room.package]}
        assert not unused, f"{room.name} does not import {sorted(unused)}"


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {module_of(path): modules_imported(path) - {module_of(path)} for path in SOURCES}
    circles = [sorted(part) for part in _components(graph) if len(part) > 1]
    report([f"{' <-> '.join(circle)}: a circle of imports, types included" for circle in circles])


def _components(graph: dict[str, frozenset[str]]) -> list[set[str]]:
    """The strongly connected components (Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        stack = [(start, iter(sorted(graph[start])))] if start not in seen else []
        seen.add(start)
        while stack:
            module, others = stack[-1]
            following = next((other for other in others if other not in seen), None)
            if following is None:
                order.append(module)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(sorted(graph[following]))))
    backwards: dict[str, set[str]] = {module: set() for module in graph}
    for module, others in graph.items():
        for other in others:
            backwards[other].add(module)
    components = []
    left = set(graph)
    for module in reversed(order):
        if module in left:
            part, pending = {module}, [module]
            left.discard(module)
            while pending:
                new = backwards[pending.pop()] & left
                left -= new
                part |= new
                pending += new
            components.append(part)
    return components


def test_the_check_for_circles_finds_one() -> None:
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("ab")}
    assert {"a", "b", "c"} in _components(graph)
    assert sum(len(part) > 1 for part in _components(graph)) == 1


def floors(title: str) -> dict[str, int]:
    """The floor of each room, as this section of the page draws them."""
    drawing = section(title).split("```")[1]
    found = {}
    for line in drawing.strip().splitlines():
        number, *names = line.split()
        found.update({package_of(name): int(number) for name in names})
    return found


def test_the_drawing_is_the_house() -> None:
    floor_of = floors("Rooms")
    assert set(floor_of) == {room.package for room in ROOMS}
    found = []
    for path in SOURCES:
        own = room_of(module_of(path)).package
        for module in modules_imported(path):
            other = room_of(module).package
            if other != own and module != "zab" and floor_of[other] >= floor_of[own]:
                found.append(f"{at(path, 1)}: {own} is on floor {floor_of[own]}, {other} on floor {floor_of[other]}")
    report(found)


INSIDE = {
    "Inside a member": "zab/member",
    "Inside a broker": "zab/partition",
    "Inside a ledger": "zab/ledger",
    "Inside the kernel": "zab/host",
    "Inside a simulated ensemble": "zab/simulator/ensemble",
}


@pytest.mark.parametrize(("title", "package"), INSIDE.items())
def test_rooms_inside_a_room_are_as_drawn(title: str, package: str) -> None:
    """Each directory in it is a room with a row and a floor; the files beside them are on top of all."""
    whole = ROOT / package
    directories = {path.parent.name for path in whole.glob("*/__init__.py")}
    floor_of = floors(title)
    assert set(floor_of) == directories
    assert set(re.findall(r"^\| `(\w+)` \|", section(title), re.M)) == directories
    found = []
    for path in sorted(whole.rglob("*.py")):
        own = _room_in(module_of(path), whole)
        inside = filter(lambda module: within(module, {package_of(package)}), modules_imported(path))
        for other in {_room_in(module, whole) for module in inside}:
            if own is not None and own != other and (other is None or floor_of[other] >= floor_of[own]):
                found.append(f"{at(path, 1)}: {own} may not import {other or 'what is on top'}")
    report(found)


def _room_in(module: str, whole: Path) -> str | None:
    """Which room inside another one a module is in; None: on top of them."""
    directory = MODULES[module].parent
    return None if directory == whole else directory.name


def test_every_stop_of_a_walk_is_there() -> None:
    walks = section("Walks")
    stops = re.findall(r"^\| \d+ \| `([^`]+)` `([^`]+)` \|", walks, re.M)
    assert len(stops) > 20
    assert len(stops) == len(re.findall(r"^\| \d+ \|", walks, re.M)), "a stop is a file and a name in it"
    report(
        [
            f"docs/explanation/architecture.md: {path} has no {name}"
            for path, name in stops
            if not _has(ROOT / path, name)
        ]
    )


def _has(path: Path, name: str) -> bool:
    body: list[ast.stmt] = parsed(path).body
    for part in name.split("."):
        found = [item for item in body if isinstance(item, DEFINITIONS) and item.name == part]
        if not found:
            return False
        body = found[0].body
    return True


def test_the_paths_that_the_page_names_exist() -> None:
    for path in re.findall(r"`((?:zab|datatree|session|tests|docs|bench)/[\w/.]*)`", PAGE):
        assert (ROOT / path).exists() or Path(ROOT / f"{path}.py").exists(), path
