"""Judges the operations on one znode: linearizable writes and synced reads, monotonic reads per session.

If every answered write has its zxid, and every read the zxid of the write that it shows, the order of the writes is
known. Then each rule compares an operation with its place in that order, in O(n log n), and a violation has two
operations that contradict each other, or one. A *place* is the count of writes up to the one that is shown.

    lost write           an acknowledged write is not there: two writes made one version, a version went back, or a
                         reply from a later zxid shows what was before it
    write order          a write or refusal comes before something that was answered before it was sent, or that its
                         own session had asked for earlier
    stale synced read    a read after a `sync` shows less than was known to any client before the sync was sent
    non-monotonic read   a session is shown less than it was shown, or than it wrote, before
    phantom value        a value that nobody wrote is read, a version that nobody made exists, or the future is shown
    refused write seen   the effect of a refused write is there after all
    two states           one zxid, and two values, versions or writes
    unjustified refusal  NODEEXISTS, NONODE or BADVERSION, and the znode was not so

If the order is not known (a reply carried no zxid, or writes of unknown outcome fit several places), the search of
`zab.pipeline.history.search` decides, and the witness is made as small as possible:

    not linearizable     no order of the operations explains them all
    undecided            too many orders to try all of them: no violation, but not shown to be right either

Invariants: a violation is a contradiction whatever the writes of unknown outcome did. A value that is read before the
first write of a history is taken for older than the history. Deliberately not here: rules for sessions across znodes
(`zab.pipeline.jobs.history`).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from attrs import define, evolve, field

from zab.pipeline.history.operation import CREATE, DELETE, FAILED, GET, OK, SET, UNKNOWN, WRITES, Operation
from zab.pipeline.history.search import SearchLimitError, linearize, smallest
from zab.pipeline.history.states import NODEEXISTS, NONODE, is_constraint, is_refusal, observes_absence
from zab.pipeline.history.versions import (
    Slot,
    StateAfter,
    agree,
    could_make,
    found_version,
    made_version,
    missing_versions,
    problem_of,
    says_version,
    unfilled_slots,
    version_after,
)

__all__ = ["KINDS", "SHOWN_MAX", "UNDECIDED", "Violation", "check_znode"]

UNDECIDED: Final = "undecided"
KINDS: Final = (
    "lost write", "write order", "stale synced read", "non-monotonic read", "phantom value", "refused write seen",
    "two states", "unjustified refusal", "not linearizable", UNDECIDED,
)  # fmt: skip
# How many of each kind are reported for one znode: later ones mostly follow from the first.
SHOWN_MAX: Final = 10

_LAST_PART: Final = 1 << 31
_FAR: Final = 1 << 62


@define(eq=False)
class Violation:
    """A violation by the operations on a znode. `witness` has those that contradict each other, by their time."""

    path: str
    kind: str
    sentence: str
    witness: list[Operation]


def check_znode(path: str, operations: Sequence[Operation]) -> list[Violation]:
    """Every violation among the operations of one history on one znode, at most SHOWN_MAX of a kind."""
    kept = [_with_zxid(one) for one in operations if is_constraint(one) or one.kind in WRITES]
    if not all(map(_has_place, kept)):
        return _search(path, kept)
    znode = _Znode(path, kept)
    found = _first_of_each_kind(znode.violations())
    return found if found or not znode.is_ambiguous else _search(path, kept)


def _with_zxid(one: Operation) -> Operation:
    """A write whose header was not kept has its zxid in the stat that it returned."""
    if one.zxid is None and one.mzxid is not None and one.kind in WRITES and one.status == OK:
        return evolve(one, zxid=one.mzxid)
    return one


def _has_place(one: Operation) -> bool:
    """Whether its reply says where it is in the order of the writes, if it has a place there."""
    if one.status == UNKNOWN or (one.kind in WRITES and not is_constraint(one)):
        return True
    return (one.zxid if one.kind in WRITES or one.status == FAILED else one.mzxid) is not None


def _first_of_each_kind(violations: Iterable[Violation]) -> list[Violation]:
    counts: dict[str, int] = defaultdict(int)
    result = []
    for one in violations:
        counts[one.kind] += 1
        if counts[one.kind] <= SHOWN_MAX:
            result.append(one)
    return result


def _search(path: str, operations: Sequence[Operation]) -> list[Violation]:
    try:
        if linearize(operations) is not None:
            return []
    except SearchLimitError:
        sentence = f"{len(operations)} operations have too many orders to try them all: record the zxids of replies"
        return [Violation(path, UNDECIDED, sentence, [])]
    witness = smallest(operations)
    what = f"these {len(witness)} operations explains" if len(witness) > 1 else "the writes explains"
    return [Violation(path, "not linearizable", f"no order of {what} what was answered", witness)]


@define(eq=False)
class _Znode:
    """The operations of one znode with a known order of writes; `is_ambiguous` where unknown outcomes leave it open."""

    path: str
    operations: list[Operation]
    is_ambiguous: bool = False
    writes: list[Operation] = field(factory=list)
    """In the order of their zxids."""
    keys: list[tuple[int, int]] = field(factory=list)
    states: list[StateAfter] = field(factory=list)
    """After each place: `states[0]` is the beginning, `states[n]` is after `writes[n - 1]`."""
    place_of: dict[int, int] = field(factory=dict)
    """id of an operation → its place."""
    unseen: list[Operation] = field(factory=list)
    """Writes of unknown outcome that no read shows."""
    prior_count: int = 0
    """How many of `writes` represent what was there before the history."""

    def violations(self) -> Iterator[Violation]:
        self._order([one for one in self.operations if one.kind in WRITES and one.status == OK])
        for one, other in zip(self.writes, self.writes[1:], strict=False):
            if one.order == other.order:
                yield self._violation("two states", f"two writes were answered with zxid {one.zxid:#x}", one, other)
        yield from self._bind_reads()
        if self.is_ambiguous:
            return
        self._place_all()
        yield from self._replay()
        yield from self._shown_states()
        yield from self._real_time()
        yield from self._sessions()

    def _violation(self, kind: str, sentence: str, *witness: Operation | None) -> Violation:
        shown = sorted((one for one in witness if one is not None), key=_begin)
        return Violation(self.path, kind, sentence, shown)

    # ---------------------------------------------------------------------------------------- which write a read shows

    def _order(self, writes: Iterable[Operation]) -> None:
        self.writes = sorted(writes, key=lambda one: one.order)
        self.keys = [one.order for one in self.writes]

    def _place(self, zxid: int) -> int:
        """The count of writes up to this zxid."""
        return bisect_right(self.keys, (zxid, _LAST_PART))

    def _writer(self, zxid: int) -> Operation | None:
        """The last write with exactly this zxid."""
        place = self._place(zxid)
        return self.writes[place - 1] if place and self.keys[place - 1][0] == zxid else None

    def _bind_reads(self) -> Iterator[Violation]:
        """Find the write that has each zxid shown by reads. A write of unknown outcome that is seen has happened.

        Values distinguish most of these, so reads that have a value come first. Where one of several writes had to be
        chosen, a later contradiction may come from that choice."""
        shown: dict[int, list[Operation]] = defaultdict(list)
        for one in self.operations:
            if one.kind not in WRITES and one.status == OK:
                assert one.mzxid is not None
                shown[one.mzxid].append(one)
        unknown = _Unknown([one for one in self.operations if one.kind in WRITES and one.status == UNKNOWN])
        prior: list[Operation] = []
        for reads in shown.values():
            reads.sort(key=lambda one: one.kind != GET)
        for mzxid in sorted(shown, key=lambda zxid: (shown[zxid][0].kind != GET, zxid)):
            reads = shown[mzxid]
            yield from self._same_state(reads)
            write = self._writer(mzxid)
            if write is not None:
                yield from self._matches(write, reads)
                continue
            violations = list(self._bind(reads, unknown, prior))
            if not self.is_ambiguous:
                yield from violations
        self.unseen = unknown.left()
        self.prior_count = len(prior)
        bound = [copy for _, copy in unknown.bound]
        replaced = {id(one) for one, _ in unknown.bound}
        self.operations = [one for one in self.operations if id(one) not in replaced] + bound
        self._order([*self.writes, *bound, *prior])

    def _same_state(self, reads: list[Operation]) -> Iterator[Violation]:
        first = reads[0]
        for one in reads:
            if (one.kind == first.kind == GET and one.value != first.value) or not agree(one.version, first.version):
                yield self._violation("two states", f"two states of the znode with mzxid {one.mzxid:#x}", first, one)
                return

    def _matches(self, write: Operation, reads: list[Operation]) -> Iterator[Violation]:
        for one in reads:
            if write.kind == DELETE:
                sentence = f"zxid {write.zxid:#x} deleted the znode, and is shown as its last write"
                yield self._violation("two states", sentence, write, one)
                return
            if (one.kind == GET and one.value != write.value) or not agree(one.version, made_version(write)):
                sentence = f"what was written with zxid {write.zxid:#x} is not what is shown with it"
                yield self._violation("two states", sentence, write, one)
                return

    def _bind(self, reads: list[Operation], unknown: "_Unknown", prior: list[Operation]) -> Iterator[Violation]:
        """Reads of a zxid that no answered write has: a write of unknown outcome, what was before, or nobody's."""
        first = reads[0]
        assert first.mzxid is not None
        version = next((one.version for one in reads if one.version is not None), None)
        candidates = unknown.candidates(first, version, min(map(_end, reads)))
        if candidates:
            self.is_ambiguous = self.is_ambiguous or len(candidates) > 1
            unknown.bind(candidates[0], first.mzxid, version)
            return
        twice = next((one for _, one in unknown.bound if first.kind == GET and one.value == first.value), None)
        if twice is not None:
            sentence = f"one write of unknown outcome is shown with two zxids, {twice.zxid:#x} and {first.mzxid:#x}"
            yield self._violation("two states", sentence, twice, first)
        elif first.mzxid < min(unknown.lowest_zxid, self.keys[0][0] if self.keys else _FAR):
            prior.append(evolve(first, kind=SET, zxid=first.mzxid, part=None))
        else:
            yield self._phantom(first)

    def _phantom(self, read: Operation) -> Violation:
        if read.kind == GET:
            for one in self.operations:
                if one.kind in (CREATE, SET) and one.status == FAILED and one.value == read.value:
                    sentence = "a write was refused, and its value is read"
                    return self._violation("refused write seen", sentence, one, read)
        return self._violation("phantom value", f"nobody wrote what is shown with mzxid {read.mzxid:#x}", read)

    # -------------------------------------------------------------------------------------------------- places, states

    def _place_all(self) -> None:
        for number, write in enumerate(self.writes, 1):
            self.place_of[id(write)] = number
        for one in self.operations:
            if one.kind not in WRITES and one.status == OK:
                assert one.mzxid is not None
                if self._writer(one.mzxid) is not None:
                    self.place_of[id(one)] = self._place(one.mzxid)
            elif observes_absence(one) or is_refusal(one):
                assert one.zxid is not None
                self.place_of[id(one)] = self._place(one.zxid)

    def _replay(self) -> Iterator[Violation]:
        """Each write finds what the one before it left; versions that are missing were made by unseen sets."""
        state = StateAfter()
        self.states = [state] * (self.prior_count + 1)
        slots: list[Slot] = []
        may_replace = any(one.kind != SET for one in self.unseen)
        may_hide = bool(self.unseen) and any(map(says_version, self.operations))
        for place, write in enumerate(self.writes[self.prior_count :], self.prior_count + 1):
            problem = problem_of(state, write)
            if problem is None:
                missing = missing_versions(state, write)
                if len(missing) > len(self.unseen):
                    yield self._unmade(place, len(missing))
                else:
                    slots += [Slot(place, version) for version in missing]
            elif may_replace:
                self.is_ambiguous = True
            else:
                yield self._violation("lost write", problem, state.by, write)
            state = StateAfter(write, write.kind != DELETE, version_after(state, write, exact=not self.unseen))
            if may_hide and state.present and state.version is None:
                self.is_ambiguous = True
            self.states.append(state)
        if may_replace and slots:
            self.is_ambiguous = True
        else:
            yield from self._fill(slots)

    def _fill(self, slots: list[Slot]) -> Iterator[Violation]:
        """Each missing version needs a set of unknown outcome that nobody saw."""
        if not slots:
            return
        told = self._told()
        makers = []
        for one in self.unseen:
            known = told.before(one)
            makers.append((one, 0 if known is None else self.place_of[id(known)]))
        unfilled: dict[int, int] = defaultdict(int)
        for slot in unfilled_slots(slots, makers):
            unfilled[slot.place] += 1
        for place, count in unfilled.items():
            yield self._unmade(place, count)

    def _unmade(self, place: int, count: int) -> Violation:
        """Versions between a write and the one before it that nobody made."""
        what = "a version" if count == 1 else f"{count} versions"
        sentence = f"{what} between them that no write made, with {len(self.unseen)} writes of unknown outcome in all"
        return self._violation("phantom value", sentence, self.states[place - 1].by, self.writes[place - 1])

    def _shown_states(self) -> Iterator[Violation]:
        """Each read shows the last write up to the zxid of its reply, each refusal has its reason there."""
        for one in self.operations:
            if id(one) not in self.place_of:
                continue
            if is_refusal(one):
                yield from self._justified(one)
            elif observes_absence(one):
                state = self.states[self.place_of[id(one)]]
                if state.present:
                    yield from self._unless(DELETE, "lost write", "it was written, and is not there", state.by, one)
            elif one.kind not in WRITES and one.zxid is not None:
                yield from self._last_up_to(one, one.zxid)

    def _last_up_to(self, read: Operation, zxid: int) -> Iterator[Violation]:
        assert read.mzxid is not None
        if read.mzxid > zxid:
            sentence = f"mzxid {read.mzxid:#x} in a reply from zxid {zxid:#x}"
            yield self._violation("phantom value", sentence, read)
        elif self._place(zxid) > self.place_of[id(read)]:
            write = self.writes[self._place(zxid) - 1]
            sentence = f"zxid {write.zxid:#x} was written, and a reply from zxid {zxid:#x} does not show it"
            yield self._violation("lost write", sentence, write, read)

    def _justified(self, one: Operation) -> Iterator[Violation]:
        state = self.states[self.place_of[id(one)]]
        kind = "unjustified refusal"
        if one.error == NONODE:
            if state.present:
                yield from self._unless(DELETE, kind, "refused with NONODE, and it was there", state.by, one)
        elif state.present is False:
            error = "NODEEXISTS" if one.error == NODEEXISTS else "BADVERSION"
            yield from self._unless(CREATE, kind, f"refused with {error}, and it was not there", state.by, one)
        elif one.error != NODEEXISTS and state.version is not None and state.version == one.expected:
            sentence = f"refused with BADVERSION, and the version was {state.version}"
            if self._may_hide(self.place_of[id(one)]):
                self.is_ambiguous = True
            else:
                yield self._violation(kind, sentence, state.by, one)

    def _unless(self, by: str, kind: str, sentence: str, *witness: Operation | None) -> Iterator[Violation]:
        """A violation, unless an unseen write of the kind `by` may explain it."""
        if any(one.kind == by for one in self.unseen):
            self.is_ambiguous = True
        else:
            yield self._violation(kind, sentence, *witness)

    def _may_hide(self, place: int) -> bool:
        """Whether an unseen write may have been done right after the writes up to this place."""
        if any(one.kind != SET for one in self.unseen):
            return True
        following = self.writes[place] if place < len(self.writes) else None
        if not self.unseen or following is None:
            return bool(self.unseen)
        return found_version(following) is None or bool(missing_versions(self.states[place], following))

    # ------------------------------------------------------------------------------------------------------------ time

    def _told(self) -> "_Told":
        return _Told([one for one in self.operations if id(one) in self.place_of], self.place_of)

    def _real_time(self) -> Iterator[Violation]:
        """An operation may not undo what was known before it was sent."""
        told = self._told()
        for one in self.operations:
            known = told.before(one) if id(one) in self.place_of else None
            if known is None:
                continue
            place, known_place = self.place_of[id(one)], self.place_of[id(known)]
            if one.is_done:
                if known_place >= place:
                    sentence = f"zxid {one.zxid:#x} for a write that was sent when that or a later one was known"
                    yield self._violation("write order", sentence, known, one)
            elif known_place > place:
                kind = "write order" if one.kind in WRITES else "stale synced read"
                what = "a refusal" if one.kind in WRITES else "a read after a sync"
                yield self._violation(kind, f"{what} shows less than was known before", known, one)

    def _sessions(self) -> Iterator[Violation]:
        """A session's operations come in the order in which it sent them."""
        sessions: dict[int, list[Operation]] = defaultdict(list)
        for one in self.operations:
            if one.session and one.status != UNKNOWN and id(one) in self.place_of:
                sessions[one.session].append(one)
        for session in sessions.values():
            session.sort(key=lambda one: one.sent)
            highest = session[0]
            for one in session[1:]:
                place, known_place = self.place_of[id(one)], self.place_of[id(highest)]
                if one.is_done:
                    if known_place >= place:
                        sentence = f"zxid {one.zxid:#x} for a write that its session sent later"
                        yield self._violation("write order", sentence, highest, one)
                elif known_place > place:
                    done = "wrote" if highest.is_done else "was shown"
                    sentence = f"a session is shown less than it {done} before"
                    yield self._violation("non-monotonic read", sentence, highest, one)
                if place >= known_place:
                    highest = one


