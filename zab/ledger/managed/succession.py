"""How one ledger of a log follows another, as seen by one owner: the list, and the multis that change it.

    claim()                     T1, T2: the next epoch
    follow(goal)                T4: the end of the last ledger into the list, and the next ledger, in one multi
    end(base, wanted, goal)     Q2: a ledger's end, its end in the list, and the next ledger, in one multi

Nothing is written over another owner's list. A write that is refused while the list is still this owner's was older
than one whose answer was lost: the list as it is counts, and it is tried again.

Not here: when that happens, and what becomes of appends (`owner`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Final, TypeAlias

from attrs import frozen

from zab.coordination.operations import Check, Create, Delete, Set, ZooKeeperError
from zab.coordination.steps import Steps
from zab.ledger.managed.log_info import LEDGERS_MAX, LogConfig, LogInfo, LogState
from zab.ledger.managed.store import (
    ClaimOutcome,
    Part,
    PartRefused,
    Taken,
    VersionedLog,
    Written,
    claim_log,
    read_log,
    write_log,
)
from zab.ledger.managed.sweep import whose
from zab.ledger.metadata.ledger_metadata import Fragment, InvalidMetadataError, LedgerMetadata, VersionedMetadata
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import encode_metadata
from zab.ledger.placement.placement import NotEnoughBookiesError, Placement
from zab.ledger.store.ids import new_ledger_id
from zab.ledger.store.ledgers import (
    Changed,
    ChangeOutcome,
    Lost,
    Refused,
    change_ledger,
    make_parents,
    read_ledger,
)

IDS_MAX: Final = 100
"""So many new ids in a row may be below the last one of the list, because their counter began again."""
APPLICATION: Final = {"application": b"zab", "component": b"managed-ledger"}
"""Custom metadata of all ledgers. Never Pulsar's: its tools go by them."""


class Goal(Enum):
    """Why the open ledger ends."""

    ROLL = "roll"
    CLOSE = "close"
    TERMINATE = "terminate"
    DELETE = "delete"


@frozen
class Opened:
    """This ledger follows, and is open."""

    versioned: VersionedMetadata


@frozen
class Reached:
    """The list has the end of its last ledger, and none follows."""


@frozen
class NotMine:
    """Another owner has the log."""


@frozen
class NotClosed:
    """The last ledger of the list has to be recovered first."""


@frozen
class NotYet:
    """Too few bookies are there."""


@frozen
class ListFull:
    """The list has room for no more ledgers."""


@frozen
class Damaged:
    """The list contradicts the ledgers."""

    detail: str


Followed: TypeAlias = Opened | Reached | NotMine | NotClosed | NotYet | ListFull | Damaged


class DamagedLogError(InvalidMetadataError):
    """The list contradicts the ledgers."""


