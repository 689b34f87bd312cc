"""Decodes batches of a native log into columns of transactions, all records of a block at once.

The records have their fixed part at fixed offsets (`datatree.record`), so their heads are copied side by side and
become one array with fields. What has no fixed layout (ACLs other than the open one, the paths of a closeSession, the
code of a refused operation) is decoded once for each distinct value; multis are decoded one by one.

Invariant: a record that `datatree.record` refuses does not become a row. A batch with one malformed record is left out
as a whole and reported. Since its checksums are right, a faulty or hostile leader wrote it.
"""

from typing import Any, Final

import numpy as np
from attrs import define

from datatree.log.batch import HEADER_BYTES
from datatree.opcodes import Effect, OpCode, types_with
from datatree.record import PATH_AT, RecordError, Txn, decode, decode_all
from zab.pipeline.decoding.acl_text import OPEN_ACL_TEXT, acl_text
from zab.pipeline.decoding.arrays import Integers, Mask, gather, integers, text_or_none, walk
from zab.pipeline.decoding.damage import DAMAGED, Damage
from zab.pipeline.decoding.native_log import Block
from zab.pipeline.decoding.slices import slices
from zab.pipeline.decoding.transactions import TIME_MS_MAX, Transactions

__all__ = ["decode_block"]

_HEAD: Final = np.dtype(
    [
        ("mark", "u1"), ("length", ">u4"), ("array", ">u2"), ("zxid", ">i8"), ("time_head", "u1"), ("time", ">i8"),
        ("session_head", "u1"), ("session", ">i8"), ("cxid_head", "u1"), ("cxid", ">i4"), ("type_head", "u1"),
        ("type", "i1"), ("number_head", "u1"), ("number", ">i4"), ("path_head", "u1"), ("path_length", ">u4"),
    ]
)  # fmt: skip
_NEGATIVE: Final = 0x20
_BYTES, _NULL, _PAIR, _SINGLE, _LONG = 0x5A, 0xF6, 0x82, 0x81, 0x1B
_OWNER_BYTES: Final = 9
_OVERHEAD: Final = 5

_UNKNOWN, _PLAIN, _CREATE, _SET_ACL, _OTHER = range(5)
_KINDS: Final = np.zeros(256, dtype=np.uint8)
for _types, _kind in (
    (types_with(Effect.OWN), _OTHER),
    ({OpCode.CREATE_SESSION}, _PLAIN),
    (types_with(Effect.DELETE, Effect.SET_DATA, Effect.NOTHING), _PLAIN),
    (types_with(Effect.CREATE), _CREATE),
    (types_with(Effect.SET_ACL), _SET_ACL),
):
    for _type in _types:
        _KINDS[_type & 0xFF] = _kind

assert _HEAD.itemsize == PATH_AT


def decode_block(block: Block) -> tuple[Transactions, list[Damage]]:
    """The transactions of the block's batches, and the malformed batches, which are left out."""
    bad: list[Damage] = []
    while True:
        rows, numbers = _decode(block)
        if rows is not None:
            return rows, bad
        bad += [_bad_batch(block, number) for number in numbers.tolist()]
        keep = np.ones(len(block), dtype=np.bool_)
        keep[numbers] = False
        block = block.only(keep)


def _bad_batch(block: Block, number: int) -> Damage:
    """Decode the batch with the reader that says what is wrong with it."""
    start, length = int(block.at[number]) + HEADER_BYTES, int(block.length[number])
    body = block.data[start : start + length]
    reason = "a time beyond the year 9999"
    try:
        decode_all(body, int(block.first[number]), int(block.count[number]))
    except RecordError as error:
        reason = str(error)
    offset = block.base + int(block.at[number])
    return Damage(offset, block.base + start + length, DAMAGED, f"a batch holds no transactions: {reason}")


def _records(block: Block) -> tuple[Integers, Integers, Integers]:
    """(offset of each record, number of its batch, numbers of the batches that are not made of their records)."""
    starts = block.at + HEADER_BYTES
    ends = starts + block.length
    at, batches, stops = walk(block.data, starts, ends, 1, _OVERHEAD)
    wrong = (stops != ends) | (np.bincount(batches, minlength=len(starts)) != block.count)
    return at, batches, np.flatnonzero(wrong)


