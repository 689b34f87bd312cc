"""`zab consume TOPIC`: prints the records of a topic, until the end that it has at the start, or until Ctrl-C.

As text a record is a line, its value; `--keys`, `--headers`, `--times` and `--offsets` put more before it, with tabs
between. On a terminal bytes that are no text, and what would command it, are shown with escapes; elsewhere they are
printed as they are. `--json` tells apart what lines of text cannot.

With `--group` it is a member of that group: it begins where the group has committed, has the partitions that the group
gives to it, and commits what it has printed. Without, it commits nothing.

Exit codes: those of every command (`zab.cli.exits`); Ctrl-C is 130, also of `--follow`, where nothing else ends it. The
number of records is told on standard error.

Limits: kafka-python holds what one fetch brings (fetch.max.bytes, 50 MiB); of that, `POLL_COUNT_MAX` records are
printed at a time.

Not here: how a record is written (`records.py`), positions (`positions.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Final

import typer

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.options import TopicArgument
from zab.cli.brokers.positions import POSITION_HELP, Position, parse_position, resolved
from zab.cli.brokers.records import record_fields
from zab.cli.brokers.refusals import RefusedError
from zab.cli.json_form import JsonOption, json_line, time_text
from zab.cli.progress import Told, progress
from zab.cli.terminal import count_of, in_line, is_text, say
from zab.kafka.errors import ErrorCode

__all__ = ["Isolation", "consume_command"]

POLL_COUNT_MAX: Final = 500
_POLL_MS: Final = 200
_GROUP_POLL_MS: Final = 1000
"""More than it takes to join a group once more."""


class Isolation(Enum):
    """Whether records of transactions that are open or were aborted are printed."""

    UNCOMMITTED = "read_uncommitted"
    COMMITTED = "read_committed"


def consume_command(
    context: typer.Context,
    topic: TopicArgument,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="POSITION", help=POSITION_HELP + " Without it, the beginning."),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition. May be repeated."),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="GROUP", help="Join a consumer group, and commit offsets.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N records.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new records until Ctrl-C.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Print keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers.")] = False,
    times: Annotated[bool, typer.Option("--times", help="Print times.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Print partitions and offsets.")] = False,
    isolation: Annotated[
        Isolation | None,
        typer.Option(
            "--isolation", show_default=False, help="Without read_committed, records of open transactions are printed."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Without --follow it ends at the end that each partition has when it begins. Partitions are not in order with each
    other. A group begins where it has committed, and at --from, beginning or end, where it has not.
    """
    position = parse_position("beginning" if since is None else since, "--from")
    if group is not None and partition:
        raise typer.BadParameter("the group says which partitions", param_hint="--partition")
    if group is not None and not isinstance(position, str):
        raise typer.BadParameter("for a group it is beginning or end; zab group reset sets others", param_hint="--from")
    shown = _Shown(keys=keys, headers=headers, times=times, offsets=offsets)

    def show(record: Any) -> None:
        if json:
            say(json_line(record_fields(record)))
        else:
            shown.show(record)

    def work(brokers: Brokers) -> None:
        settings = {} if isolation is None else {"isolation_level": isolation.value}
        with progress("consumed", "record", prints_lines=True, tells_end=False) as told:
            printer = _Printer(show, count, told)
            try:
                if group is None:
                    _consume_alone(brokers, settings, topic, partition, position, printer, follow=follow)
                else:
                    reset = "earliest" if position == "beginning" else "latest"
                    grouped = {**settings, "group_id": group, "auto_offset_reset": reset}
                    _consume_in_group(brokers, grouped, topic, printer, follow=follow)
            finally:
                told.end()
                # Of a command that is refused at once there is nothing to count.
                if told.count or not isinstance(sys.exception(), Exception):
                    sys.stdout.flush()
                    say(f"zab: {told}", sys.stderr, flush=True)

    carry_out(context, work, writes=group is not None)


class _Printer:
    """Prints records until there are enough."""

    def __init__(self, show: Callable[[Any], None], count: int | None, told: Told) -> None:
        self._show = show
        self._count = count
        self._told = told

    @property
    def is_done(self) -> bool:
        return self._count is not None and self._told.count >= self._count

    @property
    def wanted(self) -> int:
        """How many records one poll may bring: none is fetched that would not be printed."""
        return POLL_COUNT_MAX if self._count is None else min(POLL_COUNT_MAX, self._count - self._told.count)

    def show(self, records: list[Any]) -> None:
        for record in records:
            # Before it can be read: who has read it and interrupts the command is told of it.
            self._told.add()
            self._show(record)


