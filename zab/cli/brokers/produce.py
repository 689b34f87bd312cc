"""`zab produce TOPIC`: appends the lines of a file, or of standard input, to a topic.

Records are sent while others are under way, in the order of the lines for each partition. Every line that is refused is
an error that names it, and ends the command: later lines that are under way may be appended nevertheless. The end says
how many were acknowledged.

Limits: a line has at most max.request.size bytes (1 MiB, or what --client-config says), six times as many in JSON. No
more than `UNDER_WAY_COUNT_MAX` records, and no more than `UNDER_WAY_BYTES_MAX` of them, wait for their acknowledgement;
then the next line is read when the oldest has it.

Not here: what a line says (`records.py`).
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer
from attrs import evolve, field, frozen

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.options import TopicArgument, settings_of
from zab.cli.brokers.records import JSON_BYTES_PER_BYTE, LineError, OutgoingRecord, lines_of, record_of_json
from zab.cli.brokers.refusals import RefusedError, refused_by
from zab.cli.json_form import JsonOption, json_line
from zab.cli.progress import Told, progress
from zab.cli.terminal import count_of, say
from zab.kafka.errors import ErrorCode

__all__ = ["Acks", "Codec", "produce_command"]

UNDER_WAY_COUNT_MAX: Final = 10_000
UNDER_WAY_BYTES_MAX: Final = 32 << 20
REQUEST_BYTES_MAX: Final = 1 << 20
"""kafka-python's default of max.request.size."""

_STDIN: Final = Path("-")


class Acks(Enum):
    """The replicas that have to have a record before it counts as appended."""

    ALL = "all"
    ONE = "1"
    NONE = "0"


class Codec(Enum):
    """How batches are compressed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


_ACKS: Final = {Acks.ALL: -1, Acks.ONE: 1, Acks.NONE: 0}


def produce_command(
    context: typer.Context,
    topic: TopicArgument,
    file: Annotated[
        Path, typer.Argument(metavar="[FILE]", help="One record per line; - reads standard input.", show_default=False)
    ] = _STDIN,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", metavar="TEXT", help="The text before this separator is the key."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of each record. May be repeated."),
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Lines are objects, as `zab consume --json` prints them.")
    ] = False,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="By default, the key decides, if there is one."),
    ] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="With --json-lines: use the partition in each line.")
    ] = False,
    acks: Annotated[
        Acks, typer.Option("--acks", "-a", help="Which replicas must have a record before it is acknowledged.")
    ] = Acks.ALL,
    compression: Annotated[
        Codec | None, typer.Option("--compression", "-z", help="The compression of batches.", show_default=False)
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
    json: JsonOption = False,
) -> None:
    """A topic that does not exist is refused. With --acks 0 nobody says whether a record was appended.

    A line that is refused is named, and ends the command; the lines before it were appended.
    """
    if json_lines and key_separator is not None:
        raise typer.BadParameter("--json-lines has keys of its own", param_hint="--key-separator")
    if keep_partitions and (not json_lines or partition is not None):
        raise typer.BadParameter("it is for --json-lines, without --partition", param_hint="--keep-partitions")
    if key_separator == "":
        raise typer.BadParameter("it is empty", param_hint="--key-separator")
    headers = tuple((name, _bytes_of(value)) for name, value in settings_of(header, "--header").items())
    separator = None if key_separator is None else _bytes_of(key_separator)

    shape = _Shape(headers, separator, partition, is_json=json_lines, keeps_partition=keep_partitions)

    def work(brokers: Brokers) -> None:
        settings = _settings(brokers, acks if _is_told(context, "acks") else None, compression)
        largest = brokers.producer_settings.get("max_request_size", REQUEST_BYTES_MAX)
        with _opened(file) as lines, progress("acknowledged", "record", tells_end=False) as told:
            if not create:
                with brokers.admin() as admin:
                    _check(brokers.described(admin, topic), partition)
            sender = _Sender(topic, told, tells_offsets=settings.get("acks") != 0)
            is_done = False
            try:
                with brokers.producer(**settings) as producer, sender.settling(producer):
                    for number, line in lines_of(lines, largest * shape.factor, "max.request.size of --client-config"):
                        sender.send(producer, shape.record_of(line, number), number)
                is_done = True
            finally:
                told.end()
                if told.count and not is_done:
                    say(f"zab: not finished: {told}", sys.stderr, flush=True)
        _tell(topic, sender, json=json)

    carry_out(context, work)


@frozen
class _Shape:
    """How a record is made of a line."""

    headers: tuple[tuple[str, bytes], ...]
    separator: bytes | None
    partition: int | None
    is_json: bool = field(kw_only=True)
    keeps_partition: bool = field(kw_only=True)

    @property
    def factor(self) -> int:
        """How many bytes a line may have for each of a record."""
        return JSON_BYTES_PER_BYTE if self.is_json else 1

    def record_of(self, line: bytes, number: int) -> OutgoingRecord:
        """Raises LineError."""
        if self.is_json:
            found = record_of_json(line, number, keeps_partition=self.keeps_partition)
            place = found.partition if self.partition is None else self.partition
            return evolve(found, headers=(*self.headers, *found.headers), partition=place)
        if self.separator is None:
            return OutgoingRecord(None, line, self.headers, None, self.partition)
        key, is_there, value = line.partition(self.separator)
        if not is_there:
            text = self.separator.decode("utf-8", "backslashreplace")
            raise LineError(number, f"{text!r} (--key-separator) is not in it")
        return OutgoingRecord(key, value, self.headers, None, self.partition)


def _settings(brokers: Brokers, acks: Acks | None, compression: Codec | None) -> dict[str, Any]:
    """What the options say beside the file of properties. acks: None if it was not told."""
    settings: dict[str, Any] = {} if compression is None else {"compression_type": _codec(compression)}
    settings["acks"] = brokers.producer_settings.get("acks", -1) if acks is None else _ACKS[acks]
    if settings["acks"] != -1:
        # Only with all acknowledgements can a record that is sent again be told from a new one.
        settings["enable_idempotence"] = False
    return settings


def _tell(topic: str, sender: _Sender, *, json: bool) -> None:
    if json:
        partitions = [
            {"partition": number, "count": found.count, "first_offset": found.first, "last_offset": found.last}
            for number, found in sorted(sender.partitions.items())
        ]
        say(json_line({"topic": topic, "count": sender.count, "partitions": partitions}))
    else:
        say(f"{count_of(sender.count, 'record')} in {topic}")


def _is_told(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _codec(codec: Codec) -> str | None:
    return None if codec is Codec.NONE else codec.value


def _bytes_of(text: str) -> bytes:
    # Bytes of the command line that are not UTF-8 arrive in this form.
    return text.encode("utf-8", "surrogateescape")


def _check(described: dict[str, Any], partition: int | None) -> None:
    """Raises RefusedError if there is no such partition: the library would look for it until it gives up."""
    numbers = {each["partition_index"] for each in described["partitions"]}
    if partition is not None and partition not in numbers:
        place = f"{described['name']}-{partition}"
        raise RefusedError(
            place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic has {count_of(len(numbers), 'partition')}"
        )


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    if file == _STDIN:
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file}: it cannot be read: {error.strerror}", param_hint="FILE") from None
    with opened:
        yield opened


class _Appended:
    """What went into one partition. Offsets are None where nobody tells them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: int | None = None
        self.last: int | None = None

    def add(self, offset: int | None) -> None:
        self.count += 1
        if offset is not None:
            self.first = offset if self.first is None else min(self.first, offset)
            self.last = offset if self.last is None else max(self.last, offset)


