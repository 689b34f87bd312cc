"""Records as lines of JSON: what is read is bounded, and what is wrong is said with its line."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as some
from kafka.consumer.fetcher import ConsumerRecord

from zab.cli.brokers.records import LineError, lines_of, record_fields, record_of_json
from zab.cli.json_form import json_line


@given(some.binary() | some.none(), some.binary() | some.none(), some.lists(some.tuples(some.text(), some.binary())))
def test_what_is_printed_is_read(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
    headers = [(name.encode("utf-8", "replace").decode(), data) for name, data in headers]
    fields = {"topic": "t", "partition": 3, "leader_epoch": 0, "offset": 9, "timestamp": 1_700_000_000_123}
    sizes = {"serialized_key_size": 0, "serialized_value_size": 0, "serialized_header_size": 0}
    record = ConsumerRecord(**fields, **sizes, timestamp_type=0, key=key, value=value, headers=headers, checksum=None)
    found = record_of_json(json_line(record_fields(record)).encode(), 1, keeps_partition=True)
    assert (found.key, found.value, list(found.headers)) == (key, value, headers)
    assert (found.time_ms, found.partition) == (1_700_000_000_123, 3)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[]", "it is no object"),
        (b"{}", "there is no value"),
        (b'{"value": 7}', "value is no text"),
        (b'{"value": "", "key": []}', "key is no text"),
        (b'{"value": "=", "value_encoding": "base64"}', "value is not base64"),
        (b'{"value": "x", "value_encoding": "hex"}', "value_encoding is neither utf-8 nor base64"),
        (b'{"value": "\\ud800"}', "value has half of a pair of surrogates"),
        (b'{"value": "", "others": 1}', "the field 'others' is not known"),
        (b'{"value": "", "headers": {}}', "headers are no list of objects"),
        (b'{"value": "", "headers": [{"value": ""}]}', "a header has no name"),
        (b'{"value": "", "headers": [{"name": "h"}]}', "the header 'h' has no value"),
        (b'{"value": "", "time": "soon"}', "time is no time such as"),
        (b'{"value": "", "time": 7}', "time is no time such as"),
        (b'{"value": "", "time": "1969-01-01"}', "time is before 1970"),
        (b'{"value": "", "partition": true}', "partition is no number"),
        (b'{"value": "", "partition": -1}', "partition is no number"),
        (b"\xff", "it is not UTF-8"),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(line: bytes, reason: str) -> None:
    with pytest.raises(LineError) as caught:
        record_of_json(line, 12, keeps_partition=True)
    assert str(caught.value).startswith(f"line 12: {reason}")


def test_a_huge_line_is_not_held() -> None:
    class Endless(io.RawIOBase):
        """Never ends, and has no line feed."""

        def __init__(self) -> None:
            self.taken = 0

        def readline(self, size: int | None = -1) -> bytes:  # type: ignore[override]
            assert size is not None
            self.taken += size
            return b"x" * size

    file = Endless()
    with pytest.raises(LineError, match=r"line 1: it has more than 10 bytes \(why\)"):
        list(lines_of(file, 10, "why"))  # type: ignore[arg-type]
    assert file.taken == 12


def test_a_line_is_as_long_as_it_may_be() -> None:
    assert list(lines_of(io.BytesIO(b"0123456789\n\n0123456789"), 10, "")) == [
        (1, b"0123456789"),
        (2, b""),
        (3, b"0123456789"),
    ]
