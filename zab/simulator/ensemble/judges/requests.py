"""The requests of simulated clients, on a few paths that all of them use.

Every written value is unique, so that the result of a read shows which write it saw. Weights are drawn per client: some
only read, some only write, some mostly use ephemerals and sequences, like locks and queues.
"""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Any, Final

import attrs

from datatree.opcodes import WRITES, OpCode
from datatree.record import Txn
from datatree.requests import OPEN_ACL, Create, Multi, PathKind, PathOnly, PathVersion, PathWatch, SetAcl, SetData

TOPS: Final = (b"/a", b"/b", b"/c", b"/q")
NAMES: Final = (b"0", b"1", b"2")
CONTAINER: Final = b"/k"
TIMED: Final = b"/t"

_EPHEMERAL, _SEQUENTIAL = 1, 2
_CONTAINER_FLAG: Final = 4
_TIMED_FLAG: Final = 5

KINDS: Final = (
    "create", "create_ephemeral", "create_sequence", "create_container", "create_timed", "delete", "set", "set_acl",
    "multi", "exists", "get", "children", "children2", "multi_read", "sync", "watch",
)  # fmt: skip

_IS_WRITE: Final = frozenset(map(int, WRITES))
_ERROR: Final = int(OpCode.ERROR)
_MULTI: Final = int(OpCode.MULTI)


@attrs.define
class Asked:
    """A request that was sent."""

    session: int
    number: int
    """Its number among all requests of its client, on all connections; xids start again on each connection."""
    xid: int
    opcode: int
    body: Any
    sent_at: int
    told: int
    """The highest zxid that any client had been told when this was sent."""

    @property
    def is_write(self) -> bool:
        return self.opcode in _IS_WRITE

    def may_be(self, txn: Txn) -> bool:
        """Whether a committed transaction matches this request: session, xid, operation, and data."""
        if (txn.session, txn.cxid) != (self.session, self.xid):
            return False
        if txn.type == _ERROR:
            return bool(txn.rest[0] == self.opcode)
        if txn.type != self.opcode:
            return False
        if self.opcode == _MULTI:
            asked = self.body.parts
            return len(asked) == len(txn.rest) and all(
                kind == _ERROR or (kind == opcode and _is_written(body, path, data))
                for (opcode, body), (kind, _, path, data, _) in zip(asked, txn.rest, strict=True)
            )
        return self.body is None or _is_written(self.body, txn.path, txn.data)


def _is_written(body: Any, path: bytes, data: bytes | None) -> bool:
    """Whether a transaction with this path and data matches a request."""
    if isinstance(body, Create) and body.flags & _SEQUENTIAL:
        is_there = path.startswith(body.path)
    else:
        is_there = path == body.path
    return is_there and data == getattr(body, "data", None)


