"""The messages that the protocol carries between members and does not read: of sessions, requests and trees.

They are encoded like the protocol's own, and have a place in the same order on a link (`zab.protocol.message`); the
peer hands them to the member (`zab.protocol.effects.MemberMessage`).
"""

from struct import Struct
from typing import Any, ClassVar

import attrs

from datatree.log.zxid import Zxid
from zab.protocol.fields import (
    CHAIN,
    DIGEST,
    IDENTITIES,
    ZXID,
)
from zab.protocol.frame_limits import FRAME_BYTES_MAX
from zab.wire.records import (
    COUNT,
    INT32,
    INT64,
    checked,
    is_bool,
    is_bytes,
    is_list_of,
    is_row,
)

WRITE_HEAD = Struct(">qii")
"""Precedes the body of a forwarded write: session id, cxid, opcode."""


@attrs.define
class Request:
    """The writes of a learner's clients in one turn, in order.

    Each row has the identities of a connection, as pairs of scheme and id, and successive writes with these identities.
    A write is its `WRITE_HEAD` and its body.
    """

    TYPE: ClassVar[int] = 1
    rows: list[list[Any]] = checked(is_list_of(is_row(IDENTITIES, is_list_of(is_bytes(16, FRAME_BYTES_MAX)))))


@attrs.define
class Revalidate:
    """A client has brought a session to this learner: is it alive, and do I own it now? The tag names the
    connection."""

    TYPE: ClassVar[int] = 6
    tag: int = checked(COUNT)
    session: int = checked(INT64)
    timeout_ms: int = checked(INT32)


@attrs.define
class Revalidated:
    """The leader's verdict on the `Revalidate` with this tag. Requests through older connections of that session were
    proposed up to this zxid, although the learner may get them later, as in a renewal."""

    TYPE: ClassVar[int] = 24
    tag: int = checked(COUNT)
    valid: bool = checked(is_bool)
    fence: Zxid = checked(ZXID)


@attrs.define
class Sync:
    """Clients of this learner asked for `sync`; the tag names the position in its queues."""

    TYPE: ClassVar[int] = 7
    tag: int = checked(COUNT)


@attrs.define
class Synced:
    """A quorum still follows the leader; the sync is done when you have applied `zxid`."""

    TYPE: ClassVar[int] = 25
    tag: int = checked(COUNT)
    zxid: Zxid = checked(ZXID)


@attrs.define
class Compare:
    """What is the digest of your tree at this batch end? With `replay`, use a tree rebuilt from your own files."""

    TYPE: ClassVar[int] = 28
    zxid: Zxid = checked(ZXID)
    replay: bool = checked(is_bool)


@attrs.define
class Suspect:
    """A batch has a different digest for this batch end than my tree: I serve no clients until I know who is right."""

    TYPE: ClassVar[int] = 31
    zxid: Zxid = checked(ZXID)
    digest: int = checked(DIGEST)


@attrs.define
class Compared:
    """The digest of my tree at this batch end; with `replay`, of a rebuilt one."""

    TYPE: ClassVar[int] = 29
    zxid: Zxid = checked(ZXID)
    digest: int = checked(DIGEST)
    known: bool = checked(is_bool)
    """False if the digest does not count: my tree is known to be wrong, or, with digest 0, I do not know."""
    replay: bool = checked(is_bool)


@attrs.define
class Verdict:
    """A quorum of voters has this digest at this batch end: every other tree is wrong (E6 wrong trees)."""

    TYPE: ClassVar[int] = 30
    zxid: Zxid = checked(ZXID)
    digest: int = checked(DIGEST)


@attrs.define
class TreeWanted:
    """My tree is wrong, and my files do not yield a right one: which snapshot do you have above this zxid?"""

    TYPE: ClassVar[int] = 32
    above: Zxid = checked(ZXID)


@attrs.define
class TreeOffered:
    """This one: fetch it. Your log continues it."""

    TYPE: ClassVar[int] = 33
    zxid: Zxid = checked(ZXID)
    chain: bytes = checked(CHAIN)
