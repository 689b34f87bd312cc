"""The two libraries of the extra `zab[broker]`, loaded when they are first needed.

    crc32c    CRC-32C (Castagnoli) on any buffer, by the processor's instruction
    cramjam   gzip, snappy, lz4, zstd

A checksum that is computed incorrectly would make a broker write batches that nobody accepts, so the function is tried
on a known value first. Without the instruction (SSE 4.2, or CRC32 of ARMv8) it is correct, and nine times slower:
`is_crc_in_hardware` lets a broker say so.

cramjam before 2.14 is refused: it reads only the first of several lz4 frames, and it decompresses gzip into memory of
any size before it looks at the buffer that it was given.
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Final

__all__ = ["MissingLibraryError", "cramjam", "crc32c", "is_crc_in_hardware"]

_CHECKED: Final = b"123456789"
_CHECK: Final = 0xE306_9283
"""The check value of CRC-32C in the catalogue of parametrised CRC algorithms."""


_CRAMJAM_VERSION_MIN: Final = (2, 14)


class MissingLibraryError(ImportError):
    """A library is not installed, or too old; the text says what to install."""

    def __init__(self, name: str, why: str = "is not installed") -> None:
        super().__init__(f"{name} {why}: pip install 'zab[broker]'", name=name)


@cache
def crc32c() -> Callable[[bytes | bytearray | memoryview], int]:
    """The function that computes CRC-32C of a buffer. Raises MissingLibraryError."""
    function: Callable[[bytes | bytearray | memoryview], int] = _crc32c_module().crc32c
    found = function(_CHECKED)
    if found != _CHECK:
        raise RuntimeError(f"crc32c computes {found:08x} for {_CHECKED!r} instead of {_CHECK:08x}: reinstall it")
    return function


def is_crc_in_hardware() -> bool:
    """Whether the processor computes CRC-32C itself. Raises MissingLibraryError."""
    return bool(_crc32c_module().hardware_based)


def _crc32c_module() -> ModuleType:
    try:
        import crc32c
    except ImportError:
        raise MissingLibraryError("crc32c") from None
    return crc32c


@cache
def cramjam() -> ModuleType:
    """The module of codecs. Raises MissingLibraryError."""
    try:
        import cramjam
    except ImportError:
        raise MissingLibraryError("cramjam") from None
    version = tuple(map(int, cramjam.__version__.split(".")[:2]))
    if version < _CRAMJAM_VERSION_MIN:
        raise MissingLibraryError("cramjam", f"{cramjam.__version__} is too old")
    return cramjam
