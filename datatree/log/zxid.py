"""A zxid orders every transaction of an ensemble: 64 bits, the epoch in the high half, a counter in the low half.

The counter of the first transaction of an epoch is 1. A zxid with counter 0 stands for the NEWLEADER of its epoch and
is never logged; 0 itself is the state before any transaction. Zxids are plain integers and compare as such.
"""

COUNTER_BITS = 32
COUNTER_MAX = 0xFFFFFFFF

EPOCH_MAX = 0x7FFFFFFF
"""The largest epoch: zxids are signed 64-bit numbers on the wire to clients."""


def make_zxid(epoch: int, counter: int) -> int:
    """The zxid of one counter of one epoch."""
    assert 0 <= epoch <= EPOCH_MAX, epoch
    assert 0 <= counter <= COUNTER_MAX, counter
    return epoch << COUNTER_BITS | counter


def epoch_of(zxid: int) -> int:
    """The epoch in which a zxid was proposed."""
    return zxid >> COUNTER_BITS


def counter_of(zxid: int) -> int:
    """The place of a zxid within its epoch."""
    return zxid & COUNTER_MAX
