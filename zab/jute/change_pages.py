"""The body of a reply to getChanges: one page of the change feed. This project's extension, not ZooKeeper's.

Format, in jute's types:

    page    status int, oldest long, zxid long, part int, history_id buffer, changes vector<change>
    change  zxid long, part int, time long (ms since 1970), session long, kind int, path string, data buffer,
            version int, owner long

Kind, part, version and owner are those of `datatree.txn_changes`. The page's (zxid, part) is the position to ask for
next: every change up to it is in this page or an earlier one, or this client may not see it. `history_id` names the
history that the position belongs to.

    status  0 GIVEN      the changes after the position asked for, as many as fit
            1 OLDER      the position is older than this server's history; `oldest` is the first that it can serve,
                         and 0 in every other page
            2 BEYOND     the position is after `zxid`, the last transaction that this server has applied
            3 ELSEWHERE  the position is in no history of this server: another id, or a zxid that does not exist

Unless the status is GIVEN, `changes` is empty.

Not here: which changes a page has (`zab.member.requests.change_feed`).
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

from attrs import define

from datatree.jute import NULL, JuteError, Reader
from datatree.txn_changes import ACL_CHANGED, CREATED, DATA_CHANGED, DELETED, Change

__all__ = ["ChangePage", "PageStatus", "Row", "change_bytes", "page_body", "read_page"]

# zxid, part, time, session, kind, path, data, version, owner.
Row: TypeAlias = tuple[int, int, int, int, int, bytes, bytes | None, int, int]

_PAGE: Final = Struct(">iqqi")
_HEAD: Final = Struct(">qiqqii")
_TAIL: Final = Struct(">iq")
_INT: Final = Struct(">i")
_KINDS: Final = frozenset({CREATED, DELETED, DATA_CHANGED, ACL_CHANGED})
# A change with an empty path and null data.
_ROW_BYTES_MIN: Final = _HEAD.size + len(NULL) + _TAIL.size


class PageStatus(IntEnum):
    GIVEN = 0
    OLDER = 1
    BEYOND = 2
    ELSEWHERE = 3


@define
class ChangePage:
    status: PageStatus
    oldest: int
    zxid: int
    part: int
    history_id: bytes
    rows: list[Row]


def change_bytes(zxid: int, time: int, session: int, change: Change) -> bytes:
    """Encode one change of a page."""
    kind, part, path, data, version, owner = change
    head = _HEAD.pack(zxid, part, time, session, kind, len(path))
    tail = _TAIL.pack(version, owner)
    if data is None:
        return b"".join((head, path, NULL, tail))
    return b"".join((head, path, _INT.pack(len(data)), data, tail))


def page_body(
    status: PageStatus, oldest: int, zxid: int, part: int, history_id: bytes, changes: Sequence[bytes] = ()
) -> bytes:
    """Encode a page from changes that `change_bytes` encoded."""
    head = _PAGE.pack(status, oldest, zxid, part)
    return b"".join((head, _INT.pack(len(history_id)), history_id, _INT.pack(len(changes)), *changes))


def read_page(reader: Reader) -> ChangePage:
    """Raises JuteError."""
    status, oldest, zxid, part = reader.int(), reader.long(), reader.long(), reader.int()
    history_id = reader.buffer() or b""
    rows = reader.vector(_row, item_bytes_min=_ROW_BYTES_MIN) or []
    if status not in PageStatus.__members__.values():
        raise JuteError(f"a page of changes with status {status}")
    return ChangePage(PageStatus(status), oldest, zxid, part, history_id, rows)


def _row(reader: Reader) -> Row:
    # Few calls, because a page has thousands of these.
    zxid, part, time, session, kind, path_length = _HEAD.unpack(reader.raw(_HEAD.size))
    if path_length < 0 or kind not in _KINDS:
        raise JuteError(f"a change of kind {kind} with a path of length {path_length}, before offset {reader.offset}")
    path, data = reader.raw(path_length), reader.buffer()
    return zxid, part, time, session, kind, path, data, *_TAIL.unpack(reader.raw(_TAIL.size))
