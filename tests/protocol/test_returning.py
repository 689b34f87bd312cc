"""A server that was down while the ensemble was reconfigured, whose file names servers that are gone; and needed disks
that are lost while a change is outstanding."""

from __future__ import annotations

import pytest

from tests.protocol.reconfigurations import propose_configuration
from tests.rigs.direct.peers import TICK_MS, Ensemble
from zab.member.membership.reconfiguring import READER
from zab.protocol import effects as fx
from zab.protocol.states import LEADING
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority

ONE, TWO, THREE, FOUR, FIVE = (ServerId(sid) for sid in (1, 2, 3, 4, 5))
OLD, NEW = frozenset((ONE, TWO, THREE)), frozenset((THREE, FOUR, FIVE))


def leader_of(ensemble: Ensemble) -> ServerId | None:
    return next(
        (sid for sid in ensemble.up() if ensemble.peer(sid).state is LEADING and ensemble.peer(sid).serving), None
    )


def replaced() -> Ensemble:
    """{1, 2, 3} has become {3, 4, 5} while 3 was down; 1 and 2 are gone. No file names anybody but its own server and
    1, 2 and 3."""
    ensemble = Ensemble(5, Majority(OLD), reader=READER, takes_unlisted=True)
    ensemble.named = {sid: OLD | {sid} for sid in ensemble.servers}
    ensemble.start()
    ensemble.elect()
    ensemble.run(5 * TICK_MS)
    ensemble.crash(THREE)
    ensemble.run(20 * TICK_MS)
    leader = leader_of(ensemble)
    assert leader in (ONE, TWO)
    change = propose_configuration(ensemble, leader, set(NEW), set())
    assert change
    ensemble.run(5 * TICK_MS)
    assert {ensemble.peer(sid).memberships.in_force.version for sid in (FOUR, FIVE)} == {change}
    ensemble.crash(ONE, TWO)
    ensemble.run(20 * TICK_MS)
    assert leader_of(ensemble) in (FOUR, FIVE)
    return ensemble


def serve(ensemble: Ensemble, *sids: ServerId) -> bool:
    return all(ensemble.peer(sid).serving for sid in sids)


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("ends_at", ["never", "before", "after"])
def test_it_follows_and_is_a_majority_with_one_of_those_that_its_file_does_not_name(
    is_empty: bool, ends_at: str
) -> None:
    ensemble = replaced()
    if is_empty:
        ensemble.servers[THREE].wipe()
    if ends_at == "before" and not is_empty:
        ensemble.crash(FIVE)
    ensemble.start(THREE)
    ensemble.run(20 * TICK_MS)
    if ends_at == "after":
        ensemble.crash(FIVE)
        ensemble.run(30 * TICK_MS)
    assert serve(ensemble, THREE, FOUR)


def test_where_nobody_proves_anything_it_believes_no_unlisted_server() -> None:
    ensemble = replaced()
    ensemble.unproven = set(NEW)
    ensemble.start(THREE)
    ensemble.run(20 * TICK_MS)
    assert not ensemble.peer(THREE).serving
    assert ensemble.peer(THREE).quorum.voters == OLD


def test_a_needed_disk_lost_while_a_change_is_outstanding_ends_service_until_recovery_by_force() -> None:
    """Two of three are to go on; the one that has not logged that yet loses its disk. What the page says of it."""
    ensemble = Ensemble(3, reader=READER, takes_unlisted=True)
    ensemble.start()
    ensemble.elect()
    ensemble.run(5 * TICK_MS)
    leader = leader_of(ensemble)
    assert leader is not None
    lost, other = sorted({ONE, TWO, THREE} - {leader})
    ensemble.servers[lost].held = {fx.AppendBatches}
    assert propose_configuration(ensemble, leader, {leader, lost}, set())
    ensemble.settle()
    assert ensemble.peer(other).memberships.outstanding is not None
    ensemble.crash(lost)
    ensemble.servers[lost].wipe()
    ensemble.servers[lost].held = set()
    ensemble.start(lost)
    ensemble.run(60 * TICK_MS)
    assert leader_of(ensemble) is None

    ensemble.crash(leader, lost, other)
    ensemble.servers[leader].recover_by_force()
    for sid in (lost, other):
        ensemble.servers[sid].wipe()
    ensemble.start()
    ensemble.run(40 * TICK_MS)
    assert serve(ensemble, leader, lost, other)
    assert ensemble.peer(other).quorum.voters == {ONE, TWO, THREE}, "the files decide, and not what was outstanding"
