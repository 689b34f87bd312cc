"""The options of `zab.topic`, under the names that Spark's own source of Kafka has. Names may have any case.

    option                                 value
    dirs                                   log directories, as a JSON list or with commas between them
    subscribe                              topics, with commas between them
    subscribePattern                       a regular expression that the whole name matches
    assign                                 partitions: {"topic": [0, 1]}
    startingOffsets                        earliest (default), or {"topic": {"0": 23, "1": -2}}; -2 is earliest
    endingOffsets                          latest (default), or {"topic": {"0": 50, "1": -1}}; exclusive, -1 is latest
    startingTimestamp, endingTimestamp     ms since 1970: from, and up to, the first record that is not older
    startingOffsetsByTimestamp, endingOffsetsByTimestamp
                                           the same for each partition: {"topic": {"0": 1767225600000}}
    startingOffsetsByTimestampStrategy     error (default), or latest, where no record is so young
    failOnDataLoss                         true (default): offsets that are no longer, or not yet there are an error
    includeHeaders                         false: without the column headers
    kafka.isolation.level                  read_uncommitted (default), or read_committed

and of the pipeline's own:

    replicas       one (default): each record once; all: the records of every replica
    uncommitted    true: also what is not known to be committed, up to the end of the log
    damaged        fail (default), or skip, which leaves out what cannot be read

Without subscribe, subscribePattern and assign, all topics are read but those that brokers keep for themselves.

A stream (`topic_stream`) has `kafka.bootstrap.servers` instead of dirs, `maxOffsetsPerTrigger`, and of these options
those that say which topics, where it starts, failOnDataLoss, includeHeaders and kafka.isolation.level. It starts at
latest, as Spark's.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

from attrs import frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.topics.replicas import INTERNAL

__all__ = [
    "EARLIEST",
    "LATEST",
    "Bound",
    "Strategy",
    "StreamOptions",
    "TopicOptions",
    "Wanted",
    "has_headers",
    "is_stream",
]

EARLIEST: Final = -2
LATEST: Final = -1
Strategy: TypeAlias = Literal["error", "latest"]
Replicas: TypeAlias = Literal["one", "all"]
OffsetsOf: TypeAlias = Mapping[str, Mapping[int, int]]

_CHOICES: Final = {
    "startingoffsetsbytimestampstrategy": ("error", "latest"),
    "failondataloss": ("true", "false"),
    "includeheaders": ("true", "false"),
    "kafka.isolation.level": ("read_uncommitted", "read_committed"),
    "replicas": ("one", "all"),
    "uncommitted": ("false", "true"),
    "damaged": ("fail", "skip"),
}
"""The values of each, the default first."""
_OTHERS: Final = frozenset(
    {
        "dirs",
        "path",
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "endingoffsets",
        "startingtimestamp",
        "endingtimestamp",
        "startingoffsetsbytimestamp",
        "endingoffsetsbytimestamp",
    }
)
_SERVERS: Final = "kafka.bootstrap.servers"
_OF_STREAMS: Final = frozenset(
    {
        _SERVERS,
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "startingtimestamp",
        "startingoffsetsbytimestamp",
        "startingoffsetsbytimestampstrategy",
        "maxoffsetspertrigger",
        "failondataloss",
        "includeheaders",
        "kafka.isolation.level",
    }
)
_PARTITION_MAX: Final = (1 << 31) - 1
_OFFSET_MAX: Final = (1 << 63) - 1


@frozen
class Bound:
    """Where reading begins or ends. `text`: earliest or latest, for every partition that `offsets` or `times_ms` does
    not name; `time_ms`: for all."""

    text: str = ""
    offsets: OffsetsOf | None = None
    time_ms: int | None = None
    times_ms: OffsetsOf | None = None

    def of(self, topic: str, partition: int) -> tuple[int | None, int | None]:
        """(offset, EARLIEST or LATEST; time) of a partition; both None: it is not named."""
        if self.time_ms is not None:
            return None, self.time_ms
        if self.times_ms is not None:
            return None, self.times_ms.get(topic, {}).get(partition)
        if self.offsets is not None:
            return self.offsets.get(topic, {}).get(partition), None
        return (EARLIEST if self.text == "earliest" else LATEST), None

    @property
    def is_named(self) -> bool:
        """Whether it names offsets or times of single partitions."""
        return self.offsets is not None or self.times_ms is not None


@frozen
class Wanted:
    """Which partitions are read. `partitions`: of `assign`."""

    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    partitions: Mapping[str, frozenset[int]] | None = None

    @property
    def named(self) -> frozenset[str]:
        """The topics that are named one by one."""
        return self.topics if self.topics is not None else frozenset(self.partitions or ())

    def has(self, topic: str, partition: int) -> bool:
        """Whether the partition is to be read."""
        if self.partitions is not None:
            return partition in self.partitions.get(topic, ())
        if self.topics is not None:
            return topic in self.topics
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None and topic not in INTERNAL
        return topic not in INTERNAL

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "Wanted":
        """Raises PipelineError."""
        ways = [name for name in ("subscribe", "subscribepattern", "assign") if name in given]
        if len(ways) > 1:
            raise PipelineError(f"give one of the options {', '.join(ways)}")
        return cls(
            _names(given["subscribe"]) if "subscribe" in given else None,
            _pattern(given["subscribepattern"]) if "subscribepattern" in given else None,
            _assigned(given["assign"]) if "assign" in given else None,
        )


@frozen
class TopicOptions:
    """The options of one read."""

    dirs: tuple[str, ...]
    starting: Bound = Bound("earliest")
    ending: Bound = Bound("latest")
    wanted: Wanted = Wanted()
    strategy: Strategy = "error"
    fails_on_loss: bool = True
    has_headers: bool = True
    is_committed: bool = False
    replicas: Replicas = "one"
    uncommitted: bool = False
    skips_damage: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str], also: Iterable[str] = ()) -> "TopicOptions":
        """Parse the options of a data source. `also`: names of options that are parsed elsewhere. Raises
        PipelineError."""
        ignored = {name.lower() for name in also}
        given = {name.lower(): value for name, value in options.items() if name.lower() not in ignored}
        unknown = given.keys() - _OTHERS - _CHOICES.keys()
        if unknown:
            raise PipelineError(f"unknown option {', '.join(sorted(unknown))}")
        chosen = {name: _choice(given, name) for name in _CHOICES}
        return cls(
            _dirs(given),
            _bound(given, "starting", "earliest"),
            _bound(given, "ending", "latest"),
            Wanted.parse(given),
            cast("Strategy", chosen["startingoffsetsbytimestampstrategy"]),
            chosen["failondataloss"] == "true",
            chosen["includeheaders"] == "true",
            chosen["kafka.isolation.level"] == "read_committed",
            cast("Replicas", chosen["replicas"]),
            chosen["uncommitted"] == "true",
            chosen["damaged"] == "skip",
        )


def _dirs(given: Mapping[str, str]) -> tuple[str, ...]:
    """The directories of the option dirs, or path. Raises PipelineError."""
    dirs = given.get("dirs") or given.get("path") or ""
    listed = _json("dirs", dirs) if dirs.startswith("[") else [part.strip() for part in dirs.split(",")]
    found = tuple(str(part) for part in listed if part)
    if not found:
        raise PipelineError('option "dirs" is missing: the log directories to read')
    return found


@frozen
class StreamOptions:
    """The options of a stream from brokers."""

    servers: str
    starting: Bound
    wanted: Wanted
    offsets_max: int | None
    """How many offsets a batch has at most; None: all."""
    fails_on_loss: bool
    is_committed: bool
    strategy: Strategy

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "StreamOptions":
        """Raises PipelineError."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = given.keys() - _OF_STREAMS
        if unknown:
            raise PipelineError(f"a stream of topics has no option {', '.join(sorted(unknown))}")
        servers = given.get(_SERVERS, "").replace(" ", "")
        if not servers:
            raise PipelineError("option kafka.bootstrap.servers is missing: host:port of brokers")
        offsets_max = given.get("maxoffsetspertrigger")
        if offsets_max is not None and not re.fullmatch(r"[1-9]\d{0,17}", offsets_max):
            raise PipelineError(f"option maxOffsetsPerTrigger: {offsets_max!r} is no number of offsets")
        return cls(
            servers,
            _bound(given, "starting", "latest"),
            Wanted.parse(given),
            None if offsets_max is None else int(offsets_max),
            _choice(given, "failondataloss") == "true",
            _choice(given, "kafka.isolation.level") == "read_committed",
            cast("Strategy", _choice(given, "startingoffsetsbytimestampstrategy")),
        )


