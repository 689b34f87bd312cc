"""Where a member stands: its state, as ZooKeeper names it, its phase, as the paper does, and what it holds.

Their members are names of this module too: in Python 3.11 a look-up on the class of an enum costs ten times what a
global name costs, and every message is handled by state and phase.
"""

from enum import IntEnum, StrEnum


class State(IntEnum):
    """What a member does in its ensemble; votes carry the number."""

    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


LOOKING, FOLLOWING, LEADING, OBSERVING = State

STATE_NAMES = {state: state.name.lower() for state in State}


class Phase(StrEnum):
    """How far it has come in the protocol."""

    ELECTION = "election"
    DISCOVERY = "discovery"
    SYNCHRONIZATION = "synchronization"
    BROADCAST = "broadcast"


ELECTION, DISCOVERY, SYNCHRONIZATION, BROADCAST = Phase


class Space(IntEnum):
    """How much room there is on a member's disk (`zab.protocol.disk_space`)."""

    EXHAUSTED = 0
    LOW = 1
    AMPLE = 2


EXHAUSTED, LOW, AMPLE = Space


class Holds(IntEnum):
    """What a member has of a history, from nothing to batches; votes and FOLLOWERINFO carry the number."""

    NOTHING = 0
    BEGINNING = 1
    """What its lineage began with, after a restore or a forced recovery."""
    FOUNDER = 2
    """The same, and this is where forced recovery made it."""
    BATCHES = 3
    """Batches of its lineage, perhaps after a snapshot."""


NOTHING, BEGINNING, FOUNDER, BATCHES = Holds

TRANSITIONS = {
    (LOOKING, ELECTION): {(LEADING, DISCOVERY), (FOLLOWING, DISCOVERY), (OBSERVING, DISCOVERY)},
    **{
        (state, phase): {(state, after), (LOOKING, ELECTION)}
        for state in (LEADING, FOLLOWING, OBSERVING)
        for phase, after in ((DISCOVERY, SYNCHRONIZATION), (SYNCHRONIZATION, BROADCAST), (BROADCAST, DISCOVERY))
    },
}
"""Legal transitions of (state, phase)."""
for _learner, _other in ((FOLLOWING, OBSERVING), (OBSERVING, FOLLOWING)):
    # By a reconfiguration.
    TRANSITIONS[_learner, BROADCAST].add((_other, BROADCAST))
