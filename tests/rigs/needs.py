"""What a test needs beyond this process, found in its code: the marks `process` and `spark` of the suite.

    marks(item)         those that the code of a collected test asks for

A test needs what its fixtures need, and the functions of `tests` and `bench` that it names, and those that these name,
and so on: a test that uses the module `subprocess` starts a process, and so does one that asks for a fixture by a name
made at run time, which here always stands for files that servers leave. What cannot be found so (processes that the
product itself starts) is marked by hand. That nothing is missed is seen when it runs: `tests/conftest.py` fails a test
that starts a process without the mark.
"""

from __future__ import annotations

import functools
import inspect
import subprocess
from collections.abc import Iterator
from types import CodeType, FunctionType

import pytest

_FOLLOWED = ("tests.", "bench.")


def marks(item: pytest.Function) -> set[str]:
    fixtures = item._fixtureinfo.name2fixturedefs
    functions = [item.function, *(each.func for definitions in fixtures.values() for each in definitions)]
    found = {"process"} if any(map(_starts_processes, functions)) else set()
    return found | ({"spark"} & fixtures.keys())


_harmless: set[int] = set()
"""What is known to start no process, by its id: nothing that code names goes away."""


@functools.cache
def _starts_processes(function: object) -> bool:
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        value = waiting.pop()
        if value is subprocess:
            return True
        if id(value) not in seen and id(value) not in _harmless:
            seen.add(id(value))
            waiting += _named(value)
    _harmless.update(seen)
    return False


def _named(value: object) -> Iterator[object]:
    """What the code of a function names; a class's methods and bases; nothing for code that is not the tests'."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, FunctionType):
        value = inspect.unwrap(value)
    if not isinstance(value, FunctionType | type) or not value.__module__.startswith(_FOLLOWED):
        return
    if isinstance(value, type):
        yield from (*vars(value).values(), *value.__bases__)
    else:
        for code in _codes(value.__code__):
            if "getfixturevalue" in code.co_names:
                yield subprocess
            yield from (value.__globals__[name] for name in code.co_names if name in value.__globals__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
