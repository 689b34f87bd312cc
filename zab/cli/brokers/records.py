"""Records as lines: what `zab produce` reads and what `zab consume` prints.

Bytes, without `--json-lines`: each line is a value, whatever its bytes are; the line feed alone ends it. With a key
separator, what precedes the first one is the key.

JSON: one object a line, the same for both commands, so that the output of one is the input of the other.

    {"topic": "t", "partition": 0, "offset": 3, "time": "2026-11-20T22:00:16.123Z", "key": "k", "key_encoding": "utf-8",
     "value": "/w==", "value_encoding": "base64", "headers": [{"name": "h", "value": "x", "encoding": "utf-8"}]}

Of a line that is read, `value` is needed; without an encoding it is UTF-8. Topic and offset are ignored, and partition,
unless it is to be kept. Null is no key, or a tombstone.

Not here: `zab produce`, `zab consume`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from attrs import frozen

from zab.cli.json_form import data_fields, time_text

__all__ = ["JSON_BYTES_PER_BYTE", "LineError", "OutgoingRecord", "lines_of", "record_fields", "record_of_json"]

JSON_BYTES_PER_BYTE: Final = 6
"""As many bytes may one byte of a record take in JSON, as `\\u0001`."""

_FIELDS: Final = frozenset(
    {"topic", "partition", "offset", "time", "key", "key_encoding", "value", "value_encoding", "headers"}
)
_HEADER_FIELDS: Final = frozenset({"name", "value", "encoding"})


class LineError(ValueError):
    """A line of the input cannot be sent; the text names it."""

    def __init__(self, line: int, reason: object) -> None:
        super().__init__(f"line {line}: {reason}")


@frozen
class OutgoingRecord:
    """time_ms: since 1970; None is the present. partition: None where the key, or nobody, decides."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    time_ms: int | None = None
    partition: int | None = None

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + sum(len(name) + len(data) for name, data in self.headers)


def lines_of(file: IO[bytes], bytes_max: int, setting: str) -> Iterator[tuple[int, bytes]]:
    """Lines without their ends, with their numbers from 1. Holds no more than one. Raises LineError for one that is
    larger than `bytes_max`, which `setting` says."""
    number = 0
    while line := file.readline(bytes_max + 2):
        number += 1
        line = line.removesuffix(b"\n")
        if len(line) > bytes_max:
            raise LineError(number, f"it has more than {bytes_max} bytes ({setting})")
        yield number, line


def record_of_json(line: bytes, number: int, *, keeps_partition: bool) -> OutgoingRecord:
    """Raises LineError."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        _refuse_others(found, _FIELDS)
        if "value" not in found:
            raise ValueError("there is no value")
        return OutgoingRecord(
            key=_bytes(found, "key", "key_encoding"),
            value=_bytes(found, "value", "value_encoding"),
            headers=_headers(found.get("headers")),
            time_ms=_time(found.get("time")),
            partition=_partition(found.get("partition")) if keeps_partition else None,
        )
    except RecursionError:
        raise LineError(number, "it is nested too deeply") from None
    except UnicodeDecodeError:
        raise LineError(number, "it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise LineError(number, f"it is no JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise LineError(number, error) from None


def _refuse_others(found: Mapping[str, Any], known: frozenset[str]) -> None:
    others = sorted(found.keys() - known)
    if others:
        raise ValueError(f"the field {others[0]!r} is not known")


def _bytes(found: Mapping[str, Any], name: str, encoding_name: str) -> bytes | None:
    value, encoding = found.get(name), found.get(encoding_name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    if encoding in (None, "utf-8"):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} has half of a pair of surrogates") from None
    if encoding != "base64":
        raise ValueError(f"{encoding_name} is neither utf-8 nor base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{name} is not base64") from None


def _headers(found: object) -> tuple[tuple[str, bytes], ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("headers are no list of objects")
    headers = []
    for each in found:
        _refuse_others(each, _HEADER_FIELDS)
        name, value = each.get("name"), _bytes(each, "value", "encoding")
        if not isinstance(name, str):
            raise ValueError("a header has no name")
        if value is None:
            raise ValueError(f"the header {name!r} has no value")
        headers.append((name, value))
    return tuple(headers)


def _time(found: object) -> int | None:
    if found is None:
        return None
    try:
        time = datetime.datetime.fromisoformat(found)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"time is no time such as 2026-03-01T12:00:00Z: {found!r:.40}") from None
    time = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
    time_ms = (time - datetime.datetime.fromtimestamp(0, datetime.UTC)) // datetime.timedelta(milliseconds=1)
    if time_ms < 0:
        raise ValueError("time is before 1970")
    return time_ms


def _partition(found: object) -> int | None:
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**31:
        raise ValueError("partition is no number of a partition")
    return found


def record_fields(record: Any) -> dict[str, Any]:
    """The line of a ConsumerRecord."""
    key, value = data_fields(record.key), data_fields(record.value)
    headers = []
    for name, data in record.headers:
        found = data_fields(data)
        headers.append({"name": name, "value": found["data"], "encoding": found["encoding"]})
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "time": time_text(record.timestamp) if record.timestamp >= 0 else None,
        "key": key["data"],
        "key_encoding": key["encoding"],
        "value": value["data"],
        "value_encoding": value["encoding"],
        "headers": headers,
    }
