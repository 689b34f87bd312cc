"""The sources of this repository, parsed once for all tests that look at them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("zab", "datatree", "session")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    # Trees are kept for good: the garbage collector need not look at all of them again and again.
    gc.disable()
    try:
        return ast.parse(text_of(path))
    finally:
        gc.freeze()
        gc.enable()


@cache
def items_of(path: Path, kinds: tuple[type[ast.AST], ...]) -> tuple[ast.AST, ...]:
    """What a file has of these kinds of items, expressions included: a walk through a whole tree takes longer than to
    make it, and is done once for all who ask for the same."""
    return tuple(item for item in ast.walk(parsed(path)) if isinstance(item, kinds))


@cache
def module_of(path: Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything that is imported, at the top, in functions and for types alone."""
    for found in statements(tree):
        if isinstance(found, ast.Import):
            yield from ((found.lineno, alias.name) for alias in found.names)
        elif isinstance(found, ast.ImportFrom) and found.module:
            for alias in found.names:
                yield found.lineno, f"{found.module}.{alias.name}"


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements, without the expressions in them, which are most of a tree."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(tree, name, ())
        for found in inner if isinstance(inner, list) else ():
            yield found
            yield from statements(found)


@cache
def modules_imported(path: Path) -> frozenset[str]:
    """The modules of this project that a file imports."""
    return frozenset(module for _, name in imports(parsed(path)) if (module := own_module(name)) is not None)


def own_module(name: str) -> str | None:
    """The module of this project that a dotted name is, or is in."""
    while name not in MODULES:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return name


def within(name: str, packages: Iterator[str] | frozenset[str] | set[str] | list[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def report(found: list[str]) -> None:
    """Fail with one line for each: path, line, rule, and what to do instead."""
    assert not found, "\n" + "\n".join(found)
