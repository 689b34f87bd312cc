"""docs/contributing/zookeeper-tests.md names tests of ours for ZooKeeper's: each is there, and each difference has its
number."""

from __future__ import annotations

import ast
import re

from tests.tidy.sources import ROOT, parsed, report, text_of

PAGE = ROOT / "docs" / "contributing" / "zookeeper-tests.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::([\w:]+))?`")


def names_in(path: str) -> set[str]:
    """Names of the tests in a file, those of a class after its name."""
    found = set()
    for node in parsed(ROOT / path).body:
        functions = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            f"{prefix}{each.name}" for each in functions if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return found


def rows() -> list[list[str]]:
    lines = [line for line in text_of(PAGE).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_test_that_it_names_is_there() -> None:
    named = NAMED.findall(text_of(PAGE))
    assert len(named) > 100
    missing = [path for path, _ in named if not (ROOT / path).is_file()]
    missing += [
        f"{path}::{name}" for path, name in named if path not in missing and name and name not in names_in(path)
    ]
    report([f"{PAGE.name}: {each} is not there" for each in missing])


def test_every_method_has_a_test_or_a_reason() -> None:
    found = rows()
    assert len(found) > 80
    report([f"{PAGE.name}: {row[0]} has neither a test nor a reason" for row in found if not row[2] and not row[3]])
    assert all(len(row) == 4 for row in found)


def test_no_method_has_two_rows_of_one_class() -> None:
    for part in text_of(PAGE).split("\n### ")[1:]:
        methods = re.findall(
            r"`(\w+…?)`", "".join(line.split("|")[1] for line in part.splitlines() if line[:3] == "| `")
        )
        assert len(set(methods)) == len(methods), part.splitlines()[0]


def test_every_difference_is_in_the_list() -> None:
    numbers = set(re.findall(r"\bD\d+\b", text_of(PAGE)))
    known = set(re.findall(r"^\| (D\d+) \|", text_of(ROOT / "docs" / "explanation" / "divergence.md"), re.MULTILINE))
    assert not numbers - known
