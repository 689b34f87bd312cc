"""G5 session keys: a member that may lead has the keys that passwords were made with, and nobody else gets them."""

from __future__ import annotations

import pytest

from datatree.log.epochs import MemberRecord, load_member, save_epochs, save_member
from datatree.log.session_keys import KEY_BYTES, NamedKey, lineage_key, load_session_keys, save_session_keys
from tests.rigs.direct.peers import Ensemble
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.session_keys import keys_of
from zab.protocol.states import BROADCAST
from zab.quorum.ids import ServerId
from zab.simulator.world.disk import FaultyDisk
from zab.wire.records import MessageError

ONE, TWO, THREE = map(ServerId, (1, 2, 3))
FIRST, SECOND, THIRD = (bytes([number]) * 8 for number in (1, 2, 3))


def name_secret(ensemble: Ensemble, name: bytes, *sids: ServerId) -> None:
    for sid in sids or ensemble.up():
        ensemble.step(sid, ev.SecretNamed(name))


def started(name: bytes = FIRST, **settings: int) -> Ensemble:
    ensemble = Ensemble(3, **settings)
    ensemble.start()
    name_secret(ensemble, name)
    ensemble.elect()
    ensemble.run(500)
    return ensemble


def kept(ensemble: Ensemble) -> list[NamedKey]:
    """The keys that all members have, in memory and on disk."""
    [keys] = {tuple(ensemble.peer(sid).session_keys) for sid in ensemble.up()}
    for sid in ensemble.up():
        peer = ensemble.peer(sid)
        assert (load_session_keys(ensemble.servers[sid].disk, peer.lineage) or []) == list(keys)
    return list(keys)


def elect_anew(ensemble: Ensemble) -> ServerId:
    """Another leader than the one there is, which follows then."""
    leader = ensemble.elect()
    ensemble.crash(leader)
    ensemble.elect()
    ensemble.start(leader)
    ensemble.run(2000)
    return ensemble.elect()


def test_leader_makes_a_key_and_everybody_has_it_durably() -> None:
    ensemble = started()
    [key] = kept(ensemble)
    assert key.name == FIRST
    assert len(key.key) == KEY_BYTES
    assert key.key != lineage_key(ensemble.peer(ONE).lineage).key
    assert key.key.hex() not in repr(key)
    assert repr(key.key) not in repr(msg.SessionKeys([[key.name, key.key]]))


def test_who_proves_nothing_makes_and_tells_none() -> None:
    ensemble = started(name=b"")
    assert kept(ensemble) == []


def test_next_leader_goes_on_with_the_same_key() -> None:
    ensemble = started()
    before = kept(ensemble)
    elect_anew(ensemble)
    assert kept(ensemble) == before


def test_key_of_another_secret_is_made_by_the_next_leader_and_the_one_before_stays_good() -> None:
    ensemble = started()
    [first] = kept(ensemble)
    name_secret(ensemble, SECOND)
    ensemble.run(500)
    assert kept(ensemble) == [first], "a learner would not know a password that was made with another key"
    leader = ensemble.elect()
    ensemble.crash(leader)
    ensemble.elect()
    ensemble.run(500)
    second, before = kept(ensemble)
    assert (second.name, before) == (SECOND, first)
    name_secret(ensemble, THIRD)
    other = ensemble.elect()
    ensemble.start(leader)
    name_secret(ensemble, THIRD, leader)
    ensemble.run(1000)
    ensemble.crash(other)
    ensemble.elect()
    ensemble.run(500)
    third, before = kept(ensemble)
    assert (third.name, before) == (THIRD, second), "the key in use, and the one before"


def test_leader_that_does_not_have_the_new_secret_yet_uses_the_key_before_again() -> None:
    """While the secret is changed, some members have two and others one: both keys stay good."""
    ensemble = started()
    leader = ensemble.elect()
    others = [sid for sid in ensemble.up() if sid != leader]
    name_secret(ensemble, SECOND, *others)
    ensemble.crash(leader)
    ensemble.elect()
    ensemble.run(500)
    second, first = kept(ensemble)
    assert (second.name, first.name) == (SECOND, FIRST)
    name_secret(ensemble, FIRST)
    ensemble.start(leader)
    name_secret(ensemble, FIRST, leader)
    ensemble.run(1000)
    elect_anew(ensemble)
    assert kept(ensemble) == [first, second]


