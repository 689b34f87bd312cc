"""The lists that guarded paths before a tree was loaded, from the files: an older snapshot and the log after it.

A tree knows this from the snapshot on that it was loaded from (`datatree.past_acls`); the log goes further back, to the
oldest snapshot kept. This reads what lies between, once, a slice at a time: from the snapshot the znodes that are not
open to all, from the log what creates, changes and ends their lists.

    read_slice()   a little more; True once `past` is as complete as possible
    past           the lists that ended up to `upto`; from `complete_from` on it has all of them

It gives up, with an empty `past` that is complete from `upto` on, if more than `GUARDED_COUNT_MAX` znodes at once are
not open, or if files are damaged or removed while it reads.

Not here: threads, the lock that prevents cuts of the log while it reads, and who asks for it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from datatree.log.disk import Disk
from datatree.log.segment import LogDamagedError
from datatree.log.transaction_log import NotHeldError, TransactionLog
from datatree.opcodes import Effect, OpCode, types_with
from datatree.past_acls import PastAcls
from datatree.record import AclList, RecordError, Txn, decode_all
from datatree.snapshot import SnapshotError, guarded_znodes, snapshot_files, snapshot_path

__all__ = ["GUARDED_COUNT_MAX", "LookBack"]

GUARDED_COUNT_MAX: Final = 200_000
SLICE_BYTES: Final = 1 << 20

_CREATES: Final = types_with(Effect.CREATE)
_DELETES: Final = types_with(Effect.DELETE)
_SET_ACLS: Final = types_with(Effect.SET_ACL)
_DELETE: Final = int(OpCode.DELETE)
_MULTI: Final = int(OpCode.MULTI)
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)


class LookBack:
    """Reads the files once. `upto` is where the tree's own knowledge begins; `cutting` is a lock, if the log may be
    cut."""

    def __init__(
        self,
        disk: Disk,
        log: TransactionLog,
        upto: int,
        count_max: int,
        cutting: AbstractContextManager[object] | None = None,
    ) -> None:
        self.upto = upto
        self.past = PastAcls(upto, count_max)
        self._disk = disk
        self._log = log
        self._count_max = count_max
        self._cutting = nullcontext() if cutting is None else cutting
        self._guarded: dict[bytes, AclList] = {}
        self._slices = self._read()

    def read_slice(self) -> bool:
        """Read a little more: a chunk of the snapshot or some of the log. True at the end. Raises OSError."""
        try:
            next(self._slices)
        except StopIteration:
            return True
        except (LogDamagedError, RecordError, NotHeldError, FileNotFoundError):
            self._give_up()
            return True
        if len(self._guarded) > GUARDED_COUNT_MAX:
            self._give_up()
            return True
        return False

    def _give_up(self) -> None:
        self.past = PastAcls(self.upto, self._count_max)
        self._guarded.clear()

    def _read(self) -> Iterator[None]:
        zxid = self._log.first_position[0]
        if zxid > 0:
            # At the very beginning the tree was empty; later, a snapshot is required.
            kept = [each for each in snapshot_files(self._disk) if zxid <= each < self.upto]
            for zxid in kept:
                self._guarded.clear()
                try:
                    for found in guarded_znodes(self._disk, snapshot_path(zxid)):
                        self._guarded.update(found)
                        yield
                except SnapshotError:
                    continue
                break
            else:
                return
        past = PastAcls(zxid, self._count_max)
        while zxid < self.upto:
            with self._cutting:
                batches = self._log.read(zxid, SLICE_BYTES)
            if not batches:
                return
            for batch in batches:
                if batch.zxid <= self.upto:
                    for txn in decode_all(batch.body, batch.first, batch.count):
                        self._take(txn, past)
            zxid = batches[-1].zxid
            yield
        self.past = past

    def _take(self, txn: Txn, past: PastAcls) -> None:
        if txn.type == _MULTI:
            for kind, _, path, _, rest in txn.rest:
                self._take_one(kind, path, rest, txn.zxid, past)
        elif txn.type == _CLOSE_SESSION:
            for path in txn.rest:
                self._take_one(_DELETE, path, None, txn.zxid, past)
        else:
            self._take_one(txn.type, txn.path, txn.rest, txn.zxid, past)

    def _take_one(self, kind: int, path: bytes, rest: Any, zxid: int, past: PastAcls) -> None:
        """Apply the transaction to the lists, like `datatree.apply`."""
        guarded = self._guarded
        if kind in _CREATES:
            if rest[0] is not None:
                guarded[path] = rest[0]
        elif kind in _DELETES:
            ended = guarded.pop(path, None)
            if ended is not None:
                past.ended(path, zxid, ended)
        elif kind in _SET_ACLS:
            before, after = guarded.pop(path, None), rest[0]
            if before is not None and before != after:
                past.ended(path, zxid, before)
            if after is not None:
                guarded[path] = after