class _Unknown:
    """The writes of unknown outcome; `bound` are those that were seen, each with a copy that has zxid and version."""

    def __init__(self, writes: list[Operation]) -> None:
        self.bound: list[tuple[Operation, Operation]] = []
        self.lowest_zxid = _FAR
        self._writes = sorted(writes, key=_begin)
        self._by_value: dict[bytes | None, list[Operation]] = defaultdict(list)
        self._taken: set[int] = set()
        for one in self._writes:
            if one.kind != DELETE:
                self._by_value[one.value].append(one)

    def candidates(self, read: Operation, version: int | None, before: int) -> list[Operation]:
        """The writes that the read may show: two at most, since two are as ambiguous as many."""
        source = self._by_value.get(read.value, []) if read.kind == GET else self._writes
        result: list[Operation] = []
        for one in source:
            if len(result) == 2 or _begin(one) > before:
                break
            if id(one) not in self._taken and one.kind != DELETE and could_make(one, version):
                result.append(one)
        return result

    def bind(self, one: Operation, zxid: int, version: int | None) -> None:
        self._taken.add(id(one))
        self.lowest_zxid = min(self.lowest_zxid, zxid)
        self.bound.append((one, evolve(one, zxid=zxid, version=version)))

    def left(self) -> list[Operation]:
        return [one for one in self._writes if id(one) not in self._taken]


class _Told:
    """For a moment, the operation with the highest place that any client had been answered before it."""

    def __init__(self, operations: list[Operation], place_of: dict[int, int]) -> None:
        answered = sorted((one for one in operations if _end(one) < _FAR), key=_end)
        self._ends = list(map(_end, answered))
        self._highest: list[Operation] = []
        for one in answered:
            last = self._highest[-1] if self._highest else one
            self._highest.append(one if place_of[id(one)] > place_of[id(last)] else last)

    def before(self, one: Operation) -> Operation | None:
        start = one.invoked if one.kind in WRITES else one.since
        at = 0 if start is None else bisect_left(self._ends, start)
        return self._highest[at - 1] if at else None


def _begin(one: Operation) -> int:
    return -_FAR if one.invoked is None else one.invoked


def _end(one: Operation) -> int:
    return _FAR if one.returned is None or one.status == UNKNOWN else one.returned
