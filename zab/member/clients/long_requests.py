"""Requests above jute.maxbuffer: what comes of them, while their bytes are still on their way.

    setWatches(2)       up to `LONG_BYTES_MAX` is read as several: each piece is one of the same opcode with some of the
                        paths, of at most `PIECE_BYTES` and one path. The last one is an ordinary frame, and is
                        answered; those before it are `Piece`s, and are not
    anything else       is passed over, up to a limit: a `Cut` stands for it, as soon as its first bytes are there. It
                        can be answered, since every client finds an answer by its xid, but for special ones

Clients of other languages send all their watches in one setWatches when they come back. One that is refused is sent
again, and again; and who passes over an error waits for events that never come.

Invariants: what comes out does not depend on how the bytes were cut on their way. No more is kept than one piece and
one path, each below jute.maxbuffer; of a request that is passed over nothing. A setWatches that breaks off, or has a
path that is longer, ends the stream after the pieces before.

Source: `SetWatches` in `datatree.requests`. Not here: the answers (`zab.member.requests.connection_requests`).
"""

from collections.abc import Generator, Iterator
from struct import Struct
from typing import Final

from datatree.opcodes import OpCode
from zab.wire.frames import FrameError, LongFrame

PIECE_BYTES: Final = 64 << 10

CUT_MARK: Final = b"\x80\x00\x00\x00"
"""Stands in a `Cut` where the opcode was: no request has it."""

_LISTS: Final = {int(OpCode.SET_WATCHES): 3, int(OpCode.SET_WATCHES2): 5}
_HEADER: Final = Struct(">ii")
_INT: Final = Struct(">i")
_ZXID_BYTES: Final = 8


class Cut(bytes):
    """Stands for a request that was too long: its xid, then `CUT_MARK`."""

    __slots__ = ()


class Piece(bytes):
    """A setWatches with some of the paths of a longer one, others of which are still to come."""

    __slots__ = ()


class LongRequests:
    """Takes the requests of one connection that are too long for a frame (`zab.wire.frames.FrameReader`)."""

    __slots__ = ("_path_bytes_max", "_request_bytes_max")

    def __init__(self, path_bytes_max: int, request_bytes_max: int) -> None:
        """`path_bytes_max`: of a path in a setWatches. `request_bytes_max`: what is passed over is no longer."""
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
    """Its frame comes first, its other bytes are dropped as they come."""

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
    """Format: header, the zxid, then lists: a count, -1 of a null one, and so many paths, a length and bytes each."""

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
        """Of the next piece, with their lengths: an object each would take many times their bytes."""
        self._kept = bytearray()
        self._at = 0
        """Up to there `_kept` is read; to go on, so many bytes are `_needed` after it."""
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
        if not self._is_read:  # what comes after the lists is passed over, as in a request of any length
            self._kept += data
            if len(self._kept) >= self._needed:
                next(self._steps, None)
        if not self._left and not self._is_read:
            raise self._refusal()
        frames, self._frames = self._frames, []
        return frames

    def _read(self) -> Iterator[None]:
        """Goes on whenever there is enough. Raises FrameError."""
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
        """What is there for it, which is gone then."""
        lists = [_INT.pack(count) + paths for count, paths in zip(counts, self._paths, strict=True)]
        for at, paths in enumerate(self._paths):
            counts[at] = 0
            paths.clear()
        return b"".join((stem, *lists))

    def _refusal(self) -> FrameError:
        return FrameError(self._length, self._path_bytes_max, self._frames)
