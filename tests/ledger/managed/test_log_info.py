"""The znode of a managed ledger: bytes, invariants, names."""

import json

import pytest

from zab.ledger.entries.digests import DigestType
from zab.ledger.managed.log_info import (
    LEDGERS_MAX,
    InvalidLogError,
    LedgerInfo,
    LogConfig,
    LogInfo,
    LogState,
    Offload,
    OffloadState,
    Position,
    check_name,
    cursor_path,
    decode_log,
    encode_log,
    log_path,
    name_of,
)

COPY = Offload(state=OffloadState.DONE, uid="a1", uri="/archive", when_ms=19, is_on_bookies=False, rest={"more": 1})
INFO = LogInfo(
    config=LogConfig(ensemble_size=4, write_quorum=3, ack_quorum=2, digest_type=DigestType.CRC32),
    created_ms=17,
    epoch=7,
    owner="me",
    ledgers=(
        LedgerInfo(id=41, entries=5, length=50, closed_ms=18, offload=COPY, rest={"later": {"a": 1}}),
        LedgerInfo(id=60),
    ),
    trimmed=Position(41, -1),
    rest={"later": [1]},
)
NO_COPIES = [
    "done",
    {},
    {"state": "gone", "uid": "a", "uri": "/", "when": 1},
    {"state": "done", "uid": "", "uri": "/", "when": 1},
    {"state": "done", "uid": "a/b", "uri": "/", "when": 1},
    {"state": "done", "uid": "a.b", "uri": "/", "when": 1},
    {"state": "done", "uid": 1, "uri": "/", "when": 1},
    {"state": "done", "uid": "a", "uri": "", "when": 1},
    {"state": "done", "uid": "a", "uri": "/" * 1001, "when": 1},
    {"state": "done", "uid": "a", "uri": "/", "when": "1"},
    {"state": "done", "uid": "a", "uri": "/", "when": 1, "bookies": 0},
    {"state": "copying", "uid": "a", "uri": "/", "when": 1, "bookies": False},
]
CLOSED = LedgerInfo(id=41, entries=5, length=50, closed_ms=18)


def test_the_bytes_are_those_of_the_reference():
    assert encode_log(LogInfo(created_ms=1, owner="o", ledgers=(CLOSED, LedgerInfo(id=60)))) == (
        b'{"config":{"ack":2,"digest":"CRC32C","e":3,"write":3},"created":1,"epoch":1,"ledgers":'
        b'[{"bytes":50,"closed":18,"entries":5,"id":41},{"id":60}],"owner":"o","state":"open",'
        b'"terminated":null,"trimmed":null,"v":1}'
    )


def test_what_is_encoded_is_decoded_with_what_is_not_known():
    assert decode_log(encode_log(INFO)) == INFO


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("v", 2),
        ("epoch", 0),
        ("epoch", "1"),
        ("epoch", 1.0),
        ("epoch", True),
        ("state", "gone"),
        ("state", "terminated"),
        ("terminated", [1, 2]),
        ("trimmed", [1]),
        ("trimmed", "1:2"),
        ("config", {"e": 3, "write": 3, "ack": 4, "digest": "CRC32C"}),
        ("config", {"e": 3, "write": 3, "ack": 2, "digest": "MD5"}),
        ("config", None),
        ("ledgers", None),
        ("ledgers", [{"id": 5}, {"id": 6}]),
        ("ledgers", [{"id": 5, "entries": 0}]),
        ("ledgers", [{"id": 6, "entries": 1}, {"id": 5, "entries": 1}]),
        ("ledgers", [{"id": -1, "entries": 1}]),
        ("ledgers", [{"id": 1 << 70}]),
        ("ledgers", [{"id": each, "entries": 1} for each in range(LEDGERS_MAX + 1)]),
        ("ledgers", [5]),
        *(("ledgers", [{"id": 5, "entries": 1, "offload": each}]) for each in NO_COPIES),
        ("ledgers", [{"id": 5, "offload": {"state": "done", "uid": "a", "uri": "/", "when": 1}}]),
    ],
)
def test_what_is_no_list_is_refused(member, value):
    found = json.loads(encode_log(INFO)) | {member: value}
    with pytest.raises(InvalidLogError):
        decode_log(json.dumps(found).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000, b'{"v":1}'])
def test_bytes_that_are_no_list_are_refused(data):
    with pytest.raises(InvalidLogError):
        decode_log(data)


def test_an_empty_ledger_leaves_the_list_at_its_end():
    info = LogInfo(ledgers=(CLOSED,)).with_open(60)
    assert info.with_end(60, -1, 0, 5).ledgers == (CLOSED,)
    assert info.with_end(60, 3, 7, 5).ledgers[-1] == LedgerInfo(id=60, entries=4, length=7, closed_ms=5)


def test_what_is_trimmed_is_said():
    info = LogInfo(ledgers=(CLOSED,)).with_open(60)
    assert info.without(1).trimmed == Position(60, -1)
    assert LogInfo(ledgers=(CLOSED,)).without(1).trimmed == Position(42, -1)


def test_what_is_read_next_is_in_this_ledger_or_in_a_later_one():
    of = LogInfo(ledgers=(LedgerInfo(id=3, entries=2), LedgerInfo(id=5, entries=1), LedgerInfo(id=8)))
    found = {after: of.next_after(Position(*after)) for after in ((3, -1), (3, 0), (3, 1), (4, 7), (5, 0), (8, 6))}
    assert {after: each and (each[0].id, each[1]) for after, each in found.items()} == {
        (3, -1): (3, 0),
        (3, 0): (3, 1),
        (3, 1): (5, 0),
        (4, 7): (5, 0),
        (5, 0): (8, 0),
        (8, 6): (8, 7),
    }
    assert of.next_after(Position(9, 0)) is None


def test_a_terminated_log_says_where_it_ends():
    ended = LogInfo(ledgers=(CLOSED,)).terminated_here()
    assert ended.state is LogState.TERMINATED
    assert ended.terminated == Position(41, 4)


@pytest.mark.parametrize("name", ["orders", "a/b", "é%", "x" * 255, "..."])
def test_names_are_one_level(name):
    path = log_path("/logs", name)
    assert path.count("/") == 2
    assert name_of(path.rpartition("/")[2]) == name
    assert cursor_path("/logs", name, name).count("/") == 4


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 256, "/" * 86, "\ud800"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InvalidLogError):
        check_name(name)


def test_a_copy_is_in_the_bytes():
    copying = Offload(state=OffloadState.COPYING, uid="a1", uri="/archive", when_ms=19)
    info = LogInfo(ledgers=(CLOSED,)).with_offload(41, copying)
    assert b'"offload":{"state":"copying","uid":"a1","uri":"/archive","when":19}' in encode_log(info)
    done = info.with_offload(41, COPY)
    assert b'"offload":{"bookies":false,"more":1,"state":"done"' in encode_log(done)
    assert done.ledgers[0].is_on_bookies is False
