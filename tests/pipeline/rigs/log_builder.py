"""Log files of both kinds out of transactions, in memory or in a directory, for tests and the benchmark.

    txns = random_txns(random.Random(1), 500)
    file = NativeFile.build(in_batches(txns, 3))            .data, .index, .batches
    write_native(directory, [batches, batches], mark=…)     a member's data directory, one log file for each
    write_version2(directory, [txns, txns])

Frames hold two batches each and say that everything before them was durable, so that only the last one may be torn.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from datatree.log.batch import Batch, build, genesis
from datatree.log.epochs import pack_mark
from datatree.log.frame import pack_frame, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES, Index, SegmentHeader
from datatree.record import Txn, encode
from datatree.zookeeper.log import LOG_HEADER, encode_record

LINEAGE = bytes(range(16))
FIRST = (1 << 32) + 1
TIME = 1_700_000_000_000
START = (0, genesis(LINEAGE))
ACL = ((31, b"digest", b"ann:x,y\\="), (1, b"world", b"anyone"))
SESSION = 0x1_0000_0000_0001


def random_txns(
    rng: random.Random, count: int, first: int = FIRST, *, multis: bool = True, native: bool = True
) -> list[Txn]:
    """Transactions of all kinds with rising times. Of ZooKeeper's logs without what they do not keep."""
    return [_random_txn(rng, zxid, multis, native) for zxid in range(first, first + count)]


def _path(rng: random.Random) -> bytes:
    return rng.choice(("/app", "/app/ä", "/q/n-0000000001", "/" + "x" * 300, "/app/\N{SLICE OF PIZZA}")).encode()


def _data(rng: random.Random) -> bytes | None:
    return rng.choice((None, b"", b"\0\xff", rng.randbytes(rng.randrange(200)), b"ZFRM" + bytes(60)))


def _random_txn(rng: random.Random, zxid: int, multis: bool, native: bool) -> Txn:
    session = rng.choice((SESSION, -SESSION, -(1 << 63), (1 << 63) - 1))
    cxid = rng.choice((0, 7, -8, (1 << 31) - 1, -(1 << 31)))
    kinds = [1, 15, 2, 5, 5, 5, 7, 16, 19, 20, 21, -10, -11, -1] + [14] * multis
    kind = rng.choice(kinds)
    # Batches of three have one time, as real ones have.
    time = TIME + 1000 * ((zxid >> 32) - 1) + ((zxid & 0xFFFFFFFF) - 1) // 3
    return Txn(zxid, time, session, cxid, kind, *_body(rng, kind, session, native))


def _body(rng: random.Random, kind: int, session: int, native: bool) -> tuple[int, bytes, bytes | None, Any]:
    acl = rng.choice((None, None, ACL, (), ((31, b"world", b"anyone"), (2, b"ip", b"10.0.0.0/8"))))
    number = rng.randrange(-5, 1 << 31)
    if kind in (1, 15):
        return number, _path(rng), _data(rng), (acl, rng.choice((0, session)))
    if kind == 19:
        return number, _path(rng), _data(rng), (acl, -(1 << 63))
    if kind == 21:
        return number, _path(rng), _data(rng), (acl, -(1 << 56) + rng.randrange(1, 1 << 40))
    if kind in (2, 20):
        return 0, _path(rng), None, None
    if kind in (5, 16):
        return number, _path(rng), _data(rng), None
    if kind == 7:
        return number, _path(rng), None, (acl,)
    if kind == 13:
        return number, _path(rng), None, None
    if kind == -10:
        return rng.randrange(1, 100_000), b"", None, None
    if kind == -11:
        return 0, b"", None, tuple(_path(rng) for _ in range(rng.randrange(3)))
    if kind == -1:
        return (
            rng.choice((-101, -110)),
            _path(rng) if native else b"",
            None,
            (rng.choice((1, 2, 5)),) if native else None,
        )
    return 0, b"", None, _parts(rng, session, native)


def _parts(rng: random.Random, session: int, native: bool) -> tuple[Any, ...]:
    count = rng.randrange(4)
    if rng.random() < 0.3:
        return tuple((-1, rng.choice((0, -101, -2)), b"", None, None) for _ in range(count))
    kinds = [rng.choice((1, 2, 5, 13, 15, 19, 21)) for _ in range(count)]
    return tuple((kind, *_body(rng, kind, session, native)) for kind in kinds)


def in_batches(txns: Sequence[Txn], *sizes: int) -> list[list[Txn]]:
    """Cut into batches of these sizes, over and over."""
    batches: list[list[Txn]] = []
    at = 0
    while at < len(txns):
        size = sizes[len(batches) % len(sizes)]
        batches.append(list(txns[at : at + size]))
        at += size
    return batches


def as_batch(previous: tuple[int, bytes], txns: Sequence[Txn], mark: int | None = None) -> Batch:
    """The batch of these transactions after a position; by default everything before it is committed."""
    first, body = txns[0].zxid, b"".join(map(encode, txns))
    known = previous[0] if mark is None else mark
    return build(
        previous[1],
        epoch=first >> 32,
        first=first,
        count=len(txns),
        time=txns[0].time,
        flags=0,
        mark=known,
        applied=known,
        digest=first,
        body=body,
    )


