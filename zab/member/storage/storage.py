"""Carries out storage effects over a `Disk`, and answers each with its event. Synchronous; no thread, socket or clock.

The server calls it in the log thread, the simulator inline: durability is the same in both.

    perform(effects)        carries out effects in order, durably, and returns the answers. Consecutive appends are one
                            append of the log; messages that wait for them are sent at once
    mark, idle              the high-water mark is written lazily, with the frame that an idle log gets
    purge                   removes the files that retention does not need

Order within one effect: acceptedEpoch before currentEpoch; for an installed snapshot first the tree is loaded (so a
file that is not usable changes nothing), then the member record is removed unless it may stay, then the file gets its
name, then the log is reset: a crash anywhere leaves the old history, or the snapshot, or a member that does not count
(B1 member record).

Any OSError is final (C1 failed syncs), including a damaged log that has to be cut: it passes through, and the caller
ends the process. `SnapshotError` is not: the fetched file is removed and the answer says so.

Reading (`read_log`, `read_for_changes`, `offer_snapshot`, `choose_snapshot`) and `purge` may happen in other threads; a
lock, handed in, keeps them apart from cuts.

Not here: threads (`log_thread`), fetching a snapshot (`snapshot_fetch`), which history a member may have
(`zab.protocol.peer`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import groupby
from typing import Protocol

from datatree.log.aside import DAMAGED, STALE
from datatree.log.batch import Batch, Position, genesis, imported
from datatree.log.disk import Disk, Then
from datatree.log.epochs import MemberRecord, forget_member, load_member, save_epochs, save_member
from datatree.log.session_keys import save_session_keys
from datatree.log.transaction_log import TransactionLog
from datatree.log.zxid import BEFORE_ALL, Zxid
from datatree.past_acls import PastAcls
from datatree.record import RecordError
from datatree.recovery.look_back import LookBack
from datatree.recovery.retention import purge, valid_snapshots
from datatree.recovery.scrub import Scrub
from datatree.recovery.stale import set_aside_snapshots
from datatree.snapshot import (
    SnapshotError,
    SnapshotHeader,
    fetch_path,
    install_snapshot,
    load_snapshot,
    snapshot_files,
    snapshot_path,
    verify_snapshot,
)
from zab.jute.change_pages import PageStatus
from zab.member.storage.change_rows import gather, is_known, rows_of, start_of
from zab.member.storage.events import (
    ChangesRead,
    ChooseSnapshot,
    DamageFound,
    InstallSnapshot,
    LookAtSpace,
    LookBackSlice,
    LookedBack,
    ReadChanges,
    RepairRecords,
    RollLog,
    SnapshotChosen,
    SnapshotUnusable,
    StorageAnswer,
    StorageEffect,
    TreeInstalled,
    Waits,
)
from zab.member.storage.records import Records
from zab.protocol.effects import (
    AppendBatches,
    DrainLog,
    FetchSnapshot,
    OfferSnapshot,
    ReadLog,
    ResetLog,
    SaveEpochs,
    SaveMember,
    SaveSessionKeys,
    Send,
    TruncateLog,
)
from zab.protocol.events import (
    Durable,
    EpochsSaved,
    LogCut,
    LogDrained,
    LogRead,
    MemberSaved,
    NothingToOffer,
    SnapshotInstalled,
    SnapshotOffered,
    SnapshotWithdrawn,
    SpaceChanged,
)
from zab.protocol.message import Message
from zab.quorum.ids import Link
from zab.service.disk_space import DiskSpace


class Report(Protocol):
    """Reports something to the operator: a sentence, and its reason. Called from any thread."""

    def __call__(self, sentence: str, reason: str) -> None: ...


def _to_nobody(_link: Link, _message: Message) -> Then:
    raise AssertionError("a member without links has nobody to send to")


class Storage:
    """The durable side of one member."""

    def __init__(
        self,
        disk: Disk,
        log: TransactionLog,
        server_id: int,
        report: Report,
        cutting: AbstractContextManager[object] | None = None,
        space: DiskSpace | None = None,
        *,
        hold: Callable[[Link, Message], Then] = _to_nobody,
    ) -> None:
        """`cutting` is a reentrant lock, needed if other threads read. Without `space` the disk is never full. `hold`
        makes what sends a message on a link, and is called by the thread that calls `perform`."""
        self.disk = disk
        self.log = log
        self._server_id = server_id
        self._report = report
        self.mark = log.mark
        """The high-water mark, which is written when the log is idle. Set by any thread."""
        self.waits = Waits()
        self.hold = hold
        self._cutting = nullcontext() if cutting is None else cutting
        self._look_back: LookBack | None = None
        self._records = Records.of(disk, log.lineage)
        self._space = DiskSpace(disk, 0, 0) if space is None else space

    # ----------------------------------------------------------------------------------------------------- carrying out

    def perform(self, effects: Sequence[StorageEffect]) -> list[StorageAnswer]:
        """Carry out effects in order. Consecutive appends of one generation have one answer, an installed snapshot has
        two, a roll none. Raises OSError: final."""
        answers: list[StorageAnswer] = []
        for generation, group in groupby(effects, key=_append_generation):
            if generation is not None:
                batches: list[Batch] = []
                then: Send | None = None
                for effect in group:
                    assert isinstance(effect, AppendBatches)
                    batches += effect.batches
                    then = effect.then or then
                if batches:
                    self.log.append(batches, None if then is None else self._held(then))
                    answers.append(Durable(generation, batches[-1].zxid))
                    if self._space.wrote(sum([len(batch.raw) for batch in batches])):
                        answers += self._look_at_space()
                continue
            for effect in group:
                answers += self._perform(effect)
        return answers

    def _held(self, send: Send) -> Then:
        """What sends this, once something is durable."""
        held = [self.hold(link, send.message) for link in send.links]
        return held[0] if len(held) == 1 else partial(_call, held)

    def is_awaited(self, answer: StorageAnswer) -> bool:
        """Whether this answer starts a turn; otherwise it may wait for the next one."""
        return self.waits.for_durable or type(answer) is not Durable

    def _perform(self, effect: StorageEffect) -> list[StorageAnswer]:
        if isinstance(effect, SaveEpochs):
            save_epochs(self.disk, effect.accepted, effect.current)
            self._records.epochs = effect.accepted, effect.current
            return [EpochsSaved(effect.generation, effect.accepted, effect.current)]
        if isinstance(effect, SaveMember):
            self._records.member = MemberRecord(effect.lineage, self._server_id)
            save_member(self.disk, self._records.member)
            return [MemberSaved(effect.generation)]
        if isinstance(effect, SaveSessionKeys):
            save_session_keys(self.disk, effect.lineage, effect.keys)
            self._records.session_keys = effect.lineage, list(effect.keys)
            return []
        if isinstance(effect, DrainLog):
            return [LogDrained(effect.generation)]
        if isinstance(effect, LookAtSpace):
            return self._look_at_space()
        if isinstance(effect, RepairRecords):
            self._records.repair(self.disk)
            return []
        if isinstance(effect, TruncateLog):
            with self._cutting:
                self.log.truncate(effect.zxid, effect.chain, conflict=effect.conflict)
            return [LogCut(effect.generation, effect.zxid)]
        if isinstance(effect, ResetLog):
            self._reset(BEFORE_ALL, genesis(effect.lineage), effect.lineage)
            return [LogCut(effect.generation, BEFORE_ALL)]
        if isinstance(effect, InstallSnapshot):
            return self._install(effect.fetch)
        assert isinstance(effect, RollLog), effect
        self.log.roll()
        return []

    def _look_at_space(self) -> list[StorageAnswer]:
        level = self._space.look()
        return [] if level is None else [SpaceChanged(level)]

    def _reset(self, zxid: Zxid, chain: bytes, lineage: bytes, *, conflict: bool = False) -> None:
        suffix = DAMAGED if self.log.is_damaged else STALE
        with self._cutting:
            self.log.reset(zxid, chain, lineage, conflict=conflict)
            set_aside_snapshots(self.disk, lineage, zxid, chain, suffix)
        self.mark = zxid
        self._records.member = load_member(self.disk)

    def _install(self, fetch: FetchSnapshot) -> list[StorageAnswer]:
        path = fetch_path(fetch.zxid)
        wanted = SnapshotHeader(fetch.lineage, fetch.zxid, fetch.chain)
        try:
            header, tree = load_snapshot(self.disk, path)
            if header != wanted:
                raise SnapshotError(path, 0, f"not the snapshot of {fetch.zxid:#x} that was asked for")
        except SnapshotError as error:
            self.disk.remove(path)
            return [SnapshotUnusable(fetch, str(error))]
        if not fetch.keeps_record:
            forget_member(self.disk)
        install_snapshot(self.disk, path, wanted)
        self._reset(fetch.zxid, fetch.chain, fetch.lineage, conflict=fetch.conflict)
        begins = fetch.chain == imported(fetch.lineage, fetch.zxid, tree.digest)
        member = load_member(self.disk)
        recorded = member is not None and (member.lineage, member.server_id) == (fetch.lineage, self._server_id)
        installed = SnapshotInstalled(fetch.generation, fetch.zxid, fetch.chain, begins, recorded, tree.configuration)
        return [TreeInstalled(tree), installed]

    # ------------------------------------------------------------------------------------------------------------- idle

    def idle(self) -> None:
        """Write the mark, since nothing was appended for a while (A8 idle mark). Raises OSError: final."""
        if self.log.lineage:
            self.log.set_mark(self.mark)
            self.log.idle()

    def close(self) -> None:
        """Stop cleanly: the next start has nothing to copy. Raises OSError."""
        self.idle()
        if self.log.lineage:
            self.log.close()

    # ---------------------------------------------------------------------------------------------------------- reading

    def read_log(self, effect: ReadLog) -> LogRead:
        """Read batches for a learner. Damage is reported, and answered like a log that is too short."""
        with self._cutting:
            try:
                position, batches = self.log.read_from(effect.zxid, effect.bytes_max)
            except OSError as error:
                self._report("log is damaged -> send a snapshot instead", str(error))
                position, batches = None, []
        return LogRead(effect.link, position, batches)

    def read_committed(self, after: int, upto: int, bytes_max: int) -> tuple[Position | None, list[Batch]]:
        """The last batch end at or below `after`, and the batches after it up to `upto`, as many as fit, at least one;
        None: the log begins later. For a copy of the log. Raises OSError."""
        with self._cutting:
            position, batches = self.log.read_from(after, bytes_max)
        return position, [batch for batch in batches if batch.zxid <= upto]

    def read_for_changes(self, effect: ReadChanges | LookBackSlice) -> ChangesRead | LookedBack:
        """Do the work of the change feed that needs files or a worker."""
        return self.look_back(effect) if isinstance(effect, LookBackSlice) else self.read_changes(effect)

    def look_back(self, effect: LookBackSlice) -> LookedBack:
        """Read a slice of the older ACLs of paths; finds nothing if files are damaged."""
        reader = self._look_back
        if reader is None or reader.upto != effect.upto:
            reader = LookBack(self.disk, self.log, effect.upto, effect.count_max, self._cutting)
        self._look_back = reader
        try:
            if not reader.read_slice():
                return LookedBack(None)
            past = reader.past
        except OSError as error:
            self._report("log is damaged -> tell no changes from it", str(error))
            past = PastAcls(effect.upto)
        self._look_back = None
        return LookedBack(past)

    def read_changes(self, effect: ReadChanges) -> ChangesRead:
        """Read changes for a client; decoding them is most of the work. Damage is reported and answered."""
        try:
            batches = effect.batches
            if not batches:
                with self._cutting:
                    floor, following = self.log.read_from(start_of(effect.place), effect.bytes_max)
                    oldest = self.log.first_position[0]
                if floor is None:
                    return ChangesRead(PageStatus.OLDER, oldest=oldest)
                batches = [batch for batch in following if batch.zxid <= effect.upto]
                if not is_known(effect.place, floor[0], batches):
                    return ChangesRead(PageStatus.ELSEWHERE)
            found = ((batch.zxid, rows_of(batch, effect.prefix)) for batch in batches)
            return ChangesRead(PageStatus.GIVEN, *gather(found, effect.place, effect.prefix, effect.bytes_max))
        except (RecordError, OSError) as error:
            self._report("log is damaged -> tell no changes from it", str(error))
            return ChangesRead(PageStatus.GIVEN, is_damaged=True)

    def offer_snapshot(self, effect: OfferSnapshot) -> SnapshotOffered | NothingToOffer:
        """Offer a snapshot for a learner whose part of the log is gone."""
        chosen = self._newest_snapshot(effect.above)
        return NothingToOffer(effect.link, effect.above) if chosen is None else SnapshotOffered(effect.link, *chosen)

    def choose_snapshot(self, effect: ChooseSnapshot) -> SnapshotChosen:
        """Choose the snapshot from which a learner makes its tree."""
        return SnapshotChosen(effect.link, effect.above, self._newest_snapshot(effect.above))

    def _newest_snapshot(self, above: Zxid) -> Position | None:
        """The newest snapshot whose checksums all match and that the log continues; None if there is none."""
        for zxid in reversed(snapshot_files(self.disk)):
            if zxid <= above:
                break
            path = snapshot_path(zxid)
            try:
                header = verify_snapshot(self.disk, path)
            except (SnapshotError, OSError) as error:
                self._report("snapshot cannot be offered", str(error))
                continue
            if header.lineage == self.log.lineage and zxid >= self.log.first_position[0]:
                return zxid, header.chain
        return None

    def scrub_step(self, scrub: Scrub) -> tuple[bool, list[DamageFound]]:
        """Check a little more of the files: whether that was all, and the damage found. Raises OSError."""
        with self._cutting:
            is_over = scrub.step()
        return is_over, [DamageFound(str(found), found.needs, found.is_record) for found in scrub.take()]

    # -------------------------------------------------------------------------------------------------------- retention

    def purge(
        self, offered: Mapping[Link, Zxid], being_read: Collection[int], keep_count: int, pinned_bytes_max: int
    ) -> tuple[int, list[SnapshotWithdrawn]]:
        """Remove the files that retention does not need; how many, and the offers that are given up for it. May take
        long. Raises OSError, which is harmless."""
        known_valid = valid_snapshots(self.disk)
        with self._cutting:
            purged = purge(
                self.disk,
                self.log,
                keep_count=keep_count,
                in_use=set(map(snapshot_path, being_read)),
                known_valid=known_valid,
                pinned=offered.values(),
                pinned_bytes_max=pinned_bytes_max,
            )
        withdrawn = [SnapshotWithdrawn(link, zxid) for link, zxid in offered.items() if zxid in purged.given_up]
        return len(purged.removed), withdrawn


def _call(held: list[Then]) -> None:
    for each in held:
        each()


def _append_generation(effect: StorageEffect) -> int | None:
    return effect.generation if isinstance(effect, AppendBatches) else None
