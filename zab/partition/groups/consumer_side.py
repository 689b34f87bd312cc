"""What a group has if it is one of KIP-848: its state in the log, and what waits for the log.

One append of a group is under way at a time. What comes meanwhile waits, and is decided together once the append is
committed: so every decision is made on what the log has, however many members there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

from attrs import Factory, define, frozen

from zab.partition.consumer_groups.heartbeat import MemberHeartbeat, Topic
from zab.partition.consumer_groups.state import ConsumerGroup
from zab.partition.groups.results import ConsumerHeartbeatResult


@frozen
class Asked:
    """A heartbeat that waits, or a request of the classic protocol in its form."""

    heartbeat: MemberHeartbeat
    answer: Callable[[ConsumerHeartbeatResult], None]


@frozen
class Removal:
    """A member that was silent for too long; or, with its epoch, that has not given partitions up in time. `timer`: the
    value of the timer that is over."""

    member_id: str
    timer: int
    epoch: int | None = None


Waiting: TypeAlias = Asked | Removal


@define(eq=False)
class ConsumerSide:
    """See the top of the file."""

    group: ConsumerGroup
    """What is committed."""
    next: ConsumerGroup | None = None
    """What it will be once the append is committed; None: none is under way."""
    waiting: deque[Waiting] = Factory(deque)
    alone_count: int = 0
    """So many of those that wait are decided one by one: together they were too much for one batch."""
    is_in_doubt: bool = False
    """Whether the log has not said in time what becomes of the append."""
    is_converting: bool = False
    """Whether the append under way makes it of a classic group, whose members are still those of the `Group`."""
    expected: dict[str, int] = Factory(dict)
    """Which request is due of members of the classic protocol: the value of its timer."""
    seen: Mapping[str, Topic] | None = None
    """The topics of the cluster when the group was looked at last."""

    @property
    def known(self) -> ConsumerGroup:
        """What members know of: what is committed, or what the group is being converted to."""
        return self.next if self.is_converting and self.next is not None else self.group

    @property
    def latest(self) -> ConsumerGroup:
        """What members are measured by."""
        return self.group if self.next is None else self.next

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and none are on their way."""
        return not self.group.members and self.next is None and not self.waiting
