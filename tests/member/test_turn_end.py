"""The end of a turn, and what is not done in it: a part with nothing to do is not called."""

from collections.abc import Sequence

import pytest

from tests.rigs.direct.members import Ensemble
from zab.member.events import Input, MemberEffect
from zab.member.member import Member


def test_a_member_never_waits_longer_than_its_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks its peer again when the deadline has come that it knows, or when the role changes. Through the beginning
    of an ensemble, writes, the loss of a leader, and its return."""
    waited: list[int] = []
    step = Member.step

    def watched(member: Member, now: int, wall: int, inputs: Sequence[Input]) -> list[MemberEffect]:
        effects = step(member, now, wall, inputs)
        deadline = member.peer.next_deadline()
        until = member._driver.waits_until
        assert until == 0 or (deadline is not None and until <= deadline), (until, deadline, member.peer.phase)
        waited.append(until)
        return effects

    monkeypatch.setattr(Member, "step", watched)
    ensemble = Ensemble(3, initLimit=20, syncLimit=2, counterLimit=4)
    client = ensemble.session(ensemble.follower)
    for number in range(5):
        ensemble.do(client, client.create(b"/%d" % number))
        ensemble.advance(700)
    first = ensemble.leader
    ensemble.cut = {first.sid}
    for link in [link for link, ends in ensemble.links.items() if first.sid in ends]:
        ensemble.break_link(link)
    ensemble.advance(30_000)
    assert ensemble.leader is not first
    ensemble.cut = set()
    ensemble.advance(30_000)
    assert all(server.member.serving for server in ensemble.servers.values())
    assert any(waited), "otherwise nothing was seen"


CALLED_WHEN_THERE_IS_SOMETHING = (
    "processor.resume",
    "processor.submit_new_sessions",
    "processor.waiting.take_sync_tag",
    "processor.forwarded.take",
    "processor.proposing.proposals",
    "processor.change_feed.turn",
    "limits.end_turn",
    "clients.reap",
    "peer.next_deadline",
    "_turn_end._lead",
)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_turn_in_which_nothing_happens_calls_nobody(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(3)
    ensemble.session(ensemble.leader)
    ensemble.advance(2_500)
    server = getattr(ensemble, role)
    ensemble.step(server)
    for name in CALLED_WHEN_THERE_IS_SOMETHING:
        *path, last = name.split(".")
        part = server.member
        for step in path:
            part = getattr(part, step)
        monkeypatch.setattr(part, last, _never(name))
    assert server.member.step(ensemble.now, server.wall_ms(), []) == []


def _never(name: str) -> object:
    def called(*_: object) -> None:
        raise AssertionError(f"{name} was called")

    return called
