"""Each promise, broken on purpose: some seed must notice. A check that cannot fail is none.

A variant is one rule of the code, switched off. It is run on seeds until a run fails, in whatever way: a checker says
so, or the code stops at one of its own assertions. The seed that is written down for it is tried first; should a
change of the code have moved the failure to another seed, the search goes on from 0, and the number is to be corrected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import pytest

from datatree.cursor import _TAKEN, SnapshotCursor
from datatree.log.disk import Then
from datatree.log.epochs import load_member, save_epochs, save_member
from datatree.log.transaction_log import TransactionLog
from datatree.outcome import NODE_CHILDREN_CHANGED
from datatree.outstanding import Outstanding
from datatree.record import Txn
from datatree.recovery.recover import _Recovery
from datatree.watches import WatchTable
from session.buckets import ExpirationBuckets
from tests.protocol.dispatch import acknowledge_before_durable, handle_with
from tests.rigs.known_seed import check_known
from tests.simulator.ensemble.broken_variants import Patch, apply_twice, sync_without_asking_the_quorum
from zab.cli.servers.simulate import CRASH, LIVENESS, SAFETY, attempt
from zab.member.clients.connection import ClientConnection, Stage
from zab.member.events import Answer
from zab.member.membership.election_connections import ElectionConnections
from zab.member.requests import processor as processor_module
from zab.member.requests.connection_requests import ANSWERS
from zab.member.requests.processor import _HEADER, Processor
from zab.member.requests.read_state import ReadState
from zab.member.sessions.sessions import Sessions
from zab.member.sessions.touches import Touches
from zab.member.storage.events import StorageEffect
from zab.member.storage.storage import Storage
from zab.protocol import broadcast, learner_synchronization, synchronization
from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.protocol.peer import Peer
from zab.protocol.roles import Following, Leading, LearnerHandler
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.members.tasks import Tasks
from zab.simulator.world.disk import FaultyDisk, FaultyFile
from zab.simulator.world.log_thread import LogThread

SEEDS = 400
_CXID = Txn._fields.index("cxid")


def acknowledge_in_front_of_the_write(patch: Patch) -> None:
    """The log thread says that a batch is durable, then makes it so."""
    perform = Storage.perform

    def hasty(storage: Storage, effects: Sequence[StorageEffect]) -> list[Answer]:
        for effect in effects:
            if isinstance(effect, fx.AppendBatches) and effect.then is not None:
                for link in effect.then.links:
                    storage.hold(link, effect.then.message)()
        return perform(storage, effects)

    patch.setattr(Storage, "perform", hasty)


def current_epoch_before_history(patch: Patch) -> None:
    """ZOOKEEPER-4643: the epoch file is written before the history that it stands for; the ACK waits for both."""
    saved = learner_synchronization.learner_on_current_epoch_saved
    put = LogThread.put

    def early(peer: Peer, following: Following) -> None:
        assert following.newleader is not None
        epoch, zxid = following.newleader
        if not following.current_saving:
            following.current_saving = True
            peer.save_epochs(peer.accepted_epoch, epoch)
        elif peer.current_epoch == epoch and peer.durable >= zxid:
            once(peer, following)

    def when_both_are_durable(peer: Peer, following: Following) -> None:
        assert following.newleader is not None
        if peer.durable >= following.newleader[1]:
            once(peer, following)

    def once(peer: Peer, following: Following) -> None:
        epoch = peer.current_epoch
        if not any(following is other and epoch == passed_on_in for other, passed_on_in in passed_on):
            passed_on.append((following, epoch))
            saved(peer, following)

    passed_on: deque[Any] = deque(maxlen=20)

    def overtake(log_thread: LogThread[Any, Any], effect: Any) -> None:
        put(log_thread, effect)
        if isinstance(effect, fx.SaveEpochs) and effect.current == effect.accepted:
            log_thread._to_store.insert(0, log_thread._to_store.pop())

    patch.setattr(learner_synchronization, "learner_try_to_ack_newleader", early)
    patch.setattr(learner_synchronization, "learner_on_current_epoch_saved", when_both_are_durable)
    patch.setattr(LogThread, "put", overtake)


def skip_the_sync_of_the_log(patch: Patch) -> None:
    """The log is written, and not synced."""

    def unsynced(file: FaultyFile, data: bytes, then: Then | None = None) -> None:
        file.write(data)
        if then is not None:
            then()

    patch.setattr(FaultyFile, "write_durable", unsynced)


def skip_the_sync_of_the_directory(patch: Patch) -> None:
    """Names of new files are not made durable."""
    patch.setattr(FaultyDisk, "sync_directory", lambda disk, directory: None)


def trust_what_reads_fine(patch: Patch) -> None:
    """C1: after a restart, what the page cache still has counts as logged without being written again."""
    settle = _Recovery.settle

    def trusting(recovery: _Recovery) -> None:
        recovery._unsynced = []
        settle(recovery)

    patch.setattr(_Recovery, "settle", trusting)


def leader_counts_what_it_has_not_written(patch: Patch) -> None:
    """The leader's own place in the quorum is what others have, not what is durable here."""
    mark = broadcast.high_water_mark

    def hasty(quorum: Any, acknowledged: dict[int, int], known: int) -> int:
        leader = list(acknowledged)[-1]
        return mark(quorum, {**acknowledged, leader: max(acknowledged.values())}, known)

    patch.setattr(broadcast, "high_water_mark", hasty)


