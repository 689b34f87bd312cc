"""The libraries of the extra: what is said when one is missing, or computes something else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from zab.partition.records import libraries
from zab.partition.records.libraries import MissingLibraryError
from zab.wire import checksums


@pytest.fixture(autouse=True)
def _loaded_again() -> Iterator[None]:
    checksums.crc32c.cache_clear()
    libraries.cramjam.cache_clear()
    yield
    checksums.crc32c.cache_clear()
    libraries.cramjam.cache_clear()


@pytest.mark.parametrize(("data", "crc"), [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA)])
def test_checksums_are_as_published(data: bytes, crc: int) -> None:
    assert libraries.crc32c()(data) == libraries.crc32c()(memoryview(bytearray(data))) == crc


def test_the_processor_may_or_may_not_compute_it() -> None:
    import crc32c

    assert libraries.is_crc_in_hardware() is bool(crc32c.hardware_based)


@pytest.mark.parametrize("name", ["crc32c", "cramjam"])
def test_a_missing_library_is_named_with_what_installs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingLibraryError, match=rf"{name} is not installed: pip install 'zab\[broker\]'"):
        getattr(libraries, name)()


def test_a_library_that_computes_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("crc32c")
    other.crc32c = lambda data: 0x12345678  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "crc32c", other)
    with pytest.raises(RuntimeError, match="12345678 for b'123456789' instead of e3069283"):
        libraries.crc32c()


@pytest.mark.parametrize(
    ("version", "is_used"), [("2.13.9", False), ("2.9.0", False), ("2.14.0", True), ("3.0.0rc1", True)]
)
def test_a_library_that_is_too_old_is_not_used(version: str, is_used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("cramjam")
    other.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cramjam", other)
    if is_used:
        assert libraries.cramjam() is other
    else:
        with pytest.raises(MissingLibraryError, match=rf"cramjam {version} is too old: pip install 'zab\[broker\]'"):
            libraries.cramjam()
