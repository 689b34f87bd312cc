"""The observer of a simulated ensemble: what it takes for broken, and what not."""

from types import SimpleNamespace
from typing import Any

import pytest

from datatree.tree import DataTree
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.quorum.ids import Link, ServerId
from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.world.verdict import SafetyError

SID = ServerId(3)
INITIAL = 0x1A_0000_0010
"""Where the history ended that epoch 27 began with."""


class FakeProcess(SimpleNamespace):
    """As a process, it is equal to itself alone."""

    __hash__ = object.__hash__


def process(*, epoch: int | None) -> Any:
    """The leader of an epoch; None: a server that has just started."""
    leading = None if epoch is None else SimpleNamespace(epoch=epoch)
    peer = SimpleNamespace(lineage=b"", leading=leading, history=SimpleNamespace(last=(INITIAL, b"")))
    member = SimpleNamespace(applied=0, tree=DataTree())
    machine = SimpleNamespace(is_wiped=False, has_forgotten=False)
    return FakeProcess(sid=SID, peer=peer, member=member, machine=machine)


def recovered(last: int) -> Any:
    found = {"epochs": (27, 27), "last": (last, b""), "base": (0, b""), "recent": [], "amnesiac": False}
    return SimpleNamespace(**found, snapshot_zxid=0, problems=[])


def observer_of_epoch_27() -> Observer:
    """Server 3 alone is the quorum: it is in epoch 27 before it tells anybody of it, and has proposed since."""
    observer = Observer(Recorder())
    observer.watch(SimpleNamespace(version=0), [SID], lambda sid: None)  # type: ignore[arg-type]
    leader = process(epoch=27)
    observer.peer_stepped(leader, ev.EpochsSaved(1, 27, 26), [fx.SaveEpochs(1, 27, 27)])
    leader.peer.history.last = (0x1B_0000_0001, b"")
    told = fx.Send(Link(1), msg.NewLeader(27, 0x1B_0000_0001, founder=False))
    observer.peer_stepped(leader, ev.EpochsSaved(1, 27, 27), [told])
    return observer


def test_a_leader_that_loses_what_only_it_has_proposed_still_has_its_initial_history() -> None:
    observer = observer_of_epoch_27()
    observer.process_started(process(epoch=None), recovered(INITIAL))
    assert observer.counts["recovered with problems"] == 0


def test_a_server_that_is_in_an_epoch_without_its_initial_history_has_broken_a_promise() -> None:
    observer = observer_of_epoch_27()
    with pytest.raises(SafetyError, match="history before currentEpoch"):
        observer.process_started(process(epoch=None), recovered(INITIAL - 1))
