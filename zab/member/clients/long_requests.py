"""Handles requests above jute.maxbuffer while their bytes still arrive.

    setWatches(2)       up to `LONG_BYTES_MAX` is read as several requests: each has the same opcode and some of the
                        paths, of at most `PIECE_BYTES` and one path. The last one is an ordinary frame, and is
                        answered; those before it are `Piece`s, and are not
    anything else       is skipped, up to a limit: a `Cut` replaces it, as soon as its first bytes are there. It
                        can be answered, since every client matches answers by xid, except for special ones

Clients in other languages send all their watches in one setWatches when they reconnect. If it is refused, they send it
again and again; those that ignore the error wait for events that never come.

Invariants: the result does not depend on how the network split the bytes. No more is kept than one piece and
one path, each below jute.maxbuffer; a skipped request is not kept. A setWatches that breaks off, or has a
longer path, ends the stream after the pieces before it.

Source: `SetWatches` in `datatree.requests`. Not here: the answers (`zab.member.requests.connection_requests`).
"""

from collections.abc import Generator, Iterator
from struct import Struct
from typing import Final

from datatree.opcodes import OpCode
from zab.wire.frames import FrameError, LongFrame

PIECE_BYTES: Final = 64 << 10

CUT_MARK: Final = b"\x80\x00\x00\x00"
"""Replaces the opcode in a `Cut`: no request has it."""

_LISTS: Final = {int(OpCode.SET_WATCHES): 3, int(OpCode.SET_WATCHES2): 5}
_HEADER: Final = Struct(">ii")
_INT: Final = Struct(">i")
_ZXID_BYTES: Final = 8


class Cut(bytes):
    """Replaces a request that was too long: its xid, then `CUT_MARK`."""

    __slots__ = ()


class Piece(bytes):
    """A setWatches with some of the paths of a longer one; more paths follow."""

    __slots__ = ()


class LongRequests:
    """Handles the requests of one connection that are too long for a frame (`zab.wire.frames.FrameReader`)."""

    __slots__ = ("_path_bytes_max", "_request_bytes_max")

    def __init__(self, path_bytes_max: int, request_bytes_max: int) -> None:
        """`path_bytes_max` limits a path in a setWatches, `request_bytes_max` a request that is skipped."""
        self._path_bytes_max = path_bytes_max
        self._request_bytes_max = request_bytes_max

    def __call__(self, head: bytes, length: int) -> LongFrame | None:
        xid, opcode = _HEADER.unpack(head)
        lists = _LISTS.get(opcode)
        if lists is not None:
            return _LongSetWatches(length, lists, self._path_bytes_max)
        if length <= self._request_bytes_max and xid >= 0:
            return _PassedOver()
        return None


class _PassedOver:
    """Yields its frame first, and drops the remaining bytes as they arrive."""

    __slots__ = ("_is_told",)

    kept_bytes: Final = 0

    def __init__(self) -> None:
        self._is_told = False

    def feed(self, data: bytes) -> list[bytes]:
        if self._is_told:
            return []
        self._is_told = True
        return [Cut(data[: _INT.size] + CUT_MARK)]


class _LongSetWatches:
    """Splits a setWatches: header, zxid, then lists of a count (-1: null) and as many paths, each a length and
    bytes."""

    __slots__ = (
        "_at",
        "_frames",
        "_is_read",
        "_kept",
        "_left",
        "_length",
        "_needed",
        "_path_bytes_max",
        "_paths",
        "_steps",
    )

    def __init__(self, length: int, lists: int, path_bytes_max: int) -> None:
        self._length = self._left = length
        self._path_bytes_max = path_bytes_max
        self._frames: list[bytes] = []
        self._paths = [bytearray() for _ in range(lists)]
        """The paths of the next piece, with their lengths; one object each would take much more memory."""
        self._kept = bytearray()
        self._at = 0
        """`_kept` is read up to `_at`; to go on, `_needed` bytes have to follow."""
        self._needed = 0
        self._is_read = False
        self._steps = self._read()

    @property
    def kept_bytes(self) -> int:
        return len(self._kept) + self._piece_bytes

    @property
    def _piece_bytes(self) -> int:
        return sum(map(len, self._paths))

    def feed(self, data: bytes) -> list[bytes]:
        self._left -= len(data)
        if not self._is_read:  # bytes after the lists are ignored, as in a request of any length
            self._kept += data
            if len(self._kept) >= self._needed:
                next(self._steps, None)
        if not self._left and not self._is_read:
            raise self._refusal()
        frames, self._frames = self._frames, []
        return frames

    def _read(self) -> Iterator[None]:
        """Go on whenever enough bytes are there. Raises FrameError."""
        stem = yield from self._take(_HEADER.size + _ZXID_BYTES)
        counts = [0] * len(self._paths)
        for at, paths in enumerate(self._paths):
            (count,) = _INT.unpack((yield from self._take(_INT.size)))
            if count < -1:
                raise self._refusal()
            for _ in range(count):
                length = yield from self._take(_INT.size)
                (path_bytes,) = _INT.unpack(length)
                if not 0 <= path_bytes <= self._path_bytes_max:
                    raise self._refusal()
                path = yield from self._take(path_bytes)
                paths += length
                paths += path
                counts[at] += 1
                if self._piece_bytes >= PIECE_BYTES:
                    self._frames.append(Piece(self._piece(stem, counts)))
        self._frames.append(self._piece(stem, counts))
        self._is_read = True
        self._kept.clear()

    def _take(self, count: int) -> Generator[None, None, bytes]:
        while len(self._kept) < self._at + count:
            del self._kept[: self._at]
            self._at = 0
            self._needed = count
            yield
        taken = bytes(self._kept[self._at : self._at + count])
        self._at += count
        return taken

    def _piece(self, stem: bytes, counts: list[int]) -> bytes:
        """Take the next piece."""
        lists = [_INT.pack(count) + paths for count, paths in zip(counts, self._paths, strict=True)]
        for at, paths in enumerate(self._paths):
            counts[at] = 0
            paths.clear()
        return b"".join((stem, *lists))

    def _refusal(self) -> FrameError:
        return FrameError(self._length, self._path_bytes_max, self._frames)
