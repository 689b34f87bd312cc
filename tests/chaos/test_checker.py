"""The checker finds each kind of broken promise: a good history, and bad ones that differ from it in one thing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos.checker import Held, Kind, Operation, Outcome, Replica, check
from tests.chaos.good_runs import A, B, good_history, good_replicas, operation, with_operation, with_znode


def with_sync(zxid: int) -> list[Operation]:
    """The good history with a sync of B just after A was told of zxid 6."""
    return [*with_operation(10, number=7), operation(B, 6, Kind.SYNC, "/", None, 17.5, end=17.6, zxid=zxid)]


def rules(history: list[Operation], replicas: list[Replica]) -> set[str]:
    return {violation.rule for violation in check(history, replicas)}


def test_a_good_history_has_nothing_to_complain_about_in_whatever_order_it_was_recorded() -> None:
    assert check(good_history(), good_replicas()) == []
    for seed in range(20):
        shuffled = good_history()
        random.Random(seed).shuffle(shuffled)
        assert check(shuffled, good_replicas()) == []


def test_a_sync_that_knows_what_was_told_before_is_good() -> None:
    assert check(with_sync(zxid=6), good_replicas()) == []


def test_an_unknown_write_may_have_happened_or_not() -> None:
    history = [each for each in good_history() if each.value not in ("x2", "x3")]
    unknown = operation(A, 3, Kind.SET, "/x", "x2", 12, outcome=Outcome.UNKNOWN, end=float("inf"))
    assert check([*history, unknown], with_znode("/x", Held("x1", 2, 1))) == []
    assert check([*history, unknown], with_znode("/x", Held("x2", 5, 2))) == []


@pytest.mark.parametrize(
    ("rule", "history", "replicas"),
    [
        # An acknowledged create is gone, everywhere or in one replica.
        ("lost", good_history(), with_znode("/y", None)),
        ("lost", good_history(), with_znode("/y", None, everywhere=False)),
        # The last acknowledged write is gone.
        ("lost", good_history(), with_znode("/x", Held("x2", 5, 2))),
        # The zxid is right and the value is not.
        ("lost", good_history(), with_znode("/x", Held("x1", 6, 3))),
        # A lost write was overwritten: the next one made the same version again.
        ("lost", with_operation(9, version=1), with_znode("/x", Held("x3", 6, 1))),
        ("lost", good_history(), with_znode("/x", Held("x3", 6, 2))),
        # What was refused is there after all.
        ("refused write", good_history(), with_znode("/x", Held("no", 7, 4))),
        ("refused write", with_operation(8, value="no"), good_replicas()),
        # Nobody wrote this; or more often than anybody did.
        ("phantom", with_operation(8, value="x9"), good_replicas()),
        ("phantom", good_history(), with_znode("/w", Held("w0", 6, 0))),
        ("phantom", good_history(), with_znode("/x", Held("x3", 6, 4))),
        # One zxid for two writes.
        ("two orders", with_operation(3, zxid=2), good_replicas()),
        # A write that began after another had ended has the smaller zxid.
        ("two orders", with_operation(3, start=20, end=21), good_replicas()),
        # Versions say a different order from zxids.
        ("two orders", with_operation(1, version=4), good_replicas()),
        # One write under two zxids: the members do not agree where it stands.
        ("two orders", with_operation(5, modified=1), good_replicas()),
        ("two orders", good_history(), with_znode("/x", Held("x3", 7, 3), everywhere=False)),
        # The session moved to a member that lags.
        ("backwards", with_operation(5, zxid=2), good_replicas()),
        ("backwards", with_operation(8, zxid=1, modified=1, value="x0", version=0), good_replicas()),
        # Not its own write; not the state at the zxid of the reply.
        ("not one state", with_operation(5, value="x0", modified=1, version=0), good_replicas()),
        ("not one state", with_operation(2, zxid=1, modified=2, value="x1", version=1), good_replicas()),
        ("not one state", with_operation(5, value=None, modified=0, version=0), good_replicas()),
        # The sync was answered, and the member still lags what another client was told before.
        ("stale sync", with_sync(zxid=5), good_replicas()),
        # Replicas that are not the same.
        ("diverged", good_history(), [replace(good_replicas()[0], zxid=5), *good_replicas()[1:]]),
        ("diverged", good_history(), [replace(good_replicas()[0], digest=1), *good_replicas()[1:]]),
        ("diverged", good_history(), with_znode("/q", Held("q", 9, 0), everywhere=False)),
    ],
)
def test_a_bad_history_is_found(rule: str, history: list[Operation], replicas: list[Replica]) -> None:
    assert rule in rules(history, replicas)


def test_every_write_that_is_dropped_from_a_random_history_is_missed() -> None:
    """A dumb twin: a single copy makes a history; with one acknowledged write left out of it, the checker complains."""
    for seed in range(30):
        source = random.Random(seed)
        assert check(*simulate(source, lambda _zxid: False)) == []
        dropped = random.Random(seed).randrange(3, 35)
        history, replicas = simulate(random.Random(seed), lambda zxid, lost=dropped: zxid == lost)
        assert "lost" in rules(history, replicas), f"seed {seed}: the write of zxid {dropped} was lost unnoticed"


def simulate(source: random.Random, is_lost: Callable[[int], bool]) -> tuple[list[Operation], list[Replica]]:
    """40 writes to three paths through one copy that acknowledges them all and forgets some."""
    held: dict[str, Held] = {}
    history = []
    for zxid in range(1, 41):
        path = source.choice(["/a", "/b", "/c"])
        before = held.get(path)
        kind, version = (Kind.SET, before.version + 1) if before else (Kind.CREATE, 0)
        history.append(operation(A, zxid, kind, path, f"v{zxid}", zxid * 2.0, zxid=zxid, version=version))
        if not is_lost(zxid):
            held[path] = Held(f"v{zxid}", zxid, version)
    return history, [Replica("one", 40, 1, held)]