def _decode(block: Block) -> tuple[Transactions | None, Integers]:
    at, batches, wrong = _records(block)
    if len(wrong):
        return None, wrong
    data = block.data
    short = at + PATH_AT > len(data)
    if short.any():
        return None, np.unique(batches[short])
    head = gather(data, at, f"V{PATH_AT}").view(_HEAD)
    end = at + _OVERHEAD + head["length"]
    bad = (end - at) < PATH_AT + 2
    if bad.any():
        return None, np.unique(batches[bad])
    zxid = head["zxid"].astype(np.int64)
    # The first zxid of each batch, less the number of its first record.
    shift = block.first - (np.cumsum(block.count) - block.count)
    bad |= zxid != shift[batches] + np.arange(len(at))
    rows, rest_at = _fixed_part(data, at, end, head, zxid, bad)
    octets = np.frombuffer(data, np.uint8)
    kinds = _KINDS[rows.type & 0xFF]
    bad |= kinds == _UNKNOWN
    first = octets[np.minimum(rest_at, end - 1)]
    rest_length = end - rest_at
    bad |= (kinds == _PLAIN) & ((rest_length != 1) | (first != _NULL))
    _owners(rows, data, end, kinds == _CREATE, bad | (rest_length < 2 + _OWNER_BYTES) | (first != _PAIR), bad)
    bad |= (kinds == _SET_ACL) & (first != _SINGLE)
    texts = text_or_none(slices(data, *rows.path)) if not bad.any() else None
    if texts is None:
        bad |= _not_text(data, rows.path)
        if bad.any():
            return None, np.unique(batches[bad])
    rows.paths = texts
    rows.position = block.base + at
    rows.checksum = block.heads["body_crc"].astype(np.int64)[batches]
    _Rests(rows, at, rest_at, end, kinds, bad).decode()
    return (None, np.unique(batches[bad])) if bad.any() else (rows, wrong)


def _signed(head: Any, payload: Any, positive: int, bad: Mask) -> Integers:
    value: Integers = payload.astype(np.int64)
    is_positive: Mask = head == positive
    if value.min(initial=0) < 0:
        bad |= value < 0
    if is_positive.all():
        return value
    bad |= ~is_positive & (head != positive + _NEGATIVE)
    return np.where(is_positive, value, ~value)


def _fixed_part(
    data: bytes, at: Integers, end: Integers, head: Any, zxid: Integers, bad: Mask
) -> tuple[Transactions, Integers]:
    """Decode the fields up to the data; return them and where the rest begins. Marks malformed records in `bad`."""
    octets = np.frombuffer(data, np.uint8)
    for name, value in (("mark", _BYTES), ("array", 0x891B), ("time_head", _LONG), ("path_head", 0x7A)):
        bad |= head[name] != value
    time = head["time"].astype(np.int64)
    if time.min(initial=0) < 0 or time.max(initial=0) > TIME_MS_MAX:
        bad |= (time < 0) | (time > TIME_MS_MAX)
    path_at = at + PATH_AT
    path_end = _limited(path_at + head["path_length"], end - 2, bad)
    mark = octets[path_end]
    has_value = mark == _BYTES
    if not has_value.all():
        bad |= ~has_value & (mark != _NULL)
    # The length, if there is a value; in the last record its 4 bytes may be beyond the end.
    value_at = path_end + 1
    length = integers(data, np.minimum(value_at, len(data) - 4), ">u4")
    value_at = value_at + 4 * has_value
    value_end = value_at + length * has_value
    last = end - 1
    value_at, value_end = _limited(value_at, last, bad), _limited(value_end, last, bad)
    rows = Transactions(
        data=data,
        position=at,
        zxid=zxid,
        time_ms=time,
        session=_signed(head["session_head"], head["session"], _LONG, bad),
        cxid=_signed(head["cxid_head"], head["cxid"], 0x1A, bad),
        type=_signed(head["type_head"], head["type"], 0x18, bad),
        number=_signed(head["number_head"], head["number"], 0x1A, bad),
        path=(path_at, path_end),
        value=(value_at, value_end),
        has_value=has_value,
        owner=np.zeros(len(at), dtype=np.int64),
        checksum=zxid,
        acl_codes=np.zeros(len(at), dtype=np.int32),
    )
    return rows, value_end


