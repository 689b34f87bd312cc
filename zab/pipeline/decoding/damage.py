"""What a log reader says of bytes that it cannot read, and of zxids that do not follow each other.

It reads on after them.
"""

from typing import Final, Literal, TypeAlias

import numpy as np
from attrs import define, frozen

from zab.pipeline.decoding.arrays import Integers, Mask

__all__ = ["DAMAGED", "FOREIGN", "GAP", "TORN", "UNREADABLE", "Damage", "Kind", "Order"]

Kind: TypeAlias = Literal["torn", "damaged", "gap", "foreign", "unreadable"]

TORN: Final = "torn"
"""The end of a log that was being written: nothing of it was ever promised."""
DAMAGED: Final = "damaged"
"""Bytes that were durable once and are not what they were."""
GAP: Final = "gap"
"""Transactions are missing between what is before the offset and what is after it, or come in the wrong order."""
FOREIGN: Final = "foreign"
"""The file is of another history than the directory."""
UNREADABLE: Final = "unreadable"
"""The file as a whole cannot be read."""


@frozen
class Damage:
    """A stretch of one file. `end` is where reading goes on; None when nothing after `offset` can be read."""

    offset: int
    end: int | None
    kind: Kind
    reason: str


_COUNTER: Final = 0xFFFF_FFFF


@define
class Order:
    """Checks that zxids follow each other: the next one, or the first of a later epoch. `last` is the one that came
    last; None when it is not known."""

    last: int | None

    def check(self, firsts: Integers, lasts: Integers, starts: Integers, ends: Integers) -> tuple[Mask, list[Damage]]:
        """Which of these ranges of zxids, at least one, rise above what came before; and the damage, which is those
        that do not, and gaps. `starts` and `ends` are their places in the file."""
        before = np.maximum.accumulate(np.concatenate((np.array([self.last or 0]), lasts[:-1])))
        follows = np.where(firsts >> 32 == before >> 32, firsts == before + 1, firsts & _COUNTER == 1)
        rises = firsts > before
        follows[0] |= self.last is None
        damage: list[Damage] = []
        for number in np.flatnonzero(rises & ~follows).tolist():
            offset, first, last = int(starts[number]), int(firsts[number]), int(before[number])
            damage.append(Damage(offset, offset, GAP, f"the log goes on at zxid {first:#x} after {last:#x}"))
        # Those that come one after the other are one stretch.
        late = np.flatnonzero(np.diff(~rises, prepend=False, append=False)).tolist()
        for begin, stop in zip(late[0::2], late[1::2], strict=True):
            first, upto, last = int(firsts[begin]), int(lasts[stop - 1]), int(before[begin])
            reason = f"zxids {first:#x} to {upto:#x} come after {last:#x}"
            damage.append(Damage(int(starts[begin]), int(ends[stop - 1]), DAMAGED, reason))
        self.last = int(max(before[-1], lasts[-1]))
        return rises, damage
