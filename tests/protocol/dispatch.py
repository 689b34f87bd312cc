"""What tests put in the place of what the protocol does: handlers of messages, and a broken rule that two need."""

from collections.abc import Callable

import pytest

from datatree.log.batch import Batch
from zab.protocol import broadcast
from zab.protocol import effects as fx
from zab.protocol.handlers import HANDLERS
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Following


def handle_with(patch: pytest.MonkeyPatch, other: Callable[..., None], *, instead_of: Callable[..., None]) -> None:
    """In every cell of the table where that handler stands."""
    cells = [cell for cell, each in HANDLERS.items() if each is instead_of]
    assert cells
    for cell in cells:
        patch.setitem(HANDLERS, cell, other)


def acknowledge_before_durable(patch: pytest.MonkeyPatch) -> None:
    """A learner acknowledges what it is about to write."""
    log = broadcast.learner_log

    def eager(peer: PeerState, following: Following, batches: list[Batch]) -> None:
        log(peer, following, batches)
        effect = peer.effects.pop()
        assert isinstance(effect, fx.AppendBatches)
        peer.effects += [] if effect.then is None else [effect.then]
        peer.effects.append(fx.AppendBatches(effect.generation, effect.batches))

    patch.setattr(broadcast, "learner_log", eager)
