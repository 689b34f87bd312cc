"""The inputs of a `Peer`: a closed set of classes.

The peer does no I/O: `peer.step(now, event)` takes one event and returns effects (`zab.protocol.effects`), which its
host (`zab.server`, or `zab.simulator`) carries out in order, and answers with events.

A link is an integer that names one connection of one process run, never reused. Links are first-in first-out; a link
that breaks is reported once, by `QuorumLinkDown`, and delivers no message afterwards.
"""

from typing import TypeAlias

import attrs

from datatree.log.batch import Batch, Position
from datatree.log.zxid import Epoch, Zxid
from zab.protocol.features import ALL
from zab.protocol.message import (
    Message,
    Notification,
)
from zab.quorum.ids import Link, Route, ServerId
from zab.service.disk_space import Space


@attrs.define
class ElectionLinkUp:
    """Our election connection to a server is open; its handshake took this long."""

    sid: ServerId
    round_trip_ms: int


@attrs.define
class ElectionLinkDown:
    """The server refused our election connection, or it closed and could not be opened again."""

    sid: ServerId
    knows_us: bool = True
    """False if the server says, without proof, that this one is not in its configuration."""
    is_taken: bool = False
    """The server says, without proof, that another process has this server's id."""


@attrs.define
class NotificationReceived:
    """A server's vote arrived on the election port, with the configurations that it knows."""

    sid: ServerId
    notification: Notification
    in_force: bytes = b""
    """Empty before the first reconfiguration."""
    outstanding: bytes = b""
    """Empty where there is none."""
    is_proven: bool = False
    """The sender has proven to belong to the ensemble, by the members' secret or a certificate."""


@attrs.define
class QuorumLinkUp:
    """A quorum connection is open: we dialled a leader (`inbound` false), or a learner dialled us."""

    link: Link
    sid: ServerId
    inbound: bool
    features: int = ALL
    """The features (`zab.protocol.features`) that both ends have."""


@attrs.define
class QuorumLinkDown:
    """A quorum connection broke."""

    link: Link


@attrs.define
class DialFailed:
    """The quorum port of a server that we dialled cannot be reached, or the handshake failed."""

    sid: ServerId


@attrs.define
class MessageReceived:
    """A message arrived on a quorum link."""

    link: Link
    message: Message


@attrs.define
class Durable:
    """`AppendBatches` is done: the log is durable up to this zxid."""

    generation: int
    zxid: Zxid


@attrs.define
class LogCut:
    """`TruncateLog` or `ResetLog` is done, durably."""

    generation: int
    zxid: Zxid


@attrs.define
class LogDrained:
    """`DrainLog` is done: every storage effect before it is durable."""

    generation: int


@attrs.define
class EpochsSaved:
    """`SaveEpochs` is done, durably."""

    generation: int
    accepted: Epoch
    current: Epoch


@attrs.define
class MemberSaved:
    """`SaveMember` is done, durably: from its next start on, this member counts as synchronized."""

    generation: int


@attrs.define
class SnapshotInstalled:
    """`FetchSnapshot` is done: the snapshot is durable, the tree is it, and the log after it is empty."""

    generation: int
    zxid: Zxid
    chain: bytes
    begins: bool = False
    """It is the beginning of its lineage."""
    recorded: bool = False
    """The member record is still there."""
    config: bytes = b""
    """The data of `/zookeeper/config` in the tree; empty before the first reconfiguration."""


@attrs.define
class LogRead:
    """The answer to `ReadLog`: the last batch end at or below that zxid, and batches after it.

    `position` is None when the zxid is older than what the log keeps.
    """

    link: Link
    position: Position | None
    batches: list[Batch]


@attrs.define
class SnapshotOffered:
    """The answer to `OfferSnapshot`: the newest valid snapshot of this member, held until `ReleaseSnapshot`."""

    link: Link
    zxid: Zxid
    chain: bytes


@attrs.define
class NothingToOffer:
    """The answer to `OfferSnapshot` if there is no valid snapshot above that zxid that the log continues."""

    link: Link
    above: Zxid


@attrs.define
class SnapshotWithdrawn:
    """The snapshot offered on this link is no longer held: the log after it exceeds `maxPinnedLogBytes`."""

    link: Link
    zxid: Zxid


@attrs.define
class Propose:
    """The leader's member has transactions: make them a batch and broadcast it."""

    first: Zxid
    """The number of the first one, from `next_zxid()`."""
    body: bytes
    count: int
    time: int
    flags: int
    applied: int
    digest: int
    digest_version: int


@attrs.define
class SyncRequested:
    """The leader's member asks for confirmation that a quorum still follows it; the token names the question."""

    token: int


@attrs.define
class Doubted:
    """The member's tree is wrong, for this reason: it must not lead. Or it is right again, and it may."""

    doubted: bool
    reason: str


@attrs.define
class LeadYielded:
    """Other members are likelier to have the right tree, for this reason: one of them should lead, unless only this
    member has all that a leader needs."""

    reason: str


@attrs.define
class HandOver:
    """An authorized client asked that this voter lead. If that is impossible, nothing changes."""

    heir: ServerId


@attrs.define
class ObserverRefused:
    """The leader's member refuses what came from the observer on this route, for this reason."""

    route: Route
    reason: str


@attrs.define
class SecretNamed:
    """The newest secret by which members prove who they are has this name; empty if they prove nothing."""

    name: bytes


@attrs.define
class SpaceChanged:
    """The room on this member's disk has reached this level."""

    space: Space


@attrs.define
class TimePassed:
    """`next_deadline()` is reached."""


Event: TypeAlias = (
    ElectionLinkUp
    | ElectionLinkDown
    | NotificationReceived
    | QuorumLinkUp
    | QuorumLinkDown
    | DialFailed
    | MessageReceived
    | Durable
    | LogCut
    | LogDrained
    | EpochsSaved
    | MemberSaved
    | SnapshotInstalled
    | LogRead
    | SnapshotOffered
    | NothingToOffer
    | SnapshotWithdrawn
    | Propose
    | SyncRequested
    | Doubted
    | LeadYielded
    | HandOver
    | ObserverRefused
    | SecretNamed
    | SpaceChanged
    | TimePassed
)
