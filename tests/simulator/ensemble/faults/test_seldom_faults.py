"""What seldom happens, by itself: each fault is there for a rule, and some seed notices that the rule is switched off.

The way is that of `test_broken_variants`: a rule of the code is taken away, and a run with little else than the fault
has to fail. The seed that is written down is tried first.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import attrs
import pytest

from datatree.log.batch import Batch
from datatree.log.disk import Disk, Then
from datatree.log.epochs import load_epochs
from datatree.log.frame import Scan, scan
from datatree.log.transaction_log import TransactionLog
from datatree.recovery import found_file
from datatree.recovery import recover as recovery
from tests.protocol.dispatch import handle_with
from tests.rigs.known_seed import check_known
from tests.simulator.ensemble.hunting import only
from zab.cli.servers.simulate import attempt
from zab.member.membership.greeting import AT_ELECTION_PORT, AT_QUORUM_PORT, Purpose
from zab.protocol import discovery, heartbeat, roles
from zab.protocol import message as msg
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import Following, Leading, LearnerHandler
from zab.simulator.ensemble.members.greeter import Greeter
from zab.simulator.ensemble.members.profile import ASKED_FOR, SELDOM
from zab.wire import handshake
from zab.wire.handshake import NONCE_BYTES, Listening

SEEDS = 150
Patch = pytest.MonkeyPatch


def take_damage_for_torn(patch: Patch) -> None:
    """C2: what cannot be read is cut, wherever it is, and nothing else says how far the log went."""

    def forgetful(data: bytes, first: int, start: int) -> Scan:
        return attrs.evolve(scan(data, first, start), synced=0)

    patch.setattr(found_file, "scan", forgetful)
    patch.setattr(recovery, "load_mark", lambda disk: None)


def guess_a_promise(patch: Patch) -> None:
    """B1: an epoch file that cannot be read counts as one without a promise."""

    def guessed(disk: Disk) -> tuple[int, int]:
        return load_epochs(disk) or (0, 0)

    patch.setattr(recovery, "load_epochs", guessed)


def believe_who_reports_less(patch: Patch) -> None:
    """B4: a member that has less than it acknowledged to the leader counts like any other."""
    on_ackepoch = discovery.leader_on_ackepoch

    def trusting(peer: PeerState, now: int, leading: Leading, handler: LearnerHandler, message: msg.AckEpoch) -> None:
        leading.acknowledged.clear()
        on_ackepoch(peer, now, leading, handler, message)

    handle_with(patch, trusting, instead_of=on_ackepoch)


def go_on_with_a_full_disk(patch: Patch) -> None:
    """C1: an append that did not fit counts as done."""
    append = TransactionLog.append

    def careless(log: TransactionLog, batches: list[Batch], then: Then | None = None) -> None:
        try:
            append(log, batches, then)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            log._sound = True
            log.last = batches[-1].zxid, batches[-1].chain
            if then is not None:
                then()

    patch.setattr(TransactionLog, "append", careless)


def wait_for_a_disk_that_hangs(patch: Patch) -> None:
    """C4: whose log is not durable goes on in its role."""
    patch.setattr(roles.Overdue, "sample", lambda overdue, now, zxid, limit_ms: 0)


def believe_any_proof(patch: Patch) -> None:
    """A stranger that repeats the greeting and the proof of a member is believed to be that member."""
    patch.setattr(handshake, "compare_digest", lambda expected, said: len(expected) == len(said))


def greet_everybody_with_one_nonce(patch: Patch) -> None:
    """What members said to each other once is true for ever."""
    patch.setattr(Greeter, "listening", lambda self: _listening(self, AT_QUORUM_PORT))
    patch.setattr(Greeter, "listening_for_votes", lambda self: _listening(self, AT_ELECTION_PORT))


def _listening(greeter: Greeter, purposes: frozenset[Purpose]) -> Listening:
    return Listening(greeter._party, greeter._others, purposes, bytes(NONCE_BYTES))


def lead_without_a_quorum(patch: Patch) -> None:
    """A leader on the wrong side of a bridge goes on for ever."""
    patch.setattr(heartbeat, "_leader_tick", lambda peer, now, leading: None)


def wait_for_a_silent_leader(patch: Patch) -> None:
    """A learner stays with a leader that is not heard any more."""
    on_time = heartbeat.learner_on_time

    def patient(peer: PeerState, now: int, following: Following) -> None:
        following.deadline = max(following.deadline, now + 1)
        on_time(peer, now, following)

    patch.setattr(heartbeat, "learner_on_time", patient)


def promise_before_it_is_durable(patch: Patch) -> None:
    """ACKEPOCH leaves while acceptedEpoch is on its way to the disk."""
    on_leaderinfo = discovery.learner_on_leaderinfo

    def eager(peer: PeerState, now: int, following: Following, message: msg.LeaderInfo) -> None:
        on_leaderinfo(peer, now, following, message)
        if not following.epoch_saved:
            following.epoch_saved = True
            assert following.link is not None
            peer.send(following.link, msg.AckEpoch(peer.current_epoch, *peer.position()))

    handle_with(patch, eager, instead_of=on_leaderinfo)


Variant = Callable[[Patch], None]

VARIANTS: dict[Variant, tuple[dict[str, int], str, int]] = {
    take_damage_for_torn: ({"misdirected_write": 3, "kill": 1}, "", 397),
    guess_a_promise: ({"bit_flip": 3, "kill": 1}, "", 2),
    believe_who_reports_less: ({"rollback": 3, "kill": 1}, "", 6),
    go_on_with_a_full_disk: ({"full_disk": 3, "kill": 1}, "", 1),
    wait_for_a_disk_that_hangs: ({"hung_disk": 1}, "", 0),
    believe_any_proof: ({"stranger": 1}, "", 2),
    greet_everybody_with_one_nonce: ({"stranger": 1, "election_stranger": 1}, "", 3),
    lead_without_a_quorum: ({"bridge": 1}, "", 1),
    wait_for_a_silent_leader: ({"one_sided_loss": 1}, "", 8),
    promise_before_it_is_durable: ({"race": 1}, "racing", 6),
}
"""Each with the faults and the focus of its runs, and a seed that finds it."""


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_seed_finds_the_rule_that_is_off(variant: Variant, monkeypatch: Patch) -> None:
    faults, focus, seed = VARIANTS[variant]
    only(faults, focus, monkeypatch)
    assert attempt(seed).failure is None, "with the rule it is a good run"
    variant(monkeypatch)
    check_known(lambda each: attempt(each).failure, seed, SEEDS)


def test_each_of_them_has_its_rule() -> None:
    assert {kind for faults, _, _ in VARIANTS.values() for kind in faults} >= {*SELDOM, *ASKED_FOR}
