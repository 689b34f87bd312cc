"""Sequence numbers of 64 bits in whole ensembles: who leads decides, and all members apply the same."""

import pytest

from datatree.record import Fields
from tests.rigs.direct.members import Ensemble


@pytest.mark.parametrize("leader_has_it", [True, False])
def test_members_with_and_without_the_key_have_one_tree(leader_has_it: bool) -> None:
    ensemble = Ensemble(3, sequence64Enabled="true")
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/q"))
    for server in ensemble.servers.values():
        tree = server.member.tree
        # As after so many creations; a transaction would take as many.
        zxid = tree.applied
        tree.applied -= 1
        txn: Fields = (zxid, 0, 0, 0, 1, (1 << 31) - 1, b"/q/last", b"", (None, 0))
        tree.apply(txn)
        server.member.digests.clear()
        server.member.digests.record(tree.applied, tree.digest)
    prepare = ensemble.leader.member.processor.proposing.prepare
    assert prepare is not None
    if not leader_has_it:
        object.__setattr__(prepare._settings, "sequence_64", False)
    made = [ensemble.do(client, client.create(b"/q/n-", flags=2))[0][2] for _ in range(3)]
    assert made[0] == b"/q/n-2147483647"
    if leader_has_it:
        assert made == sorted(made)
        assert len(made[-1]) == len(b"/q/n-") + 19
    else:
        assert made[1:] == [b"/q/n--2147483648", b"/q/n--2147483647"]
    assert len({server.member.tree.digest for server in ensemble.servers.values()}) == 1
    assert {server.member.tree.sequence_numbers_left for server in ensemble.servers.values()} == {0}
