"""Envelopes, digests and keys: the vectors of BookKeeper's format, and what must not be opened."""

from __future__ import annotations

import sys

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.ledger.entries import digests
from zab.ledger.entries.digests import DIGEST_BYTES, DigestType
from zab.ledger.entries.envelope import (
    Digest,
    DigestMismatchError,
    Entry,
    MalformedEntryError,
    header_of,
    lac_header_of,
)
from zab.ledger.entries.ids import ID_MAX, NONE, is_bookie_id
from zab.ledger.entries.keys import KEY_BYTES, NO_KEY, hmac_key, master_key
from zab.wire import checksums

HELLO = Entry(ledger=1, entry=0, last_confirmed=NONE, length=5, payload=b"hello")

IDS = st.integers(0, ID_MAX)
ENTRIES = st.builds(
    Entry, ledger=IDS, entry=IDS, last_confirmed=st.integers(NONE, ID_MAX), length=IDS, payload=st.binary(max_size=64)
)
DIGESTS = st.builds(Digest, st.sampled_from(DigestType), st.binary(max_size=16))


@pytest.mark.parametrize(
    ("password", "master", "mac"),
    [
        (b"", "850bf1071c5e3d8c24235676f8816ae0cbe2f14f", "347ead6348e936507920c15d2ae8266ac6ce9b49"),
        (b"passwd", "9596625852f7fafc2c9cf0f9f7f3e5995206452b", "6c5d50401aaaf61cb32a1f11f123999a845fb706"),
    ],
)
def test_the_keys_of_a_password(password: bytes, master: str, mac: str) -> None:
    assert master_key(password).hex() == Digest(DigestType.CRC32, password).master_key.hex() == master
    assert hmac_key(password).hex() == mac
    assert len(NO_KEY) == KEY_BYTES == len(master_key(password))


@pytest.mark.parametrize(
    ("digest_type", "password", "digest"),
    [
        (DigestType.CRC32, b"", "0000000030a56872"),
        (DigestType.CRC32C, b"", "e3a5f74d"),
        (DigestType.HMAC, b"passwd", "2c5f3dbb8c95c515351daad95c129012c5d7a5f9"),
        (DigestType.DUMMY, b"", ""),
    ],
)
def test_the_envelope_of_a_small_entry(digest_type: DigestType, password: bytes, digest: str) -> None:
    header = "00000000000000010000000000000000ffffffffffffffff0000000000000005"
    envelope = Digest(digest_type, password).pack(HELLO)
    assert envelope.hex() == header + digest + b"hello".hex()
    assert Digest(digest_type, password).open(envelope, 1, 0) == HELLO
    assert header_of(envelope) == (1, 0, -1, 5)


@pytest.mark.parametrize(
    ("digest_type", "password", "digest"),
    [
        (DigestType.CRC32, b"", "0000000065a4cab5"),
        (DigestType.CRC32C, b"", "62842849"),
        (DigestType.HMAC, b"passwd", "f74d0f05f449e19401f8c82138ea84ff7655d668"),
        (DigestType.DUMMY, b"", ""),
    ],
)
def test_the_packet_of_an_explicit_lac(digest_type: DigestType, password: bytes, digest: str) -> None:
    packet = Digest(digest_type, password).pack_lac(1, 7)
    assert packet.hex() == "00000000000000010000000000000007" + digest
    assert Digest(digest_type, password).open_lac(packet, 1) == 7
    assert lac_header_of(packet) == (1, 7)


@given(ENTRIES, DIGESTS)
def test_an_entry_comes_out_of_its_envelope(entry: Entry, digest: Digest) -> None:
    envelope = digest.pack(entry)
    assert digest.open(envelope, entry.ledger, entry.entry) == entry
    assert digest.open(memoryview(envelope), entry.ledger, entry.entry) == entry
    assert len(envelope) == 32 + DIGEST_BYTES[digest.type] + len(entry.payload)


