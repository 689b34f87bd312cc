"""Quotas: limits that clients set on subtrees, and the sums that are compared with them.

A quota on /a/b consists of two ordinary znodes, /zookeeper/quota/a/b/zookeeper_limits, whose text a client writes, and
/zookeeper/quota/a/b/zookeeper_stats, whose text shows the sums. The text, as ZooKeeper's command line writes it:

    count=5,bytes=1000                                          soft limits: exceeding them is not refused
    count=5,bytes=1000=;byteHardLimit=2000;countHardLimit=10    hard limits

It is read as parts between runs of "," and ";", each key=value, with an optional "=" after it. What is missing, empty
or not a number is -1, unlimited. The count covers the znode at the path and all below it, the bytes are the lengths of
their data.

Invariants: every member derives the sums from the znodes; they are not separate state: the stored data of a
zookeeper_stats znode is empty, a client's write to it only changes its stat, and reading it renders the sums. The sums
of a quota cover its whole subtree, including nested quotas; only the limits of the deepest quota above a path are
enforced. A quota on "/" is ignored.

Deliberately not here: how the sums are made (`datatree.quota_sums`), and when limits are enforced (`datatree.prepare`).
"""

import re
from typing import Final

from attrs import define, frozen

from datatree.paths import QUOTA

__all__ = ["Limits", "Quota", "is_limits", "is_stats", "quota_path", "render"]

_PREFIX: Final = QUOTA + b"/"
_LIMITS: Final = b"/zookeeper_limits"
_STATS: Final = b"/zookeeper_stats"


@frozen
class Limits:
    """Soft and hard limits of one quota; -1 is unlimited."""

    count: int = -1
    total_bytes: int = -1
    count_hard: int = -1
    total_bytes_hard: int = -1

    @classmethod
    def parse(cls, text: bytes) -> "Limits":
        """The limits in `text`; what does not parse is unlimited."""
        values: dict[bytes, int] = {}
        for part in re.split(rb"[,;]+", text):
            key, _, value = part.partition(b"=")
            if number := re.fullmatch(rb"\s*(-?[0-9]{1,19})=?\s*", value):
                values[key.strip()] = int(number[1])
        return cls(
            values.get(b"count", -1),
            values.get(b"bytes", -1),
            values.get(b"countHardLimit", -1),
            values.get(b"byteHardLimit", -1),
        )


@define
class Quota:
    """The sums of the subtree at `path`. `limits` is None without a zookeeper_limits znode; `shown` says whether there
    is a zookeeper_stats znode. At least one of the two exists."""

    path: bytes
    count: int = 0
    total_bytes: int = 0
    limits: Limits | None = None
    shown: bool = False
    is_counted: bool = False
    """The sums cover the whole subtree (`datatree.quota_sums`)."""

    def text(self) -> bytes:
        """What a read of zookeeper_stats shows."""
        return render(self.count, self.total_bytes) if self.is_counted else render(-1, -1)


def render(count: int, total_bytes: int) -> bytes:
    """The text of zookeeper_stats."""
    return b"count=%d,bytes=%d" % (count, total_bytes)


def is_limits(path: bytes) -> bool:
    """Whether `path` is the znode with the limits of some quota."""
    return path.startswith(_PREFIX) and path.endswith(_LIMITS) and len(path) > len(QUOTA + _LIMITS)


def is_stats(path: bytes) -> bool:
    """Whether `path` is the znode that shows the sums of some quota."""
    return path.startswith(_PREFIX) and path.endswith(_STATS) and len(path) > len(QUOTA + _STATS)


def quota_path(path: bytes) -> bytes:
    """The path of the quota to which the limits or stats znode `path` belongs."""
    return path[len(QUOTA) : path.rindex(b"/")]
