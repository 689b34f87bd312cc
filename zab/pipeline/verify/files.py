"""Examines one log file of one member, for comparing it with others and for the findings in it alone.

    examine(Task(span, ...)) -> FileReport           the whole file, no transaction decoded
    held(span, ranges) -> Held                       each batch or record in some ranges of zxids, to name what differs

A report has, for each *bucket* of zxids, the count of transactions and two digests: of the contents (all of a batch
except its chain; zxid, length and Adler-32 of a record of ZooKeeper) and of the chains. The digest of a bucket is the
exclusive or of 64 bits for each batch, so it does not matter how a member cuts its history into files. Members with the
same contents have the same digests. Two that differ have the same digests with a chance of 2^-64 (or, where only a
checksum of 32 bits is known, of 2^-32 for each batch that differs).

A bucket is named after its lowest zxid: a multiple of 2^shift, or one of `cuts`, where some member's history begins.

Invariants: memory is a window and the numbers of the batches; the report does not depend on the sidecar index.
Deliberately not here: what reports of several files say together (`zab.pipeline.verify.compare`).
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from attrs import define, evolve, field, frozen

from datatree.log.batch import CHAIN_BYTES, HEADER_BYTES, RECONFIG
from datatree.opcodes import OpCode
from datatree.record import RecordError, decode_all
from datatree.zookeeper.files import ZooKeeperFileError
from datatree.zookeeper.log import LOG_HEADER, decode_payload
from zab.pipeline.decoding.arrays import Integers, integers
from zab.pipeline.decoding.damage import GAP, Damage
from zab.pipeline.decoding.native_log import BatchIndex, Block
from zab.pipeline.decoding.version2_log import FRAME_BYTES
from zab.pipeline.reading.spans import AnyBlock, Span, blocks, read_index

__all__ = ["Buckets", "Chain", "Epoch", "FileReport", "Held", "Hole", "Task", "Words", "examine", "held"]

Words: TypeAlias = npt.NDArray[np.uint64]

BROKEN_MAX = 1_000
"""How many batches of a file that do not continue the chain are reported."""
HOLES_MAX = 10_000
"""How many holes of a file are kept."""

_HASHED_BYTES: Final = 60
"""The hashed part of a batch's header: all but chain and checksums."""
_WORDS: Final = _HASHED_BYTES // 8
_HALF: Final = np.uint64(32)
_COUNTER: Final = 0xFFFF_FFFF
_RECORD_OVERHEAD: Final = 13
_TYPE_AT: Final = 28
"""The offset of the type in the payload of a record of ZooKeeper."""

# Odd constants from the digits of pi: for the words of a header, and for its remainder with the body's checksum.
_FACTORS: Final = np.array(
    [
        0x243F6A8885A308D3, 0x13198A2E03707345, 0xA4093822299F31D1, 0x082EFA98EC4E6C89,
        0x452821E638D01377, 0xBE5466CF34E90C6D, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917,
    ],
    dtype=np.uint64,
)  # fmt: skip
_MIX: Final = (np.uint64(33), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))


def _mixed(words: Words) -> Words:
    """Each word with its bits spread over all of it (the finalizer of MurmurHash3)."""
    shift, one, other = _MIX
    words = (words ^ words >> shift) * one
    words = (words ^ words >> shift) * other
    return words ^ words >> shift


def _contents(block: AnyBlock) -> Words:
    """Hash the content of each batch or record to 64 bits."""
    if isinstance(block, Block):
        heads = np.ascontiguousarray(block.heads)
        words: Words = np.ndarray((len(heads), _WORDS), "<u8", heads.data.cast("B"), 0, (HEADER_BYTES, 8))
        rest = heads["digest_version"].astype(np.uint64) << _HALF | heads["body_crc"].astype(np.uint64)
        return _mixed(words @ _FACTORS[:_WORDS] + rest * _FACTORS[_WORDS])
    checksums, lengths = block.adler.astype(np.uint64), block.length.astype(np.uint64)
    return _mixed(block.zxid.astype(np.uint64) * _FACTORS[0] + checksums * _FACTORS[1] + lengths * _FACTORS[2])


