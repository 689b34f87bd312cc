"""Two worlds that are given the same: one with what is compiled of this package, and one with its Python alone."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, Final
from zlib import crc32

from datatree.compiled import using
from datatree.cursor import SnapshotCursor
from datatree.opcodes import OpCode
from datatree.prepare import Prepare
from datatree.prepare_settings import PrepareSettings
from datatree.record import Fields, RecordError, decode_fields, decode_in_slices, encode
from datatree.requests import OPEN_ACL, Create, CreateSession
from datatree.state import SHARD_COUNT
from datatree.tree import DataTree
from datatree.write_request import WriteRequest
from zab.native import load

TREE: Any = load("tree")
WRITES: Any = load("writes")
IS_COMPILED: Final = TREE is not None and WRITES is not None

BOB: Final = (b"digest", b"bob:hash")
BOBS: Final = ((31, *BOB),)
SESSION, OTHER = 7, 8
ERRORS = (RecordError, AssertionError, AttributeError, LookupError, TypeError, ValueError, OverflowError, struct.error)


class World:
    """A leader's tree, with what is prepared against it, and a follower's."""

    def __init__(self, *, is_compiled: bool) -> None:
        self.parts = (TREE, WRITES) if is_compiled else (None, None)
        self.tree, self.follower = DataTree(), DataTree()
        settings = PrepareSettings(create_if_not_exists=True, keeper_extensions=True, multi_parts_max=600)
        self.prepare = Prepare(self.tree, settings)
        self.zxid = 0
        self.waiting: list[Fields] = []
        self.cursor: SnapshotCursor | None = None

    def __call__(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """A value, or an exception, in this world."""
        with using(*self.parts):
            try:
                return do(*arguments)
            except ERRORS as error:
                return type(error), str(error)

    def ask(self, request: WriteRequest, *, in_slices: bool) -> Any:
        self.zxid += 1
        if in_slices:
            slices, (txn, record) = whole(self.prepare.prepare_in_slices(request, self.zxid, 1000 + self.zxid))
        else:
            txn, slices = self.prepare.prepare(request, self.zxid, 1000 + self.zxid), 0
            record = encode(txn)
        self.waiting.append(txn)
        return slices, txn, record, self.outstanding()

    def deliver(self, count: int, *, is_watched: bool) -> Any:
        """Apply the oldest transactions at both members; the follower gets their records."""
        txns, self.waiting = self.waiting[:count], self.waiting[count:]
        if not txns:
            return None
        body = b"".join(map(encode, txns))
        decoded = decode_fields(body, txns[0][0], len(txns))
        slices = whole(decode_in_slices(body, txns[0][0], len(txns)))
        assert slices[1] == decoded == [tuple(txn) for txn in txns]
        applied = [self.tree.apply(txn, is_watched) for txn in txns]
        followed = [whole(self.follower.apply_in_slices(txn, is_watched)) if txn[4] == OpCode.MULTI
                    else (0, self.follower.apply(txn, is_watched)) for txn in decoded]  # fmt: skip
        assert [result for _, result in followed] == applied
        self.prepare.applied(self.tree.applied)
        return slices, applied, followed, self.outstanding()

    def snapshot(self) -> Any:
        """Begin a snapshot, or end it: what it holds."""
        if self.cursor is None:
            self.cursor = self.tree.begin_snapshot()
            return None
        held = list(self.cursor.slices())
        self.cursor.close()
        self.cursor = None
        return held

    def outstanding(self) -> Any:
        outstanding = self.prepare.outstanding
        sessions = outstanding.created, outstanding.closing, outstanding._touched, outstanding._ephemeral_bytes
        assert outstanding.journal is None
        return list(outstanding.changes.items()), list(outstanding.queue), sessions, outstanding._charged


def whole(steps: Generator[None, None, Any]) -> tuple[int, Any]:
    """How many slices it took, and what was returned."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


def everything(tree: DataTree) -> Any:
    """All that a tree holds, in its order. A path is one object wherever it is."""
    for children in tree.children.values():
        for child in children:
            shard = tree.shards[crc32(child) % SHARD_COUNT]
            if not any(path is child for path in shard):
                raise AssertionError(f"two objects for {child!r}")
    return (
        [list(shard.items()) for shard in tree.shards if shard],
        [(path, type(children), list(children)) for path, children in tree.children.items()],
        [(session, list(paths)) for session, paths in tree.ephemerals.items()],
        (tree.containers, tree.ttls, tree.large, tree.sessions, tree.nearing, tree.acls.lists, dict(tree.quotas)),
        (tree.digest, tree.recompute_digest(), tree.znode_count, tree.data_bytes, tree.path_bytes, tree.applied),
    )


class Both:
    """Both worlds, which have to stay the same."""

    def __init__(self) -> None:
        self.python, self.compiled = World(is_compiled=False), World(is_compiled=True)
        for session in (SESSION, OTHER):
            self.ask(OpCode.CREATE_SESSION, CreateSession(30_000).encode(), session)
        self.ask(OpCode.CREATE, Create(b"/a", b"", OPEN_ACL, 0).encode())
        self.ask(OpCode.CREATE, Create(b"/bobs", b"", BOBS, 0).encode())
        self.ask(OpCode.CREATE, Create(b"/e", b"", OPEN_ACL, 1).encode())
        self.deliver(5)

    def ask(self, opcode: int, body: bytes, session: int = SESSION, *, in_slices: bool = False) -> Any:
        request = WriteRequest(session, 9, int(opcode), body, ((b"ip", b"127.0.0.1"), BOB))
        return self.same(lambda world: world.ask(request, in_slices=in_slices))

    def deliver(self, count: int, *, is_watched: bool = True) -> None:
        self.same(lambda world: world.deliver(count, is_watched=is_watched))

    def same(self, do: Callable[[World], Any]) -> Any:
        python, compiled = self.python(do, self.python), self.compiled(do, self.compiled)
        assert python == compiled
        assert repr(python) == repr(compiled), "of other types"
        return python

    def finish(self) -> None:
        self.deliver(len(self.python.waiting))
        self.same(lambda world: (everything(world.tree), everything(world.follower)))


def decodings(body: bytes, first: int, count: int) -> Callable[[World], Any]:
    def decode(world: World) -> Any:
        return world(decode_fields, body, first, count), world(lambda: whole(decode_in_slices(body, first, count)))

    return decode