def is_stream(options: Mapping[str, str]) -> bool:
    """Whether these options are those of a stream from brokers."""
    return any(name.lower() == _SERVERS for name in options)


def has_headers(options: Mapping[str, str]) -> bool:
    """Whether the column headers is wanted. Raises PipelineError."""
    return _choice({name.lower(): value for name, value in options.items()}, "includeheaders") == "true"


def _choice(given: Mapping[str, str], name: str) -> str:
    values = _CHOICES[name]
    value = given.get(name, values[0]).lower()
    if value not in values:
        raise PipelineError(f"option {name} is {' or '.join(values)}, not {value!r}")
    return value


def _names(text: str) -> frozenset[str]:
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise PipelineError("option subscribe names no topic")
    return names


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise PipelineError(f"option subscribePattern: {text!r} is no regular expression: {error}") from None


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise PipelineError(f"option {name} is no JSON: {text[:200]}") from None


def _assigned(text: str) -> dict[str, frozenset[int]]:
    found = _json("assign", text)
    is_right = isinstance(found, dict) and all(
        isinstance(numbers, list) and all(_is_partition(one) for one in numbers) for numbers in found.values()
    )
    if not is_right or not found:
        raise PipelineError(f'option assign is like {{"topic": [0, 1]}}, not {text[:200]}')
    return {topic: frozenset(numbers) for topic, numbers in found.items()}


