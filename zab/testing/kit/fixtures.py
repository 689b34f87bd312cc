"""A group of members for a fixture of pytest: of one test, or shared by the tests of a class, a module or a run.

Tests that share a group find it as new: it is restored before each of them but the first.
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
        """Make it as it was when it was opened. Raises an exception when it cannot be."""


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
    """The open group of this name in this scope: the one that an earlier test has made, or a new one."""
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
    """The test that finds a group that cannot be restored fails; the next one gets a new group."""
    with contextlib.ExitStack() as undo:
        undo.callback(stack.close)
        group.restore()
        undo.pop_all()
