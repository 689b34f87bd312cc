"""What brokers of several versions say of a group."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from zab.cli.brokers.client_config import ClientConfig
from zab.cli.brokers.clients import Brokers
from zab.cli.brokers.group_offsets import described
from zab.cli.brokers.refusals import RefusedError


@frozen
class Admin:
    """A client that gets this answer of DescribeGroups."""

    found: dict[str, Any]

    def describe_groups(self, groups: list[str]) -> dict[str, Any]:
        return dict.fromkeys(groups, self.found)


BROKERS = Brokers("h:1", ClientConfig(), 0)


@pytest.mark.parametrize("error", [None, "GroupIdNotFoundError"])
def test_a_group_that_does_not_exist_is_none_with_an_error_or_without(error: str | None) -> None:
    assert described(BROKERS, Admin({"error": error, "group_state": "Dead", "members": []}), "g") is None


def test_a_group_that_may_not_be_described_is_refused() -> None:
    with pytest.raises(RefusedError):
        described(BROKERS, Admin({"error": "GroupAuthorizationFailedError", "group_state": "", "members": []}), "g")