def commit_without_a_quorum(patch: Patch) -> None:
    patch.setattr(broadcast, "high_water_mark", lambda quorum, acknowledged, known: max(known, *acknowledged.values()))


def count_an_amnesiac(patch: Patch) -> None:
    """B2: a member that was wiped votes, and its acknowledgements count, as if it had never held anything."""
    lose_everything = FaultyDisk.lose_everything

    def forgetful(disk: FaultyDisk) -> None:
        member = load_member(disk)
        lose_everything(disk)
        if member is not None:
            save_epochs(disk, 0, 0)
            save_member(disk, member)

    patch.setattr(FaultyDisk, "lose_everything", forgetful)


def lose_a_watch(patch: Patch) -> None:
    """A watch on children does not hear of a deletion."""
    trigger = WatchTable.trigger

    def deaf(table: WatchTable, what: Any, may_read: Any = None) -> Any:
        _, path, kind, _ = what
        return () if kind == NODE_CHILDREN_CHANGED and path == b"/a" else trigger(table, what, may_read)

    patch.setattr(WatchTable, "trigger", deaf)


def fire_a_watch_twice(patch: Patch) -> None:
    consume = WatchTable._consume

    def sticky(table: WatchTable, which: int, connection: Any, path: bytes) -> None:
        consume(table, which, connection, path)
        table._add(which, connection, path)

    patch.setattr(WatchTable, "_consume", sticky)


def tell_of_events_late(patch: Patch) -> None:
    """A1: the events of a transaction come after its replies."""
    notify, deliver = processor_module.notify, Processor.deliver

    def postponed(state: ReadState, triggers: Iterable[Any], zxid: int) -> Generator[None, None, int]:
        waiting.append((state, list(triggers), zxid))
        yield from ()
        return 0

    def late(processor: Processor, batch: Any) -> Iterator[None]:
        yield from deliver(processor, batch)
        while waiting:
            yield from notify(*waiting.popleft())

    waiting: deque[Any] = deque()
    patch.setattr(processor_module, "notify", postponed)
    patch.setattr(Processor, "deliver", late)


def apply_what_the_clock_says(patch: Patch) -> None:
    """Apply is no function of state and batch alone: members' trees differ."""
    deliver = Processor.deliver

    def skewed(processor: Processor, batch: Any) -> Iterator[None]:
        yield from deliver(processor, batch)
        if batch.zxid % 8 == 0 and processor.server_id == 2:
            tree = processor.state.tree
            tree.digest += 1

    patch.setattr(Processor, "deliver", skewed)


