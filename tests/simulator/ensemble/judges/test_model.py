"""The judge's tree against the service's: two programs written from one format have to say the same."""

from random import Random

import pytest

from datatree.prepare import Prepare
from datatree.prepare_settings import PrepareSettings
from datatree.record import Txn, decode, encode
from datatree.requests import CreateSession
from datatree.tree import DataTree
from datatree.write_request import WriteRequest
from datatree.znode import stat_of
from zab.simulator.ensemble.judges.model import Model
from zab.simulator.ensemble.judges.requests import Requests
from zab.simulator.ensemble.judges.watch_checker import WatchChecker
from zab.simulator.world.verdict import SafetyError

SESSIONS = (11, 12, 13)


def committed(seed: int, count: int) -> list[tuple[Txn, DataTree]]:
    """Transactions that clients of three sessions may leave, and the tree that applied them, step by step."""
    rng = Random(seed)
    tree = DataTree()
    prepare = Prepare(tree, PrepareSettings(extended_types=True))
    wishes = Requests(rng, 1, 100, long_data=False, mostly="")
    steps: list[tuple[Txn, DataTree]] = []
    for zxid in range(1, count + 1):
        if zxid <= len(SESSIONS):
            request = WriteRequest(SESSIONS[zxid - 1], 0, -10, CreateSession(1000).encode(), ())
        elif rng.random() < 0.02:
            request = WriteRequest(rng.choice(SESSIONS), 0, -11, b"", ())
        else:
            opcode, body = wishes.draw()
            while opcode not in (1, 2, 5, 7, 14, 15, 19, 21):
                opcode, body = wishes.draw()
            request = WriteRequest(rng.choice(SESSIONS), zxid, opcode, body.encode(), ())
        txn, _ = decode(encode(prepare.prepare(request, zxid, 1000 + zxid)), 0)
        steps.append((txn, tree))
        tree.apply(txn)
        prepare.applied(zxid)
    return steps


@pytest.mark.parametrize("seed", range(20))
def test_the_model_is_the_tree(seed: int) -> None:
    model = Model()
    tree = DataTree()
    seen: list[tuple[int, dict[bytes, tuple[bytes | None, bytes]]]] = []
    for txn, _ in committed(seed, 150):
        tree.apply(txn)
        model.apply(txn)
        state = {}
        for path in model.paths():
            znode = tree.get(path)
            if znode is not None:
                state[path] = (tree.data_of(path, znode), stat_of(znode))
        seen.append((txn.zxid, state))
        assert tree.sessions == model.sessions
    for zxid, state in seen:
        for path in model.paths():
            znode = model.znode_at(path, zxid)
            assert state.get(path) == (None if znode is None else (znode.data, znode.stat()))
    assert any(state for _, state in seen)


def created(zxid: int, path: bytes, owner: int = 0, creations: int = 1) -> Txn:
    return Txn(zxid, 1, 11, zxid, 1, creations, path, b"", (None, owner))


def test_an_ephemeral_of_no_session_is_refused() -> None:
    with pytest.raises(SafetyError, match="ephemerals"):
        Model().apply(created(1, b"/a", owner=77))


def test_an_ephemeral_that_outlives_its_session_is_refused() -> None:
    model = Model()
    model.apply(Txn(1, 1, 11, 0, -10, 1000, b"", None, None))
    model.apply(created(2, b"/a", owner=11))
    with pytest.raises(SafetyError, match="outlive"):
        model.apply(Txn(3, 1, 11, 0, -11, 0, b"", None, ()))


def test_a_second_creation_is_refused() -> None:
    model = Model()
    model.apply(created(1, b"/a"))
    with pytest.raises(SafetyError, match="it exists"):
        model.apply(created(2, b"/a", creations=2))


def test_a_watch_fires_once_and_not_before_it_is_set() -> None:
    model = Model()
    watches = WatchChecker(model)
    watches.reply(0)
    watches.set_data(b"/a", is_there=False)
    model.apply(created(1, b"/a"))
    watches.event(1, 1, b"/a")
    with pytest.raises(SafetyError, match="expected is none"):
        watches.event(1, 1, b"/a")
    with pytest.raises(SafetyError, match="expected is none"):
        WatchChecker(model).event(1, 1, b"/a")


def test_a_reply_behind_an_event_that_did_not_come_is_a_lost_watch() -> None:
    model = Model()
    watches = WatchChecker(model)
    watches.reply(0)
    watches.set_child(b"/")
    model.apply(created(1, b"/a"))
    with pytest.raises(SafetyError, match="is lost"):
        watches.reply(1)


def test_watches_that_move_are_told_what_changed_meanwhile() -> None:
    model = Model()
    model.apply(created(1, b"/a"))
    before = WatchChecker(model)
    before.reply(1)
    before.set_data(b"/a", is_there=True)
    before.set_child(b"/")
    request = before.request(1)
    assert request is not None
    model.apply(created(2, b"/b", creations=2))
    after = WatchChecker(model)
    after.event(-1, 4, b"/")
    after.restored(request, 2)
    assert list(after.data) == [b"/a"]
    assert not after.child
    silent = WatchChecker(model)
    with pytest.raises(SafetyError, match="setWatches"):
        silent.restored(request, 2)
