"""What a leader commits in a turn, and what it proposes in the same one."""

import pytest

from datatree.log.zxid import Zxid
from tests.rigs.direct.members import Ensemble
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import TOLD_WITH_BYTES_MAX, PeerDriver
from zab.member.state.turn_clock import TurnClock
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(None, [msg.Commit], id="no proposal"),
        pytest.param(b"x", [msg.Proposal], id="a small one"),
        pytest.param(b"x" * TOLD_WITH_BYTES_MAX, [msg.Commit, msg.Proposal], id="a large one"),
    ],
)
def test_a_commit_goes_with_the_proposal_of_its_turn_unless_that_is_large(
    data: bytes | None, expected: list[type[msg.Message]]
) -> None:
    ensemble = Ensemble(3)
    leader = ensemble.leader
    client = ensemble.session(leader)
    ensemble.do(client, client.create(b"/a"))
    client.replies()
    ensemble.late = {leader.sid}
    client.say(client.set(b"/a", b"first"))
    ensemble.settle()
    first = leader.member.peer.history.last[0]
    ensemble.deliver_until(leader, msg.Ack)
    ensemble.sent.clear()
    if data is not None:
        client.say(client.set(b"/a", data))
    ensemble.step(leader)
    assert [type(message) for sid, message in ensemble.sent if sid == leader.sid] == [
        kind for kind in expected for _ in ensemble.others(leader)
    ]
    assert [error for _, error, _ in client.replies()] == [0], "the first write is committed"
    ensemble.late = set()
    for server in ensemble.others(leader):
        ensemble._deliver()
        ensemble.step(server)
        assert server.member.applied == first, "a learner knows it at once"
    ensemble.settle()
    assert {server.member.applied for server in ensemble.servers.values()} == {leader.member.peer.history.last[0]}


class ProposingPeer:
    """Proposes whatever its member has."""

    def __init__(self) -> None:
        self.effects: list[fx.Effect] = []

    def take_proposal(self, _now: int, proposal: ev.Propose) -> bool:
        self.effects.append(fx.Send((1, 2), msg.Proposal([proposal.body])))
        return True


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([1, 1], [msg.Proposal, msg.Proposal], id="small ones"),
        pytest.param([TOLD_WITH_BYTES_MAX + 1, 1], [msg.Commit, msg.Proposal, msg.Proposal], id="a large one first"),
        pytest.param([1, TOLD_WITH_BYTES_MAX + 1], [msg.Proposal, msg.Proposal], id="a large one last"),
    ],
)
def test_only_the_first_proposal_of_a_turn_decides_whether_the_commit_goes_with_it(
    sizes: list[int], expected: list[type[msg.Message]]
) -> None:
    outbox: Outbox[fx.Effect] = Outbox()
    driver = PeerDriver(ProposingPeer(), TurnClock(0, 0), outbox, {})
    outbox.want(fx.Send((1, 2), msg.Commit(7)))
    for size in sizes:
        driver.propose(ev.Propose(Zxid(8), bytes(size), 1, 0, 0, 7, 0, 1))
    assert [type(effect.message) for effect in outbox.effects] == expected
