"""A member of a group: what it supports, how long it may be silent, and which of its requests wait."""

from __future__ import annotations

from typing import Final

from attrs import define

from zab.kafka.coordinator_records import GroupMember
from zab.partition.coordinator.effects import Token
from zab.partition.groups.requests import JoinGroup, Protocol

NAME_LENGTH_MAX: Final = 1000
"""So much of a client's id goes into the ids of its members, which records have room for."""


@define(eq=False)
class Member:
    """At most one join and one sync of a member wait: the next one takes its place."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    join_token: Token | None = None
    """The join that waits for the next generation, or for a replaced static member to be stored."""
    sync_token: Token | None = None
    """The sync that waits for the leader's assignment."""
    is_new: bool = True
    """Until its first generation: its join is dropped after some minutes, since it cannot be known to be alive."""

    @property
    def is_static(self) -> bool:
        """Whether it has an instance id, which outlives its process."""
        return self.group_instance_id is not None

    @property
    def waits(self) -> bool:
        """Whether a request waits; such a member needs no heartbeat, except for a new one."""
        return self.join_token is not None or self.sync_token is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it told for this protocol; empty if it does not support it."""
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")

    def first_of(self, names: set[str]) -> str:
        """The one of these protocols that it prefers."""
        return next(each.name for each in self.protocols if each.name in names)

    def value(self, protocol_name: str | None, assignment: bytes) -> GroupMember:
        """Its part of the group's record."""
        return GroupMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )


def rebalance_timeout(request: JoinGroup) -> int:
    """How long this member may take to come into the next generation, in ms."""
    return request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms


def a_member_id(request: JoinGroup, unique: str) -> str:
    """The id of a member that has none yet."""
    name = request.client_id if request.group_instance_id is None else request.group_instance_id
    return f"{name[:NAME_LENGTH_MAX]}-{unique}"


def new_member(member_id: str, request: JoinGroup) -> Member:
    """A member as its first join describes it."""
    return Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=rebalance_timeout(request),
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )


def loaded_member(value: GroupMember, protocol_name: str | None) -> Member:
    """A member as the log describes it: it supports the protocol of its generation, until it joins again."""
    return Member(
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout if value.rebalance_timeout >= 0 else value.session_timeout,
        session_timeout_ms=value.session_timeout,
        protocols=() if protocol_name is None else (Protocol(protocol_name, value.subscription),),
        assignment=value.assignment,
        is_new=False,
    )
