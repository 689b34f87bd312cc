"""What a client's library finds in each record: one frame, so that one that waits for its socket misses none."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.host.tls.holders import certificates, holder, member
from tests.host.tls.tls_client import Client, shake
from tests.rigs.certificates import server_context
from zab.host.tls.engine import RECORD_BYTES_MAX, TlsSide
from zab.host.tls.tls_socket import SEAL_BYTES_MAX, SealedFrames

__all__ = ["certificates", "holder", "member"]

HEAD_BYTES, LENGTH_AT, OF_DATA = 5, 3, 23


class Kernel:
    """A socket that takes so many bytes at a time."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.taken = b""
        self.is_full = False

    def send(self, data: memoryview) -> int:
        self.is_full = not self.is_full
        if self.is_full:
            raise BlockingIOError
        self.taken += data[: self.takes]
        return min(self.takes, len(data))


def frames(*sizes: int) -> list[bytes]:
    return [struct.pack(">i", size) + bytes([number]) * size for number, size in enumerate(sizes, start=1)]


def records(sealed: bytes) -> Iterator[bytes]:
    while sealed:
        end = HEAD_BYTES + int.from_bytes(sealed[LENGTH_AT:HEAD_BYTES], "big")
        assert sealed[0] == OF_DATA
        yield sealed[:end]
        sealed = sealed[end:]


def found_in_records(member, holder, data: bytes, takes: int) -> list[bytes]:
    """What the client finds in each, when this is sent."""
    side, client, kernel = TlsSide(server_context(member)), Client(holder, holder=holder), Kernel(takes)
    shake(side, client)
    ours = SealedFrames(kernel, side)  # type: ignore[arg-type]
    while data:
        try:
            data = data[ours.send(data) :]
        except BlockingIOError:
            continue
    return [client.open(record) for record in records(kernel.taken)]


@pytest.mark.parametrize("takes", [700, 1 << 30])
def test_each_frame_has_a_record_of_its_own(member, holder, takes):
    sent = frames(16, 0, 300, 16)
    assert found_in_records(member, holder, b"".join(sent), takes) == sent


def test_what_follows_a_frame_of_several_records_begins_another(member, holder):
    large, small = frames(2 * RECORD_BYTES_MAX, 16)
    found = found_in_records(member, holder, large + small, 1 << 30)
    assert (b"".join(found[:-1]), found[-1]) == (large, small)


@pytest.mark.parametrize("before", range(5))
def test_so_does_what_is_cut_where_one_call_ends(member, holder, before):
    """Before, within and after the length of a frame."""
    sent = frames(SEAL_BYTES_MAX - 4 - before, 16, SEAL_BYTES_MAX, 16)
    found = found_in_records(member, holder, b"".join(sent), 1 << 30)
    assert b"".join(found) == b"".join(sent)
    ends = {sum(map(len, found[:count])) for count in range(len(found) + 1)}
    assert {sum(map(len, sent[:count])) for count in range(len(sent) + 1)} <= ends


@pytest.mark.parametrize("text", [b"imok", b"Zookeeper version: 1\n" * 3000, b"no"])
def test_text_is_sent_as_it_is(member, holder, text):
    assert b"".join(found_in_records(member, holder, text, 1 << 30)) == text
