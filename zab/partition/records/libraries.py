"""The two libraries of the extra `zab[broker]`, loaded when they are first needed.

    crc32c    CRC-32C (Castagnoli) on any buffer, by the processor's instruction (`zab.wire.checksums`)
    cramjam   gzip, snappy, lz4, zstd

cramjam before 2.14 is refused: it reads only the first of several lz4 frames, and it decompresses gzip into memory of
any size before it looks at the buffer that it was given.
"""

from functools import cache
from types import ModuleType
from typing import Final

from zab.wire import checksums
from zab.wire.checksums import Crc32c, MissingLibraryError

__all__ = ["MissingLibraryError", "cramjam", "crc32c", "is_crc_in_hardware"]

_EXTRA: Final = "broker"
_CRAMJAM_VERSION_MIN: Final = (2, 14)


def crc32c() -> Crc32c:
    """The function that computes CRC-32C of a buffer. Raises MissingLibraryError."""
    return checksums.crc32c(_EXTRA)


def is_crc_in_hardware() -> bool:
    """Whether the processor computes CRC-32C itself. Raises MissingLibraryError."""
    return checksums.is_crc_in_hardware(_EXTRA)


@cache
def cramjam() -> ModuleType:
    """The module of codecs. Raises MissingLibraryError."""
    try:
        import cramjam
    except ImportError:
        raise MissingLibraryError("cramjam", _EXTRA) from None
    version = tuple(map(int, cramjam.__version__.split(".")[:2]))
    if version < _CRAMJAM_VERSION_MIN:
        raise MissingLibraryError("cramjam", _EXTRA, f"{cramjam.__version__} is too old")
    return cramjam
