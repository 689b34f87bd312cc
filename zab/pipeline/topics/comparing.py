"""Compares the replicas of one partition, batch by batch, below the high watermark: equal bytes, or from where not.

    compare(group, start, until) -> Compared        what differs in a range of offsets
    judge(replicas, group, found) -> findings       what that means, with places

What is compared are whole batches: the base offset, the leader epoch, and all bytes. Where the replicas do not have the
same batches, a *stretch* begins; it ends where all that reach there have the same batch again. A replica that begins
later (retention) or ends earlier (it lags) is not compared there.

Whether a stretch is a fault depends on what the brokers themselves say is committed, their high watermarks:

- Two brokers that both say so, and have other bytes, contradict each other.
- So do two with the same leader epoch at the same offset: one leader an epoch, and it appends each offset once.
- A broker with another epoch, above its own high watermark, has the end of a leader that was deposed. It will cut that
  off when it follows: this is only stated.

Brokers compact each for itself. In a partition that was compacted, batches may be missing or have other boundaries: so
a stretch there is compared record by record, and only offsets that both have must be equal.

Invariants: nothing is written, brokers may be running. Memory: a piece of a file for each replica. Limits:
STRETCHES_MAX of a partition, after which the comparison of the range ends. Deliberately not here: which directories
there are (`replicas`), reading (`batches`), Spark (`zab.pipeline.jobs.verify_topics`).
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import merge
from itertools import groupby
from typing import Final, Self, TypeAlias

from attrs import define, evolve, frozen

from zab.partition.records.batch import LENGTH_END
from zab.pipeline.topics.batches import Batches, Fault, batches, end_of
from zab.pipeline.topics.replicas import Replica
from zab.pipeline.topics.rows import Piece, piece_rows
from zab.pipeline.topics.transactions import Outcomes

__all__ = ["DEVIATIONS", "STATED", "STRETCHES_MAX", "Compared", "Group", "TopicFinding", "compare", "judge"]

STRETCHES_MAX: Final = 100
_DIGEST_BYTES: Final = 16
_RECORD: Final = ("offset", "key", "value", "headers", "timestamp")

DEVIATIONS: Final = {
    "differs": "different bytes on two brokers that both report them as committed, or have the same leader epoch there",
    "missing": "committed offsets that another broker has",
    "damaged": "bytes that differ from what was written",
    "gap": "offsets are missing, and nothing was compacted",
    "unreadable": "a file that cannot be read",
    "shortened": "the log ends below what its own broker says is committed",
    "more": "more differences than are reported",
}
STATED: Final = {
    "diverged": "records of a deposed leader above its own high watermark, which it truncates when it follows",
    "lags": "fewer records at the end than others report as committed",
    "begins": "fewer records at the beginning than others have",
    "alone": "no other replica was given",
    "unmarked": "no directory says what is committed",
    "busy": "the cleaner was replacing its files, which were not compared",
}


@frozen
class TopicFinding:
    """One row. `offset` and `until` (exclusive) are offsets of records, `position` is the byte in the file."""

    topic: str
    partition: int
    broker: str | None
    offset: int | None
    until: int | None
    epoch: int | None
    file: str | None
    position: int | None
    kind: str
    deviation: bool
    sentence: str


_Told: TypeAlias = tuple[int, str, str, int, str]
"""Number of the replica, kind of damage, file, position, sentence."""


@frozen
class _Batch:
    """What is kept of a batch."""

    base: int
    last: int
    epoch: int
    size: int
    digest: bytes
    file: str
    position: int


@frozen
class Stretch:
    """Offsets [low, high) in which replicas differ. `first`: the batch that each replica, by its number among those
    that were compared, has at `low`; None: it has none there."""

    low: int
    high: int
    first: dict[int, _Batch | None]


@frozen
class Compared:
    """What was found in a range. is_cut: there are more stretches. The counts are those of whole batches."""

    stretches: tuple[Stretch, ...]
    faults: tuple[_Told, ...]
    is_cut: bool
    batch_count: int
    byte_count: int


@frozen
class Group:
    """The replicas of one partition that are compared, each with its end, and up to where.

    until: the highest high watermark that a directory says; without one, where the shortest replica ends."""

    replicas: tuple[Replica, ...]
    ends: tuple[int, ...]
    until: int

    @classmethod
    def of(cls, replicas: Sequence[Replica]) -> "Group":
        """Reads the ends of the logs."""
        usable = tuple(each for each in replicas if not each.problem)
        ends = tuple(end_of(each) for each in usable)
        marks = [each.mark for each in usable if each.mark is not None]
        until = max(marks) if marks else min(ends, default=0)
        return cls(usable, ends, until)

    def read_until(self, number: int) -> int:
        """Up to where a replica is read: to its end, and on to what it says is committed, if its end is below that."""
        return max(self.ends[number], self.replicas[number].mark or 0)

    @property
    def start(self) -> int:
        """The first offset of any replica."""
        return min((each.start for each in self.replicas), default=0)

    @property
    def is_compacted(self) -> bool:
        """Whether a cleaner was there, as far as a directory says."""
        return any(each.mark is not None and each.cleaned > 0 for each in self.replicas)

    def within(self, start: int, until: int) -> "Group":
        """With only the files that offsets in [start, until) are read from."""
        return evolve(self, replicas=tuple(each.within(start, until) for each in self.replicas))

    def cuts(self, size_max: int) -> list[tuple[int, int]]:
        """Ranges of offsets that end where log files do, of some `size_max` bytes of the largest replica each."""
        largest = max(self.replicas, key=lambda each: sum(one.size for one in each.segments))
        bounds, size = [self.start], 0
        for one in largest.segments:
            if size >= size_max and bounds[-1] < one.base < self.until:
                bounds.append(one.base)
                size = 0
            size += one.size
        return list(zip(bounds, [*bounds[1:], self.until], strict=True))


@define
class _Cursor:
    """One replica, on its way through a range."""

    number: int
    start: int
    end: int
    head: _Batch | None
    unknown_until: int
    """Below it, what was there was damaged: nothing is said about it."""
    _batches: Iterator[_Batch | Fault]
    _faults: list[_Told]

    @classmethod
    def of(cls, group: Group, number: int, start: int, until: int, faults: list[_Told]) -> Self:
        """At the first batch of the range. What is damaged is appended to `faults`."""
        replica = group.replicas[number]
        start, end = max(start, replica.start), min(until, group.read_until(number))
        found = _summaries(replica, start, end) if start < end else iter(())
        cursor = cls(number, start, end, None, 0, found, faults)
        cursor.next()
        return cursor

    def next(self) -> None:
        """Go on to the next batch; note what is damaged before it."""
        was_damaged = False
        for found in self._batches:
            if isinstance(found, _Batch):
                self.head = found
                if was_damaged:
                    self.unknown_until = found.base
                return
            was_damaged = True
            damage = found.damage
            self._faults.append((self.number, damage.kind, str(found.segment.place), damage.offset, found.sentence))
        self.head = None
        if was_damaged:
            self.unknown_until = self.end

    def reaches(self, offset: int) -> bool:
        """Whether it should have this offset."""
        return max(self.start, self.unknown_until) <= offset < self.end


def _summaries(replica: Replica, start: int, until: int) -> Iterator[_Batch | Fault]:
    for found in batches(replica, start, until):
        if isinstance(found, Fault):
            yield found
        else:
            yield from _summaries_of(found)


def _summaries_of(found: Batches) -> Iterator[_Batch]:
    view, file = memoryview(found.data), str(found.segment.place)
    headers = found.headers
    columns = (
        found.at.tolist(),
        headers["base_offset"].tolist(),
        found.last_offsets.tolist(),
        headers["leader_epoch"].tolist(),
        headers["batch_length"].tolist(),
    )
    for at, base, last, epoch, length in zip(*columns, strict=True):
        size = LENGTH_END + length
        digest = blake2b(view[at : at + size], digest_size=_DIGEST_BYTES).digest()
        yield _Batch(base, last, epoch, size, digest, file, found.position + at)


def compare(group: Group, start: int, until: int) -> Compared:
    """What differs in [start, until). Raises PipelineError if a library is missing."""
    faults: list[_Told] = []
    cursors = [_Cursor.of(group, number, start, until, faults) for number in range(len(group.replicas))]
    stretches: list[Stretch] = []
    begun: dict[int, _Batch | None] | None = None
    low = reached = batch_count = byte_count = 0
    while heads := [each.head for each in cursors if each.head is not None]:
        offset = min(head.base for head in heads)
        have = [each for each in cursors if each.head is not None and each.head.base == offset]
        lack = [each for each in cursors if each not in have and each.reaches(offset)]
        differ = bool(lack) or len({each.head.digest for each in have if each.head is not None}) > 1
        if begun is None and differ:
            low = offset
            begun = {each.number: each.head for each in have} | {each.number: None for each in lack}
        elif begun is not None and not differ and not group.is_compacted:
            stretches.append(Stretch(low, offset, begun))
            begun = None
            if len(stretches) > STRETCHES_MAX:
                return Compared(tuple(stretches[:-1]), tuple(faults), True, batch_count, byte_count)
        for each in have:
            assert each.head is not None
            batch_count, byte_count = batch_count + 1, byte_count + each.head.size
            reached = max(reached, each.head.last + 1)
            each.next()
    if begun is not None:
        last = Stretch(low, min(reached, until), begun)
        stretches += _other_records(group, last) if group.is_compacted else [last]
    return Compared(tuple(stretches), tuple(faults), False, batch_count, byte_count)


def _other_records(group: Group, stretch: Stretch) -> list[Stretch]:
    """What remains of a stretch if only offsets count that several replicas have: from the first to the last one at
    which their records differ. The digests are then those of records."""
    streams = [_records(replica, number, stretch) for number, replica in enumerate(group.replicas)]
    first: dict[int, bytes] = {}
    low = high = -1
    for offset, found in groupby(merge(*streams), key=lambda each: each[0]):
        digests = {number: digest for _, number, digest in found}
        if len({*digests.values()}) > 1:
            low, first = (offset, digests) if not first else (low, first)
            high = offset + 1
    if not first:
        return []
    heads: dict[int, _Batch | None] = {}
    for number, digest in first.items():
        around = (each for each in _summaries(group.replicas[number], low, low + 1) if isinstance(each, _Batch))
        head = next(around, None)
        heads[number] = None if head is None else evolve(head, digest=digest)
    return [Stretch(low, high, heads)]


def _records(replica: Replica, number: int, stretch: Stretch) -> Iterator[tuple[int, int, bytes]]:
    """(offset, number, digest of the record)"""
    piece = Piece((replica,), max(stretch.low, replica.start), stretch.high, Outcomes(stretch.high), skips_damage=True)
    if piece.start >= piece.until:
        return
    for found in piece_rows(piece, _RECORD):
        for row in found.to_pylist():
            yield int(row["offset"]), number, blake2b(repr(row).encode(), digest_size=_DIGEST_BYTES).digest()


# What it means.


def judge(given: Sequence[Replica], group: Group, parts: Iterable[Compared]) -> list[TopicFinding]:
    """The findings of one partition: `given` are all its replicas, `parts` what was found in the ranges of `group`."""
    return list(_Judge(given, group).findings(list(parts)))


@frozen
class _Judge:
    given: Sequence[Replica]
    group: Group

    def findings(self, parts: Sequence[Compared]) -> Iterator[TopicFinding]:
        told = [each for part in parts for each in part.faults]
        yield from self._of_replicas({number for number, *_ in told})
        for number, kind, file, position, sentence in told:
            known = kind if kind in DEVIATIONS else "damaged"
            yield self._finding(self.group.replicas[number], known, sentence, file=file, position=position)
        for stretch in _joined(parts):
            yield from self._of_stretch(stretch)
        if any(part.is_cut for part in parts):
            yield self._finding(None, "more", f"more than {STRETCHES_MAX} stretches differ; no more are told")

    def _finding(
        self,
        replica: Replica | None,
        kind: str,
        sentence: str,
        *,
        offset: int | None = None,
        until: int | None = None,
        epoch: int | None = None,
        file: str | None = None,
        position: int | None = None,
    ) -> TopicFinding:
        topic, partition = self.given[0].key
        broker = None if replica is None else replica.broker
        is_fault = kind in DEVIATIONS
        return TopicFinding(topic, partition, broker, offset, until, epoch, file, position, kind, is_fault, sentence)

    def _of_replicas(self, damaged: set[int]) -> Iterator[TopicFinding]:
        """What is said of whole replicas; `damaged`: those of which the end is told by its damage."""
        group = self.group
        for replica in self.given:
            if replica.problem:
                yield self._finding(replica, "busy", f"{replica.problem}: run it again", file=replica.shown)
        if len(self.given) == 1:
            yield self._finding(self.given[0], "alone", "only this replica was given: its checksums were verified")
        if group.replicas and all(each.mark is None for each in group.replicas):
            yield self._finding(
                None,
                "unmarked",
                f"no directory has a high watermark: compared up to offset {group.until}, where the shortest one ends",
            )
        first = min((each.start for each in group.replicas), default=0)
        for number, (replica, end) in enumerate(zip(group.replicas, group.ends, strict=True)):
            if replica.start > first:
                yield self._finding(
                    replica, "begins", f"it begins at offset {replica.start}, others at {first}", offset=replica.start
                )
            own = replica.mark or 0
            if end < own:
                if number in damaged:
                    continue
                yield self._finding(
                    replica,
                    "shortened",
                    f"its log ends at offset {end}, and by its own high watermark what is below {own} is committed",
                    offset=end,
                    until=own,
                )
            elif end < group.until:
                yield self._finding(
                    replica,
                    "lags",
                    f"its log ends at offset {end}, and what is below {group.until} is committed",
                    offset=end,
                )

    def _of_stretch(self, stretch: Stretch) -> Iterator[TopicFinding]:
        """A finding for each replica that has something else than the largest group of them."""
        names = {number: self.group.replicas[number].broker for number in stretch.first}
        groups: dict[bytes | None, list[int]] = {}
        for number, head in stretch.first.items():
            groups.setdefault(None if head is None else head.digest, []).append(number)
        right = max(groups, key=lambda digest: self._weight(stretch, digest, groups[digest]))
        others = [digest for digest in groups if digest != right]
        is_tie = all(
            self._weight(stretch, digest, groups[digest])[:3] == self._weight(stretch, right, groups[right])[:3]
            for digest in others
        )
        reference = groups[right]
        for number in sorted(number for digest in others for number in groups[digest]):
            replica, head = self.group.replicas[number], stretch.first[number]
            kind = self._kind(stretch, number, reference[0])
            known = ", ".join(names[each] for each in reference)
            sentence = (
                f"from offset {stretch.low} to {stretch.high - 1} it differs from broker{'s' * (len(reference) > 1)} "
                f"{known}: {_described(head)} here, {_described(stretch.first[reference[0]])} there"
            )
            if is_tie and kind == "differs":
                sentence += "; nothing tells which of them is right"
            yield self._finding(
                replica,
                kind,
                sentence,
                offset=stretch.low,
                until=stretch.high,
                epoch=None if head is None else head.epoch,
                file=None if head is None else head.file,
                position=None if head is None else head.position,
            )

    def _weight(self, stretch: Stretch, digest: bytes | None, numbers: list[int]) -> tuple[int, int, int, int]:
        """How much speaks for this group: those that say it is committed, how many, the epoch; then the first one."""
        head = stretch.first[numbers[0]]
        claims = sum(self._claims(number, stretch.low) for number in numbers) if digest is not None else -1
        return claims, len(numbers), -1 if head is None else head.epoch, -min(numbers)

    def _claims(self, number: int, offset: int) -> bool:
        """Whether this replica says that the offset is committed."""
        mark = self.group.replicas[number].mark
        return mark is not None and offset < mark

    def _kind(self, stretch: Stretch, number: int, reference: int) -> str:
        head, other = stretch.first[number], stretch.first[reference]
        if head is None:
            return "missing"
        if other is not None and head.epoch == other.epoch:
            return "differs"
        both_claim = self._claims(number, stretch.low) and self._claims(reference, stretch.low)
        return "differs" if both_claim else "diverged"


def _described(head: _Batch | None) -> str:
    return "nothing" if head is None else f"a batch of {head.size} bytes of epoch {head.epoch}"


def _joined(parts: Sequence[Compared]) -> list[Stretch]:
    """The stretches in order; those that go over from one range into the next are one."""
    found: list[Stretch] = []
    for each in sorted((one for part in parts for one in part.stretches), key=lambda one: one.low):
        if found and each.low <= found[-1].high and each.first.keys() == found[-1].first.keys():
            found[-1] = Stretch(found[-1].low, max(found[-1].high, each.high), found[-1].first)
        else:
            found.append(each)
    return found
