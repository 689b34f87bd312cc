"""What a leader commits in a turn, and what it proposes in the same one."""

import pytest

from tests.rigs.direct.members import Ensemble
from zab.member.state.peer_driver import TOLD_WITH_BYTES_MAX
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
