"""Each rule of the protocol, switched off: the random runs must notice. A check that cannot fail is none.

The seed that is written down for a variant is tried first; should a change of the code have moved the failure to
another seed, the search goes on from 0, and the number is to be corrected.
"""

from collections.abc import Callable, Iterator

import pytest

from datatree.log.epochs import load_member, save_epochs, save_member
from datatree.snapshot import snapshot_files
from tests.protocol import random_faults as faults
from tests.protocol.dispatch import acknowledge_before_durable, handle_with
from tests.rigs.direct.lone_peer import Process
from tests.rigs.known_seed import check_known
from zab.member.storage.events import StorageEffect
from zab.protocol import broadcast, confirmation, discovery, learner_synchronization, roles, synchronization
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol import peer as peer_module
from zab.protocol.election import Election, Vote
from zab.protocol.history import History
from zab.protocol.peer import Peer
from zab.protocol.roles import Stage

SEEDS = 300


def _ignore(peer: Peer, now: int, event: ev.Event) -> None:
    """In place of an event's handler."""


def current_epoch_before_history(patch: pytest.MonkeyPatch) -> None:
    """ZOOKEEPER-4643: the epoch file overtakes the history; the acknowledgement itself still waits for both."""
    on_newleader = learner_synchronization.learner_on_newleader
    put = Process.put

    def early(peer: Peer, now: int, following: roles.Following, message: msg.NewLeader) -> None:
        peer.save_epochs(peer.accepted_epoch, message.epoch)
        on_newleader(peer, now, following, message)

    def overtake(process: Process, effect: StorageEffect) -> None:
        if isinstance(effect, fx.SaveEpochs) and effect.current == effect.accepted:
            save_epochs(process.storage.disk, effect.accepted, effect.current)
        put(process, effect)

    handle_with(patch, early, instead_of=on_newleader)
    patch.setattr(Process, "put", overtake)
    patch.setattr(discovery, "learner_on_epochs_saved", _only_when_due(discovery.learner_on_epochs_saved))


Saved = Callable[[Peer, roles.Following], None]


def _only_when_due(on_epochs_saved: Saved) -> Saved:
    def due(peer: Peer, following: roles.Following) -> None:
        if not following.epoch_saved or following.current_saving:
            on_epochs_saved(peer, following)

    return due


def commit_without_a_quorum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broadcast, "high_water_mark", lambda quorum, acknowledged, known: max(known, *acknowledged.values()))


def follow_a_leader_that_is_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(discovery, "_is_ahead", lambda peer, handler, message: False)
    patch.setattr(Election, "_is_better", lambda election, vote: vote.leader > election.proposal.leader)


def count_an_amnesiac(patch: pytest.MonkeyPatch) -> None:
    """A wiped member votes and is counted as if it had never held anything."""
    crash = faults.Ensemble.crash

    def wipe(ensemble: faults.Ensemble, *sids: int) -> None:
        crash(ensemble, *sids)
        for sid in sids:
            server = ensemble.servers[sid]
            member = load_member(server.disk)
            if member is not None and not snapshot_files(server.disk):
                server.wipe()
                save_epochs(server.disk, 0, 0)
                save_member(server.disk, member)

    patch.setattr(faults.Ensemble, "crash", wipe)


def accept_any_batch_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(learner_synchronization, "_cut", lambda peer, position: None)


def newleader_before_the_history(patch: pytest.MonkeyPatch) -> None:
    def lazy(peer: Peer, leading: roles.Leading, handler: roles.LearnerHandler) -> None:
        handler.stage = Stage.NEWLEADER_SENT
        handler.cursor = handler.newleader_zxid = peer.history.last[0]
        peer.send(handler.link, msg.NewLeader(leading.epoch or 0, peer.history.last[0], False))

    patch.setattr(synchronization, "_stream", lazy)


def answer_a_sync_without_a_quorum(patch: pytest.MonkeyPatch) -> None:
    """ZOOKEEPER-1675: a leader that was deposed and does not know it answers what it knows."""
    patch.setattr(confirmation, "is_confirmed", lambda peer, leading, number: True)


def apply_before_the_mark(patch: pytest.MonkeyPatch) -> None:
    def early(peer: Peer) -> None:
        batches = peer.history.between(peer.delivered, peer.history.last[0])
        if batches:
            peer.delivered = batches[-1].zxid
            peer.emit(fx.Deliver(batches))

    patch.setattr(Peer, "deliver", early)
    patch.setattr(Peer, "invariants", lambda peer: None)
    patch.setattr(History, "trim", lambda history, mark: None)


def found_before_everybody_was_heard(patch: pytest.MonkeyPatch) -> None:
    """B3: marked voters do not wait for those that are there and have said nothing."""
    is_founded = Election._is_founded_by_markers

    def hasty(election: Election, vote: Vote, supporters: set[int]) -> bool:
        election.heard |= election.quorum.voters
        return is_founded(election, vote, supporters)

    patch.setattr(Election, "_is_founded_by_markers", hasty)


def marker_counts_although_somebody_has_a_history(patch: pytest.MonkeyPatch) -> None:
    """B3: who is marked does not care what others tell, once its election is over."""
    patch.setattr(peer_module, "tells_of_history", lambda notification: False)


def marker_counts_whatever_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    """B3: a marked member counts also when it has got a history since it was started."""
    patch.setattr(Peer, "marked", property(lambda peer: peer.is_marker_valid))
    patch.setattr(Peer, "hear_of_history", lambda peer, now, sid, tells: False)


VARIANTS: dict[Callable[..., None], int] = {
    acknowledge_before_durable: 66,
    current_epoch_before_history: 0,
    commit_without_a_quorum: 186,
    follow_a_leader_that_is_behind: 1,
    count_an_amnesiac: 2,
    accept_any_batch_number: 11,
    newleader_before_the_history: 0,
    answer_a_sync_without_a_quorum: 119,
    apply_before_the_mark: 7,
}


def begin_although_somebody_has_batches(patch: pytest.MonkeyPatch) -> None:
    """B3, B4: every voter is there, and that is enough."""

    def first_start(election: Election, vote: Vote) -> bool:
        return election.quorum.voters <= election.received.keys()

    def is_first_start(peer: Peer, leading: roles.Leading) -> bool:
        return peer.settings.quorum.voters <= {h.sid for h in leading.at_least(Stage.INFORMED)} | {peer.settings.sid}

    patch.setattr(Election, "is_first_start", first_start)
    patch.setattr(discovery, "_is_first_start", is_first_start)


MARKER_VARIANTS: dict[Callable[..., None], int] = {
    found_before_everybody_was_heard: 4,
    marker_counts_although_somebody_has_a_history: 2,
    marker_counts_whatever_is_on_disk: 2,
    begin_although_somebody_has_batches: 1,
}


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def finds(run: Callable[[int], object], seed: int) -> bool:
    try:
        run(seed)
    except AssertionError:
        return True
    return False


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.long
def test_the_random_runs_find_the_broken_variant(variant: Callable[..., None], patch: pytest.MonkeyPatch) -> None:
    variant(patch)
    check_known(lambda seed: finds(faults.run, seed), VARIANTS[variant], SEEDS)


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("variant", MARKER_VARIANTS, ids=lambda variant: variant.__name__)
def test_the_runs_with_markers_that_lie_find_the_broken_variant(
    variant: Callable[..., None], patch: pytest.MonkeyPatch
) -> None:
    variant(patch)
    check_known(lambda seed: finds(faults.run_with_markers_that_lie, seed), MARKER_VARIANTS[variant], SEEDS)