class _Sender:
    """Records that are under way, oldest first, each with its line."""

    def __init__(self, topic: str, told: Told, *, tells_offsets: bool) -> None:
        self._topic = topic
        self._told = told
        self._tells_offsets = tells_offsets
        self._under_way: deque[tuple[int, int, Any]] = deque()
        self._bytes = 0
        self.partitions: dict[int, _Appended] = {}

    @property
    def count(self) -> int:
        return self._told.count

    def send(self, producer: Any, record: OutgoingRecord, line: int) -> None:
        """Raises LineError for this line, or for an earlier one."""
        from kafka.errors import KafkaError, MessageSizeTooLargeError

        while self._bytes + record.size > UNDER_WAY_BYTES_MAX or len(self._under_way) >= UNDER_WAY_COUNT_MAX:
            if not self._under_way:
                break
            self._settle_oldest()
        headers = list(record.headers)
        self._check(producer, record, line)
        try:
            future = producer.send(
                self._topic, record.value, record.key, headers, record.partition, timestamp_ms=record.time_ms
            )
        except MessageSizeTooLargeError:
            raise LineError(line, "the record is larger than max.request.size of --client-config") from None
        except (KafkaError, ValueError) as error:
            raise self._failed(line, error) from None
        self._under_way.append((line, record.size, future))
        self._bytes += record.size
        while self._under_way and self._under_way[0][2].is_done:
            self._settle_oldest()

    def _check(self, producer: Any, record: OutgoingRecord, line: int) -> None:
        if record.value is None and record.key is None:
            raise LineError(line, "a tombstone has a key")
        if record.partition is not None and record.partition not in (producer.partitions_for(self._topic) or ()):
            raise LineError(line, f"the topic has no partition {record.partition}")

    @contextlib.contextmanager
    def settling(self, producer: Any) -> Iterator[None]:
        """Wait for what was sent, also when a line is refused: what came before it is appended. Raises LineError."""
        try:
            yield
        except LineError:
            # Those after a line that a broker has refused may be refused as well; the first is the one to tell.
            while self._under_way:
                self._settle_oldest(tells_errors=False)
            raise
        producer.flush()
        while self._under_way:
            self._settle_oldest()

    def _settle_oldest(self, *, tells_errors: bool = True) -> None:
        from kafka.errors import KafkaError

        line, size, future = self._under_way.popleft()
        self._bytes -= size
        try:
            found = future.get()
        except KafkaError as error:
            if tells_errors:
                raise self._failed(line, error) from None
            return
        self.partitions.setdefault(found.partition, _Appended()).add(found.offset if self._tells_offsets else None)
        self._told.add()

    def _failed(self, line: int, error: Exception) -> Exception:
        refused = refused_by(error, self._topic)
        return error if refused is None and getattr(error, "retriable", False) else LineError(line, refused or error)
