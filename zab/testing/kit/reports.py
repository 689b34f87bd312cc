"""The report of a test that fails shows the journals of the members that it used.

These are hooks of pytest: a plugin imports them. They look at each group that is opened while a test runs, no matter
who opens it, and at those that it shares with other tests (`note`). A group has `members`, each with a `journal`, and
may have a `noun` for them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import pytest

from zab.testing.kit.listeners import listeners

REPORT_LINES: Final = 100
"""How many of the newest lines of each member are shown."""

_GROUPS: Final = pytest.StashKey[list[Any]]()
"""The groups that the running test has opened."""


def note(item: pytest.Item, group: Any) -> None:
    """This test uses a group, which may have been opened before."""
    groups = item.stash.setdefault(_GROUPS, [])
    if group not in groups:
        groups.append(group)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    found = item.stash[_GROUPS] = []
    listeners.append(found.append)
    try:
        return (yield)
    finally:
        listeners.remove(found.append)
        del item.stash[_GROUPS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for group in item.stash.get(_GROUPS, []):
            for sid, member in group.members.items():
                lines = member.journal.splitlines()[-REPORT_LINES:]
                noun = getattr(group, "noun", "member")
                report.sections.append((f"zab {noun} {sid} ({report.when})", "\n".join(lines)))
    return report