def _chains(block: AnyBlock) -> Words:
    """Hash the chain of each batch to 64 bits; zeros if there is none."""
    if not isinstance(block, Block):
        return np.zeros(len(block), dtype=np.uint64)
    halves = np.ascontiguousarray(block.heads["chain"]).view(np.uint64).reshape(-1, 2)
    return _mixed(halves[:, 0] * _FACTORS[0] + halves[:, 1])


def _firsts(block: AnyBlock) -> Integers:
    if not isinstance(block, Block):
        return block.zxid
    firsts: Integers = block.heads["first"].astype(np.int64)
    return firsts


def _ends(block: AnyBlock) -> Integers:
    """The offsets in the file after the batches or records."""
    start = block.base + block.at
    if not isinstance(block, Block):
        return start + _RECORD_OVERHEAD + block.length
    ends: Integers = start + HEADER_BYTES + block.heads["length"].astype(np.int64)
    return ends


def _configuration(block: AnyBlock) -> tuple[int, bytes] | None:
    """The last configuration in a block. A native batch has a flag for it, a record of ZooKeeper a type."""
    try:
        if isinstance(block, Block):
            flagged = np.flatnonzero(block.heads["flags"] & RECONFIG)
            for at in flagged[-1:].tolist():
                start = int(block.at[at]) + HEADER_BYTES
                body = bytes(block.data[start : start + int(block.heads["length"][at])])
                (txn,) = decode_all(body, int(block.heads["first"][at]), 1)
                return txn.zxid, txn.data or b""
            return None
        types = integers(block.data, block.at + FRAME_BYTES + _TYPE_AT, ">i4")
        for at in np.flatnonzero(types == OpCode.RECONFIG)[-1:].tolist():
            start = int(block.at[at]) + FRAME_BYTES
            txn = decode_payload(bytes(block.data[start : start + int(block.length[at])]), "", start).txn
            return txn.zxid, txn.data or b""
    except (RecordError, ValueError, ZooKeeperFileError):
        pass  # the contents of transactions are not checked here
    return None


@frozen
class Task:
    """One file to examine. `positions`, rising: the zxids of snapshots, whose chain is needed. `checks_chains`: every
    batch is hashed, and has to continue the chain of the one before it."""

    span: Span
    shift: int
    cuts: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    checks_chains: bool = False


@frozen
class Hole:
    """After zxid `after` the file goes on with `following`, at `offset`. From `start` to there nothing is readable."""

    after: int
    following: int
    offset: int
    start: int


@define
class Epoch:
    """What the file holds of an epoch, from `offset` on."""

    epoch: int
    first: int
    last: int
    offset: int


@frozen
class Chain:
    """The chain at the zxid of a snapshot, with which a batch ends; `offset` is where that batch begins."""

    zxid: int
    chain: bytes
    offset: int


@define(eq=False)
class Buckets:
    """Columns of equal length, rising by `start`."""

    start: Integers
    transactions: Integers
    content: Words
    chain: Words


@define(eq=False)
class FileReport:
    """The result of examining a file. `first` and `last` zxid are None if none of it is readable. `end`: the offset
    after the last readable batch or record. `mark`: the largest high-water mark in it. `last_chain`: the chain of the
    last batch."""

    span: Span
    first: int | None = None
    last: int | None = None
    transactions: int = 0
    end: int = 0
    mark: int = 0
    last_chain: bytes = b""
    buckets: Buckets | None = None
    holes: list[Hole] = field(factory=list)
    epochs: list[Epoch] = field(factory=list)
    chains: list[Chain] = field(factory=list)
    digests: list[tuple[int, int, int]] = field(factory=list)
    """(zxid of a snapshot, digest of the leader's tree there, version of the digest)."""
    damage: list[Damage] = field(factory=list)
    broken: list[tuple[int, int]] = field(factory=list)
    """(zxid, offset) of the batches that do not continue the chain."""
    wrong_index: str = ""
    """The fault of the sidecar index, if it has one."""
    configuration: tuple[int, bytes] | None = None
    """The last reconfiguration in it: its zxid, and the text."""


