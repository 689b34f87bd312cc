"""What a log reader reports: bytes that it cannot read, and zxids that do not follow each other. It reads on."""

from typing import Final, Literal, TypeAlias

import numpy as np
from attrs import define, frozen

from zab.pipeline.decoding.arrays import Integers, Mask

__all__ = ["DAMAGED", "FOREIGN", "GAP", "TORN", "UNREADABLE", "Damage", "Kind", "Order"]

Kind: TypeAlias = Literal["torn", "damaged", "gap", "foreign", "unreadable"]

TORN: Final = "torn"
"""The end of a log that was being written: none of it was ever acknowledged."""
DAMAGED: Final = "damaged"
"""Bytes that were durable once and have changed since."""
GAP: Final = "gap"
"""At this offset transactions are missing, or come in the wrong order."""
FOREIGN: Final = "foreign"
"""The file belongs to a different history from that of its directory."""
UNREADABLE: Final = "unreadable"
"""The file as a whole cannot be read."""


@frozen
class Damage:
    """A damaged stretch of one file. Reading goes on at `end`; None if nothing after `offset` can be read."""

    offset: int
    end: int | None
    kind: Kind
    reason: str


_COUNTER: Final = 0xFFFF_FFFF


@define
class Order:
    """Checks that each zxid follows the one before it: it is the next one, or the first of a later epoch. `last` is
    the latest zxid seen; None if it is not known."""

    last: int | None

    def check(self, firsts: Integers, lasts: Integers, starts: Integers, ends: Integers) -> tuple[Mask, list[Damage]]:
        """Say which of these ranges of zxids rise above the ones before them, and report the others, and gaps, as
        damage. There is at least one range; `starts` and `ends` are their offsets in the file."""
        before = np.maximum.accumulate(np.concatenate((np.array([self.last or 0]), lasts[:-1])))
        follows = np.where(firsts >> 32 == before >> 32, firsts == before + 1, firsts & _COUNTER == 1)
        rises = firsts > before
        follows[0] |= self.last is None
        damage: list[Damage] = []
        for number in np.flatnonzero(rises & ~follows).tolist():
            offset, first, last = int(starts[number]), int(firsts[number]), int(before[number])
            damage.append(Damage(offset, offset, GAP, f"the log goes on at zxid {first:#x} after {last:#x}"))
        # Consecutive ones are reported as one stretch.
        late = np.flatnonzero(np.diff(~rises, prepend=False, append=False)).tolist()
        for begin, stop in zip(late[0::2], late[1::2], strict=True):
            first, upto, last = int(firsts[begin]), int(lasts[stop - 1]), int(before[begin])
            reason = f"zxids {first:#x} to {upto:#x} come after {last:#x}"
            damage.append(Damage(int(starts[begin]), int(ends[stop - 1]), DAMAGED, reason))
        self.last = int(max(before[-1], lasts[-1]))
        return rises, damage
