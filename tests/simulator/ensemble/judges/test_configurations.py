"""Which configurations govern, as the judges of a run know them: what is lost has decided nothing."""

from __future__ import annotations

from datatree.log.zxid import Zxid
from zab.protocol.membership import Membership, Memberships
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority
from zab.simulator.ensemble.judges.configurations import Configurations


def membership(version: int, *sids: int) -> Membership:
    ids = frozenset(map(ServerId, sids))
    return Membership(Zxid(version), Majority(ids), ids)


OF_FILES, LOST, KEPT = membership(0, 1, 2, 3), membership(5, 4, 5), membership(9, 1, 2)


def test_a_lost_outstanding_configuration_governs_nothing() -> None:
    """Leader 1 proposes LOST, and ends; the next leader has never seen it and commits other batches after its zxid."""
    configurations = Configurations(OF_FILES)
    configurations.appended(Memberships(OF_FILES, LOST))
    assert configurations.deciding == [OF_FILES.quorum, LOST.quorum], "it may come back"
    assert configurations.committed(Memberships(OF_FILES)) == ()
    assert configurations.governing(7) == OF_FILES.quorum


def test_a_reconfiguration_is_committed_by_both_and_ends_what_was_before_it() -> None:
    configurations = Configurations(OF_FILES)
    configurations.appended(Memberships(OF_FILES, LOST))
    configurations.appended(Memberships(OF_FILES, KEPT))
    assert configurations.committed(Memberships(KEPT)) == (OF_FILES.quorum, KEPT.quorum)
    assert configurations.committed(Memberships(KEPT)) == (), "once"
    assert configurations.deciding == [KEPT.quorum]
    assert (configurations.governing(8), configurations.governing(9)) == (OF_FILES.quorum, KEPT.quorum)
    configurations.appended(Memberships(OF_FILES, LOST))
    assert configurations.deciding == [KEPT.quorum], "it comes too late to decide"


def test_what_was_asked_for_counts_until_it_is_answered() -> None:
    configurations = Configurations(OF_FILES)
    configurations.ask(LOST)
    assert configurations.possible == [OF_FILES, LOST]
    configurations.forget_asked()
    assert configurations.possible == [OF_FILES]


def test_all_that_were_ever_in_force_are_known() -> None:
    configurations = Configurations(OF_FILES)
    configurations.appended(Memberships(OF_FILES, KEPT))
    configurations.committed(Memberships(KEPT))
    assert configurations.ever == [OF_FILES.quorum, KEPT.quorum, KEPT.quorum]
