"""The table of handlers is the whole reaction to messages: the full product of role, phase and message is walked."""

from itertools import product

import pytest

from tests.protocol.example_messages import EXAMPLES
from tests.rigs.direct.peers import Ensemble
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.handlers import HANDLERS, IGNORED, PHASES
from zab.protocol.states import BROADCAST, FOLLOWING, LEADING


def test_no_cell_is_both_handled_and_ignored_and_every_reason_is_given() -> None:
    assert not HANDLERS.keys() & IGNORED.keys()
    assert all(reason.strip() for reason in IGNORED.values())


def test_every_cell_is_of_a_known_role_phase_and_message() -> None:
    cells = set(product((LEADING, FOLLOWING), PHASES, msg.MESSAGES))
    assert HANDLERS.keys() | IGNORED.keys() <= cells


def test_handlers_are_named_by_the_role_that_they_are_for() -> None:
    for (role, _, _), handler in HANDLERS.items():
        assert handler.__name__.startswith("leader_" if role == LEADING else "learner_"), handler


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_message_without_a_handler_closes_the_link_it_came_on_and_nothing_else(message: msg.Message) -> None:
    for role in (LEADING, FOLLOWING):
        if (role, BROADCAST, type(message)) in HANDLERS or (role, BROADCAST, type(message)) in IGNORED:
            continue
        ensemble = Ensemble(3)
        ensemble.start()
        leader = ensemble.elect()
        link, (learner, _) = next((link, ends) for link, ends in ensemble.links.items())
        ensemble.settle()
        if role == LEADING:
            ensemble.step(leader, ev.MessageReceived(link, message))
            assert ensemble.leader() == leader
        else:
            ensemble.step(learner, ev.MessageReceived(link, message))
        assert link not in ensemble.links
        ensemble.run(3000)
        ensemble.propose(ensemble.elect())
        ensemble.run(500)
        assert all(server.applied for server in ensemble.servers.values())
