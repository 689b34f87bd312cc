"""Finds what differs between members in a stretch of zxids: batch by batch, record by record.

    compare_held(drill, parts) -> Findings        parts: what the files of all members hold of the stretch

If members have different bytes at a zxid, those in the minority are reported, or all if there is no majority. The place
is exact: the first record that differs, or the batch if only its header does.

ZooKeeper writes a refused multi in two ways: it marks the parts of the transaction as refused when it applies it, and a
member that has not logged it by then logs the marks. Both mean that nothing was done, so this is no deviation.

Invariants: only the batches that differ are read again. Deliberately not here: what is missing
(`zab.pipeline.verify.compare`).
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from attrs import define

from datatree.log.batch import BODY_BYTES_MAX, HEADER_BYTES
from datatree.opcodes import OpCode
from zab.pipeline.decoding.arrays import Integers
from zab.pipeline.verify.files import Held
from zab.pipeline.verify.findings import Drill, Finding, differ

__all__ = ["compare_held"]

_LENGTH: Final = struct.Struct(">I")
_ZXID_IN_RECORD: Final = struct.Struct(">7xq")
_RECORD_OVERHEAD: Final = 5
_FRAME: Final = struct.Struct(">qi")
_TYPE_AT: Final = 28
_PART: Final = struct.Struct(">ii")
_PARTS_MAX: Final = 1 << 20
_ERROR: Final = _LENGTH.pack(0xFFFF_FFFF)


@define(eq=False)
class _Part:
    """What one member holds of a stretch, by rising zxid; `held[which[k]]` is where batch k is."""

    member: str
    held: list[Held]
    first: Integers
    last: Integers
    offset: Integers
    content: Integers
    chain: Integers
    which: Integers

    def file(self, at: int) -> str:
        return str(self.held[int(self.which[at])].span.file.place)

    def read(self, at: int) -> bytes:
        """The whole batch, or the payload of the record; empty if it can no longer be read."""
        log = self.held[int(self.which[at])].span.file
        offset = int(self.offset[at])
        try:
            if log.kind == "native":
                (length,) = _LENGTH.unpack(log.place.read(offset + 4, 4))
                return log.place.read(offset, HEADER_BYTES + min(length, BODY_BYTES_MAX))
            _, length = _FRAME.unpack(log.place.read(offset, _FRAME.size))
            return log.place.read(offset + _FRAME.size, min(max(length, 0), BODY_BYTES_MAX))
        except (OSError, struct.error):
            return b""

    @property
    def is_native(self) -> bool:
        return self.held[0].span.file.kind == "native"


def compare_held(drill: Drill, parts: Iterable[Held]) -> Iterator[Finding]:
    """Yield what differs in a stretch. parts: what the files of all members hold of it."""
    members = _by_member(parts)
    if len(members) < 2:
        return
    zxids = np.unique(np.concatenate([one.first for one in members]))
    places = np.full((len(members), len(zxids)), -1, dtype=np.int64)
    for number, one in enumerate(members):
        places[number, np.searchsorted(zxids, one.first)] = np.arange(len(one.first))
    stretch = _Stretch(drill, members, places, zxids)
    blamed = stretch.votes("content") | stretch.votes("last")
    if not members[0].is_native:
        yield from stretch.take_refused(blamed)
    if blamed.any():
        yield from stretch.different(blamed)
    elif drill.is_chain:
        yield from stretch.first_other_chain()


def _by_member(parts: Iterable[Held]) -> list[_Part]:
    grouped: dict[str, list[Held]] = {}
    for part in parts:
        grouped.setdefault(part.span.member, []).append(part)
    result = []
    for member in sorted(grouped):
        held = grouped[member]
        names = "first", "last", "offset", "content", "chain"
        joined = [np.concatenate([getattr(part, name) for part in held]) for name in names]
        which = np.repeat(np.arange(len(held)), [len(part.first) for part in held])
        order = np.argsort(joined[0], kind="stable")
        result.append(_Part(member, held, *(column[order] for column in [*joined, which])))
    return result


@define(eq=False)
class _Stretch:
    """`places[m, k]` is where member m has the batch that begins with `zxids[k]`, -1 where it has none.

    Members are blamed by bits: bit m for member m."""

    drill: Drill
    members: list[_Part]
    places: Integers
    zxids: Integers

    def votes(self, name: str) -> Integers:
        """For each zxid the members that are not in the majority; if there is none, all that hold it."""
        values = np.zeros(self.places.shape, dtype=np.uint64)
        present = self.places >= 0
        for number, one in enumerate(self.members):
            column = getattr(one, name)[self.places[number, present[number]]]
            values[number, present[number]] = column.astype(np.uint64)
        blamed = np.zeros(len(self.zxids), dtype=np.int64)
        for at in np.flatnonzero(differ(values, present)).tolist():
            holders = np.flatnonzero(present[:, at]).tolist()
            counts = Counter(int(values[number, at]) for number in holders)
            best, most = counts.most_common(1)[0]
            is_majority = most * 2 > len(holders)
            blamed[at] = sum(1 << each for each in holders if not is_majority or int(values[each, at]) != best)
        return blamed

    def _finding(self, number: int, at: int, kind: str, sentence: str, *, deviation: bool = True) -> Finding:
        """A finding about the batch of member `number` that begins with the zxid at `at`."""
        one, place = self.members[number], int(self.places[number, at])
        offset, zxid = int(one.offset[place]), int(self.zxids[at])
        return Finding(self.drill.ensemble, one.member, one.file(place), offset, zxid, kind, deviation, sentence)

    def _holders(self, at: int) -> list[int]:
        holders: list[int] = np.flatnonzero(self.places[:, at] >= 0).tolist()
        return holders

    def take_refused(self, blamed: Integers) -> Iterator[Finding]:
        """Yield refused multis that differ only in the marks of their parts, and blame no member for them."""
        for at in np.flatnonzero(blamed).tolist():
            found = {number: self.members[number].read(int(self.places[number, at])) for number in self._holders(at)}
            meant = {_refused_multi(payload) for payload in found.values()}
            if len(meant) == 1 and None not in meant:
                for number in found:
                    if blamed[at] >> number & 1:
                        sentence = "a refused multi, whose parts are marked differently on other members"
                        yield self._finding(number, at, "refused", sentence, deviation=False)
                blamed[at] = 0

    def different(self, blamed: Integers) -> Iterator[Finding]:
        """Yield one finding for each member and each run of batches in which it differs from the others.

        A batch on which members agree ends a run. A batch that only one member has does not: the others may have cut
        theirs differently."""
        at = np.flatnonzero(blamed)
        agreed = np.cumsum((blamed == 0) & ((self.places >= 0).sum(axis=0) > 1))
        cuts = np.flatnonzero((np.diff(agreed[at]) > 0) | (np.diff(blamed[at]) != 0)) + 1
        for run in np.split(at, cuts):
            first, last = int(run[0]), int(run[-1])
            holders = self._holders(first)
            right = [number for number in holders if not blamed[first] >> number & 1]
            for number in holders:
                if number in right:
                    continue
                others = right or [other for other in holders if other != number]
                names = ", ".join(self.members[other].member for other in others)
                offset, zxid = self._first_difference(number, others[0], first)
                sentence = f"other bytes than on member{'s' if len(others) > 1 else ''} {names}" + (
                    "" if right else ", without a majority"
                )
                if len(run) > 1:
                    end = int(self.members[number].last[self.places[number, last]])
                    sentence += f"; as are all batches to zxid {end:#x}"
                found = self._finding(number, first, "differs", sentence)
                yield Finding(found.ensemble, found.member, found.file, offset, zxid, found.kind, True, sentence)

    def _first_difference(self, number: int, other: int, at: int) -> tuple[int, int]:
        """(offset, zxid) of the first record that differs; of the batch, if no record does."""
        one, place = self.members[number], int(self.places[number, at])
        offset = int(one.offset[place])
        if one.is_native:
            beside = self.members[other]
            found = _first_record(one.read(place), beside.read(int(self.places[other, at])))
            if found is not None:
                return offset + found[0], found[1]
        return offset, int(self.zxids[at])

    def first_other_chain(self) -> Iterator[Finding]:
        """Yield where the chains part, although the contents are the same."""
        blamed = self.votes("chain")
        for at in np.flatnonzero(blamed)[:1].tolist():
            for number in self._holders(at):
                if blamed[at] >> number & 1:
                    sentence = "from here on the chain differs from that of other members, with the same contents"
                    yield self._finding(number, at, "chain", sentence)


def _first_record(raw: bytes, other: bytes) -> tuple[int, int] | None:
    """(offset in the batch, zxid) of the first record of `raw` that `other` does not have at the same offset."""
    at = HEADER_BYTES
    while at + _RECORD_OVERHEAD + 10 <= len(raw):
        end = at + _RECORD_OVERHEAD + _LENGTH.unpack_from(raw, at + 1)[0]
        if raw[at:end] != other[at:end]:
            return at, _ZXID_IN_RECORD.unpack_from(raw, at)[0]
        at = end
    return None


def _refused_multi(payload: bytes) -> bytes | None:
    """The payload with all parts marked as refused; None if it is no multi with a refused part.

    payload: in the format of `datatree.zookeeper.log`; a part is its type, the length of its body, and the body."""
    if payload[_TYPE_AT : _TYPE_AT + 4] != _LENGTH.pack(OpCode.MULTI):
        return None
    marked = bytearray(payload)
    at, is_refused = _TYPE_AT + 8, False
    try:
        (count,) = _LENGTH.unpack_from(payload, at - 4)
        for _ in range(min(count, _PARTS_MAX)):
            kind, length = _PART.unpack_from(payload, at)
            is_refused |= kind == OpCode.ERROR
            marked[at : at + 4] = _ERROR
            at += _PART.size + max(length, 0)
    except struct.error:
        return None
    return bytes(marked) if is_refused else None
