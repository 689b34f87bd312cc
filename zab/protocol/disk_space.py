"""Disk space: writes continue as long as a quorum has room for them, and the other members wait (C5 full disks).

    a voter     its disk is      what it does
                AMPLE            everything
                LOW              a leader hands over to members with room; a learner reports it in FOLLOWERINFO and in
                                 its pings; in an election any other candidate is better, unless that one lags
                EXHAUSTED        it leaves its role and takes part in nothing, until there is room again

    the leader  with room        what it does
                a quorum         it drops learners whose disks are low, and lets them wait before LEADERINFO
                no quorum        it needs all of them: it is *short* and says so in its pings; no member accepts writes
                                 that need room; reads, deletes and the ends of sessions continue while reserves last

So a member whose disk is low does not log, unless the service would otherwise stop. A leader whose disk is low takes no
snapshots, either. If none of its files can bring a learner up to date, and those with room form a quorum together with
that learner, it hands over to them: the new leader can take the snapshot that the learner needs.

Variables: `space`; `is_short`, and what was reported of it; each handler's `is_low`. Invariant: a leader whose disk is
low leads because there was no quorum with room.

Not here: what the levels are in bytes, and the reserve (`zab.service.disk_space`); which writes need room
(`zab.member.requests.growing_writes`).
"""

from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import INFORMED, Leading, LearnerHandler
from zab.quorum.ids import ServerId


def leader_weigh(peer: PeerState, leading: Leading) -> None:
    """Weigh who has room: before the first write, when a learner's report changes, and at every ping. This may end the
    role."""
    if not leading.established:
        return  # every voter is needed until then
    assert peer.leading is leading
    quorum = peer.quorum
    followers = _followers(leading)
    roomy = _with_room(followers)
    if peer.is_low and quorum.contains(roomy):
        peer.look("this member's disk is nearly full, and others have room")
        return
    me = peer.settings.sid
    if not quorum.contains({me, *(h.sid for h in followers)}):
        return  # this leader has no quorum at all, which is about to end its role
    is_short = not quorum.contains(roomy if peer.is_low else {me, *roomy})
    peer.is_short = is_short
    for handler in [h for h in leading.handlers.values() if h.is_low]:
        if is_short and not handler.served and handler.stage == INFORMED:
            peer.drop_learner(leading, handler, "its disk is nearly full, and it is needed after all: it may come back")
        elif not is_short and handler.served:
            peer.drop_learner(leading, handler, "its disk is nearly full, and others have room")


def leader_tell(peer: PeerState, now: int, leading: Leading) -> None:
    """At a ping, tell the member whether a quorum has room, if that has changed. Not before this leader has led for a
    tick: its first quorum may include a learner without room, while others are about to connect."""
    assert peer.leading is leading
    since = leading.serves_since
    if leading.told_short != peer.is_short and since is not None and now - since >= peer.settings.tick_ms:
        leading.told_short = peer.is_short
        peer.trace("no quorum has room on its disks" if peer.is_short else "a quorum has room on its disks again")


def leader_cannot_help(peer: PeerState, leading: Leading, learner: LearnerHandler) -> None:
    """Neither a log file nor a snapshot can bring the learner up to date. This may end the role."""
    if not (leading.established and peer.is_low):
        return
    if peer.quorum.contains(_with_room([learner, *_followers(leading)])):
        peer.look(
            f"this member's disk is nearly full, server {learner.sid} needs a snapshot, and others have room for one"
        )


def has_to_wait(peer: PeerState, leading: Leading, handler: LearnerHandler) -> bool:
    """Whether the learner must wait to be synchronized, because its disk is low and others have room."""
    is_new = handler.stage == INFORMED and not handler.served
    return is_new and handler.is_low and leading.established and not peer.is_short


def leader_on_ping(peer: PeerState, leading: Leading, handler: LearnerHandler, message: msg.Ping) -> None:
    """Note the state of the learner's disk."""
    if message.is_low == handler.is_low:
        return
    assert leading.handlers[handler.link] is handler
    waited = has_to_wait(peer, leading, handler)
    handler.is_low = message.is_low
    if waited:
        peer.drop_learner(leading, handler, "its disk has room again: it may come back")
    else:
        leader_weigh(peer, leading)


def _followers(leading: Leading) -> list[LearnerHandler]:
    return [h for h in leading.handlers.values() if h.served and leading.counts(h)]


def _with_room(learners: list[LearnerHandler]) -> set[ServerId]:
    return {h.sid for h in learners if not h.is_low}
