"""A part of a file that is to be sent as it is: a piece of a connection's output beside bytes.

The bytes never pass through Python where the kernel can copy them to the socket (`zab.host.loop.sliced_queue`).
"""

import attrs


@attrs.frozen
class FileSlice:
    """`length` bytes from `position` of the file at `path`, which is relative to the directory of a `Disk`. They are in
    the file, and no longer change."""

    path: str
    position: int
    length: int

    def __len__(self) -> int:
        return self.length
