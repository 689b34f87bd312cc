"""What a peer is given at its start: what it knows about its ensemble, and what recovery found on its disk."""

from typing import Any

import attrs

from datatree.log.batch import CHAIN_BYTES, Batch, Position
from datatree.log.session_keys import NamedKey
from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid
from zab.protocol.membership import NoReader, Reader
from zab.protocol.states import NOTHING, Holds
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Quorum

_LIMIT_OF_INIT: Any = attrs.Factory(lambda settings: settings.init_limit * settings.tick_ms, takes_self=True)
_LIMIT_OF_SYNC: Any = attrs.Factory(lambda settings: settings.sync_limit * settings.tick_ms, takes_self=True)


@attrs.frozen
class Settings:
    """What a peer knows about its ensemble before it has a history; times in milliseconds."""

    sid: ServerId
    quorum: Quorum
    servers: frozenset[ServerId]
    """Every server of the configuration: voters, servers of weight 0, and observers."""
    observers: frozenset[ServerId] = frozenset()
    tick_ms: int = 2000
    init_limit: int = 10
    sync_limit: int = 5
    counter_limit: int = 0xFFF00000
    """At this counter the leader renews its epoch (F1 renewal)."""
    batches_in_flight_max: int = 64
    unsynced_bytes_max: int = 32 << 20
    session_timeout_max_ms: int = 40_000
    """The longest timeout that a client gets."""
    recent_bytes_max: int = 8 << 20
    """How much committed history stays in memory for learners that come back."""
    reader: Reader = attrs.Factory(NoReader)
    """Reads reconfigurations."""
    takes_unlisted: bool = False
    """Servers outside of the configuration may follow, without a vote, so that a reconfiguration can add them."""
    has_observer_masters: bool = False
    """Followers accept links from observers, and an observer dials one of them before the leader."""
    observer_bytes_max: int = 32 << 20
    """How many bytes a master may have sent to an observer without acknowledgement; above that, it drops the
    observer."""
    near_observer_masters: tuple[ServerId, ...] = ()
    """The masters that an observer dials first, in this order."""
    reconnect_delay_ms: int = 0
    """An observer waits for a random time below this before it dials."""

    init_ms: int = attrs.field(init=False, default=_LIMIT_OF_INIT)
    sync_ms: int = attrs.field(init=False, default=_LIMIT_OF_SYNC)


@attrs.frozen
class Restored:
    """What recovery found on disk."""

    lineage: bytes
    """16 bytes, or empty when there is none yet."""
    accepted_epoch: Epoch
    current_epoch: Epoch
    mark: Zxid
    """The highest known high-water mark; the tree is at this zxid."""
    base: Position
    batches: list[Batch]
    """The newest part of the history, from `base` on, to the end of the durable log."""
    amnesiac: bool
    holds: Holds
    marked: bool = False
    """The operator declared, for this start, that this member never had data: there was a file `initialize` (B3 first
    start)."""
    beginning: Zxid = BEFORE_ALL
    """The zxid with which the lineage began, if known; usually 0."""
    session_keys: list[NamedKey] = attrs.Factory(list)
    config: bytes = b""
    """The data of `/zookeeper/config` in the tree at the mark; empty before the first reconfiguration."""


def nothing() -> Restored:
    """The state of a member that has never lived."""
    base = (BEFORE_ALL, bytes(CHAIN_BYTES))
    return Restored(b"", Epoch(0), Epoch(0), BEFORE_ALL, base, [], amnesiac=True, holds=NOTHING)
