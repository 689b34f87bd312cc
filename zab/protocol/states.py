"""A member's state, by ZooKeeper's names, its phase, by the paper's, and what it holds of a history.

The members of these enums are also global names of this module: in Python 3.11 a look-up on an enum class costs ten
times a global name, and every message is dispatched by state and phase.
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


class Holds(IntEnum):
    """What a member has of a history, from nothing to batches; votes and FOLLOWERINFO carry the number."""

    NOTHING = 0
    BEGINNING = 1
    """What its lineage began with, after a restore or a forced recovery."""
    FOUNDER = 2
    """A beginning, on the member where the forced recovery made it."""
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