def _limited(offsets: Integers, limits: Integers, bad: Mask) -> Integers:
    """The offsets, cut to their limits. Those beyond are marked in `bad`."""
    beyond = offsets > limits
    if not beyond.any():
        return offsets
    bad |= beyond
    return np.minimum(offsets, limits)


def _owners(rows: Transactions, data: bytes, end: Integers, is_create: Mask, wrong: Mask, bad: Mask) -> None:
    """Decode the owners of creates: the last field of each."""
    bad |= is_create & wrong
    which = np.flatnonzero(is_create & ~wrong)
    if not len(which):
        return
    at = end[which] - _OWNER_BYTES
    wrong_owner = np.zeros(len(which), dtype=np.bool_)
    rows.owner[which] = _signed(gather(data, at, "u1"), integers(data, at + 1, ">i8"), _LONG, wrong_owner)
    bad[which] |= wrong_owner


def _not_text(data: bytes, path: tuple[Integers, Integers]) -> Mask:
    """Which paths are not UTF-8."""
    found = slices(data, *path)
    wrong = np.zeros(len(found), dtype=np.bool_)
    for number, value in enumerate(found.to_pylist()):
        try:
            value.decode()
        except UnicodeDecodeError:
            wrong[number] = True
    return wrong


@define(eq=False)
class _Rests:
    """Decodes what follows the data, where that is more than a null or an owner."""

    rows: Transactions
    at: Integers
    rest_at: Integers
    end: Integers
    kinds: Any
    bad: Mask

    def decode(self) -> None:
        """Fill in ACLs, closed ephemerals and multis; mark malformed records in `bad`."""
        rows = self.rows
        self._acls()
        for row in np.flatnonzero(rows.type == OpCode.MULTI).tolist():
            txn = self._txn(row)
            if txn is None:
                self.bad[row] = True
            else:
                rows.multis[row] = txn.rest
        is_closed = rows.type == OpCode.CLOSE_SESSION
        which = np.flatnonzero(is_closed | (rows.type == OpCode.ERROR))
        for members, txn in self._distinct(which, self.rest_at[which], self.end[which]):
            if txn is None:
                self.bad[members] = True
            elif txn.type == OpCode.CLOSE_SESSION:
                deleted = [path.decode() for path in txn.rest]
                rows.closed.update((row, deleted) for row in members.tolist())

    def _acls(self) -> None:
        rows, data = self.rows, self.rows.data
        is_create, is_set = self.kinds == _CREATE, self.kinds == _SET_ACL
        start = self.rest_at + 1
        end = np.where(is_create, self.end - _OWNER_BYTES, self.end)
        with_acl = np.flatnonzero(is_create | is_set)
        is_short = end[with_acl] - start[with_acl] == 1
        is_open = is_short & (gather(data, np.minimum(start[with_acl], len(data) - 1), "u1") == _NULL)
        rows.acls.append(OPEN_ACL_TEXT)
        rows.acl_codes[with_acl[is_open]] = 1
        which = with_acl[~is_open]
        for members, txn in self._distinct(which, start[which], end[which]):
            if txn is None or txn.rest is None:
                self.bad[members] = True
                continue
            rows.acl_codes[members] = len(rows.acls)
            rows.acls.append(acl_text(txn.rest[0]))

    def _distinct(self, which: Integers, starts: Integers, ends: Integers) -> list[tuple[Integers, Txn | None]]:
        """Group the rows of `which` by type and the bytes of their slice; decode one transaction of each group."""
        if not len(which):
            return []
        kinds = self.rows.type[which].astype(np.int64)
        coded = slices(self.rows.data, starts, np.maximum(starts, ends)).dictionary_encode()
        codes = coded.indices.to_numpy().astype(np.int64) << 8 | kinds & 0xFF
        order = np.argsort(codes, kind="stable")
        cuts = np.flatnonzero(np.diff(codes[order])) + 1
        groups = np.split(which[order], cuts)
        return [(members, self._txn(int(members[0]))) for members in groups]

    def _txn(self, row: int) -> Txn | None:
        start, end = int(self.at[row]), int(self.end[row])
        try:
            return decode(self.rows.data[start:end])[0]
        except RecordError:
            return None
