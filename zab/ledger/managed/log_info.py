"""The znode of a managed ledger: a frozen value with its invariants, its bytes, and the paths below its root.

    <logs>/<name>                     the list of ledgers, as JSON; see `encode_log`
    <logs>/<name>/cursors/<cursor>    one cursor, see `cursor_state`
    <logs>/<name>/owner               ephemeral: where the present owner can be found. A hint: it decides nothing

    info.claimed(owner)               another owner: its epoch is the next one
    info.with_open(ledger)            one more ledger, which is open
    info.with_end(ledger, …)          the open ledger has come to its end; an empty one leaves the list
    info.without(count, …)            the first ledgers are trimmed
    info.with_offload(ledger, …)      how far its copy in an object store is

Positions are pairs of a ledger and an entry. Ledgers of one list rise, so positions are in the order of the log.

The root and the format are this project's own: Pulsar's lists have no owner and no epoch, so nobody can claim one.

Not here: who may write it, and together with what (`zab.ledger.managed.store`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import pairwise
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from attrs import evolve, field, frozen

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.ids import ID_MAX, NONE

LOGS_ROOT: Final = "/logs"
FORMAT_VERSION: Final = 1
CURSORS: Final = "cursors"
OWNER: Final = "owner"
"""The children of a log's znode."""
LEDGERS_MAX: Final = 4_000
"""The most ledgers of one list; its znode then has some 300 KiB."""
LEDGERS_MANY: Final = 2_000
"""From here on ledgers are rolled later, so that the list grows slower."""
NAME_BYTES_MAX: Final = 255
URI_CHARACTERS_MAX: Final = 1_000
"""The longest name of a directory of copies; the list has it once for each ledger."""
_UID: Final = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)


class InvalidLogError(ValueError):
    """Bytes that are no managed ledger's, or a value that breaks an invariant of one."""


