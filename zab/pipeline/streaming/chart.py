"""A chart of one log file, as far as it has been looked at: which zxids, with which gaps, and where to begin reading.

The chart of a file that is being written grows: `advance` looks only at what was appended since the last time. The
chart of a closed native file is made from its index. It has only a few entries, whatever the size of the file:

    runs     stretches of zxids of one epoch without a gap; `joined` says that nothing is missing before the stretch
    stakes   frames (native) or records (version-2) that reading may begin at, with the last zxid before each

Invariants: what is in a run has its checksums (or the index says so); a torn end is in no run, and may be one later.
Deliberately not here: which of it is committed, and how files follow each other (`following`).
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import numpy as np
from attrs import define, evolve, field, frozen

from datatree.log.segment import SEGMENT_HEADER_BYTES
from datatree.zookeeper.log import LOG_HEADER
from zab.pipeline.decoding.arrays import Integers, Mask
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.native_log import BATCH_HEAD, Block, FrameScan
from zab.pipeline.decoding.version2_log import RecordScan
from zab.pipeline.member_files import LogFile
from zab.pipeline.places import OpenFile
from zab.pipeline.reading.missing import COUNTER, follows
from zab.pipeline.reading.spans import AnyBlock, read_index

__all__ = ["Chart", "Run"]

SLICE_BYTES: Final = 4 << 20
"""How much is looked at in one go. Two stakes are no further apart, unless a batch is larger."""
_STAKE_BYTES: Final = 64 << 10
"""The least distance between stakes."""
_SEEN_BYTES: Final = 28


@frozen
class Run:
    """All zxids from `first` to `last`, of one epoch. `joined`: nothing is missing between the run before and this."""

    first: int
    last: int
    joined: bool = True


@define(eq=False)
class Chart:
    """The chart of one file. `stop` is the offset after the last readable frame or record, `mark` the largest
    high-water mark in a batch. `holes`: the damage right before a run, by the first zxid of the run. `end_damage`: the
    damage after the last run, as far as known."""

    log: LogFile
    runs: list[Run] = field(factory=list)
    stakes: list[tuple[int, int]] = field(factory=list)
    stop: int = 0
    mark: int = 0
    holes: dict[int, Damage] = field(factory=dict)
    end_damage: Damage | None = None
    _indexed: bool = False
    _seen: bytes = b""
    """The beginning of the frame or record at the last stake."""

    @property
    def last(self) -> int:
        """The last zxid; `lowest` if there is none."""
        return self.runs[-1].last if self.runs else self.lowest

    @property
    def lowest(self) -> int:
        """The zxid after which the file begins, by its header or else its name."""
        return self.log.previous[0] if self.log.previous is not None else self.log.first - 1

    # Looking at the file.

    def advance(self) -> None:
        """Look at what was appended. Raises OSError."""
        if self._indexed or not self.log.is_usable or (not self.stop and self._take_index()):
            return
        self.end_damage = None
        with self.log.place.open() as file:
            if not self.stakes or file.read(self.stakes[-1][0], _SEEN_BYTES) != self._seen:
                # This is the first look, or the member was restarted and has rewritten the file: the same batches in
                # different frames.
                self._begin_again()
            size, step = file.size, SLICE_BYTES
            while self.stop < size and any(file.read(self.stop, _SEEN_BYTES)):
                end = min(size, self.stop + step)
                if self._look(file, end, is_all=end == size):
                    step = SLICE_BYTES
                elif end < size:
                    step *= 2
                else:
                    break

    def _take_index(self) -> bool:
        index = None if self.log.is_newest else read_index(self.log)
        if index is None:
            return False
        head = self.log.place.read(int(index.offsets[-1]), BATCH_HEAD.itemsize)
        if len(head) != BATCH_HEAD.itemsize:
            return False
        self.mark = int(np.frombuffer(head, BATCH_HEAD)["mark"][0])
        last_of_epoch = np.append(np.diff(index.zxids >> 32) != 0, True)
        before = self.lowest
        for last in index.zxids[last_of_epoch].tolist():
            first = before + 1 if before >> 32 == last >> 32 else (last >> 32 << 32) + 1
            self.runs.append(Run(first, last))
            before = last
        self.stakes.append((0, self.lowest))
        self.stop = index.end
        self._indexed = True
        return True

    def _begin_again(self) -> None:
        self.runs.clear()
        self.stakes.clear()
        self.holes.clear()
        self.mark, self._seen = 0, b""
        self.stop = SEGMENT_HEADER_BYTES if self.log.kind == "native" else len(LOG_HEADER)

    def _look(self, file: OpenFile, end: int, *, is_all: bool) -> bool:
        """Look at the bytes from `stop` to `end`; return whether anything readable was there. Bytes cut off at `end`
        are looked at again, with what follows them."""
        log, start, before = self.log, self.stop, self.last
        scan: FrameScan | RecordScan
        if log.kind == "native":
            scan = FrameScan(file, log.first, end, before, log.is_newest or not is_all, start)
        else:
            scan = RecordScan(file, end, before, start)
        blocks: list[AnyBlock] = []
        damage: list[Damage] = []
        for found in scan:
            if isinstance(found, Damage):
                damage.append(found)
            else:
                blocks.append(found)
        if is_all:
            self.end_damage = next((one for one in damage if one.offset >= scan.stop), None)
        if scan.stop <= start:
            return False
        if not self.stakes or start - self.stakes[-1][0] >= _STAKE_BYTES:
            self.stakes.append((start, before))
            self._seen = file.read(start, _SEEN_BYTES)
        self.stop = scan.stop
        # The whole batches of a frame that is not whole yet are looked at again, with the rest of it.
        blocks = [block.only(block.base + block.at < scan.stop) for block in blocks]
        self._add([block for block in blocks if len(block)], [one for one in damage if one.offset < scan.stop])
        return True

    def _add(self, blocks: list[AnyBlock], damage: list[Damage]) -> None:
        if not blocks:
            return
        offsets = np.concatenate([block.base + block.at for block in blocks])
        lasts = np.concatenate([block.last for block in blocks])
        firsts = np.concatenate([_firsts(block) for block in blocks])
        for block in blocks:
            if isinstance(block, Block):
                self.mark = max(self.mark, int(block.heads["mark"].max()))
        before = np.concatenate((np.array([self.last]), lasts[:-1]))
        joined = (firsts == before + 1) | ((firsts >> 32 > before >> 32) & (firsts & COUNTER == 1))
        if not self.runs and self.log.problem is not None:
            joined[0] = False
            self.holes[int(firsts[0])] = self.log.problem
        for one in damage:
            at = int(np.searchsorted(offsets, one.offset))
            if at < len(offsets):
                joined[at] = False
                self.holes[int(firsts[at])] = one
        begins = ~joined | (firsts >> 32 != before >> 32)
        begins[0] |= not self.runs
        if not begins[0]:
            self.runs[-1] = evolve(self.runs[-1], last=int(lasts[_next(begins, 0) - 1]))
        for at in np.flatnonzero(begins).tolist():
            self.runs.append(Run(int(firsts[at]), int(lasts[_next(begins, at) - 1]), bool(joined[at])))

    # Asking it.

    def reach(self, zxid: int, limit: Callable[[int, int], int]) -> int:
        """The last zxid up to which nothing is missing after `zxid`; `zxid` itself if the next one is not here.

        `limit(before, first)` is the last zxid that may be shown of the run with `first` in it, after `before`."""
        at = zxid
        for run in self._runs_after(zxid):
            goes_on = run.first <= at or run.first == at + 1 or (run.joined and follows(at, run.first))
            shown = min(run.last, limit(at, run.first)) if goes_on else 0
            if shown <= at:
                break
            at = shown
            if at < run.last:
                break
        return at

    def between(self, after: int, until: int) -> tuple[tuple[int, int], ...]:
        """(first, last) of the stretches of zxids in (after, until]."""
        runs = self._runs_after(after)
        return tuple((max(run.first, after + 1), min(run.last, until)) for run in runs if run.first <= until)

    def nth(self, after: int, count: int) -> int:
        """The zxid of the transaction that comes `count` transactions after `after`, or the last one."""
        zxid = after
        for run in self._runs_after(after):
            begin = max(run.first - 1, after)
            zxid = min(run.last, begin + count)
            count -= zxid - begin
            if not count:
                break
        return zxid

    def stake(self, zxid: int) -> int:
        """The offset at which to begin reading what comes after `zxid`."""
        at = bisect_right(self.stakes, zxid, key=lambda stake: stake[1]) - 1
        return self.stakes[at][0] if at > 0 else 0

    def _runs_after(self, zxid: int) -> list[Run]:
        return self.runs[bisect_right(self.runs, zxid, key=lambda run: run.last) :]


def _firsts(block: AnyBlock) -> Integers:
    if not isinstance(block, Block):
        return block.last
    firsts: Integers = block.heads["first"].astype(np.int64)
    return firsts


def _next(begins: Mask, at: int) -> int:
    """The next index after `at` where a run begins."""
    found = np.flatnonzero(begins[at + 1 :])
    return at + 1 + int(found[0]) if len(found) else len(begins)
