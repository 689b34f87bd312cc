"""A member that says anything, in any state: no assertion of another one is reached, and what is no answer to anything
ends the link that it came on."""

from __future__ import annotations

from random import Random

import pytest

from datatree.opcodes import OpCode
from datatree.requests import CreateSession
from tests.hostile.lies import lie, session_of
from tests.rigs.direct.members import Ensemble, Server
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.quorum.ids import Link

RUNS = 300
LIES_MAX = 14


def hear(ensemble: Ensemble, server: Server, link: Link, message: msg.Message) -> None:
    server.answers.append(ev.MessageReceived(link, message))
    ensemble.settle()


@pytest.mark.parametrize("part", range(6))
def test_no_lie_reaches_an_assertion(part: int) -> None:
    """What an ensemble does that is lied to from inside is not judged here: only that nobody stumbles over it."""
    for seed in range(part * RUNS // 6, (part + 1) * RUNS // 6):
        rng = Random(seed)
        ensemble = Ensemble(3)
        client = ensemble.session(ensemble.leader)
        ensemble.do(client, client.create(b"/a"))
        ensemble.session(ensemble.follower)
        told = []
        try:
            for _ in range(rng.randrange(1, LIES_MAX)):
                if ensemble.links:
                    link = rng.choice(list(ensemble.links))
                    server = ensemble.servers[rng.choice(ensemble.links[link])]
                    told.append((server.sid, link, lie(rng, ensemble)))
                    server.answers.append(ev.MessageReceived(link, told[-1][2]))
                    if rng.random() < 0.3:
                        ensemble.step(server)
                        continue
                if rng.random() < 0.6:
                    ensemble.settle()
                else:
                    ensemble.advance(rng.choice((50, 500, 3000)))
            ensemble.advance(1000)
        except Exception as error:
            raise AssertionError(f"run {seed}: {told}") from error


def link_of(ensemble: Ensemble, learner: Server) -> Link:
    return next(link for link, (dialler, _) in ensemble.links.items() if dialler == learner.sid)


@pytest.mark.parametrize("tag", [0, 1, 2, 1 << 40])
def test_answer_to_a_sync_that_nobody_waits_for_ends_the_link_to_that_leader(tag: int) -> None:
    ensemble = Ensemble(3)
    learner = ensemble.follower
    client = ensemble.session(learner)
    ensemble.do(client, client.sync(b"/"))
    link = link_of(ensemble, learner)
    hear(ensemble, learner, link, mmsg.Synced(tag, learner.member.peer.history.last[0]))
    assert link not in ensemble.links
    ensemble.advance(1000)
    assert learner.member.serving


def test_session_that_another_server_begins_is_not_begun_through_this_one() -> None:
    """Its client would be told that it is new."""
    ensemble = Ensemble(3)
    leader = ensemble.leader
    learner = ensemble.follower
    ensemble.session(leader)
    session = session_of(leader)
    row = mmsg.WRITE_HEAD.pack(session, leader.sid, OpCode.CREATE_SESSION) + CreateSession(4000).encode()
    link = link_of(ensemble, learner)
    hear(ensemble, leader, link, mmsg.Request([[[], [row]]]))
    assert link not in ensemble.links
    ensemble.advance(1000)
    assert ensemble.leader is leader
    assert learner.member.serving
    assert session in leader.member.clients.by_session
