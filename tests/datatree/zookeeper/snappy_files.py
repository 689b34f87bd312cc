"""Files compressed as ZooKeeper does it with snappy."""

import struct

import cramjam

HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def snapped(data: bytes, block_bytes: int = 32 << 10) -> bytes:
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[at : at + block_bytes])) for at in range(0, len(data), block_bytes)
    ]
    return HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