@dataclass
class NativeFile:
    """One log file's bytes and sidecar index. `offsets` are where the batches are."""

    header: SegmentHeader
    batches: list[Batch] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    data: bytes = b""
    index: bytes = b""

    @classmethod
    def build(
        cls,
        batches: Iterable[Sequence[Txn]],
        previous: tuple[int, bytes] = START,
        *,
        lineage: bytes = LINEAGE,
        per_frame: int = 2,
        mark: int | None = None,
        idle: bool = True,
    ) -> NativeFile:
        """`mark`: the largest that a batch says. `idle`: with the frame of a log that is at rest, at the end."""
        made: list[Batch] = []
        position = previous
        for txns in batches:
            made.append(as_batch(position, txns, None if mark is None else min(mark, position[0])))
            position = made[-1].zxid, made[-1].chain
        return cls.of(SegmentHeader(lineage, previous, made[0].first), made, per_frame, idle=idle)

    @classmethod
    def of(
        cls, header: SegmentHeader, batches: Sequence[Batch], per_frame: int = 2, *, idle: bool = True
    ) -> NativeFile:
        """The file that holds these batches, whatever is in them."""
        file = cls(header, list(batches))
        index, seed = Index(header.previous[0]), seed_of(header.first)
        pieces = [header.pack()]
        end, synced = SEGMENT_HEADER_BYTES, 0
        for number in range(0, len(batches), per_frame):
            group = batches[number : number + per_frame]
            pieces.append(pack_frame(seed, end, synced, [batch.raw for batch in group]))
            file.frames.append(end)
            at = end + 28
            for batch in group:
                file.offsets.append(at)
                index.add(at, batch)
                at += len(batch.raw)
            end = synced = at
        if idle:
            pieces.append(pack_frame(seed, end, synced))
            end += 28
        index.end = end
        file.data = b"".join(pieces)
        file.index = index.pack(crc32(file.data[: SEGMENT_HEADER_BYTES - 4]))
        return file

    @property
    def name(self) -> str:
        return f"log.{self.header.first:x}"

    @property
    def last(self) -> tuple[int, bytes]:
        return self.batches[-1].zxid, self.batches[-1].chain

    def write(self, version: Path, *, index: bool) -> Path:
        version.mkdir(parents=True, exist_ok=True)
        (version / self.name).write_bytes(self.data)
        if index:
            (version / f"{self.name}.index").write_bytes(self.index)
        return version / self.name


def write_native(
    directory: Path,
    files: Iterable[Iterable[Sequence[Txn]]],
    *,
    member: int | None = None,
    mark: int | None = None,
    lineage: bytes = LINEAGE,
    previous: tuple[int, bytes] | None = None,
    closed: bool = True,
) -> list[NativeFile]:
    """A member's data directory. `mark`: what `committed` says, by default all; `closed`: the last file has an
    index."""
    version = directory / "version-1"
    position = previous or (0, genesis(lineage))
    made = []
    for batches in files:
        made.append(NativeFile.build(batches, position, lineage=lineage, mark=mark))
        position = made[-1].last
    for number, file in enumerate(made):
        file.write(version, index=closed or number < len(made) - 1)
    (version / "committed").write_bytes(pack_mark(lineage, position[0] if mark is None else mark))
    if member is not None:
        line = f"{lineage.hex()} {member}"
        (version / "member").write_text(f"{line}\n{crc32(f'member {line}'.encode()):08x}\n")
    return made


def version2_bytes(txns: Iterable[Txn], padding: int = 0, *, digests: bool = True) -> bytes:
    """A log file of ZooKeeper; errors have no digest there."""
    records = (encode_record(txn, txn.zxid if digests and txn.type != -1 else None) for txn in txns)
    return LOG_HEADER + b"".join(records) + bytes(padding)


def write_version2(
    directory: Path, files: Iterable[Sequence[Txn]], *, member: int | None = None, padding: int = 1000
) -> list[Path]:
    """A member's data directory of ZooKeeper."""
    version = directory / "version-2"
    version.mkdir(parents=True, exist_ok=True)
    if member is not None:
        (directory / "myid").write_text(f"{member}\n")
    paths = []
    for txns in files:
        paths.append(version / f"log.{txns[0].zxid:x}")
        paths[-1].write_bytes(version2_bytes(txns, padding))
    return paths


@dataclass
class Bytes:
    """An open file in memory, which notes how much was read of it at most at once."""

    data: bytes
    largest: int = 0
    total: int = 0

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        found = self.data[offset : offset + length]
        self.largest, self.total = max(self.largest, len(found)), self.total + len(found)
        return found


def cut_anywhere(rng: random.Random, items: Sequence[Txn], most: int) -> Iterator[list[Txn]]:
    """Cut into lists of random lengths from 1 to `most`."""
    at = 0
    while at < len(items):
        size = rng.randint(1, most)
        yield list(items[at : at + size])
        at += size
