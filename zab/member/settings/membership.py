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
        "electionAlg", 3, integer(3, 3), "3", "Fast leader election is the only algorithm, as in ZooKeeper today."
    )
    peer_type: str | None = setting(
        "peerType",
        None,
        _ROLE,
        "role",
        "Kept for older files. The server line says the role, and wins.",
        shown="participant",
    )
    quorum_listen_on_all_ips: bool = setting(
        "quorumListenOnAllIPs",
        False,
        BOOLEAN,
        "true/false",
        "true: listen on all addresses, where a member's own name resolves to an address that it does not have.",
    )
    dynamic_config_file: str | None = setting(
        "dynamicConfigFile", None, text_of, "path", "The file that has the server, group and weight lines."
    )
    standalone_enabled: bool = setting(
        "standaloneEnabled",
        True,
        BOOLEAN,
        "true/false",
        "true: a single participant runs without a quorum. false: it runs as an ensemble of one.",
    )
    reconfig_enabled: bool = setting(
        "reconfigEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Whether the ensemble can be changed while it runs. The history then says who belongs to it, and files do not.",
    )
    leader_serves: bool = setting(
        "leaderServes",
        True,
        YES_NO,
        "yes/no",
        "no: the leader of an ensemble accepts no clients, and works only for the other members.",
    )
    election_connect_timeout_ms: int = setting(
        "cnxTimeout", 5000, COUNT, "ms", "How long a member tries to open an election link."
    )
    election_port_bind_retry_count: int = setting(
        "electionPortBindRetry",
        3,
        COUNT_OR_0,
        "attempts",
        "How often a member tries to bind its election port, which the process before it may still hold. 0: for ever.",
    )
    max_snapshot_transfers_count: int = setting(
        "leader.maxConcurrentSnapSyncs",
        10,
        COUNT,
        "learners",
        "How many learners fetch a snapshot at the same time. Each reads a whole file from the leader's disk.",
    )
    observer_master_port: int = setting(
        "observerMasterPort",
        0,
        integer(0, 65535),
        "port",
        "The port where followers accept observers, the same on all members. 0: observers follow only the leader.",
    )
    observer_master_size_limit_bytes: int = setting(
        "observerMaster.sizeLimit",
        33_554_432,
        COUNT,
        "bytes",
        "How much may be sent to an observer and not acknowledged. A slower observer is disconnected, and comes back.",
    )
    observer_masters_near: tuple[int, ...] = setting(
        "observerMaster.near",
        (),
        whole_numbers(0, SERVER_ID_MAX),
        "ids",
        "zab only. The members that an observer dials first, the nearest first.",
        shown="none",
    )
    observer_reconnect_delay_ms: int = setting(
        "observer.reconnectDelayMs",
        0,
        COUNT_OR_0,
        "ms",
        "An observer waits for a random part of this time before it dials, so that many observers do not dial at once.",
    )
