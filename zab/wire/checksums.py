"""CRC-32C (Castagnoli), by a library that is loaded when it is first needed: what extra it comes with, the caller says.

    crc32c(extra) -> the function, of a buffer and of the checksum of what came before it

A checksum that is computed incorrectly would make a service write what nobody accepts, so the function is tried on a
known value first. Without the processor's instruction (SSE 4.2, or CRC32 of ARMv8) it is correct, and nine times
slower: `is_crc_in_hardware` lets a service say so.
"""

from functools import cache
from types import ModuleType
from typing import Final, Protocol, TypeAlias

__all__ = ["Crc32c", "MissingLibraryError", "crc32c", "is_crc_in_hardware"]

Buffer: TypeAlias = bytes | bytearray | memoryview

_CHECKED: Final = b"123456789"
_CHECK: Final = 0xE306_9283
"""The check value of CRC-32C in the catalogue of parametrised CRC algorithms."""


class Crc32c(Protocol):
    """`before`: the checksum of the bytes before these."""

    def __call__(self, data: Buffer, before: int = 0, /) -> int: ...


class MissingLibraryError(ImportError):
    """A library is not installed, or too old; the text says what to install."""

    def __init__(self, name: str, extra: str, why: str = "is not installed") -> None:
        super().__init__(f"{name} {why}: pip install 'zab[{extra}]'", name=name)


@cache
def crc32c(extra: str) -> Crc32c:
    """The function that computes CRC-32C. Raises MissingLibraryError, which names this extra."""
    function: Crc32c = _module(extra).crc32c
    found = function(_CHECKED)
    if found != _CHECK:
        raise RuntimeError(f"crc32c computes {found:08x} for {_CHECKED!r} instead of {_CHECK:08x}: reinstall it")
    return function


def is_crc_in_hardware(extra: str) -> bool:
    """Whether the processor computes CRC-32C itself. Raises MissingLibraryError, which names this extra."""
    return bool(_module(extra).hardware_based)


def _module(extra: str) -> ModuleType:
    try:
        import crc32c
    except ImportError:
        raise MissingLibraryError("crc32c", extra) from None
    return crc32c
