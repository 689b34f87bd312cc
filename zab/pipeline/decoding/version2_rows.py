"""Decodes records of ZooKeeper's log into columns of transactions, all records of a block at once.

A payload begins with 32 bytes of fixed layout. After them each type has its own fields, most of them of variable
length (`datatree.zookeeper.log` has the table). They are read type by type, one field of all records after the other;
ACL lists entry by entry, all lists side by side, and turned into text once for each distinct one. Multis, closeSessions
and records that look unusual are decoded one by one by `datatree.zookeeper.log`.

Invariant: a record that `datatree.zookeeper.log` refuses does not become a row, and is reported. Since its checksum is
right, it was written like that.
"""

from typing import Any, Final

import numpy as np
from attrs import define, field

from datatree.jute import Reader
from datatree.opcodes import Effect, OpCode, types_with
from datatree.record import Txn
from datatree.znode import CONTAINER_OWNER, TTL_MS_MAX, ttl_owner
from datatree.zookeeper.files import ZooKeeperFileError, read_acl
from datatree.zookeeper.log import DIGEST_VERSION, decode_payload
from zab.pipeline.decoding.acl_text import acl_text
from zab.pipeline.decoding.arrays import Integers, Mask, gather, integers, text_or_none
from zab.pipeline.decoding.damage import DAMAGED, Damage
from zab.pipeline.decoding.slices import slices
from zab.pipeline.decoding.transactions import TIME_MS_MAX, Transactions
from zab.pipeline.decoding.version2_log import FRAME_BYTES, RecordBlock

__all__ = ["decode_records"]

_HEAD: Final = np.dtype([("session", ">i8"), ("cxid", ">i4"), ("zxid", ">i8"), ("time", ">i8"), ("type", ">i4")])
_DIGEST_BYTES: Final = 12
_ACL_ENTRIES_MAX: Final = 64
"""A record with a longer list is decoded by itself."""
_CREATES: Final = types_with(Effect.CREATE)
_WITH_PATH: Final = tuple(types_with(Effect.CREATE, Effect.DELETE, Effect.SET_DATA, Effect.SET_ACL))


def decode_records(block: RecordBlock) -> tuple[Transactions, list[Damage]]:
    """The transactions of the block's records, and the records that cannot be decoded, which are left out."""
    damage: list[Damage] = []
    while True:
        decoder = _Decoder(block)
        wrong = decoder.decode()
        if not wrong:
            return decoder.rows, damage
        keep = np.ones(len(block), dtype=np.bool_)
        for row, reason in wrong.items():
            keep[row] = False
            offset = block.base + int(block.at[row])
            damage.append(Damage(offset, offset + int(block.length[row]) + FRAME_BYTES + 1, DAMAGED, reason))
        block = block.only(keep)


