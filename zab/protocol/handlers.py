"""Which function handles which message, in which role and phase, and why any other message is ignored or illegal.

`HANDLERS` and `IGNORED` together define the reaction to every message, except for those from observers to their master
(`observer_master.FROM_OBSERVERS`). A combination that is in neither breaks the protocol: the link is closed. The roles
are LEADING and FOLLOWING (an observer handles messages like a follower). A member that elects only has early links,
whose FOLLOWERINFO or OBSERVERINFO it keeps.

A leader's function gets the state of the role and the link's `LearnerHandler`, a learner's only the state of its role.
`_leader` and `_learner` let the type checker verify that each function takes the message that it is listed for.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from zab.protocol import (
    broadcast,
    confirmation,
    discovery,
    handover,
    heartbeat,
    learner_synchronization,
    observer_master,
    routes,
    synchronization,
)
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Following, Leading, LearnerHandler
from zab.protocol.states import BROADCAST, DISCOVERY, FOLLOWING, LEADING, SYNCHRONIZATION, Phase, State

Cell: TypeAlias = tuple[State, Phase, type[object]]
M = TypeVar("M", bound=msg.Message)

PHASES = (DISCOVERY, SYNCHRONIZATION, BROADCAST)


def _leader(
    phases: tuple[Phase, ...],
    kind: type[M],
    handle: Callable[[PeerState, int, Leading, LearnerHandler, M], None],
) -> dict[Cell, Callable[..., None]]:
    return {(LEADING, phase, kind): handle for phase in phases}


def _learner(
    phases: tuple[Phase, ...], kind: type[M], handle: Callable[[PeerState, int, Following, M], None]
) -> dict[Cell, Callable[..., None]]:
    return {(FOLLOWING, phase, kind): handle for phase in phases}


HANDLERS: dict[Cell, Callable[..., None]] = {
    # A learner may connect at any time, and goes through all phases on its own link.
    **_leader(PHASES, msg.FollowerInfo, discovery.leader_on_followerinfo),
    **_leader(PHASES, msg.AckEpoch, discovery.leader_on_ackepoch),
    **_leader((SYNCHRONIZATION, BROADCAST), msg.Installed, synchronization.leader_on_installed),
    **_leader(PHASES, msg.Ack, synchronization.leader_on_ack),
    **_leader(PHASES, msg.Ping, heartbeat.leader_on_ping),
    **_leader(PHASES, msg.Confirmed, synchronization.leader_on_confirmed),
    **_leader(PHASES, msg.Readmitted, synchronization.leader_on_readmitted),
    # In discovery and synchronization only while the epoch is renewed: clients stay, and keep asking.
    **_leader(PHASES, mmsg.Request, broadcast.leader_pass_on),
    **_leader(PHASES, mmsg.Revalidate, broadcast.leader_pass_on),
    **_leader(PHASES, mmsg.Sync, broadcast.leader_pass_on),
    **_leader(PHASES, mmsg.Suspect, broadcast.leader_pass_on),
    **_leader(PHASES, mmsg.Compared, broadcast.leader_pass_on),
    **_leader(PHASES, mmsg.TreeWanted, broadcast.leader_pass_on),
    **_leader(PHASES, msg.Attach, routes.leader_on_attach),
    **_leader(PHASES, msg.Detach, routes.leader_on_detach),
    **_leader(PHASES, msg.Relayed, routes.leader_on_relayed),
    # LEADERINFO in broadcast means that the epoch is renewed.
    **_learner((DISCOVERY, BROADCAST), msg.LeaderInfo, discovery.learner_on_leaderinfo),
    **_learner((DISCOVERY,), msg.Diff, learner_synchronization.learner_on_diff),
    **_learner((DISCOVERY,), msg.Trunc, learner_synchronization.learner_on_trunc),
    **_learner((DISCOVERY,), msg.Snap, learner_synchronization.learner_on_snap),
    **_learner((SYNCHRONIZATION, BROADCAST), msg.Proposal, learner_synchronization.learner_on_proposal),
    **_learner((SYNCHRONIZATION, BROADCAST), msg.SessionKeys, observer_master.learner_on_session_keys),
    **_learner((SYNCHRONIZATION,), msg.NewLeader, learner_synchronization.learner_on_newleader),
    **_learner((SYNCHRONIZATION,), msg.UpToDate, learner_synchronization.learner_on_uptodate),
    **_learner((BROADCAST,), msg.Commit, broadcast.learner_on_commit),
    **_learner((BROADCAST,), msg.HandOver, handover.learner_on_hand_over),
    **_learner(PHASES, msg.Ping, heartbeat.learner_on_ping),
    **_learner(PHASES, msg.Confirm, confirmation.learner_on_confirm),
    **_learner(PHASES, msg.Readmit, learner_synchronization.learner_on_readmit),
    **_learner(PHASES, msg.Refused, discovery.learner_on_refused),
    **_learner(PHASES, mmsg.Revalidated, broadcast.learner_pass_on),
    **_learner(PHASES, mmsg.Synced, broadcast.learner_pass_on),
    **_learner(PHASES, mmsg.Compare, broadcast.learner_pass_on),
    **_learner(PHASES, mmsg.Verdict, observer_master.learner_on_verdict),
    **_learner(PHASES, mmsg.TreeOffered, broadcast.learner_pass_on),
    **_learner(PHASES, msg.Attached, observer_master.learner_on_attached),
    **_learner(PHASES, msg.Detach, observer_master.learner_on_detach),
    **_learner(PHASES, msg.Relayed, observer_master.learner_on_relayed),
}

IGNORED: dict[Cell, str] = {
    (LEADING, DISCOVERY, msg.Installed): "the renewal, which the learner has not heard of yet, reset its link",
}