def examine(task: Task) -> FileReport:
    """Read the whole file of the task."""
    log = task.span.file
    if log.kind == "version-2":
        # The contents of the file count even if its name is wrong.
        task = evolve(task, span=evolve(task.span, start=len(LOG_HEADER), file=evolve(log, cutoff=None)))
    run = _Examination(task)
    for found in blocks(task.span, use_index=False):
        if isinstance(found, Damage):
            if found.kind != GAP:
                run.report.damage.append(found)
        else:
            run.add(found)
    return run.finish()


class _Examination:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.report = FileReport(task.span)
        log = task.span.file
        self._last: int | None = log.previous[0] if log.previous is not None else None
        self._chain = log.previous[1] if log.previous is not None else None
        self._pieces: list[tuple[Integers, Integers, Words, Words]] = []
        self._index = self._load_index()
        self._indexed_count = 0

    def add(self, block: AnyBlock) -> None:
        """Take the next block of the file."""
        report = self.report
        firsts, lasts, offsets = _firsts(block), block.last, block.base + block.at
        ends = _ends(block)
        self._find_holes(firsts, lasts, offsets, ends)
        self._add_buckets(block, firsts, lasts)
        self._add_epochs(firsts, lasts, offsets)
        report.first = int(firsts[0]) if report.first is None else report.first
        report.last = int(lasts[-1])
        report.end = int(ends[-1])
        report.configuration = _configuration(block) or report.configuration
        if isinstance(block, Block):
            self._add_native(block, lasts, offsets)

    def _find_holes(self, firsts: Integers, lasts: Integers, offsets: Integers, ends: Integers) -> None:
        before = np.empty_like(firsts)
        before[1:] = lasts[:-1]
        before[0] = firsts[0] - 1 if self._last is None else self._last
        follows = np.where(firsts >> 32 == before >> 32, firsts == before + 1, firsts & _COUNTER == 1)
        follows[0] |= self._last is None
        for number in np.flatnonzero(~follows).tolist():
            start = int(ends[number - 1]) if number else self.report.end
            if len(self.report.holes) < HOLES_MAX:
                self.report.holes.append(Hole(int(before[number]), int(firsts[number]), int(offsets[number]), start))
        self._last = int(lasts[-1])

    def _add_buckets(self, block: AnyBlock, firsts: Integers, lasts: Integers) -> None:
        starts = firsts >> self.task.shift << self.task.shift
        if self.task.cuts:
            cuts = np.array((0, *self.task.cuts), dtype=np.int64)
            starts = np.maximum(starts, cuts[np.searchsorted(cuts, firsts, "right") - 1])
        at = np.flatnonzero(np.diff(starts, prepend=-1))
        counts = np.add.reduceat(lasts - firsts + 1, at)
        contents = np.bitwise_xor.reduceat(_contents(block), at)
        chains = np.bitwise_xor.reduceat(_chains(block), at)
        self._pieces.append((starts[at], counts, contents, chains))
        self.report.transactions += int(counts.sum())

    def _add_epochs(self, firsts: Integers, lasts: Integers, offsets: Integers) -> None:
        epochs = firsts >> 32
        starts = np.flatnonzero(np.diff(epochs, prepend=-1))
        ends = np.append(starts[1:], len(epochs)) - 1
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            epoch = int(epochs[start])
            if self.report.epochs and self.report.epochs[-1].epoch == epoch:
                self.report.epochs[-1].last = int(lasts[end])
            else:
                self.report.epochs.append(Epoch(epoch, int(firsts[start]), int(lasts[end]), int(offsets[start])))

    def _add_native(self, block: Block, lasts: Integers, offsets: Integers) -> None:
        report, heads = self.report, block.heads
        report.mark = max(report.mark, int(heads["mark"].max()))
        if self.task.positions:
            wanted = np.array(self.task.positions, dtype=np.int64)
            for number in np.flatnonzero(np.isin(lasts, wanted)).tolist():
                chain = heads["chain"][number].tobytes()
                report.chains.append(Chain(int(lasts[number]), chain, int(offsets[number])))
            applied = heads["applied"].astype(np.int64)
            for number in np.flatnonzero(np.isin(applied, wanted)).tolist():
                found = int(applied[number]), int(heads["digest"][number]), int(heads["digest_version"][number])
                if found not in report.digests:
                    report.digests.append(found)
        if self.task.checks_chains:
            self._check_chains(block, offsets)
        report.last_chain = heads["chain"][-1].tobytes()
        self._check_index(offsets, lasts, heads["time"].astype(np.int64))

    def _check_chains(self, block: Block, offsets: Integers) -> None:
        """Hash every batch. After a hole the chain starts again with the chain in the batch."""
        view = memoryview(block.data)
        starts, lengths = block.at.tolist(), block.heads["length"].tolist()
        told = block.heads["chain"].tobytes()
        holes = {hole.offset for hole in self.report.holes}
        chain = self._chain
        for number, (at, length) in enumerate(zip(starts, lengths, strict=True)):
            said = told[number * CHAIN_BYTES : (number + 1) * CHAIN_BYTES]
            if chain is not None and int(offsets[number]) not in holes:
                hasher = blake2b(chain, digest_size=CHAIN_BYTES)
                hasher.update(view[at : at + _HASHED_BYTES])
                hasher.update(view[at + HEADER_BYTES : at + HEADER_BYTES + length])
                if hasher.digest() != said and len(self.report.broken) < BROKEN_MAX:
                    self.report.broken.append((int(block.heads["first"][number]), int(offsets[number])))
            chain = said
        self._chain = chain

    def _load_index(self) -> BatchIndex | None:
        log = self.task.span.file
        if not log.has_index or log.previous is None:
            return None
        try:
            index = read_index(log)
        except OSError as error:
            self.report.wrong_index = f"it cannot be read: {error.strerror or error}"
            return None
        if index is None:
            self.report.wrong_index = "it is damaged, or of another file"
        return index

    def _check_index(self, offsets: Integers, lasts: Integers, times: Integers) -> None:
        if self._index is None or self.report.damage:
            return
        start, end = self._indexed_count, self._indexed_count + len(offsets)
        index, self._indexed_count = self._index, end
        pairs = (index.offsets, offsets), (index.zxids, lasts), (index.times, times)
        if not all(np.array_equal(column[start:end], found) for column, found in pairs):
            self.report.wrong_index = "it does not say where the batches are"
            self._index = None

    def finish(self) -> FileReport:
        """The report, with the buckets put together."""
        report = self.report
        if self._pieces:
            starts, counts, contents, chains = (np.concatenate(columns) for columns in zip(*self._pieces, strict=True))
            at = np.flatnonzero(np.diff(starts, prepend=-1))
            report.buckets = Buckets(
                starts[at],
                np.add.reduceat(counts, at),
                np.bitwise_xor.reduceat(contents, at),
                np.bitwise_xor.reduceat(chains, at),
            )
        return report


@define(eq=False)
class Held:
    """The batches or records of a file in some ranges, columns of equal length; `first` and `last` zxid, `offset`."""

    span: Span
    first: Integers
    last: Integers
    offset: Integers
    content: Words
    chain: Words


def held(span: Span, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Held]]:
    """Yield what the file holds of each range (lowest zxid, highest zxid), rising, without what is damaged."""
    log = span.file
    if log.kind == "version-2":
        span = evolve(span, start=len(LOG_HEADER), file=evolve(log, cutoff=None))
    span = evolve(span, after=ranges[0][0] - 1, until=ranges[-1][1])
    pieces: dict[tuple[int, int], list[Held]] = {}
    for found in blocks(span):
        if isinstance(found, Damage):
            continue
        firsts = _firsts(found)
        contents, chains = _contents(found), _chains(found)
        for low, high in ranges:
            keep = (firsts >= low) & (firsts <= high)
            if keep.any():
                offsets = (found.base + found.at)[keep]
                part = Held(span, firsts[keep], found.last[keep], offsets, contents[keep], chains[keep])
                pieces.setdefault((low, high), []).append(part)
    for each, parts in pieces.items():
        names = ("first", "last", "offset", "content", "chain")
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        yield each, Held(span, **columns)
