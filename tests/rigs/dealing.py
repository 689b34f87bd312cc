"""Which worker of a parallel run gets which tests, and in which order.

A worker gets together: what shares the Spark session; a module that has a fixture of its own, or only short tests.
Every other slow test is dealt by itself. What starts Spark processes of its own is dealt as if it did not need the
session: it takes longer than another session does. The long ones come first, so that no worker has one left when the
others are done.

Only workers collect tests and know their marks: they write the groups into a file that the scheduler reads. (xdist's
own groups are a part of the tests' names, which pytest 9.1 and later do not let it change.)

A test that hangs ends its worker (`timeout` in pyproject.toml): another worker goes on with the rest of the group.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LONGEST_FIRST = ("spark", "longest", "cluster", "long", "hunt", "java", "process", "slow")


def group(item: pytest.Function) -> str:
    """Tests of one group go to one worker."""
    if item.get_closest_marker("spark") and not item.get_closest_marker("cluster"):
        return "spark"
    scopes = {definitions[-1].scope for definitions in item._fixtureinfo.name2fixturedefs.values()}
    if item.get_closest_marker("slow") and "module" not in scopes:
        return item.nodeid
    return item.nodeid.partition("::")[0]


def place_in_order(item: pytest.Item) -> int:
    found = (place for place, mark in enumerate(LONGEST_FIRST) if item.get_closest_marker(mark))
    return next(found, len(LONGEST_FIRST))


def write_groups(items: list[pytest.Item], path: Path) -> None:
    """All workers write the same; anyone who reads sees all of it or nothing."""
    groups = {item.nodeid: group(item) for item in items if isinstance(item, pytest.Function)}
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(groups))
    part.replace(path)


class Dealing(LoadScopeScheduling):  # type: ignore[misc]
    """Deals whole groups, in the order of their first tests."""

    def __init__(self, config: pytest.Config, log: Any, path: Path) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._path = path
        self._groups: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:
            self._groups = json.loads(self._path.read_text())
        return self._groups[nodeid]

    def remove_node(self, node: Any) -> str | None:
        """The test that ran when the worker ended, if one did: it has failed, and no other worker tries it again."""
        tests = [
            (group, nodeid) for group in self.assigned_work[node].values() for nodeid in group if not group[nodeid]
        ]
        if not tests:
            super().remove_node(node)
            return None
        group, ended = tests[0]
        group[ended] = True
        super().remove_node(node)
        return str(ended)
