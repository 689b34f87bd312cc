"""The handshake, with and without the read-only byte."""

import kazoo.protocol.serialization as kazoo
import pytest

from datatree.jute import JuteError
from zab.jute.handshake import PASSWORD_BYTES, ConnectRequest, ConnectResponse

PASSWORD = bytes(range(16))
HEX = PASSWORD.hex()

REQUESTS = [
    (
        ConnectRequest(5, 10000, 0, bytes(16), False),
        f"00000000 0000000000000005 00002710 0000000000000000 00000010 {'00' * 16} 00",
    ),
    (
        ConnectRequest(0, -1, -2, PASSWORD, True),
        f"00000000 0000000000000000 ffffffff fffffffffffffffe 00000010 {HEX} 01",
    ),
    (
        ConnectRequest(0, 0, 1, PASSWORD, False, False),
        f"00000000 0000000000000000 00000000 0000000000000001 00000010 {HEX}",
    ),
    (ConnectRequest(0, 0, 1, b"", False, False, 3), f"00000003 {'00' * 8} 00000000 0000000000000001 00000000"),
]
RESPONSES = [
    (ConnectResponse(4000, 255, PASSWORD, True), f"00000000 00000fa0 00000000000000ff 00000010 {HEX} 01"),
    (ConnectResponse(4000, -1, PASSWORD, False, False), f"00000000 00000fa0 ffffffffffffffff 00000010 {HEX}"),
    (ConnectResponse.invalid(), f"00000000 00000000 0000000000000000 00000010 {'00' * 16} 00"),
    (ConnectResponse.invalid(has_read_only=False), f"00000000 00000000 0000000000000000 00000010 {'00' * 16}"),
]
BOTH = [*REQUESTS, *RESPONSES]


@pytest.mark.parametrize(("record", "raw"), BOTH)
def test_a_handshake_is_written_and_read_as_its_bytes(record, raw):
    assert record.encode() == bytes.fromhex(raw)
    assert type(record).decode(bytes.fromhex(raw)) == record


@pytest.mark.parametrize(("record", "raw"), BOTH)
def test_every_prefix_is_refused_but_the_one_without_the_read_only_byte(record, raw):
    encoded = bytes.fromhex(raw)
    without = len(encoded) - record.has_read_only
    for length in range(len(encoded)):
        if length == without:
            assert not type(record).decode(encoded[:length]).has_read_only
        else:
            with pytest.raises(JuteError):
                type(record).decode(encoded[:length])


@pytest.mark.parametrize(("record", "raw"), [pair for pair in BOTH if pair[0].has_read_only])
def test_what_follows_a_handshake_is_ignored(record, raw):
    assert type(record).decode(bytes.fromhex(raw) + b"more") == record


def test_lengths_are_those_that_clients_expect():
    assert [len(record.encode()) for record, _ in REQUESTS[:3]] == [45, 45, 44]
    assert [len(record.encode()) for record, _ in RESPONSES[:2]] == [37, 36]


def test_a_null_password_is_taken_from_a_client_and_not_from_a_server():
    raw = bytes(24) + b"\xff\xff\xff\xff\x00"
    assert ConnectRequest.decode(raw).password == b""
    with pytest.raises(JuteError, match="null password"):
        ConnectResponse.decode(bytes(16) + b"\xff\xff\xff\xff\x00")


def test_a_server_gives_no_password_of_another_length():
    with pytest.raises(AssertionError):
        ConnectResponse(4000, 1, bytes(PASSWORD_BYTES - 1)).encode()


def test_kazoo_writes_and_reads_the_same_bytes():
    theirs = kazoo.Connect(0, 5, 10000, 7, PASSWORD, True)
    assert ConnectRequest.decode(bytes(theirs.serialize())) == ConnectRequest(5, 10000, 7, PASSWORD, True)
    read, _ = kazoo.Connect.deserialize(ConnectResponse(4000, 7, PASSWORD, True).encode(), 0)
    assert (read.time_out, read.session_id, read.passwd, read.read_only) == (4000, 7, PASSWORD, True)