def _consume_alone(
    brokers: Brokers,
    settings: dict[str, Any],
    topic: str,
    wanted: list[int] | None,
    position: Position,
    printer: _Printer,
    *,
    follow: bool,
) -> None:
    from kafka import TopicPartition

    with brokers.admin() as admin:
        found = {each["partition_index"] for each in brokers.described(admin, topic)["partitions"]}
        numbers = sorted(found if not wanted else set(wanted))
        for number in numbers:
            if number not in found:
                detail = f"the topic has {count_of(len(found), 'partition')}"
                raise RefusedError(f"{topic}-{number}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
        begins = resolved(admin, [(topic, number) for number in numbers], position)
        if isinstance(position, int):
            _tell_moved(begins, position)
    places = [TopicPartition(topic, number) for number in numbers]
    with brokers.consumer(auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign(places)
        ends = {} if follow else consumer.end_offsets(places)
        for place in places:
            consumer.seek(place, begins[topic, place.partition])
        while not printer.is_done:
            if not follow and all(_is_at(consumer, place, ends[place]) for place in places):
                return
            for records in consumer.poll(_POLL_MS, max_records=printer.wanted).values():
                printer.show(records if follow else [each for each in records if each.offset < ends[_place(each)]])


def _place(record: Any) -> Any:
    from kafka import TopicPartition

    return TopicPartition(record.topic, record.partition)


def _is_at(consumer: Any, place: Any, end: int) -> bool:
    """Whether all before this offset was read. No, where nobody knows yet, or the group has just taken it away."""
    from kafka.errors import IllegalStateError, KafkaTimeoutError

    try:
        position = consumer.position(place, timeout_ms=_POLL_MS)
    except (IllegalStateError, KafkaTimeoutError):
        return False
    return position is not None and position >= end


def _tell_moved(begins: dict[tuple[str, int], int], wanted: int) -> None:
    for (topic, number), offset in begins.items():
        if offset != wanted:
            say(f"zab: {topic}-{number} has no offset {wanted}; it begins at {offset}", sys.stderr)


def _consume_in_group(
    brokers: Brokers, settings: dict[str, Any], topic: str, printer: _Printer, *, follow: bool
) -> None:
    from kafka import ConsumerRebalanceListener

    has_joined = False

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            nonlocal has_joined
            has_joined = False

        def on_partitions_assigned(self, assigned: Any) -> None:
            nonlocal has_joined
            has_joined = True

    with brokers.admin() as admin:
        brokers.described(admin, topic)
    with brokers.consumer(**settings) as consumer:
        consumer.subscribe([topic], listener=Listener())
        # Who leads a group gives partitions of what it has heard of, and joins once more when it hears of others. If a
        # poll ends in the middle of that, kafka-python never does (`need_rejoin`): it has to know them before.
        consumer.topics()
        ends: dict[Any, int] = {}
        while not printer.is_done:
            found = consumer.poll(_GROUP_POLL_MS, max_records=printer.wanted)
            for records in found.values():
                printer.show(records)
            if found:
                sys.stdout.flush()
                consumer.commit()
            mine = consumer.assignment()
            if has_joined and not follow:
                new = [place for place in mine if place not in ends]
                ends.update(consumer.end_offsets(new) if new else {})
                if all(_is_at(consumer, place, ends[place]) for place in mine):
                    return


class _Shown:
    """A record as a line of text."""

    def __init__(self, *, keys: bool, headers: bool, times: bool, offsets: bool) -> None:
        self._keys = keys
        self._headers = headers
        self._times = times
        self._offsets = offsets

    def show(self, record: Any) -> None:
        line = self._line(record)
        if sys.stdout.isatty() or is_text(line):
            say(line.decode("utf-8", "backslashreplace"))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(line + b"\n")

    def _line(self, record: Any) -> bytes:
        before: list[bytes] = []
        if self._offsets:
            before.append(f"{record.partition}:{record.offset}".encode())
        if self._times:
            before.append((time_text(record.timestamp) or "-").encode())
        if self._headers:
            pairs = (in_line(name).encode() + b"=" + _data(value) for name, value in record.headers)
            before.append(b",".join(pairs) or b"-")
        if self._keys:
            before.append(_data(record.key))
        return b"\t".join([*before, _data(record.value)])


def _data(data: bytes | None) -> bytes:
    return b"null" if data is None else data
