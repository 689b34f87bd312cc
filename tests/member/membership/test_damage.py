"""A member whose history is damaged is filled by others; alone it ends, and founds nothing."""

from __future__ import annotations

import pytest

from datatree.recovery.recover import recover
from tests.datatree.recovery.damaged_log import damaged
from zab.member.membership.damage import is_alone
from zab.member.membership.restore import restored_of
from zab.member.settings.zoo_cfg import parse
from zab.protocol.states import BATCHES

LINES = "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=5\n"
MEMBER = "server.{0}=host{0}:2888:3888{1}\n"


@pytest.mark.parametrize(
    ("more", "is_so"),
    [
        ("", True),
        (MEMBER.format(1, ""), True),
        ("standaloneEnabled=false\n" + MEMBER.format(1, ""), True),
        ("standaloneEnabled=false\n" + MEMBER.format(1, "") + MEMBER.format(2, ":observer"), True),
        (MEMBER.format(1, "") + MEMBER.format(2, ""), False),
        (MEMBER.format(1, "") + MEMBER.format(2, "") + MEMBER.format(3, ""), False),
        (MEMBER.format(1, ":observer") + MEMBER.format(2, "") + MEMBER.format(3, ""), False),
    ],
)
def test_who_is_a_quorum_by_itself_has_nobody_to_be_filled_by(more: str, is_so: bool) -> None:
    assert is_alone(parse(LINES + more, "zoo.cfg", my_id=1)) is is_so


def test_a_damaged_history_is_held_so_that_nobody_begins_without_it() -> None:
    restored = restored_of(recover(damaged(), 1))
    assert restored.amnesiac
    assert restored.holds == BATCHES
    assert restored.lineage