def _is_partition(value: object) -> bool:
    return type(value) is int and 0 <= value <= _PARTITION_MAX


def _bound(given: Mapping[str, str], side: str, default: str) -> Bound:
    """In Spark's order: the timestamp before the offsets by timestamp, these before the offsets."""
    if f"{side}timestamp" in given:
        return Bound(time_ms=_time(f"{side}Timestamp", given[f"{side}timestamp"]))
    if f"{side}offsetsbytimestamp" in given:
        return Bound(times_ms=_offsets(f"{side}OffsetsByTimestamp", given[f"{side}offsetsbytimestamp"]))
    text = given.get(f"{side}offsets", default)
    words = {"earliest": EARLIEST, "latest": LATEST}
    # Where a batch read ends cannot be earliest, and it cannot begin at latest.
    allowed = words if side == "starting" and default == "latest" else {default: words[default]}
    if text.lower() in allowed:
        return Bound(text.lower())
    return Bound(offsets=_offsets(f"{side}Offsets", text, *allowed.values()))


def _time(name: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise PipelineError(f"option {name}: {text!r} is no time in ms since 1970")
    return int(text)


def _offsets(name: str, text: str, *words: int) -> dict[str, dict[int, int]]:
    """By topic and partition. `words`: which of EARLIEST and LATEST are allowed, beside numbers from 0 on."""
    found = _json(name, text)
    is_right = isinstance(found, dict) and all(isinstance(one, dict) for one in found.values())
    if is_right:
        try:
            result = {topic: {int(number): offset for number, offset in one.items()} for topic, one in found.items()}
        except ValueError:
            is_right = False
        else:
            numbers = [(key, value) for one in result.values() for key, value in one.items()]
            is_right = all(
                _is_partition(key) and type(value) is int and (0 <= value <= _OFFSET_MAX or value in words)
                for key, value in numbers
            )
    if not is_right:
        meanings = {EARLIEST: "; -2 is earliest", LATEST: "; -1 is latest"}
        allowed = "".join(meanings[word] for word in words)
        raise PipelineError(f'option {name} is like {{"topic": {{"0": 23}}}}{allowed}; not {text[:200]}')
    return result
