"""Decides what clients of one broker may do: the rules of its file, and the access lists as far as it knows them.

    decide(principal, host, operation, type, name) -> Decision
    operations(principal, host, type, name) -> int          all that it may do with a resource, as Kafka's bits
    is_ready                                                the lists are known

Until the lists are known nobody but super users may do anything; requests are better kept waiting.

Limit: `KEPT_MAX` answers are kept until a list changes, so that hot requests do not look through lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from zab.partition.access.acls import (
    OPERATIONS_OF,
    AccessLists,
    Asked,
    Decision,
    Operation,
    ResourceType,
    Rules,
    decide,
    decide_any,
)

KEPT_MAX: Final = 10_000


class Authorizer:
    """See the docstring of the module."""

    def __init__(self, rules: Rules, lists: Callable[[], AccessLists | None]) -> None:
        """`lists`: those that there are now; None: they are not known yet."""
        self._rules = rules
        self._lists = lists
        self._kept: dict[Asked, Decision] = {}
        self._kept_of: tuple[AccessLists | None, int] = (None, 0)

    @property
    def is_ready(self) -> bool:
        """Whether the lists are known."""
        return self._lists() is not None

    @property
    def lists(self) -> AccessLists:
        """The lists; none while they are not known."""
        return self._lists() or AccessLists()

    def decide(self, principal: str, host: str, operation: Operation, type_: ResourceType, name: str) -> Decision:
        """May this principal, at this address, do this?"""
        asked = Asked(principal, host, operation, type_, name)
        lists = self._lists()
        if lists is None:
            return Decision.SUPER_USER if principal in self._rules.super_users else Decision.UNREADABLE
        state = lists, lists.change_count
        if state != self._kept_of or len(self._kept) >= KEPT_MAX:
            self._kept, self._kept_of = {}, state
        decision = self._kept.get(asked)
        if decision is None:
            decision = self._kept[asked] = decide(lists, self._rules, asked)
        return decision

    def decide_any(self, principal: str, host: str, operation: Operation, type_: ResourceType) -> Decision:
        """Is there any resource of this type on which it may?"""
        lists = self._lists()
        if lists is None:
            return Decision.SUPER_USER if principal in self._rules.super_users else Decision.UNREADABLE
        return decide_any(lists, self._rules, Asked(principal, host, operation, type_, ""))

    def operations(self, principal: str, host: str, type_: ResourceType, name: str) -> int:
        """What it may do with this resource: bit n is the operation of number n."""
        allowed = (each for each in OPERATIONS_OF[type_] if self.decide(principal, host, each, type_, name).allows)
        return bits(allowed)


def bits(operations: Iterable[Operation]) -> int:
    """The bit field that Kafka's answers have of operations."""
    return sum(1 << each for each in operations)


ALL_OPERATIONS: Final = {type_: bits(operations) for type_, operations in OPERATIONS_OF.items()}
"""What everybody may do where there are no access lists."""