class Requests:
    """Draws the requests of one client."""

    def __init__(self, rng: Random, number: int, tick_ms: int, *, long_data: bool, mostly: str) -> None:
        self._rng = rng
        self._number = number
        self._count = 0
        self._tick_ms = tick_ms
        self._long_data = long_data
        weights = [rng.choice((0, 1, 1, 3)) for _ in KINDS]
        self._weights = weights if sum(weights) > 3 else [1] * len(KINDS)
        if mostly:
            self._weights[KINDS.index(mostly)] = sum(self._weights)
        self._up_to = list(accumulate(self._weights))

    def first(self) -> list[tuple[int, Any]]:
        """Creates of the znodes that other requests use."""
        return [(int(OpCode.CREATE), Create(path, self._data(), OPEN_ACL, 0)) for path in TOPS]

    def draw(self) -> tuple[int, Any]:
        """The next request: opcode and body."""
        (kind,) = self._rng.choices(KINDS, cum_weights=self._up_to)
        opcode, body = _MAKE[kind](self)
        return int(opcode), body

    def write(self) -> tuple[int, Any]:
        """A write that succeeds in every state."""
        path = b"/done-%d-" % self._number
        return int(OpCode.CREATE), Create(path, self._data(), OPEN_ACL, _SEQUENTIAL)

    def _data(self) -> bytes | None:
        self._count += 1
        data = b"%d.%d" % (self._number, self._count)
        if self._long_data and self._rng.random() < 0.3:
            data = data.ljust(self._rng.choice((200, 1500)), b".")
        return data

    def _path(self) -> bytes:
        top = self._rng.choice(TOPS)
        return top if self._rng.random() < 0.3 else top + b"/" + self._rng.choice(NAMES)

    def _version(self) -> int:
        return -1 if self._rng.random() < 0.8 else self._rng.randrange(4)

    def _create(self) -> tuple[int, Any]:
        opcode = self._rng.choice((OpCode.CREATE, OpCode.CREATE2))
        return opcode, Create(self._path(), self._data(), OPEN_ACL, 0)

    def _create_ephemeral(self) -> tuple[int, Any]:
        return OpCode.CREATE, Create(self._path(), self._data(), OPEN_ACL, _EPHEMERAL)

    def _create_sequence(self) -> tuple[int, Any]:
        flags = self._rng.choice((_SEQUENTIAL, _SEQUENTIAL | _EPHEMERAL))
        return OpCode.CREATE2, Create(self._rng.choice(TOPS) + b"/n-", self._data(), OPEN_ACL, flags)

    def _create_container(self) -> tuple[int, Any]:
        if self._rng.random() < 0.5:
            return OpCode.CREATE_CONTAINER, Create(CONTAINER, self._data(), OPEN_ACL, _CONTAINER_FLAG)
        return OpCode.CREATE, Create(CONTAINER + b"/" + self._rng.choice(NAMES), self._data(), OPEN_ACL, _EPHEMERAL)

    def _create_timed(self) -> tuple[int, Any]:
        ttl_ms = self._rng.randrange(1, 10) * self._tick_ms
        return OpCode.CREATE_TTL, Create(TIMED, self._data(), OPEN_ACL, _TIMED_FLAG, ttl_ms)

    def _delete(self) -> tuple[int, Any]:
        return OpCode.DELETE, PathVersion(self._path(), self._version())

    def _set(self) -> tuple[int, Any]:
        return OpCode.SET_DATA, SetData(self._path(), self._data(), self._version())

    def _set_acl(self) -> tuple[int, Any]:
        acl = self._rng.choice((OPEN_ACL, ((31, b"world", b"anyone"), (1, b"ip", b"10.9.9.9"))))
        return OpCode.SET_ACL, SetAcl(self._path(), acl, -1)

    def _multi(self) -> tuple[int, Any]:
        parts: list[tuple[int, Any]] = []
        for _ in range(self._rng.randrange(1, 4)):
            opcode, body = _MAKE[self._rng.choice(("create", "create_sequence", "delete", "set"))](self)
            parts.append((int(opcode), body))
        if self._rng.random() < 0.4:
            parts.insert(0, (int(OpCode.CHECK), PathVersion(self._path(), self._version())))
        return OpCode.MULTI, Multi(tuple(parts))

    def _exists(self) -> tuple[int, Any]:
        return OpCode.EXISTS, PathWatch(self._path(), self._rng.random() < 0.5)

    def _get(self) -> tuple[int, Any]:
        return OpCode.GET_DATA, PathWatch(self._path(), self._rng.random() < 0.5)

    def _children(self) -> tuple[int, Any]:
        return OpCode.GET_CHILDREN, PathWatch(self._rng.choice((*TOPS, b"/")), self._rng.random() < 0.5)

    def _children2(self) -> tuple[int, Any]:
        return OpCode.GET_CHILDREN2, PathWatch(self._rng.choice(TOPS), self._rng.random() < 0.5)

    def _multi_read(self) -> tuple[int, Any]:
        paths = [self._path() for _ in range(self._rng.randrange(1, 4))]
        kinds = (int(OpCode.GET_DATA), int(OpCode.GET_CHILDREN))
        return OpCode.MULTI_READ, Multi(tuple((self._rng.choice(kinds), PathWatch(path, False)) for path in paths))

    def _sync(self) -> tuple[int, Any]:
        return OpCode.SYNC, PathOnly(b"/")

    def _watch(self) -> tuple[int, Any]:
        return OpCode.ADD_WATCH, PathKind(self._rng.choice(TOPS), self._rng.randrange(2))


_MAKE: Final = {kind: getattr(Requests, f"_{kind}") for kind in KINDS}