@define(eq=False)
class _Decoder:
    """Reads the fields of all records. Those that are too short or unusual are marked in `odd`, and decoded alone."""

    block: RecordBlock
    rows: Transactions = field(init=False)
    odd: Mask = field(init=False)
    at: Integers = field(init=False)
    """Where the next field of each record is."""
    end: Integers = field(init=False)

    def decode(self) -> dict[int, str]:
        """Fill `rows`; return the rows that hold no transaction, and why."""
        block = self.block
        start = block.at + FRAME_BYTES
        self.end = start + block.length
        head = gather(block.data, start, f"V{_HEAD.itemsize}").view(_HEAD)
        self.at = start + _HEAD.itemsize
        count = len(block)
        self.odd = np.zeros(count, dtype=np.bool_)
        nothing = np.zeros(count, dtype=np.int64)
        self.rows = rows = Transactions(
            data=block.data,
            position=block.base + block.at,
            zxid=block.zxid,
            time_ms=head["time"].astype(np.int64),
            session=head["session"].astype(np.int64),
            cxid=head["cxid"].astype(np.int64),
            type=head["type"].astype(np.int64),
            number=nothing.copy(),
            path=(self.at.copy(), self.at.copy()),
            value=(self.at.copy(), self.at.copy()),
            has_value=np.zeros(count, dtype=np.bool_),
            owner=nothing,
            checksum=block.adler,
            acl_codes=np.zeros(count, dtype=np.int32),
        )
        self._bodies()
        self._digests()
        wrong = self._one_by_one()
        beyond = (rows.time_ms < 0) | (rows.time_ms > TIME_MS_MAX) | (rows.zxid <= 0)
        wrong.update(dict.fromkeys(np.flatnonzero(beyond).tolist(), "a zxid or time out of range"))
        if not wrong:
            rows.paths = text_or_none(slices(rows.data, *rows.path))
            assert rows.paths is not None, "what is not UTF-8 is odd"
        return wrong

    def _of(self, *opcodes: int) -> Integers:
        return np.flatnonzero(np.isin(self.rows.type, opcodes) & ~self.odd)

    def _bodies(self) -> None:
        rows = self.rows
        known = np.isin(rows.type, (*_WITH_PATH, OpCode.CREATE_SESSION, OpCode.ERROR))
        self.odd |= ~known
        start, end = self._buffers(self._of(*_WITH_PATH))
        rows.path[0][:], rows.path[1][:] = start, end
        rows.value[0][:], rows.value[1][:] = end, end
        self.odd |= self._null | (np.isin(rows.type, _WITH_PATH) & self._not_text())
        valued = self._of(*_CREATES, OpCode.SET_DATA, OpCode.RECONFIG)
        start, end = self._buffers(valued)
        rows.value[0][valued], rows.value[1][valued] = start[valued], end[valued]
        rows.has_value[valued] = ~self._null[valued]
        self._acls(self._of(*_CREATES, OpCode.SET_ACL))
        self._numbers()

    _null: Mask = field(init=False)

    def _buffers(self, which: Integers) -> tuple[Integers, Integers]:
        """Read the next field of these records, a buffer: (start, end). `_null` says where it is null."""
        start, end = self.at.copy(), self.at.copy()
        length = np.zeros(len(self.at), dtype=np.int64)
        length[which] = self._integers(which, ">i4")
        self._null = length == -1
        self.odd |= length < -1
        start[which] = self.at[which]
        end = start + np.maximum(length, 0)
        self.odd |= end > self.end
        end = np.minimum(end, self.end)
        self.at = np.where(self.odd, self.at, end)
        return start, end

    def _integers(self, which: Integers, dtype: str) -> Integers:
        """Read the next field of these records, an integer; 0 where there are not enough bytes."""
        size = np.dtype(dtype).itemsize
        at = self.at[which]
        short = at + size > self.end[which]
        if short.any():
            self.odd[which[short]] = True
            at = np.where(short, 0, at)
        self.at[which] = np.where(short, self.at[which], at + size)
        return np.where(short, 0, integers(self.block.data, at, dtype))

    def _not_text(self) -> Mask:
        found = slices(self.rows.data, *self.rows.path)
        wrong = np.zeros(len(found), dtype=np.bool_)
        if text_or_none(found) is None:
            for row, value in enumerate(found.to_pylist()):
                wrong[row] = not _is_text(value)
        return wrong

    def _acls(self, which: Integers) -> None:
        rows, start = self.rows, self.at.copy()
        counts = self._integers(which, ">i4")
        self.odd[which] |= counts > _ACL_ENTRIES_MAX
        left = np.where(counts > _ACL_ENTRIES_MAX, 0, counts)
        while (left > 0).any():
            more = which[left > 0]
            self._integers(more, ">i4")
            self._buffers(more)
            self._buffers(more)
            left = np.where(self.odd[which], 0, left - 1)
        which = which[~self.odd[which]]
        if not len(which):
            return
        coded = slices(rows.data, start[which], self.at[which]).dictionary_encode()
        rows.acl_codes[which] = coded.indices.to_numpy() + len(rows.acls)
        rows.acls += [acl_text(read_acl(Reader(value))) for value in coded.dictionary.to_pylist()]

    def _numbers(self) -> None:
        rows = self.rows
        plain = self._of(OpCode.CREATE, OpCode.CREATE2)
        is_ephemeral = self._integers(plain, "u1") != 0
        rows.owner[plain] = np.where(is_ephemeral, rows.session[plain], 0)
        # Files of very old versions do not have the parent's cversion.
        old = plain[self.at[plain] == self.end[plain]]
        rows.number[old] = -1
        plain = plain[self.at[plain] != self.end[plain]]
        rows.number[plain] = self._integers(plain, ">i4")
        others = self._of(
            OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.SET_DATA, OpCode.RECONFIG, OpCode.SET_ACL,
            OpCode.CREATE_SESSION, OpCode.ERROR,
        )  # fmt: skip
        rows.number[others] = self._integers(others, ">i4")
        rows.owner[self._of(OpCode.CREATE_CONTAINER)] = CONTAINER_OWNER
        lasting = self._of(OpCode.CREATE_TTL)
        ttls = self._integers(lasting, ">i8")
        self.odd[lasting] |= (ttls <= 0) | (ttls > TTL_MS_MAX)
        rows.owner[lasting] = ttls + (ttl_owner(1) - 1)

    def _digests(self) -> None:
        """Check what follows the body: nothing, or the digest of the tree."""
        left = self.end - self.at
        with_digest = np.flatnonzero((left == _DIGEST_BYTES) & ~self.odd)
        self.odd |= (left != 0) & (left != _DIGEST_BYTES)
        self.odd[with_digest] |= self._integers(with_digest, ">i4") != DIGEST_VERSION

    def _one_by_one(self) -> dict[int, str]:
        wrong: dict[int, str] = {}
        block, data = self.block, self.block.data
        for row in np.flatnonzero(self.odd).tolist():
            start = int(block.at[row]) + FRAME_BYTES
            payload = data[start : start + int(block.length[row])]
            try:
                self._put(row, start, payload, decode_payload(payload, "", block.base + start).txn)
            except ZooKeeperFileError as error:
                wrong[row] = error.reason
        return wrong

    def _put(self, row: int, start: int, payload: bytes, txn: Txn) -> None:
        """Take over one transaction that was decoded by itself."""
        rows = self.rows
        rows.number[row] = txn.number
        for bounds in (rows.path, rows.value):
            bounds[0][row] = bounds[1][row] = start + _HEAD.itemsize
        rows.has_value[row] = False
        rows.acl_codes[row] = 0
        if txn.type == OpCode.MULTI:
            rows.multis[row] = txn.rest
        elif txn.type == OpCode.CLOSE_SESSION:
            rows.closed[row] = None if txn.rest is None else [path.decode() for path in txn.rest]
        elif txn.path:
            self._put_fields(row, start, txn)

    def _put_fields(self, row: int, start: int, txn: Txn) -> None:
        rows = self.rows
        path_at = start + _HEAD.itemsize + 4
        rows.path[0][row], rows.path[1][row] = path_at, path_at + len(txn.path)
        value_at = path_at + len(txn.path) + 4
        if txn.data is not None:
            rows.has_value[row] = True
            rows.value[0][row], rows.value[1][row] = value_at, value_at + len(txn.data)
        else:
            rows.value[0][row] = rows.value[1][row] = path_at + len(txn.path)
        if txn.type in _CREATES or txn.type == OpCode.SET_ACL:
            rows.acl_codes[row] = len(rows.acls)
            rows.acls.append(acl_text(txn.rest[0]))
        if txn.type in _CREATES:
            rows.owner[row] = txn.rest[1]


def _is_text(value: Any) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
