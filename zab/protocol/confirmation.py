"""The confirmation round: the leader proves that a quorum still follows it.

    leader                              learner
      CONFIRM n                     ->
                                    <-    CONFIRMED n, immediately: it follows, and has accepted no higher epoch
      a quorum has answered n: when the round began, no other leader could have committed anything

Three things wait for a round: the answer to a `sync` (S1 confirmed sync); the master of an observer, before it lets the
observer serve (`observer_master`); and an amnesiac, which is readmitted once a quorum without it has confirmed (B2
amnesiacs), in `synchronization.leader_on_confirmed`.

Variables: `leading.confirm_round`, `leading.questions`, `leading.attaching`, each handler's `confirmed` and
`counts_after_round`. Invariant: a question is answered by a round that began after it was asked.
"""

from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import SYNCHRONIZED, Following, Leading, LearnerHandler, Question


def leader_on_sync(peer: PeerState, leading: Leading, token: int) -> None:
    """A client asked for `sync`: note where the history ends now, and ask the voters after that."""
    if not leading.established:
        return  # the member drops its syncs when the role is left
    last, _ = peer.history.last
    leading.questions.append(Question(leader_confirm(peer, leading), token, last))
    leader_answer_questions(peer, leading)


def leader_confirm(peer: PeerState, leading: Leading) -> int:
    """Begin a confirmation round among the synchronized learners; return its number."""
    leading.confirm_round += 1
    links = tuple(h.link for h in leading.handlers.values() if h.served or h.stage >= SYNCHRONIZED)
    if links:
        peer.emit(fx.Send(links, msg.Confirm(leading.confirm_round)))
    return leading.confirm_round


def leader_ask_to_confirm(peer: PeerState, leading: Leading, handler: LearnerHandler) -> None:
    """A learner is synchronized. If a round is waited for, ask this learner, too: those asked before may be gone."""
    assert handler.stage == SYNCHRONIZED
    if (
        leading.questions
        or leading.attaching
        or any(h.counts_after_round is not None for h in leading.handlers.values())
    ):
        peer.send(handler.link, msg.Confirm(leading.confirm_round))


def is_confirmed(peer: PeerState, leading: Leading, number: int) -> bool:
    """Whether a quorum has answered this round; amnesiacs do not count."""
    assert number <= leading.confirm_round
    confirmed = {h.sid for h in leading.handlers.values() if h.confirmed >= number and leading.counts(h)}
    return peer.quorum.contains(confirmed | {peer.settings.sid})


def leader_answer_questions(peer: PeerState, leading: Leading) -> None:
    """Tell the member which of its questions are confirmed, in order, and the masters which observers may serve."""
    while leading.attaching and is_confirmed(peer, leading, leading.attaching[0].round):
        route = leading.attaching.pop(0).route
        if route in leading.attached:
            peer.send(route[0], msg.Attached(route[1]))
    while leading.questions and is_confirmed(peer, leading, leading.questions[0].round):
        question = leading.questions.pop(0)
        peer.emit(fx.SyncConfirmed(question.token, question.last))


def learner_on_confirm(peer: PeerState, now: int, following: Following, message: msg.Confirm) -> None:
    """Answer immediately, without waiting for the disk: we follow, and have accepted no higher epoch than this
    leader's."""
    assert following.link is not None
    peer.send(following.link, msg.Confirmed(message.round))
