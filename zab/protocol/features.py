"""What not all versions that talk to each other can: a bit each in the greetings of members (`zab.wire.handshake`).

    RECONFIGURATION     has reconfigurations in its history, and hands the lead over when it is told to
    KEEPER              forwards ClickHouse Keeper's writes, and proposes them
    KEEPER_REMOVALS     the same of its removeRecursive and checkStat, which came later
    LOCAL_SESSIONS      takes the writes of sessions that another member alone knows
    LIVES               its nonces begin with the name of its life (`zab.member.membership.greeting`)
    SESSION_SERVERS     knows by its id which server begins a session; others want the server's id as the cxid
    FAIR_TURNS          takes what it has forwarded back in the order of each session; others want it in that of all
    OBSERVER_MASTERS    as a leader, takes what observers say through other members (`zab.protocol.observer_master`)

A leader begins with what needs a bit once all members that are connected have it. Then it is in the history, and
whoever lacks the bit is not let in any more: it could not read that history.

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
"""Those of this version."""