def snapshot_while_writing(patch: Patch) -> None:
    """Snapshots are not exact: what is written while one is begun gets in."""

    def late(cursor: SnapshotCursor, index: int, shard: Any) -> None:
        if cursor._taken.get(index) is not _TAKEN:
            cursor._taken[index] = shard.copy()

    patch.setattr(SnapshotCursor, "take", late)


def expire_sessions_early(patch: Patch) -> None:
    touch = ExpirationBuckets.touch

    def hurried(buckets: ExpirationBuckets, id_: int, now: int, timeout_ms: int) -> int:
        return touch(buckets, id_, now, timeout_ms // 2)

    patch.setattr(ExpirationBuckets, "touch", hurried)


def forget_the_touches_of_learners(patch: Patch) -> None:
    patch.setattr(Touches, "learner_touched", lambda sessions, rows, now: None)


def read_before_own_write(patch: Patch) -> None:
    """A read does not wait for the writes of its session."""
    receive = Processor.receive

    def eager(processor: Processor, connection: ClientConnection, frames: Iterable[bytes]) -> None:
        for frame in frames:
            _, opcode = _HEADER.unpack_from(frame)
            if opcode in ANSWERS:
                pending, connection.pending = connection.pending, deque()
                receive(processor, connection, [frame])
                connection.pending = pending
            else:
                receive(processor, connection, [frame])

    patch.setattr(Processor, "receive", eager)


def let_moved_sessions_write(patch: Patch) -> None:
    """The owner of a session is not checked: what its client left elsewhere is done after what it asks now."""
    patch.setattr(Sessions, "refusal", lambda sessions, session, owner, *, is_local=False: 0)


def take_requests_to_the_next_leader(patch: Patch) -> None:
    """G2: what was not forwarded or proposed when a role ended is done in the next one."""
    drop_role = Processor.drop_role

    def keep(processor: Processor) -> None:
        kept = list(processor.intake)
        drop_role(processor)
        processor.intake.arrived.extend(kept)

    patch.setattr(Processor, "drop_role", keep)


def answer_an_older_connection(patch: Patch) -> None:
    """What was written through an earlier connection of the session answers the present one."""
    waiting = Processor._waiting

    def forgetful(processor: Processor, connection: Any, txn: Any) -> Any:
        if connection.pending and not connection.closing:
            connection.pending[0] = (txn[_CXID], *connection.pending[0][1:])
        return waiting(processor, connection, txn)

    patch.setattr(Processor, "_waiting", forgetful)


def let_a_verdict_name_the_session(patch: Patch) -> None:
    """The leader's verdict on one connection lets in whichever connection asks for the session when it comes."""
    revalidated = Sessions.revalidated

    def by_session(sessions: Sessions, tag: int, valid: bool, fence: int, now: int) -> None:
        asked = sessions._asking.get(tag)
        present = sessions._clients.by_session.get(asked.session) if asked is not None else None
        if present is not None and present.id in sessions._asking and present.stage is Stage.CONNECTING:
            revalidated(sessions, present.id, valid, fence, now)

    patch.setattr(Sessions, "forget", lambda sessions, connection: None)
    patch.setattr(Sessions, "revalidated", by_session)


def leave_outstanding_ephemerals(patch: Patch) -> None:
    """G3: a closeSession lists the ephemerals that are applied, not those that are on their way."""
    patch.setattr(
        Outstanding,
        "perhaps_ephemerals",
        lambda outstanding, session: list(outstanding._tree.ephemerals.get(session, ())),
    )


def truncate_in_memory_only(patch: Patch) -> None:
    """TRUNC is acknowledged, and the file keeps what was cut."""

    def forget(log: TransactionLog, zxid: int, chain: bytes, *, conflict: bool) -> None:
        log.roll()
        log.last = zxid, chain

    patch.setattr(TransactionLog, "truncate", forget)


def replace_the_tree_under_clients(patch: Patch) -> None:
    """F1: a learner that needs a snapshot stays through the renewal of an epoch, with its clients."""
    on_snap = learner_synchronization.learner_on_snap

    def stay(peer: Peer, now: int, following: Following, message: msg.Snap) -> None:
        was_served, following.up_to_date = following.up_to_date, False
        on_snap(peer, now, following, message)
        following.up_to_date = was_served

    def offer(peer: Peer, leading: Leading, handler: LearnerHandler) -> None:
        handler.offered = True
        peer.emit(fx.OfferSnapshot(handler.link, handler.position[0]))

    patch.setattr(synchronization, "_offer_snapshot", offer)
    handle_with(patch, stay, instead_of=on_snap)


def purge_a_log_that_is_needed(patch: Patch) -> None:
    """A log file is removed that recovery needs."""
    perform = Tasks._purge

    def greedy(tasks: Tasks, in_use: frozenset[int]) -> None:
        names = [name for name in tasks.disk.list("version-1") if name.startswith("log.") and "index" not in name]
        if len(names) > 2:
            tasks.disk.remove(f"version-1/{names[-2]}")
            tasks.disk.sync_directory("version-1")
        perform(tasks, in_use)

    patch.setattr(Tasks, "_purge", greedy)


VARIANTS: dict[Callable[[Patch], None], int] = {
    acknowledge_before_durable: 0,
    acknowledge_in_front_of_the_write: 23,
    current_epoch_before_history: 190,
    skip_the_sync_of_the_log: 0,
    skip_the_sync_of_the_directory: 0,
    trust_what_reads_fine: 47,
    leader_counts_what_it_has_not_written: 1,
    commit_without_a_quorum: 1,
    count_an_amnesiac: 380,
    sync_without_asking_the_quorum: 1012,
    lose_a_watch: 6,
    fire_a_watch_twice: 5,
    tell_of_events_late: 3,
    apply_twice: 23,
    apply_what_the_clock_says: 1,
    snapshot_while_writing: 2,
    expire_sessions_early: 0,
    forget_the_touches_of_learners: 0,
    read_before_own_write: 1,
    let_moved_sessions_write: 39,
    take_requests_to_the_next_leader: 53,
    answer_an_older_connection: 5,
    let_a_verdict_name_the_session: 1315,
    leave_outstanding_ephemerals: 36,
    truncate_in_memory_only: 158,
    replace_the_tree_under_clients: 303,
    purge_a_log_that_is_needed: 1,
}
"""Each with a seed that finds it."""


MISFITS = ("TypeError", "AttributeError", "NameError")
"""How a variant crashes that calls what has changed since: that would be found whatever the rule is."""


def finds(seed: int) -> str | None:
    """What a seed finds, if it finds anything; no progress is too cheap a find here."""
    failure = attempt(seed).failure
    if failure is None or failure.code not in (SAFETY, CRASH):
        return None
    if failure.text.startswith(MISFITS):
        pytest.fail(f"the variant does not fit the code any longer: {failure.text}")
    return failure.text


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.long
def test_a_seed_finds_the_broken_variant(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    variant(monkeypatch)
    check_known(finds, VARIANTS[variant], SEEDS)


def dial_no_member_again(patch: Patch) -> None:
    """An election link that was lost stays lost."""

    def lose(_: ElectionConnections[Any], _sid: ServerId, other: Any) -> list[Any]:
        other.outbox.close()
        other.life = b""
        return []

    patch.setattr(ElectionConnections, "_lose", lose)


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.long
def test_a_seed_finds_election_links_that_stay_lost(monkeypatch: Patch) -> None:
    """Nothing is unsafe then; but nobody is elected."""
    dial_no_member_again(monkeypatch)
    failure = attempt(0).failure
    assert failure is not None
    assert failure.code == LIVENESS