def test_key_before_is_good_no_more_once_everybody_has_come_back_or_expired() -> None:
    ensemble = started(session_timeout_max_ms=3000)
    name_secret(ensemble, SECOND)
    leader = ensemble.elect()
    ensemble.crash(leader)
    next_leader = ensemble.elect()
    ensemble.run(2500)
    second, first = kept(ensemble)
    assert first.name == FIRST
    away = next(sid for sid in ensemble.up() if sid != next_leader)
    ensemble.start(leader)
    ensemble.run(100)
    ensemble.crash(away)
    ensemble.run(600)
    assert kept(ensemble) == [second]
    ensemble.start(away)
    ensemble.run(500)
    assert ensemble.leader() == next_leader
    assert kept(ensemble) == [second], "who was away is told, too"


def test_key_before_is_not_let_go_during_a_renewal() -> None:
    """Learners that are renewed expect other things, and would break off."""
    ensemble = started(session_timeout_max_ms=3000, counter_limit=3)
    name_secret(ensemble, SECOND)
    ensemble.crash(ensemble.elect())
    leader = ensemble.elect()
    [follower] = [sid for sid in ensemble.up() if sid != leader]
    leading = ensemble.peer(leader).leading
    assert leading is not None
    assert leading.serves_since is not None
    ensemble.run(leading.serves_since + 2900 - ensemble.now)
    second, _first = kept(ensemble)
    ensemble.servers[follower].held.add(fx.SaveEpochs)
    while ensemble.peer(leader).phase is BROADCAST:
        ensemble.propose(leader)
        ensemble.settle()
    ensemble.run(300)
    assert ensemble.peer(leader).phase is not BROADCAST
    assert len(ensemble.peer(leader).session_keys) == 2
    ensemble.servers[follower].held.clear()
    ensemble.run(300)
    assert ensemble.peer(leader).leading is leading, "nobody broke off"
    assert kept(ensemble) == [second]


def test_renewal_of_the_epoch_changes_no_key() -> None:
    """Clients go on meanwhile."""
    ensemble = Ensemble(3, counter_limit=5)
    ensemble.start()
    name_secret(ensemble, FIRST)
    leader = ensemble.elect()
    ensemble.run(500)
    before = kept(ensemble)
    epoch = ensemble.peer(leader).epoch
    name_secret(ensemble, SECOND)
    while ensemble.peer(leader).epoch == epoch:
        if ensemble.peer(leader).next_zxid() is not None:
            ensemble.propose(leader)
        ensemble.run(100)
    ensemble.run(500)
    assert ensemble.leader() == leader
    assert kept(ensemble) == before


def restart(ensemble: Ensemble, name: bytes) -> None:
    """All members, with this secret from now on."""
    ensemble.crash(*ensemble.up())
    ensemble.start()
    name_secret(ensemble, name)
    ensemble.elect()
    ensemble.run(500)


def test_ensemble_that_lived_without_proof_keeps_the_key_that_followed_from_its_lineage_until_all_came_back() -> None:
    ensemble = started(name=b"", session_timeout_max_ms=2000)
    ensemble.propose(ensemble.elect())
    ensemble.run(500)
    restart(ensemble, FIRST)
    first, before = kept(ensemble)
    assert first.name == FIRST
    assert before == lineage_key(ensemble.peer(ONE).lineage)
    ensemble.run(2000)
    assert kept(ensemble) == [first], "an eavesdropper on the network knows the other one"


def test_who_proves_nothing_any_more_uses_the_key_that_all_know() -> None:
    """Not one that only some have: nobody could tell it to the others."""
    ensemble = started()
    [first] = kept(ensemble)
    ensemble.unproven |= {ONE, TWO, THREE}
    restart(ensemble, b"")
    assert kept(ensemble) == [lineage_key(ensemble.peer(ONE).lineage), first]


