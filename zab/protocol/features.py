"""Optional features, which not all versions in an ensemble have: a bit each in the greetings of members
(`zab.wire.handshake`).

    RECONFIGURATION     has reconfigurations in its history, and hands the lead over on request
    KEEPER              forwards ClickHouse Keeper's writes, and proposes them
    KEEPER_REMOVALS     also its removeRecursive and checkStat, which came later
    LOCAL_SESSIONS      accepts writes of sessions that only another member knows
    LIVES               its nonces begin with the name of its life (`zab.member.membership.greeting`)
    SESSION_SERVERS     derives the server that begins a session from its id; others need the server's id as the cxid
    FAIR_TURNS          accepts its forwarded writes back in the order of each session; others need one total order
    OBSERVER_MASTERS    as a leader, accepts what observers send through other members (`zab.protocol.observer_master`)

A leader starts to use a feature once all connected members have it. From then on the history depends on it, and a
server without the feature is not admitted: it could not read that history.

Not here: versions of the messages themselves (`zab.member.membership.greeting`).
"""

from typing import Final

RECONFIGURATION: Final = 1
KEEPER: Final = 2
LOCAL_SESSIONS: Final = 4
OBSERVER_MASTERS: Final = 8
KEEPER_REMOVALS: Final = 16
LIVES: Final = 32
SESSION_SERVERS: Final = 64
FAIR_TURNS: Final = 128

ALL: Final = (
    RECONFIGURATION
    | KEEPER
    | LOCAL_SESSIONS
    | OBSERVER_MASTERS
    | KEEPER_REMOVALS
    | LIVES
    | SESSION_SERVERS
    | FAIR_TURNS
)
"""The features of this version."""
