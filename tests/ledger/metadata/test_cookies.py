"""Cookies, registrations, and the records of auto-recovery, as bytes."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata import underreplication as records
from zab.ledger.metadata.cookies import Cookie, decode_cookie, encode_cookie
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.service_info import (
    Endpoint,
    ServiceInfo,
    bookie_endpoint,
    decode_service_info,
    encode_service_info,
)
from zab.ledger.metadata.underreplication import Underreplicated

B1 = BookieId("127.0.0.1:3181")
COOKIE = Cookie(B1, ("/data",), ("/data",), "6f1c2b1e-0000-4000-8000-000000000001", ("/data",))
COOKIE_TEXT = (
    b'5\nbookieHost: "127.0.0.1:3181"\njournalDir: "/data"\nledgerDirs: "1\\t/data"\n'
    b'instanceId: "6f1c2b1e-0000-4000-8000-000000000001"\nindexDirs: "1\\t/data"\n'
)


def test_the_text_of_a_cookie() -> None:
    assert encode_cookie(COOKIE) == COOKIE_TEXT
    assert decode_cookie(COOKIE_TEXT) == COOKIE


def test_older_cookies_are_read() -> None:
    old = Cookie(B1, ("/j1", "/j2"), ("/l1", "/l2"))
    assert decode_cookie(b"3\n127.0.0.1:3181\n/j1,/j2\n2\t/l1\t/l2\n") == old
    text = b'4\nbookieHost: "127.0.0.1:3181" journalDir: "/j1,/j2" ledgerDirs: "2\\t/l1\\011/l2"'
    assert decode_cookie(text) == old


def test_what_differs_between_cookies() -> None:
    assert COOKIE.differences(COOKIE) == []
    other = attrs.evolve(COOKIE, ledger_directories=("/other",), instance_id=None)
    assert COOKIE.differences(other) == ["ledger_directories", "instance_id"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"2\nx",
        b"-5\n" + COOKIE_TEXT[2:],
        b"99999999999\n" + COOKIE_TEXT[2:],
        "\u0665\n".encode() + COOKIE_TEXT[2:],
        COOKIE_TEXT + b'zab: "uuid"\n',
        COOKIE_TEXT.replace(b'journalDir: "/data"\n', b""),
        COOKIE_TEXT.replace(b"3181", b"/3181"),
        COOKIE_TEXT.replace(b'ledgerDirs: "1', b'ledgerDirs: "2'),
        COOKIE_TEXT.replace(b'ledgerDirs: "1\\t/data', b'ledgerDirs: "1\\t'),
        COOKIE_TEXT.replace(b"/data", b"\\377"),
        COOKIE_TEXT.replace(b"/data", b"\\477"),
        COOKIE_TEXT.replace(b"/data", b"\\q"),
        COOKIE_TEXT.replace(b"/data", b"\\\\\\?"),
        COOKIE_TEXT + b"# \\",
        b"3\n127.0.0.1:3181\n/j",
        b"3\n127.0.0.1:3181\n/j\n1\t/l\nmore",
    ],
)
def test_what_is_no_cookie(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError):
        decode_cookie(data)


@pytest.mark.parametrize("directories", [(), ("",), ("/a\tb",), ("/a,b",), ("/a\nb",)])
def test_directories_that_a_cookie_cannot_name(directories: tuple[str, ...]) -> None:
    with pytest.raises(InvalidMetadataError, match=r"cannot be written"):
        encode_cookie(Cookie(B1, ("/j",), directories))


DIRECTORIES = st.lists(
    st.text(st.characters(exclude_characters="\t,\n", exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=3
).map(tuple)


@given(DIRECTORIES, DIRECTORIES, st.none() | st.text(max_size=5), st.none() | DIRECTORIES)
def test_a_cookie_comes_back(
    journals: tuple[str, ...], ledgers: tuple[str, ...], instance: str | None, indexes: tuple[str, ...] | None
) -> None:
    cookie = Cookie(B1, journals, ledgers, instance, indexes)
    assert decode_cookie(encode_cookie(cookie)) == cookie


# --------------------------------------------------------------------------------------------------- registrations


def test_the_bytes_of_a_registration() -> None:
    info = ServiceInfo((bookie_endpoint("127.0.0.1", 3181),))
    data = bytes.fromhex("32220a06626f6f6b696510ed181a093132372e302e302e31220a626f6f6b69652d727063")
    assert encode_service_info(info) == data
    assert decode_service_info(B1, data) == info
    assert info.bookie_endpoint == info.endpoints[0]


def test_without_data_the_name_is_the_address() -> None:
    assert decode_service_info(B1, b"").bookie_endpoint == bookie_endpoint("127.0.0.1", 3181)
    for name in ("b1", "b1:", ":3181", "b1:99999", "b1:-1", "b1:999999"):
        with pytest.raises(InvalidMetadataError):
            decode_service_info(BookieId(name), b"")


def test_a_bookie_without_its_endpoint_cannot_be_reached() -> None:
    only_http = ServiceInfo((Endpoint("httpserver", 8080, "h", "http"),))
    assert decode_service_info(B1, encode_service_info(only_http)).bookie_endpoint is None
    both = ServiceInfo((*only_http.endpoints, bookie_endpoint("h", 1, has_tls=True)))
    assert both.bookie_endpoint == Endpoint("bookie", 1, "h", "bookie-rpc", (), ("tls",))


@pytest.mark.parametrize(
    "data",
    [b"\x32\x22\x0a", bytes.fromhex("32040a026869"), b"\x32\x0c\x0a\x01i\x10\xff\xff\x7f\x1a\x01h\x22\x01p", b"\xff"],
)
def test_what_is_no_registration(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError):
        decode_service_info(B1, data)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ENDPOINTS = st.builds(
    Endpoint, TEXTS, st.integers(0, 65535), TEXTS, TEXTS, st.tuples(TEXTS), st.lists(TEXTS, max_size=2).map(tuple)
)


@given(st.lists(ENDPOINTS, min_size=1, max_size=3), st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_a_registration_comes_back(endpoints: list[Endpoint], properties: dict[str, str]) -> None:
    info = ServiceInfo(tuple(endpoints), properties)
    assert decode_service_info(B1, encode_service_info(info)) == info


# ---------------------------------------------------------------------------------------------------- auto-recovery


def test_records_of_auto_recovery() -> None:
    record = Underreplicated((BookieId("b1:1"), BookieId("b2:1")), 5)
    assert records.encode_record(record) == b'replica: "b1:1"\nreplica: "b2:1"\nctime: 5\n'
    assert records.decode_record(b'replica: "b1:1" replica: "b2:1" replica: "b1:1" ctime: 5') == record
    assert records.decode_record(b"") == Underreplicated(())
    assert record.merged(BookieId("b2:1")) is record
    assert record.merged(BookieId("b3:1")).missing == ("b1:1", "b2:1", "b3:1")


def test_locks_votes_and_the_layout() -> None:
    assert records.encode_lock(B1) == records.encode_vote(B1) == b'bookieId: "127.0.0.1:3181"\n'
    assert records.decode_vote(b"bookieId: '127.0.0.1:3181'") == B1
    assert records.decode_vote(b"") is None
    assert records.encode_replication_layout() == b'type: "BASIC"\nversion: 1\n'
    assert records.is_replication_layout_served(b'type: "BASIC"\nversion: 1\n')
    assert not records.is_replication_layout_served(b'type: "BASIC" version: 2')
    assert not records.is_replication_layout_served(b'type: "OTHER" version: 1')


def test_times_of_checks_and_the_delay() -> None:
    assert records.encode_check_time(300) == b"\x08\xac\x02"
    assert records.decode_check_time(b"\x08\xac\x02") == 300
    assert records.encode_delay(60) == b"60"
    assert records.decode_delay(b"60") == 60


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (records.decode_record, b"replica: 5"),
        (records.decode_record, b'replica: "a/b"'),
        (records.decode_record, b"novelty: 5"),
        (records.decode_record, b"replica: '\\xff'"),
        (records.decode_vote, b'bookieId: "a/b"'),
        (records.decode_vote, b"\xff"),
        (records.is_replication_layout_served, b'type: "BASIC"'),
        (records.decode_check_time, b""),
        (records.decode_check_time, b"\x08"),
        (records.decode_delay, b"-1"),
        (records.decode_delay, b""),
        (records.decode_delay, b"1" * 5000),
    ],
)
def test_what_is_no_record(decode: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(InvalidMetadataError):
        decode(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    readers: tuple[Callable[[bytes], object], ...] = (
        decode_cookie,
        lambda data: decode_cookie(b"5\n" + data),
        lambda data: decode_cookie(b"3\n" + data),
        lambda data: decode_service_info(B1, data),
        records.decode_record,
        records.decode_vote,
        records.decode_check_time,
        records.decode_delay,
        records.is_replication_layout_served,
    )
    for reader in readers:
        try:
            reader(data)
        except InvalidMetadataError:
            continue