def test_member_without_proof_uses_the_key_of_a_leader_that_cannot_tell_it_another() -> None:
    ensemble = started()
    [first] = kept(ensemble)
    ensemble.crash(*ensemble.up())
    save_session_keys(ensemble.servers[THREE].disk, ensemble.servers[THREE].lineage, [])
    ensemble.unproven |= {ONE, TWO, THREE}
    ensemble.start()
    ensemble.elect()
    ensemble.run(500)
    common = lineage_key(ensemble.peer(ONE).lineage)
    assert [keys_of(ensemble.peer(sid)) for sid in (ONE, TWO, THREE)] == [
        *([[common.key, first.key]] * 2),
        [common.key],
    ]


def test_history_that_a_tool_made_has_no_key_that_follows_from_its_lineage() -> None:
    """Nobody's session is in it; the lineage is in every header, and the tool says it."""
    ensemble = started()
    ensemble.propose(ensemble.elect())
    ensemble.run(500)
    ensemble.crash(ONE, TWO, THREE)
    ensemble.servers[ONE].recover_by_force()
    ensemble.servers[TWO].wipe()
    ensemble.servers[THREE].wipe()
    ensemble.start()
    name_secret(ensemble, FIRST)
    ensemble.elect()
    ensemble.run(500)
    [first] = kept(ensemble)
    assert first.name == FIRST


def test_member_that_cannot_read_its_keys_does_not_count_until_it_is_told() -> None:
    ensemble = started()
    [first] = kept(ensemble)
    for sid in (ONE, TWO):
        ensemble.crash(sid)
        disk = ensemble.servers[sid].disk
        disk.replace("version-1/sessionKeys", disk.read("version-1/sessionKeys")[:-4])
        ensemble.start(sid)
        name_secret(ensemble, FIRST, sid)
        assert ensemble.peer(sid).amnesiac
        ensemble.elect()
        ensemble.run(1500)
        assert not ensemble.peer(sid).amnesiac
        assert kept(ensemble) == [first]


def test_keys_are_durable_before_a_learner_counts() -> None:
    """At every point where the power could go: who is recorded as synchronized has the keys."""
    ensemble = Ensemble(3)
    ensemble.start()
    name_secret(ensemble, FIRST)
    seen = False
    for _ in range(3000):
        if not ensemble.deliver_one():
            ensemble.run(50)
        for server in ensemble.servers.values():
            member = load_member(server.disk)
            if member is not None:
                seen = True
                assert load_session_keys(server.disk, member.lineage), "it may be elected as it is"
    assert seen


def test_keys_of_another_lineage_are_none() -> None:
    ensemble = started()
    disk = ensemble.servers[ONE].disk
    assert load_session_keys(disk, ensemble.peer(ONE).lineage)
    assert load_session_keys(disk, bytes(16)) == []
    assert load_session_keys(FaultyDisk(), bytes(16)) is None


def test_keys_of_a_lineage_that_was_given_up_are_not_used_in_the_next() -> None:
    ensemble = Ensemble(3)
    left = ensemble.servers[ONE].disk
    save_epochs(left, 1, 1)
    save_member(left, MemberRecord(bytes(range(16)), ONE))
    save_session_keys(left, bytes(range(16)), [NamedKey(FIRST, bytes(range(32)))])
    ensemble.unproven |= {ONE, TWO, THREE}
    for sid in (TWO, THREE):
        ensemble.servers[sid].leave_marker()
    ensemble.start(TWO, THREE)
    ensemble.elect()
    ensemble.start(ONE)
    ensemble.run(500)
    assert ensemble.peer(ONE).lineage != bytes(range(16))
    assert kept(ensemble) == []


@pytest.mark.parametrize("keys", [[], [[b"short", bytes(32)]], [[bytes(8), bytes(31)]], [[bytes(8), bytes(32)]] * 3])
def test_what_is_no_key_is_refused(keys: list[list[bytes]]) -> None:
    with pytest.raises(MessageError):
        msg.decode(msg.encode(msg.SessionKeys(keys)))