class Position(NamedTuple):
    """Where an entry is. `entry` -1: before the first entry of this ledger."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


class LogState(Enum):
    """The word that is in the znode."""

    OPEN = "open"
    TERMINATED = "terminated"
    """It has an end: nobody appends any more."""
    DELETING = "deleting"
    """Its ledgers go, one by one, and then it."""


@frozen(kw_only=True)
class LogConfig:
    """How its ledgers are written."""

    ensemble_size: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    digest_type: DigestType = DigestType.CRC32C

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.ack_quorum <= self.write_quorum <= self.ensemble_size:
            quorums = f"{self.ensemble_size}/{self.write_quorum}/{self.ack_quorum}"
            raise InvalidLogError(f"quorums are {quorums}, not 1 <= ack <= write <= ensemble")


class OffloadState(Enum):
    """The word that is in the znode."""

    COPYING = "copying"
    """Objects are being written; nobody reads them."""
    DONE = "done"
    """The objects were read back, and are what the bookies have."""


@frozen(kw_only=True)
class Offload:
    """The copy of a ledger in an object store."""

    state: OffloadState
    uid: str
    """Random, of one try to copy it: in the names of its objects."""
    uri: str
    """The directory of its objects: a path or a URI."""
    when_ms: int = 0
    """When this state began, by the clock of the owner."""
    is_on_bookies: bool = True
    """Whether bookies have the ledger, too."""
    rest: Mapping[str, Any] = field(factory=dict, hash=False)

    def __attrs_post_init__(self) -> None:
        if not _UID.fullmatch(self.uid):
            raise InvalidLogError(f"the uid of a copy has letters and digits alone: {self.uid[:80]!r}")
        if not 1 <= len(self.uri) <= URI_CHARACTERS_MAX:
            raise InvalidLogError(f"the URI of a copy has {len(self.uri)} characters, not 1 to {URI_CHARACTERS_MAX}")
        if self.state is not OffloadState.DONE and not self.is_on_bookies:
            raise InvalidLogError("a ledger whose copy is not done is not on bookies")

    @property
    def is_done(self) -> bool:
        return self.state is OffloadState.DONE


@frozen(kw_only=True)
class LedgerInfo:
    """One ledger of the list. entries None: it is open, or its end is not known yet. `rest`: members of the JSON that
    this version does not know, which every rewrite keeps."""

    id: int
    entries: int | None = None
    length: int = 0
    """Bytes of payload."""
    closed_ms: int | None = None
    """By the clock of the owner that closed it, milliseconds since 1970."""
    offload: Offload | None = None
    """None: it is not in an object store."""
    rest: Mapping[str, Any] = field(factory=dict, hash=False)

    @property
    def last(self) -> Position:
        """The position of its last entry. It is closed."""
        assert self.entries is not None
        return Position(self.id, self.entries - 1)

    @property
    def is_on_bookies(self) -> bool:
        return self.offload is None or self.offload.is_on_bookies


@frozen(kw_only=True)
class LogInfo:
    """Constructing one that breaks an invariant raises InvalidLogError."""

    config: LogConfig = LogConfig()
    created_ms: int = 0
    epoch: int = 1
    """Counts its owners."""
    owner: str = ""
    """Random, of the present owner: decides whether a write whose answer was lost was its own."""
    state: LogState = LogState.OPEN
    ledgers: tuple[LedgerInfo, ...] = ()
    terminated: Position | None = None
    """The last position of a log that is terminated."""
    trimmed: Position | None = None
    """Before the first entry that is kept; None: nothing was trimmed."""
    rest: Mapping[str, Any] = field(factory=dict, hash=False)

    def __attrs_post_init__(self) -> None:
        if (broken := next(_broken(self), None)) is not None:
            raise InvalidLogError(broken)

    @property
    def open_ledger(self) -> LedgerInfo | None:
        """The ledger whose end is not known."""
        return self.ledgers[-1] if self.ledgers and self.ledgers[-1].entries is None else None

    @property
    def entries(self) -> int:
        """Entries of all ledgers whose end is known."""
        return sum(each.entries or 0 for each in self.ledgers)

    @property
    def length(self) -> int:
        """Bytes of payload of all ledgers whose end is known."""
        return sum(each.length for each in self.ledgers)

    @property
    def first(self) -> Position:
        """Before the first entry that is there."""
        return Position(self.ledgers[0].id, NONE) if self.ledgers else self.trimmed or Position(0, NONE)

    @property
    def last(self) -> Position:
        """The last entry of the ledgers whose end is known; before everything if there is none."""
        ended = [each for each in self.ledgers if each.entries is not None]
        return ended[-1].last if ended else self.first

    def at(self, ledger: int) -> LedgerInfo | None:
        """The ledger with this id, None if it is not in the list."""
        return next((each for each in self.ledgers if each.id == ledger), None)

    def after(self, ledger: int) -> LedgerInfo | None:
        """The first ledger whose id is larger; the list may have lost this one."""
        return next((each for each in self.ledgers if each.id > ledger), None)

    def next_after(self, after: Position) -> tuple[LedgerInfo, int] | None:
        """The ledger, and its first entry, that is read after this position; None: no ledger has more, nor will."""
        here, first = self.at(after.ledger), after.entry + 1
        if here is None or (here.entries is not None and first >= here.entries):
            here, first = self.after(after.ledger), 0
        return None if here is None else (here, first)

    # --------------------------------------------------------------------------------------------------- other values

    def claimed(self, owner: str) -> LogInfo:
        return evolve(self, epoch=self.epoch + 1, owner=owner)

    def with_open(self, ledger: int) -> LogInfo:
        return evolve(self, ledgers=(*self.ledgers, LedgerInfo(id=ledger)))

    def with_end(self, ledger: int, last: int, length: int, closed_ms: int) -> LogInfo:
        """This ledger, the last one, ends at `last`; -1: it is empty, and leaves the list."""
        kept, end = self.ledgers[:-1], self.ledgers[-1]
        assert end.id == ledger, (end, ledger)
        if last < 0:
            return evolve(self, ledgers=kept)
        ended = evolve(end, entries=last + 1, length=length, closed_ms=closed_ms)
        return evolve(self, ledgers=(*kept, ended))

    def terminated_here(self) -> LogInfo:
        """No ledger follows."""
        return evolve(self, state=LogState.TERMINATED, terminated=self.last)

    def with_offload(self, ledger: int, offload: Offload) -> LogInfo:
        """This ledger, which is closed, has this copy."""
        changed = tuple(evolve(each, offload=offload) if each.id == ledger else each for each in self.ledgers)
        assert changed != self.ledgers, ledger
        return evolve(self, ledgers=changed)

    def without(self, count: int) -> LogInfo:
        """The first `count` ledgers go."""
        kept = self.ledgers[count:]
        first = kept[0].id if kept else self.ledgers[count - 1].id + 1
        return evolve(self, ledgers=kept, trimmed=Position(first, NONE))


def _broken(info: LogInfo) -> Iterator[str]:
    """What is wrong with a value, one sentence each."""
    ids = [each.id for each in info.ledgers]
    if len(ids) > LEDGERS_MAX:
        yield f"a list of {len(ids)} ledgers, at most {LEDGERS_MAX} are possible"
    if any(not 0 <= each <= ID_MAX for each in ids) or any(one >= other for one, other in pairwise(ids)):
        yield f"the ids of ledgers do not rise: {ids[:20]}"
    if any(each.entries is None for each in info.ledgers[:-1]):
        yield "a ledger that is not the last one has no end"
    if any(each.entries is not None and each.entries < 1 for each in info.ledgers):
        yield "an empty ledger is in the list"
    if any(each.entries is None and each.offload is not None for each in info.ledgers):
        yield "a ledger without an end has a copy"
    if info.epoch < 1:
        yield f"the epoch is {info.epoch}"
    if (info.state is LogState.TERMINATED) != (info.terminated is not None) and info.state is not LogState.DELETING:
        yield f"the log is {info.state.value}, and its last position is {info.terminated}"
    if info.state is LogState.TERMINATED and info.open_ledger is not None:
        yield "a terminated log has a ledger without an end"


# --------------------------------------------------------------------------------------------------------------- paths


def check_name(name: str) -> str:
    """A name of a log or a cursor. Raises InvalidLogError."""
    try:
        size = len(quote(name, safe=""))
    except UnicodeEncodeError:
        raise InvalidLogError(f"a name that is not in Unicode: {name[:80]!r}") from None
    if not name or name in (".", "..") or size > NAME_BYTES_MAX:
        raise InvalidLogError(f"no name of 1 to {NAME_BYTES_MAX} bytes, percent-encoded: {name[:80]!r}")
    return name


def log_path(logs: str, name: str) -> str:
    """The znode of a log; its name is percent-encoded, so that it is one level."""
    return f"{logs}/{quote(check_name(name), safe='')}"


def cursors_path(logs: str, name: str) -> str:
    return f"{log_path(logs, name)}/{CURSORS}"


def cursor_path(logs: str, name: str, cursor: str) -> str:
    return f"{cursors_path(logs, name)}/{quote(check_name(cursor), safe='')}"


def owner_path(logs: str, name: str) -> str:
    return f"{log_path(logs, name)}/{OWNER}"


def name_of(child: str) -> str:
    """The name that a child of the root, or of `cursors`, stands for."""
    return unquote(child)


# --------------------------------------------------------------------------------------------------------------- bytes


def encode_log(info: LogInfo) -> bytes:
    """UTF-8 JSON, keys sorted, without spaces: equal values are equal bytes."""
    config = info.config
    quorums = {"e": config.ensemble_size, "write": config.write_quorum, "ack": config.ack_quorum}
    return to_json(
        {
            **info.rest,
            "config": {**quorums, "digest": config.digest_type.name},
            "created": info.created_ms,
            "epoch": info.epoch,
            "ledgers": [_ledger_to_json(each) for each in info.ledgers],
            "owner": info.owner,
            "state": info.state.value,
            "terminated": info.terminated,
            "trimmed": info.trimmed,
            "v": FORMAT_VERSION,
        }
    )


def to_json(members: Mapping[str, Any]) -> bytes:
    """Keys sorted, no spaces."""
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _ledger_to_json(each: LedgerInfo) -> dict[str, Any]:
    if each.entries is None:
        return {**each.rest, "id": each.id}
    members: dict[str, Any] = {"id": each.id, "entries": each.entries, "bytes": each.length, "closed": each.closed_ms}
    if each.offload is not None:
        members["offload"] = _offload_to_json(each.offload)
    return {**each.rest, **members}


def _offload_to_json(of: Offload) -> dict[str, Any]:
    members = {"state": of.state.value, "uid": of.uid, "uri": of.uri, "when": of.when_ms}
    return {**of.rest, **members, **({} if of.is_on_bookies else {"bookies": False})}


def decode_log(data: bytes) -> LogInfo:
    """Raises InvalidLogError."""
    found = from_json(data)
    try:
        config = dict(found.pop("config"))
        return LogInfo(
            config=LogConfig(
                ensemble_size=whole(config["e"]),
                write_quorum=whole(config["write"]),
                ack_quorum=whole(config["ack"]),
                digest_type=DigestType[str(config["digest"])],
            ),
            created_ms=whole(found.pop("created")),
            epoch=whole(found.pop("epoch")),
            owner=str(found.pop("owner")),
            state=LogState(found.pop("state")),
            ledgers=tuple(_ledger_from_json(dict(each)) for each in found.pop("ledgers")),
            terminated=position_from(found.pop("terminated")),
            trimmed=position_from(found.pop("trimmed")),
            rest=found,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidLogError):
            raise
        raise InvalidLogError(f"no managed ledger: {error!r}") from None


def from_json(data: bytes) -> dict[str, Any]:
    """The members of an object of this version, without `v`. Raises InvalidLogError."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidLogError("no JSON") from None
    if not isinstance(found, dict):
        raise InvalidLogError("no JSON object")
    if found.pop("v", None) != FORMAT_VERSION:
        raise InvalidLogError(f"not of format {FORMAT_VERSION}, which is the only one that is known")
    return found


