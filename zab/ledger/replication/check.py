"""Checks one ledger: whether the members of its complete fragments have their entries.

    check = LedgerCheck(versioned, members, settings, rng, listed={…})
    check.step(now_ms, answers) -> sends        until `is_over`
    check.missing                               by member, the runs of entries that it lacks
    check.unknown                               members that did not answer

The first and the last entry of each member's share are read, and a sample of the others; each record is verified. A
bookie that lacks one of them, or is in `listed`, is asked for the list of what it has. One whose list cannot be had,
or whose record is damaged, lacks its whole share, as far as one can tell.

An error or a silence proves nothing: such a member is unknown, and is not asked again in this check.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set
from itertools import islice
from random import Random
from typing import Final, TypeAlias

from zab.ledger.entries.envelope import Digest, DigestMismatchError
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import VersionedMetadata
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.replication.events import CheckSettings
from zab.ledger.replication.members import Member, Run, share, share_of, without
from zab.ledger.store.events import Answered, Send
from zab.ledger.wire.messages import EntriesListed, EntryRead, ListEntries, ReadEntry
from zab.ledger.wire.status import Status

_Question: TypeAlias = tuple[BookieId, ReadEntry | ListEntries, Member | None]
Missing: TypeAlias = tuple[Run, ...] | None
"""The entries that a member lacks; None: its whole share, as far as one can tell."""
RUNS_MAX: Final = 10_000
"""A member whose missing entries are more runs lacks its whole share."""
_DAMAGED: Final = frozenset({Status.IO_ERROR, Status.UNKNOWN_LEDGER_STATE})
"""The bookie cannot give the entry, and perhaps never will."""


class LedgerCheck:
    """See the docstring of the module."""

    def __init__(
        self,
        versioned: VersionedMetadata,
        members: Iterable[Member],
        settings: CheckSettings,
        rng: Random,
        *,
        listed: Set[BookieId] = frozenset(),
        reads: bool = True,
    ) -> None:
        """`reads`: without it, only lists are asked for."""
        self._metadata = versioned.metadata
        self._ledger = versioned.ledger
        self._digest = Digest(versioned.metadata.digest_type, versioned.metadata.password)
        self._settings = settings
        self._rng = rng
        self._members = tuple(member for member in members if next(share_of(self._metadata, member), None) is not None)
        self._reads: Iterator[_Question] = self._to_read() if reads else iter(())
        self._to_list = deque(sorted(listed & {member.bookie for member in self._members}))
        self._listed = set(self._to_list)
        self._under_way: dict[tuple[BookieId, ReadEntry | ListEntries], tuple[int, Member | None]] = {}
        self._short: set[Member] = set()
        self._damaged: set[Member] = set()
        self._runs: dict[BookieId, tuple[Run, ...]] = {}
        self._silent: dict[BookieId, Status] = {}
        self.is_over = False

    @property
    def deadline_ms(self) -> int | None:
        return min((deadline for deadline, _ in self._under_way.values()), default=None)

    @property
    def unknown(self) -> dict[Member, Status]:
        """The members that did not answer, with what was said for them."""
        return {each: self._silent[each.bookie] for each in self._members if each.bookie in self._silent}

    @property
    def missing(self) -> dict[Member, Missing]:
        """What each member lacks; those that lack nothing are not in it."""
        found = {each: self._missing_of(each) for each in self._members if each.bookie not in self._silent}
        return {member: runs for member, runs in found.items() if runs != ()}

    def _missing_of(self, member: Member) -> Missing:
        runs = self._runs.get(member.bookie)
        if member in self._damaged or (member in self._short and runs is None) or runs == ():
            return None
        if runs is None:
            return ()
        missing = tuple(islice(without(share_of(self._metadata, member), runs), RUNS_MAX + 1))
        return missing if len(missing) <= RUNS_MAX else None

    # ------------------------------------------------------------------------------------------------------ questions

    def _to_read(self) -> Iterator[_Question]:
        for member in self._members:
            for entry in sorted(self._ends_of(member) | self._sample_of(member)):
                yield member.bookie, ReadEntry(self._ledger, entry), member

    def _ends_of(self, member: Member) -> set[int]:
        """The first and the last entry of its share."""
        metadata, end = self._metadata, self._end_of(member)
        first = next(share_of(metadata, member))[0]
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        *_, (_, last) = share(max(member.first, end - size + 1), end, member.index, size, quorum)
        return {first, last}

    def _sample_of(self, member: Member) -> set[int]:
        metadata, settings, end = self._metadata, self._settings, self._end_of(member)
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        wanted = min(settings.sample_max, int((end - member.first + 1) * settings.sample_share * quorum / size))
        drawn = [self._rng.randint(member.first, end) for _ in range(wanted * size // quorum)]
        return {entry for entry in drawn if member.index in write_set(entry, size, quorum)}

    def _end_of(self, member: Member) -> int:
        end = self._metadata.end_of(self._metadata.fragment_of(member.first))
        assert end is not None
        return end

    def step(self, now_ms: int, answers: Iterable[Answered]) -> list[Send]:
        """Take answers, and say what is asked next."""
        for each in answers:
            self._on_answer(each)
        for key, (deadline_ms, _) in list(self._under_way.items()):
            if now_ms >= deadline_ms:
                del self._under_way[key]
                self._silent.setdefault(key[0], Status.TIMED_OUT)
        sends = []
        while len(self._under_way) < self._settings.reads_max and (question := self._next()) is not None:
            bookie, request, member = question
            self._under_way[bookie, request] = now_ms + self._settings.request_timeout_ms, member
            sends.append(Send(bookie, request))
        self.is_over = not self._under_way
        return sends

    def _next(self) -> _Question | None:
        for question in self._reads:
            bookie, _, member = question
            if not (bookie in self._silent or member in self._short or member in self._damaged):
                return question
        while self._to_list:
            bookie = self._to_list.popleft()
            if bookie not in self._silent:
                return bookie, ListEntries(self._ledger), None
        return None

    # -------------------------------------------------------------------------------------------------------- answers

    def _on_answer(self, each: Answered) -> None:
        request, answer, bookie = each.request, each.answer, each.bookie
        if not isinstance(request, ReadEntry | ListEntries):
            return
        asked = self._under_way.pop((bookie, request), None)
        if asked is None:
            return
        if isinstance(answer, EntryRead) and isinstance(request, ReadEntry) and asked[1] is not None:
            self._on_read(asked[1], request, answer)
        elif isinstance(answer, EntriesListed):
            self._on_list(bookie, answer)

    def _on_read(self, member: Member, request: ReadEntry, answer: EntryRead) -> None:
        status, bookie = answer.status, member.bookie
        if status.proves_absence:
            self._short.add(member)
            if bookie not in self._listed:
                self._listed.add(bookie)
                self._to_list.append(bookie)
        elif status in _DAMAGED or (status is Status.OK and not self._is_sound(request, answer.envelope)):
            self._damaged.add(member)
        elif status is not Status.OK:
            self._silent.setdefault(bookie, status)

    def _is_sound(self, request: ReadEntry, envelope: bytes) -> bool:
        try:
            self._digest.open(envelope, self._ledger, request.entry)
        except DigestMismatchError:
            return False
        return True

    def _on_list(self, bookie: BookieId, answer: EntriesListed) -> None:
        if answer.status is Status.OK:
            self._runs[bookie] = answer.runs
        elif answer.status.proves_absence:
            self._runs[bookie] = ()
        elif answer.status in (Status.UNREACHABLE, Status.TIMED_OUT):
            self._silent.setdefault(bookie, answer.status)