@given(ENTRIES, st.sampled_from([kind for kind in DigestType if kind is not DigestType.DUMMY]), st.data())
def test_every_changed_bit_is_a_mismatch(entry: Entry, digest_type: DigestType, data: st.DataObject) -> None:
    digest = Digest(digest_type, b"secret")
    envelope = bytearray(digest.pack(entry))
    envelope[data.draw(st.integers(0, len(envelope) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DigestMismatchError):
        digest.open(bytes(envelope), entry.ledger, entry.entry)


@given(ENTRIES, DIGESTS)
def test_an_envelope_of_another_entry_is_a_mismatch(entry: Entry, digest: Digest) -> None:
    envelope = digest.pack(entry)
    for ledger, number in ((entry.ledger ^ 1, entry.entry), (entry.ledger, entry.entry ^ 1)):
        with pytest.raises(DigestMismatchError, match=r"instead of entry"):
            digest.open(envelope, ledger, number)


def test_without_its_library_a_crc32c_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other digests need none."""
    checksums.crc32c.cache_clear()
    digests._crc32c.cache_clear()
    monkeypatch.setitem(sys.modules, "crc32c", None)
    with pytest.raises(checksums.MissingLibraryError, match=r"crc32c is not installed: pip install 'zab\[ledgers\]'"):
        digests.digest_function(DigestType.CRC32C, b"")
    for each in (DigestType.CRC32, DigestType.HMAC, DigestType.DUMMY):
        assert len(digests.digest_function(each, b"")(b"header", b"payload")) == DIGEST_BYTES[each]
    monkeypatch.undo()
    assert digests.digest_function(DigestType.CRC32C, b"")(b"1234", b"56789") == bytes.fromhex("e3069283")


def test_a_high_word_in_a_crc32_is_a_mismatch() -> None:
    """The 64-bit field has a 32-bit checksum: its first half must be 0."""
    digest = Digest(DigestType.CRC32, b"")
    envelope = bytearray(digest.pack(HELLO))
    envelope[32] = 1
    with pytest.raises(DigestMismatchError):
        digest.open(bytes(envelope), 1, 0)


def test_hmac_depends_on_the_password() -> None:
    envelope = Digest(DigestType.HMAC, b"right").pack(HELLO)
    with pytest.raises(DigestMismatchError, match=r"digest"):
        Digest(DigestType.HMAC, b"wrong").open(envelope, 1, 0)


@pytest.mark.parametrize("digest_type", DigestType)
def test_an_envelope_that_is_cut_is_never_opened(digest_type: DigestType) -> None:
    digest = Digest(digest_type, b"")
    envelope = digest.pack(attrs.evolve(HELLO, payload=b""))
    for size in range(len(envelope)):
        with pytest.raises(DigestMismatchError, match=r"bytes"):
            digest.open(envelope[:size], 1, 0)
    for size in range(32):
        with pytest.raises(MalformedEntryError, match=rf"{size} bytes"):
            header_of(envelope[:size])


@pytest.mark.parametrize("digest_type", DigestType)
def test_a_packet_of_another_ledger_or_size_is_a_mismatch(digest_type: DigestType) -> None:
    digest = Digest(digest_type, b"")
    packet = digest.pack_lac(1, 7)
    with pytest.raises(DigestMismatchError, match=r"instead of 2"):
        digest.open_lac(packet, 2)
    for wrong in (packet + b"\0", packet[:-1], b""):
        with pytest.raises(DigestMismatchError, match=r"bytes"):
            digest.open_lac(wrong, 1)
    with pytest.raises(MalformedEntryError):
        lac_header_of(packet[:15])


@given(st.integers(0, 8 * 20 - 1))
def test_every_changed_bit_of_a_packet_is_a_mismatch(bit: int) -> None:
    digest = Digest(DigestType.CRC32C, b"")
    packet = bytearray(digest.pack_lac(1, 7))
    packet[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DigestMismatchError):
        digest.open_lac(bytes(packet), 1)


@pytest.mark.parametrize("name", ["127.0.0.1:3181", "b1", "a_b-c.d", "read-only", "b" * 255])
def test_names_of_bookies(name: str) -> None:
    assert is_bookie_id(name)


@pytest.mark.parametrize("name", ["", "readonly", "a/b", "a b", "bö", "b\n", ".", "..", "b" * 256])
def test_no_names_of_bookies(name: str) -> None:
    assert not is_bookie_id(name)
