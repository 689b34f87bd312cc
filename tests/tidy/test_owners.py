"""Each state of a member has one owner, which alone assigns it: others call a method of the owner.

Owners are known by the names under which the parts of a member are handed around. Records that many parts fill in are
no owners: a connection, the counts of `Metrics`, the work of a turn (`ReadState.spent`).
"""

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.tidy.sources import SOURCES, at, module_of, parsed, report, within

OWNERS: Final = frozenset(
    {
        *("member", "applier", "check", "driver", "heir", "intake", "limits", "messages", "processor"),
        *("proposing", "questions", "read_only", "schedule", "serving", "service", "sessions", "throttle"),
        *("times", "trees", "turn_end", "view", "waiting", "words", "forwarded", "client_input", "snapshots"),
    }
)
RECORDS: Final = frozenset({"metrics", "connection", "spent"})
ALLOWED: Final = frozenset(
    {
        "self.member.state.authentication.kerberos",  # its worker begins after the member
        "self.member.observe",  # a simulated one is watched
        "self.member.peer.observe",
    }
)
PACKAGES: Final = frozenset({"zab.member", "zab.server", "zab.simulator.ensemble", "zab.testing"})


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node


def of_others(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, target) of each assignment to an attribute of an owner by somebody else."""
    found = []
    for target in assigned(tree):
        text = ast.unparse(target)
        names = [name.lstrip("_") for name in text.split(".")]
        if names[-2] in OWNERS | {"state", "peer", "authentication"} and text not in ALLOWED:
            is_owner = names[-2] in OWNERS or "member" in names
            if is_owner and not RECORDS & set(names):
                found.append((target.lineno, text))
    return found


def test_nobody_assigns_what_another_part_of_a_member_owns() -> None:
    found = []
    for path in SOURCES:
        if within(module_of(path), PACKAGES):
            for line, text in of_others(parsed(path)):
                found.append(f"{at(path, line)}: {text} is assigned from outside, call a method of its owner")
    report(found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("member.surroundings = None", 1),
        ("self.member.serving, other = True, 1", 1),
        ("self._processor.proposing.newest_time += 1", 1),
        ("self.repair = None", 0),
        ("self.member.metrics.members_refused += 1", 0),
        ("connection.closing = 1", 0),
    ],
)
def test_an_assignment_from_outside_is_seen(text: str, count: int) -> None:
    assert len(of_others(ast.parse(text))) == count