class Succession:
    """`owner`: random, of the owner's object. `wall_ms`: what the wall clock says."""

    def __init__(
        self,
        logs: str,
        name: str,
        root: str,
        placement: Placement,
        *,
        owner: str,
        rng: Random,
        config: LogConfig | None,
        password: bytes,
        deletes: bool,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self.log: VersionedLog | None = None
        """The list, as this owner knows it."""
        self.epoch = 0
        self.ended: VersionedMetadata | None = None
        """A ledger that is closed, and whose end the list does not have."""
        self.made: VersionedMetadata | None = None
        """The ledger that `end` has opened."""
        self.written = -1
        """The last ledger that had a writer of this owner."""
        self.is_taken = False
        """Whether another owner has the log."""
        self.trouble = ""
        self._logs, self._name, self._root, self._placement = logs, name, root, placement
        self._owner, self._rng, self._config = owner, rng, config
        self._password, self._deletes = password, deletes
        self._now_ms, self._wall_ms = now_ms, wall_ms

    @property
    def known(self) -> VersionedLog:
        """The list, once it was read."""
        assert self.log is not None
        return self.log

    @property
    def info(self) -> LogInfo:
        return self.known.info

    def claim(self) -> Steps[ClaimOutcome]:
        claimed = yield from claim_log(
            *(self._logs, self._name, self._owner),
            config=self._config,
            created_ms=self._wall_ms(),
            rng=self._rng,
            deletes=self._deletes,
        )
        if isinstance(claimed, VersionedLog):
            self.log, self.epoch = claimed, claimed.info.epoch
        return claimed

    def is_mine(self, found: VersionedLog | None) -> bool:
        """Whether nobody has claimed it since; a terminated log, whether nobody has changed it."""
        if found is None:
            return False
        if found.info.state is LogState.TERMINATED and self.log is not None and found.version == self.log.version:
            return True
        return (found.info.epoch, found.info.owner) == (self.epoch, self._owner)

    def adopt(self, found: VersionedLog | None) -> bool:
        """The list was read, or a write of it was refused or done. Whether it is this owner's; if it is, the newest one
        counts."""
        if found is None or not self.is_mine(found):
            self.is_taken = True
            return False
        if self.log is None or found.version > self.log.version:
            self.log = found
        return True

    def wrote(self, now: VersionedLog) -> None:
        """This owner has written the list. A terminated log is not claimed, so the list does not show whose write it
        was."""
        self.log = now

    def check(self) -> Check:
        """For a multi that only the owner of this list may write."""
        return Check(self.known.path, self.known.version)

    def still_mine(self) -> Steps[bool]:
        """Read the list: whether it is this owner's."""
        return self.adopt((yield from read_log(self._logs, self._name)))

    # -------------------------------------------------------------------------------------------------- the next ledger

    def follow(self, goal: Goal | None) -> Steps[Followed]:
        """Whatever has to be done after the end of a ledger, or at a takeover."""
        try:
            while True:
                found = yield from self._try_to_follow(goal)
                if found is not None:
                    return found
        except DamagedLogError as error:
            return Damaged(str(error))

    def _try_to_follow(self, goal: Goal | None) -> Steps[Followed | None]:
        log, last = self.known, self.info.open_ledger
        if last is not None and (self.ended is None or last.id != self.ended.ledger):
            return (yield from self._use(last.id, goal))
        wanted, parts = log.info, self._parts_of_ended()
        if self.ended is not None:
            end = self.ended.metadata
            wanted = wanted.with_end(self.ended.ledger, end.last, end.length, self._wall_ms())
        made: VersionedMetadata | None = None
        if goal is Goal.TERMINATE:
            wanted = wanted.terminated_here()
        elif goal is None:
            if len(wanted.ledgers) >= LEDGERS_MAX:
                return ListFull()
            made = yield from self._new_ledger()
            if made is None:
                return NotYet()
            wanted, parts = wanted.with_open(made.ledger), (*parts, self._create(made))
        if wanted == log.info:
            return Reached()
        written = yield from write_log(log, wanted, parts)
        match written:
            case Written(now):
                self.adopt(now)
                self.ended = None
                return Reached() if made is None else Opened(made)
            case Taken(current):
                return None if self.adopt(current) else NotMine()
            case PartRefused(at, error):
                yield from self._part_refused(parts[at], error)
        return None

    def _use(self, ledger: int, goal: Goal | None) -> Steps[Followed]:
        """The list names an open ledger of this owner: made by a write whose answer was lost with the session."""
        self.ended = None
        found = yield from read_ledger(self._root, ledger)
        if found is None:
            return Damaged(f"ledger {ledger} is gone")
        if found.metadata.is_open and goal is None and ledger != self.written:
            return Opened(found)
        return NotClosed()

    def _parts_of_ended(self) -> tuple[Part, ...]:
        """The recovered ledger is as it was found; an empty one goes with the list's entry."""
        if self.ended is None:
            return ()
        path = ledger_path(self._root, self.ended.ledger)
        if self.ended.metadata.last < 0:
            return (Delete(path, self.ended.version),)
        return (Check(path, self.ended.version),)

    def _create(self, made: VersionedMetadata) -> Create:
        return Create(ledger_path(self._root, made.ledger), encode_metadata(made.metadata))

    def _part_refused(self, part: Part, error: ZooKeeperError) -> Steps[None]:
        """Nothing was written, and the list is as it was: make what is missing, or look again."""
        if isinstance(part, Create):
            if error == ZooKeeperError.NONODE:
                yield from make_parents(self._root, part.path)
            return  # NODEEXISTS: the next try takes another id.
        assert self.ended is not None
        found = yield from read_ledger(self._root, self.ended.ledger)
        if found is None or not found.metadata.is_closed:
            raise DamagedLogError(f"ledger {self.ended.ledger} was closed, and is not")
        self.ended = found

    def _new_ledger(self) -> Steps[VersionedMetadata | None]:
        """The next ledger, which does not exist yet; None: too few bookies are there."""
        last = max((each.id for each in self.info.ledgers), default=-1)
        for _ in range(IDS_MAX):
            metadata = self.new_metadata({})
            if metadata is None:
                return None
            ledger = yield from new_ledger_id(self._root)
            if ledger > last:
                return VersionedMetadata(ledger, metadata, 0)
        raise DamagedLogError(f"new ledgers get ids below {last}, the last one of the list")

    def new_metadata(self, custom: dict[str, bytes]) -> LedgerMetadata | None:
        """The first metadata for a new ledger; None: too few bookies are there."""
        config = self.info.config
        try:
            ensemble = self._placement.new_ensemble(config.ensemble_size, config.write_quorum, self._now_ms())
        except NotEnoughBookiesError as error:
            self.trouble = str(error)
            return None
        self.trouble = ""
        return LedgerMetadata(
            ensemble_size=config.ensemble_size,
            write_quorum=config.write_quorum,
            ack_quorum=config.ack_quorum,
            fragments=(Fragment(0, tuple(ensemble)),),
            digest_type=config.digest_type,
            password=self._password,
            ctime_ms=self._wall_ms(),
            custom={**APPLICATION, **whose(self._root, self._logs, self._name), **custom},
            token=self._rng.getrandbits(62) + 1,
        )

    # --------------------------------------------------------------------------------------------- the end of a ledger

    def end(self, base: VersionedMetadata, wanted: LedgerMetadata, goal: Goal | None) -> Steps[ChangeOutcome]:
        """What the writer of the open ledger does at its end. An empty ledger is closed by itself, and leaves the list
        afterwards. `Lost` with `is_taken`: another owner has the log, and the writer is to be told."""
        if wanted.last < 0 or goal is Goal.DELETE:
            return (yield from change_ledger(self._root, base, wanted))
        while True:
            log, last = self.known, self.info.open_ledger
            if last is None or last.id != base.ledger:
                return (yield from self._has_ended(base))
            info = log.info.with_end(base.ledger, wanted.last, wanted.length, self._wall_ms())
            parts: tuple[Part, ...] = (
                Set(ledger_path(self._root, base.ledger), encode_metadata(wanted), base.version),
            )
            made: VersionedMetadata | None = None
            if goal is Goal.TERMINATE:
                info = info.terminated_here()
            elif goal is None and len(info.ledgers) < LEDGERS_MAX:
                made = yield from self._new_ledger()
                if made is not None:
                    info, parts = info.with_open(made.ledger), (*parts, self._create(made))
            written = yield from write_log(log, info, parts)
            match written:
                case Written(now):
                    self.adopt(now)
                    self.made = made
                    return Changed(VersionedMetadata(base.ledger, wanted, base.version + 1))
                case Taken(current):
                    if not self.adopt(current):
                        return Lost()
                case PartRefused(0, _):
                    return Refused((yield from read_ledger(self._root, base.ledger)))
                case PartRefused(at, error):
                    yield from self._part_refused(parts[at], error)

    def _has_ended(self, base: VersionedMetadata) -> Steps[ChangeOutcome]:
        """The list has the end of this ledger already: this owner's multi was done, and its answer was lost with the
        session. The next ledger is found by `follow`."""
        found = yield from read_ledger(self._root, base.ledger)
        return Lost() if found is None else Changed(found)
