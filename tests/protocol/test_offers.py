"""What a leader holds for a learner that fetches a snapshot, and when it lets go (H4 slow learners)."""

import pytest

from tests.protocol.learners import followers, left_behind, until
from tests.rigs.direct.peers import Ensemble
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.roles import Stage
from zab.quorum.ids import Link


def fetching(*, answered: bool = True) -> tuple[Ensemble, int, int, Link]:
    """A learner needs a snapshot, which it does not get yet: the ensemble, the leader, the learner, their link. Without
    `answered`, the leader has not even chosen one."""
    ensemble, leader, learner = left_behind(after=0)
    ensemble.servers[leader].take_snapshot()
    ensemble.servers[learner].held.add(fx.FetchSnapshot)
    ensemble.start(learner)
    until(ensemble, ensemble.reader)
    ensemble.answer_read()
    tasks = ensemble.servers[leader].tasks
    assert isinstance(tasks[0], fx.OfferSnapshot)
    link = tasks[0].link
    assert ensemble.servers[leader].offered == {link: None}
    if answered:
        ensemble.do(ensemble.servers[leader], tasks.popleft())
        ensemble.settle()
        assert list(ensemble.servers[leader].offered) == [link]
        assert ensemble.servers[learner].tasks
    return ensemble, leader, learner, link


@pytest.mark.parametrize("answered", [True, False], ids=["chosen", "being chosen"])
@pytest.mark.parametrize("end", ["broken", "protocol", "role", "close"])
def test_whatever_ends_the_link_lets_go(end: str, answered: bool) -> None:
    ensemble, leader, learner, link = fetching(answered=answered)
    server = ensemble.servers[leader]
    late = None if answered else server.tasks.popleft()
    if end == "broken":
        ensemble.step(leader, ev.QuorumLinkDown(link))
    elif end == "protocol":
        ensemble.step(leader, ev.MessageReceived(link, msg.Ack(1, 1)))
    elif end == "role":
        for sid in followers(ensemble, leader):
            ensemble.partition(leader, sid)
        ensemble.run(2000)
        assert ensemble.peer(leader).leading is None
    else:
        ensemble.crash(learner)
    assert server.offered == {}
    if late is not None:
        ensemble.do(server, late)
        assert server.offered == {}, "the answer came too late"


def test_the_learner_that_has_everything_needs_no_files_any_more() -> None:
    ensemble, leader, learner, link = fetching()
    held = ensemble.servers[leader].offered[link]
    ensemble.servers[learner].held.clear()
    leading = ensemble.peer(leader).leading
    assert leading is not None
    handler = leading.handlers[link]
    while handler.stage < Stage.NEWLEADER_SENT:
        assert ensemble.servers[leader].offered == {link: held}, "what comes after it is still read from the files"
        assert ensemble.deliver_one()
    assert ensemble.servers[leader].offered == {}
    ensemble.run(500)
    assert ensemble.peer(learner).serving


def test_a_snapshot_that_is_given_up_is_followed_by_a_newer_one() -> None:
    ensemble, leader, learner, link = fetching()
    withdrawn = ensemble.servers[leader].offered[link]
    assert withdrawn is not None
    ensemble.propose(leader)
    ensemble.run(20)
    ensemble.servers[leader].take_snapshot()
    ensemble.step(leader, ev.SnapshotWithdrawn(link, withdrawn))
    assert link not in ensemble.links
    assert ensemble.servers[leader].offered == {}
    for server in ensemble.servers.values():
        server.held.clear()
    ensemble.run(1000)
    told = f"leader {leader} refused: snapshot {withdrawn:#x} is given up"
    assert any(told in line for line in ensemble.trace if line.startswith(f"{learner}:"))
    assert ensemble.peer(learner).serving
    assert ensemble.peer(learner).history.base[0] > withdrawn


def test_a_snapshot_is_not_given_up_for_a_learner_that_has_all_of_it() -> None:
    """The retention had begun before."""
    ensemble, leader, learner, link = fetching()
    withdrawn = ensemble.servers[leader].offered[link]
    assert withdrawn is not None
    ensemble.servers[learner].held.clear()
    ensemble.run(500)
    ensemble.step(leader, ev.SnapshotWithdrawn(link, withdrawn))
    assert link in ensemble.links
    assert ensemble.peer(learner).serving
