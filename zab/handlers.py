"""Which function handles which message, in which role and phase; and why every other message is ignored or illegal.

`HANDLERS` and `IGNORED` together are the whole protocol's reaction to messages. A combination that is in neither
breaks the protocol: the link is closed. The roles are LEADING and FOLLOWING (an observer handles messages as a
follower does); a member that elects has no links but early ones, of which it keeps the FOLLOWERINFO.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from zab import broadcast, discovery, synchronization
from zab import message as msg
from zab.election import FOLLOWING, LEADING
from zab.roles import BROADCAST, DISCOVERY, SYNCHRONIZATION

Cell: TypeAlias = tuple[int, str, type[msg.Message]]

PHASES = (DISCOVERY, SYNCHRONIZATION, BROADCAST)


def _in(role: int, phases: tuple[str, ...], kind: type[msg.Message], value: Any) -> dict[Cell, Any]:
    return {(role, phase, kind): value for phase in phases}


HANDLERS: dict[Cell, Callable[..., None]] = {
    # A learner may come at any time, and walks through all phases on its own link.
    **_in(LEADING, PHASES, msg.FollowerInfo, discovery.leader_on_followerinfo),
    **_in(LEADING, PHASES, msg.AckEpoch, discovery.leader_on_ackepoch),
    **_in(LEADING, (SYNCHRONIZATION, BROADCAST), msg.Installed, synchronization.leader_on_installed),
    **_in(LEADING, PHASES, msg.Ack, broadcast.leader_on_ack),
    **_in(LEADING, PHASES, msg.Ping, broadcast.leader_on_ping),
    **_in(LEADING, PHASES, msg.Confirmed, broadcast.leader_on_confirmed),
    # In discovery and synchronization only during the renewal of an epoch: clients stay, and go on asking.
    **_in(LEADING, PHASES, msg.Request, broadcast.leader_pass_on),
    **_in(LEADING, PHASES, msg.Revalidate, broadcast.leader_pass_on),
    **_in(LEADING, PHASES, msg.Sync, broadcast.leader_pass_on),
    # LEADERINFO in broadcast is the renewal of the epoch.
    **_in(FOLLOWING, (DISCOVERY, BROADCAST), msg.LeaderInfo, discovery.learner_on_leaderinfo),
    **_in(FOLLOWING, (DISCOVERY,), msg.Diff, synchronization.learner_on_diff),
    **_in(FOLLOWING, (DISCOVERY,), msg.Trunc, synchronization.learner_on_trunc),
    **_in(FOLLOWING, (DISCOVERY,), msg.Snap, synchronization.learner_on_snap),
    **_in(FOLLOWING, (SYNCHRONIZATION, BROADCAST), msg.Proposal, synchronization.learner_on_proposal),
    **_in(FOLLOWING, (SYNCHRONIZATION,), msg.NewLeader, synchronization.learner_on_newleader),
    **_in(FOLLOWING, (SYNCHRONIZATION,), msg.UpToDate, synchronization.learner_on_uptodate),
    **_in(FOLLOWING, (BROADCAST,), msg.Commit, broadcast.learner_on_commit),
    **_in(FOLLOWING, PHASES, msg.Ping, broadcast.learner_on_ping),
    **_in(FOLLOWING, PHASES, msg.Confirm, broadcast.learner_on_confirm),
    **_in(FOLLOWING, PHASES, msg.Refused, broadcast.learner_on_refused),
    **_in(FOLLOWING, PHASES, msg.Revalidated, broadcast.learner_pass_on),
    **_in(FOLLOWING, PHASES, msg.Synced, broadcast.learner_pass_on),
}

IGNORED: dict[Cell, str] = {
    **_in(LEADING, (DISCOVERY,), msg.Installed, "the learner's link was reset by the renewal it did not hear of yet"),
}
