"""A group of members for a pytest fixture: for one test, or shared by the tests of a class, a module or a run.

A shared group is restored before each test except the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, Self, TypeVar

import pytest

from zab.testing.kit.reports import note


class Group(contextlib.AbstractContextManager[Any], Protocol):
    """Members that are opened and closed together."""

    def __enter__(self) -> Self: ...

    def restore(self) -> object:
        """Restore the initial state. Raises an exception if that is impossible."""


G = TypeVar("G", bound=Group)

_SCOPES: Final[dict[str, type[pytest.Item | pytest.Collector]]] = {
    "function": pytest.Item,
    "class": pytest.Class,
    "module": pytest.Module,
    "session": pytest.Session,
}
_SHARED: Final = pytest.StashKey[dict[str, tuple[Any, contextlib.ExitStack]]]()


@contextlib.contextmanager
def shared(request: pytest.FixtureRequest, scope: str, make: Callable[[], G], name: str) -> Iterator[G]:
    """The open group of this name in this scope, made by an earlier test or new."""
    if scope not in _SCOPES:
        raise pytest.UsageError(f"{request.node.nodeid}: the scope {scope!r} is none of {', '.join(_SCOPES)}")
    sharing = request.node.getparent(_SCOPES[scope])
    if sharing is None or sharing is request.node:
        with make() as own:
            yield own
        return
    groups = sharing.stash.setdefault(_SHARED, {})
    if name in groups:
        group, stack = groups[name]
        note(request.node, group)
        _restore(group, stack)
    else:
        group, stack = make(), contextlib.ExitStack()
        stack.enter_context(group)
        groups[name] = group, stack
        stack.callback(groups.pop, name)
        sharing.addfinalizer(stack.close)
    yield group


def _restore(group: Group, stack: contextlib.ExitStack) -> None:
    """Restore a group. If that fails, the current test fails, and the next one gets a new group."""
    with contextlib.ExitStack() as undo:
        undo.callback(stack.close)
        group.restore()
        undo.pop_all()
