"""A zxid orders every transaction of an ensemble: 64 bits, the epoch in the high half, a counter in the low half.

The counter of the first transaction of an epoch is 1. A zxid with counter 0 stands for the NEWLEADER of its epoch and
is never logged; 0 itself is the state before any transaction. Zxids are plain integers and compare as such.

`Zxid` and `Epoch` only exist for the type checker. Calling one costs as much as any call, so code that runs for each
write does not: functions that compute a zxid or an epoch are here, and are annotated with what they return.
"""

from typing import Final, NewType

Zxid = NewType("Zxid", int)
Epoch = NewType("Epoch", int)

COUNTER_BITS = 32
COUNTER_MAX = 0xFFFFFFFF

EPOCH_MAX = 0x7FFFFFFF
"""The largest epoch: zxids are signed 64-bit numbers on the wire to clients."""

BEFORE_ALL: Final = Zxid(0)
"""The state before any transaction."""


def make_zxid(epoch: int, counter: int) -> Zxid:
    """The zxid of one counter of one epoch."""
    assert 0 <= epoch <= EPOCH_MAX, epoch
    assert 0 <= counter <= COUNTER_MAX, counter
    return epoch << COUNTER_BITS | counter  # type: ignore[return-value]


def epoch_of(zxid: int) -> Epoch:
    """The epoch in which a zxid was proposed."""
    return zxid >> COUNTER_BITS  # type: ignore[return-value]


def counter_of(zxid: int) -> int:
    """The position of a zxid within its epoch."""
    return zxid & COUNTER_MAX


def next_zxid(last: Zxid, epoch: Epoch) -> Zxid:
    """The zxid that the leader of an epoch proposes after `last`: the next counter, or the first one of its epoch."""
    if last >> COUNTER_BITS == epoch:
        return last + 1  # type: ignore[return-value]
    return make_zxid(epoch, 1)


def end_of(first: Zxid, count: int) -> Zxid:
    """The last zxid of so many transactions."""
    return first + count - 1  # type: ignore[return-value]


def just_below(zxid: Zxid) -> Zxid:
    """The largest number below a zxid, whether or not a transaction has it."""
    return zxid - 1  # type: ignore[return-value]


def next_epoch(*accepted: Epoch) -> Epoch:
    """The epoch after all of these."""
    return 1 + max(accepted)  # type: ignore[return-value]
