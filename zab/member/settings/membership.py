"""How a member belongs to its ensemble.

Not here: the server lines (`zab.configuration.dynamic`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.dynamic import SERVER_ID_MAX
from zab.configuration.fields import (
    BOOLEAN,
    COUNT,
    COUNT_OR_0,
    YES_NO,
    choice,
    integer,
    setting,
    text_of,
    whole_numbers,
)

_ROLE: Final = choice(participant="participant", observer="observer")


@frozen(kw_only=True)
class MembershipSettings:
    """Ports, roles and the election; what observers need of observer masters."""

    election_algorithm_number: int = setting(
        "electionAlg", 3, integer(3, 3), "3", "Fast leader election is the only one; ZooKeeper refuses the others too."
    )
    peer_type: str | None = setting(
        "peerType",
        None,
        _ROLE,
        "role",
        "Older files say here what the server line says now; the server line wins.",
        shown="participant",
    )
    quorum_listen_on_all_ips: bool = setting(
        "quorumListenOnAllIPs",
        False,
        BOOLEAN,
        "true/false",
        "true where a member's own name resolves to an address it does not have.",
    )
    dynamic_config_file: str | None = setting(
        "dynamicConfigFile", None, text_of, "path", "The server, group and weight lines stand there and not here."
    )
    standalone_enabled: bool = setting(
        "standaloneEnabled",
        True,
        BOOLEAN,
        "true/false",
        "One participant runs without a quorum; false: it runs as an ensemble of one.",
    )
    reconfig_enabled: bool = setting(
        "reconfigEnabled",
        False,
        BOOLEAN,
        "true/false",
        "The ensemble can be changed while it runs; then the history says who belongs to it, and no file does.",
    )
    leader_serves: bool = setting(
        "leaderServes",
        True,
        YES_NO,
        "yes/no",
        "no: a member that leads an ensemble serves no clients itself, and has its hands free for the others.",
    )
    election_connect_timeout_ms: int = setting(
        "cnxTimeout", 5000, COUNT, "ms", "To open a link of the election; a dead host answers nothing."
    )
    election_port_bind_retry_count: int = setting(
        "electionPortBindRetry",
        3,
        COUNT_OR_0,
        "attempts",
        "The port may still be held by the process before; 0 is for ever.",
    )
    max_snapshot_transfers_count: int = setting(
        "leader.maxConcurrentSnapSyncs",
        10,
        COUNT,
        "learners",
        "More wait their turn: each reads a whole snapshot file from the leader's disk.",
    )
    observer_master_port: int = setting(
        "observerMasterPort",
        0,
        integer(0, 65535),
        "port",
        "Followers take observers there, and observers dial it, the same on all; 0: observers follow the leader only.",
    )
    observer_master_size_limit_bytes: int = setting(
        "observerMaster.sizeLimit",
        33_554_432,
        COUNT,
        "bytes",
        "Sent to one observer and not acknowledged; a slower one is let go, and comes again.",
    )
    observer_masters_near: tuple[int, ...] = setting(
        "observerMaster.near",
        (),
        whole_numbers(0, SERVER_ID_MAX),
        "ids",
        "Ours. Members that an observer dials before all others, the nearest first; between commas.",
        shown="none",
    )
    observer_reconnect_delay_ms: int = setting(
        "observer.reconnectDelayMs",
        0,
        COUNT_OR_0,
        "ms",
        "Observers wait for a part of it, by chance, before they dial: many of them do not come at once.",
    )