def _ledger_from_json(found: dict[str, Any]) -> LedgerInfo:
    entries, closed = found.pop("entries", None), found.pop("closed", None)
    return LedgerInfo(
        id=whole(found.pop("id")),
        entries=None if entries is None else whole(entries),
        length=whole(found.pop("bytes", 0)),
        closed_ms=None if closed is None else whole(closed),
        offload=_offload_from_json(found.pop("offload", None)),
        rest=found,
    )


def _offload_from_json(members: object) -> Offload | None:
    if members is None:
        return None
    if not isinstance(members, dict):
        raise InvalidLogError(f"no copy of a ledger: {str(members)[:40]}")
    found = dict(members)
    uid, uri, is_on_bookies = found.pop("uid"), found.pop("uri"), found.pop("bookies", True)
    if not isinstance(uid, str) or not isinstance(uri, str) or not isinstance(is_on_bookies, bool):
        raise InvalidLogError("a copy of a ledger has other members than a uid, a URI, and whether bookies have it")
    return Offload(
        state=OffloadState(found.pop("state")),
        uid=uid,
        uri=uri,
        when_ms=whole(found.pop("when")),
        is_on_bookies=is_on_bookies,
        rest=found,
    )


def whole(found: object) -> int:
    """A whole number of 63 bits, or -1."""
    if type(found) is not int or not -1 <= found <= ID_MAX:
        raise InvalidLogError(f"no number: {str(found)[:40]}")
    return found


def position_from(found: object) -> Position | None:
    """A pair of numbers, or null."""
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != 2:
        raise InvalidLogError(f"no position: {str(found)[:40]}")
    return Position(whole(found[0]), whole(found[1]))
