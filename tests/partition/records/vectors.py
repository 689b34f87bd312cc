"""Batches made with an independent encoder and read back by kafka-python."""

from typing import Final

ONE_RECORD: Final = bytes.fromhex(
    "000000000000000000000043ffffffff029973141f0000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000122000000026b0a68656c6c6f020268046876"
)
"""79 bytes: offset 0, no epoch, key "k", value "hello", header h = "hv", timestamp 1,700,000,000,000."""

COMMIT_MARKER: Final = bytes.fromhex(
    "0000000000000005000000420000000202d9312b3e0030000000000000018bcfe568000000018bcfe56800"
    "00000000000000070000ffffffff000000012000000008000000010c00000000000300"
)
"""78 bytes: offset 5, epoch 2, commits the transaction of producer 7, epoch 0; coordinator epoch 3."""
