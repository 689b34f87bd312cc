"""The rules of this repository that a reader cannot see at a glance, checked on the sources.

Each failure is one line: path, line, rule, and what to do instead.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT, SOURCES, TESTS, at, imports, items_of, parsed, report, statements, text_of
from tests.tidy.torn import indent, torn_lists, torn_tables

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
ASSERTS_PER_1000_LINES_MIN = 30
TOP_LEVEL_ENTRIES_MAX = 22

BANNED_MODULES = {"util", "utils", "helper", "helpers", "common", "base", "misc", "constants", "types"}
BANNED_WORDS = re.compile(r"(^|_)(term|master|slave|manager|helper|util)(s?)($|_)|([a-z]|^)(Manager|Helper|Util)")
NAMES_OF_OTHERS = {"terminal", "master_key"}
OBSERVER_MASTER = re.compile(r"observer_masters?")
"""ZooKeeper's name of a follower that observers follow."""

WAITING = ROOT / "tests" / "rigs" / "waiting.py"
ITEMS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.Name, ast.arg)
"""What the tests of names, lengths and errors look at."""
CORE = [path for path in SOURCES if path.parent == ROOT / "zab" / "protocol"]


def test_files_and_functions_are_short() -> None:
    found = []
    for path in SOURCES:
        lines = len(text_of(path).splitlines())
        if lines > FILE_LINES_MAX:
            found.append(f"{at(path, 1)}: {lines} lines, split it by idea")
        for item in items_of(path, ITEMS):
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (item.end_lineno or item.lineno) - item.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    found.append(f"{at(path, item.lineno)}: {item.name} has {length} lines, split it by step")
    report(found)


def test_no_module_is_a_drawer() -> None:
    report([f"{at(path, 1)}: name it after what it is" for path in SOURCES if path.stem.strip("_") in BANNED_MODULES])


def test_names_are_those_of_the_field() -> None:
    found = []
    for path in SOURCES:
        for item in items_of(path, ITEMS):
            names = []
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = [item.name]
            elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
                names = [item.id]
            elif isinstance(item, ast.arg):
                names = [item.arg]
            for name in names:
                is_banned = BANNED_WORDS.search(OBSERVER_MASTER.sub("", name)) and name not in NAMES_OF_OTHERS
                if name == "node" or is_banned:
                    found.append(f"{at(path, item.lineno)}: {name}, say it in the words of Zab and ZooKeeper")
    report(found)


def test_no_error_is_swallowed_unseen() -> None:
    found = []
    for path in SOURCES:
        for item in items_of(path, ITEMS):
            if isinstance(item, ast.ExceptHandler):
                names = [item.type] if item.type is not None else []
                broad = item.type is None or any(
                    isinstance(name, ast.Name) and name.id in ("Exception", "BaseException") for name in names
                )
                if broad:
                    found.append(f"{at(path, item.lineno)}: name the errors that are expected here")
    report(found)


def test_nothing_is_left_for_later() -> None:
    words, found = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), []
    for path in SOURCES + TESTS:
        if path == Path(__file__) or not words.search(text_of(path)):
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if words.search(line):
                found.append(f"{at(path, number)}: finish it, or open an issue")
    report(found)


def test_no_test_changes_the_time_of_other_threads() -> None:
    """A test replaced `time.sleep` by what raises KeyboardInterrupt at last. A thread of a library got it."""
    changes = re.compile(r"""setattr\((?:["'][\w.]*\.time\.|(?:\w+\.)*time,)""")
    found = []
    for path in TESTS:
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if changes.search(line):
                found.append(f"{at(path, number)}: replace the name `time` of the module that is tested")
    report(found)


def test_the_patience_of_tests_has_one_home() -> None:
    """How long an event is waited for says how slow a machine may be, which is the same for all tests."""
    own = re.compile(r"^_?(LONG_)?PATIENCE_SECONDS\b.*=", re.MULTILINE)
    homes = [path for path in TESTS if own.search(text_of(path))]
    report([f"{path.relative_to(ROOT)}: import it from tests.rigs.waiting" for path in homes if path != WAITING])
    assert WAITING in homes


def test_no_test_imports_another() -> None:
    """What several tests use is in a file that is named after what it is."""
    found = []
    for path in TESTS:
        for line, name in imports(parsed(path)):
            if re.search(r"^tests\..*\btest_", name):
                found.append(f"{at(path, line)}: {name} belongs to a test, move it to a file of its own")
    report(found)


def test_every_module_says_what_it_is() -> None:
    report([f"{at(path, 1)}: begin with a docstring" for path in SOURCES if not ast.get_docstring(parsed(path))])


def test_the_core_asserts_what_must_be_true() -> None:
    core = [path for path in CORE if path.stem not in ("__init__", "message", "member_message", "events", "effects")]
    lines = sum(len(text_of(path).splitlines()) for path in core)
    asserts = sum(isinstance(item, ast.Assert) for path in core for item in ast.walk(parsed(path)))
    assert asserts * 1000 / lines >= ASSERTS_PER_1000_LINES_MIN, f"{asserts} asserts in {lines} lines"
    assert __debug__


@pytest.mark.parametrize("name", ["state", "phase"])
def test_a_peer_changes_role_in_one_place(name: str) -> None:
    found = []
    for path in CORE:
        tree = parsed(path)
        for item in ast.walk(tree):
            if isinstance(item, ast.FunctionDef) and not (
                path.stem == "peer_state" and item.name in ("become", "__init__")
            ):
                for inner in ast.walk(item):
                    is_target = isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                    if is_target and inner.attr == name and isinstance(inner.value, ast.Name):
                        owner = inner.value.id
                        if owner == "peer" or (owner == "self" and path.stem in ("peer", "peer_state")):
                            found.append(f"{at(path, inner.lineno)}: use PeerState.become")
    report(found)


def test_the_top_level_stays_small() -> None:
    entries = [
        path for path in ROOT.iterdir() if path.name not in (".git", ".venv", "data") and "cache" not in path.name
    ]
    assert len(entries) <= TOP_LEVEL_ENTRIES_MAX, sorted(path.name for path in entries)


def test_no_table_or_rule_is_torn_by_a_rewrap() -> None:
    """A rule over a section is one line; no line of a paragraph is one word that the next line goes on from; tables and
    lists of docstrings are whole (`torn`)."""
    found = []
    for path in SOURCES + TESTS:
        lines = text_of(path).splitlines()
        for number, (line, following) in enumerate(pairwise(lines), 1):
            is_rule = re.match(r"\s*# -{20,} \w", line) is not None
            if is_rule and re.match(r"\s*# \w", following):
                found.append(f"{at(path, number + 1)}: the rule over a section is one line")
        for first, last in docstring_lines(parsed(path)):
            for number in range(first + 1, last):
                before, line, following = lines[number - 2 : number + 1]
                is_torn = re.fullmatch(r" *[a-z]+", line) and re.match(r" *[a-z]", following) and before.strip()
                if is_torn and indent(line) == indent(following):
                    found.append(f"{at(path, number)}: a paragraph is torn here")
            text = lines[first - 1 : last]
            found += [f"{at(path, first + number)}: {what}" for number, what in (*torn_tables(text), *torn_lists(text))]
    report(found)


def docstring_lines(tree: ast.Module) -> Iterator[tuple[int, int]]:
    for item in statements(tree):
        if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str):
            assert item.end_lineno is not None
            yield item.lineno, item.end_lineno
