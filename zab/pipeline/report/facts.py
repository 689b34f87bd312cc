"""The facts of the report about one ensemble: small aggregates, made by Spark, shown without it.

Everything here fits into memory whatever the size of the directories: series have at most `BUCKETS_MAX` points, lists
at most `ROWS_MAX` entries. Texts are those in the data: the page escapes them, after `printable`.

Not here: how the facts are found (`collect`), drawn (`plots`) and written (`page`).
"""

import datetime
import math
import unicodedata
from typing import Final

from attrs import field, frozen

__all__ = [
    "BUCKETS_MAX",
    "KINDS",
    "ROWS_MAX",
    "EnsembleFacts",
    "Epoch",
    "Health",
    "Histogram",
    "HotPath",
    "LockRow",
    "Locks",
    "MemberFacts",
    "Problem",
    "Scale",
    "Sessions",
    "Sizes",
    "Subtree",
    "Wave",
    "bucket_milliseconds",
    "printable",
]

BUCKETS_MAX: Final = 120
ROWS_MAX: Final = 15

KINDS: Final = ("create", "change", "delete", "session", "refused")
"""The kinds of transactions that the report distinguishes; the parts of a multi count one by one."""

_STEPS_MS: Final = (
    *(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000),
    *(60_000 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3_600_000 * hours for hours in (1, 2, 3, 6, 12)),
    *(86_400_000 * days for days in (1, 2, 7)),
)
# Controls, formats (they may change the direction of text), surrogates, private and unassigned, separators of lines.
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_JOINER: Final = "\u200d"
_AS_EMOJI: Final = "\ufe0f"


def bucket_milliseconds(since_ms: int, until_ms: int, *, count: int = BUCKETS_MAX) -> int:
    """The width of the buckets of time: a round number, with at most `count` buckets for the whole stretch."""
    for step in _STEPS_MS:
        if until_ms // step - since_ms // step < count:
            return step
    weeks = _STEPS_MS[-1]
    return weeks * math.ceil(((until_ms - since_ms) // weeks + 2) / count)


def printable(text: str, limit: int = 200) -> str:
    """`text` with all characters that are invisible or change the direction escaped, shortened in the middle. A joiner
    between two emoji is part of an emoji, and stays."""
    if len(text) > 2 * limit:
        text = text[:limit] + text[-limit:]
    seen = "".join(
        character
        if unicodedata.category(character) not in _INVISIBLE or _is_joining(text, at)
        else f"\\u{ord(character):04x}"
        for at, character in enumerate(text)
    )
    if len(seen) <= limit:
        return seen
    head = (limit - 1) // 2
    return f"{seen[:head]}…{seen[-(limit - 1 - head) :]}"


def _is_joining(text: str, at: int) -> bool:
    return (
        text[at] == _JOINER
        and 0 < at < len(text) - 1
        and all(unicodedata.category(one) == "So" or one == _AS_EMOJI for one in (text[at - 1], text[at + 1]))
    )


@frozen
class Scale:
    """Buckets of time: the first begins at `since`, each is `width_ms` long."""

    since: datetime.datetime
    width_ms: int
    count: int

    @property
    def starts(self) -> list[datetime.datetime]:
        return [self.since + datetime.timedelta(milliseconds=self.width_ms * index) for index in range(self.count + 1)]

    @property
    def until(self) -> datetime.datetime:
        return self.starts[-1]


@frozen
class Histogram:
    """`counts[i]` values lie in [edges[i], edges[i + 1])."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.counts)


@frozen
class Epoch:
    """`since` is the time of its first transaction."""

    epoch: int
    since: datetime.datetime
    first_zxid: int
    last_zxid: int
    count: int


@frozen
class Wave:
    """Sessions that expired together, and what they took with them."""

    time: datetime.datetime
    sessions: int
    ephemerals: int


@frozen
class Sessions:
    """`open_counts`: at the end of each bucket of the scale; `expired_counts`: within it. `untold`: how many were
    closed or expired without the log showing which."""

    opened: int
    closed: int
    expired: int
    open_at_end: int
    untold: int = 0
    open_counts: tuple[int, ...] = ()
    expired_counts: tuple[int, ...] = ()
    waves: tuple[Wave, ...] = ()
    median_life_ms: float | None = None


@frozen
class HotPath:
    path: str
    writes: int
    bytes: int


@frozen
class LockRow:
    """One lock or election. Times in ms; None if nothing was handed over."""

    path: str
    holds: int
    sessions: int
    median_handover_ms: float | None
    longest_handover_ms: float | None
    longest_hold_ms: float | None
    longest_wait_ms: float | None
    overlaps: int


@frozen
class Locks:
    """`handovers`: in ms, from the end of one hold to the beginning of the next by a contender that had waited."""

    rows: tuple[LockRow, ...] = ()
    lock_count: int = 0
    hold_count: int = 0
    overlap_count: int = 0
    median_handover_ms: float | None = None
    longest_handover_ms: float | None = None
    handovers: Histogram | None = None


@frozen
class Subtree:
    path: str
    znodes: int
    bytes: int


@frozen
class Sizes:
    """`values`: bytes of the values written. The rest comes from the newest snapshot; 0 and empty if there is none."""

    values: Histogram | None = None
    written_bytes: int = 0
    largest_bytes: int = 0
    largest_path: str | None = None
    snapshot_zxid: int | None = None
    znodes: int = 0
    data_bytes: int = 0
    subtrees: tuple[Subtree, ...] = ()


@frozen
class MemberFacts:
    """`coverage`: the share of the transactions in each bucket of the scale that this member's log holds; None if there
    were none."""

    member: str
    kind: str
    log_count: int
    log_bytes: int
    snapshot_count: int
    snapshot_bytes: int
    first_zxid: int | None
    last_zxid: int | None
    count: int
    coverage: tuple[float | None, ...] = ()


@frozen
class Problem:
    """One finding: `sentence` says what, the rest where. `member` is None if it concerns all members; `time` is about
    when the transaction was made, if that is known."""

    member: str | None
    kind: str
    sentence: str
    file: str | None = None
    offset: int | None = None
    zxid: int | None = None
    time: datetime.datetime | None = None


@frozen
class Health:
    """`problems` are the first ROWS_MAX of `problem_count`; `stated` are no faults. `checked` says what was checked."""

    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    stated: tuple[Problem, ...] = ()
    checked: str = ""


@frozen
class EnsembleFacts:
    """All facts of one ensemble; `writes` has for each of KINDS the counts of the scale's buckets."""

    ensemble: str
    since: datetime.datetime
    until: datetime.datetime
    first_zxid: int
    last_zxid: int
    transactions: int
    operations: int
    refused: int
    scale: Scale
    writes: dict[str, tuple[int, ...]]
    epochs: tuple[Epoch, ...]
    sessions: Sessions
    hot: tuple[HotPath, ...]
    path_count: int
    locks: Locks
    sizes: Sizes
    members: tuple[MemberFacts, ...]
    health: Health
    notes: tuple[str, ...] = field(default=())
