"""What auto-recovery keeps below `underreplication`: which ledgers lack copies, who repairs them, who audits.

| path | data |
|---|---|
| `LAYOUT` | text: type `BASIC`, version 1 |
| `ledgers/HHHH/HHHH/HHHH/HHHH/urLNNNNNNNNNN` | text: `Underreplicated`; the id in hexadecimal, then in decimal |
| `locks/urLNNNNNNNNNN` | ephemeral; text: which bookie repairs |
| `disable` | exists: auto-recovery is off |
| `lostBookieRecoveryDelay` | seconds, decimal |
| `checkallledgersctime`, `placementpolicycheckctime`, `replicascheckctime` | when the check ended, in ms since 1970 |
| `orphanscheckctime` | the same of the check for orphans, which BookKeeper does not have |
| `auditorelection` | text: which bookie is the auditor |
| `auditorelection/V_` | sequential ephemerals; text: which bookie is a candidate. The lowest is the auditor |

A record is marked again by adding the bookie to its list, with the version that was read; a worker deletes it with the
version that it read under the lock.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from zab.ledger.entries.ids import ID_MAX, BookieId, is_bookie_id
from zab.ledger.metadata.layout import UNDERREPLICATION
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.text_format import parse_binary, parse_text, print_text, string_of
from zab.ledger.wire.protobuf import message_classes

RECORDS: Final = f"{UNDERREPLICATION}/ledgers"
LOCKS: Final = f"{UNDERREPLICATION}/locks"
DISABLE: Final = f"{UNDERREPLICATION}/disable"
LOST_BOOKIE_RECOVERY_DELAY: Final = f"{UNDERREPLICATION}/lostBookieRecoveryDelay"
CHECK_ALL_LEDGERS_TIME: Final = f"{UNDERREPLICATION}/checkallledgersctime"
PLACEMENT_CHECK_TIME: Final = f"{UNDERREPLICATION}/placementpolicycheckctime"
REPLICAS_CHECK_TIME: Final = f"{UNDERREPLICATION}/replicascheckctime"
ORPHANS_CHECK_TIME: Final = f"{UNDERREPLICATION}/orphanscheckctime"
ELECTION: Final = f"{UNDERREPLICATION}/auditorelection"
VOTE_PREFIX: Final = "V_"
REPLICATION_LAYOUT: Final = f"{UNDERREPLICATION}/LAYOUT"

_LEAF: Final = re.compile(r"urL([0-9]{10,19})", re.ASCII)
_DELAY: Final = re.compile(rb"[0-9]{1,10}")

_CLASSES: Final = message_classes(
    "underreplication",
    {
        "LedgerRereplicationLayoutFormat": ["type 1 bytes", "version 2 int32"],
        "UnderreplicatedLedgerFormat": ["replica 1 bytes rep", "ctime 2 int64 opt"],
        "LockDataFormat": ["bookieId 1 bytes opt"],
        "AuditorVoteFormat": ["bookieId 1 bytes opt"],
        "CheckTime": ["time 1 int64"],
    },
)
_RECORD: Final = _CLASSES["UnderreplicatedLedgerFormat"]
_LOCK: Final = _CLASSES["LockDataFormat"]
_VOTE: Final = _CLASSES["AuditorVoteFormat"]
_LAYOUT: Final = _CLASSES["LedgerRereplicationLayoutFormat"]
_TIME: Final = _CLASSES["CheckTime"]


@attrs.frozen
class Underreplicated:
    """That a ledger lacks copies on these bookies."""

    missing: tuple[BookieId, ...]
    ctime_ms: int | None = None
    """When that was first noticed, in milliseconds since 1970."""

    def merged(self, bookie: BookieId) -> Underreplicated:
        """The record with one bookie more; this one if it names the bookie already."""
        return self if bookie in self.missing else attrs.evolve(self, missing=(*self.missing, bookie))


def record_path(root: str, ledger: int) -> str:
    """The record of a ledger that lacks copies."""
    assert 0 <= ledger <= ID_MAX, ledger
    digits = f"{ledger:016x}"
    return f"{root}/{RECORDS}/{digits[:4]}/{digits[4:8]}/{digits[8:12]}/{digits[12:]}/{_leaf(ledger)}"


def lock_path(root: str, ledger: int) -> str:
    """The lock of a ledger that is being repaired."""
    return f"{root}/{LOCKS}/{_leaf(ledger)}"


def ledger_of_leaf(name: str) -> int | None:
    """The ledger whose record or lock has this name; None: it is no such name."""
    found = _LEAF.fullmatch(name)
    if found is None:
        return None
    ledger = int(found[1])
    return ledger if ledger <= ID_MAX and _leaf(ledger) == name else None


def _leaf(ledger: int) -> str:
    return f"urL{ledger:010}"


def encode_record(record: Underreplicated) -> bytes:
    """The data of a record."""
    message = _RECORD(replica=[bookie.encode() for bookie in record.missing])
    if record.ctime_ms is not None:
        message.ctime = record.ctime_ms
    return print_text(message)


def decode_record(data: bytes) -> Underreplicated:
    """The record in the data of its znode. Raises InvalidMetadataError."""
    message = parse_text(_RECORD, data)
    missing = tuple(dict.fromkeys(map(_bookie, message.replica)))
    return Underreplicated(missing, message.ctime if message.HasField("ctime") else None)


def encode_lock(bookie: BookieId) -> bytes:
    """The data of a lock."""
    return print_text(_LOCK(bookieId=bookie.encode()))


def encode_vote(bookie: BookieId) -> bytes:
    """The data of a candidate, and of the election for the auditor."""
    return print_text(_VOTE(bookieId=bookie.encode()))


def decode_vote(data: bytes) -> BookieId | None:
    """Which bookie is the candidate or the auditor; None: nobody yet. Raises InvalidMetadataError."""
    return _optional_bookie(parse_text(_VOTE, data))


def encode_replication_layout() -> bytes:
    """The data of the layout."""
    return print_text(_LAYOUT(type=b"BASIC", version=1))


def is_replication_layout_served(data: bytes) -> bool:
    """Whether records are laid out as here. Raises InvalidMetadataError."""
    message = parse_text(_LAYOUT, data)
    return (message.type, message.version) == (b"BASIC", 1)


def encode_check_time(time_ms: int) -> bytes:
    """The data of a check's time."""
    data: bytes = _TIME(time=time_ms).SerializeToString()
    return data


def decode_check_time(data: bytes) -> int:
    """When a check last ended, in milliseconds since 1970. Raises InvalidMetadataError."""
    time_ms: int = parse_binary(_TIME, data).time
    return time_ms


def encode_delay(seconds: int) -> bytes:
    """The data of the delay before the ledgers of a lost bookie are repaired."""
    return b"%d" % seconds


def decode_delay(data: bytes) -> int:
    """That delay in seconds. Raises InvalidMetadataError."""
    if _DELAY.fullmatch(data) is None:
        raise InvalidMetadataError(f"a delay of {data[:20]!r} seconds")
    return int(data)


def _optional_bookie(message: Any) -> BookieId | None:
    return _bookie(message.bookieId) if message.HasField("bookieId") else None


def _bookie(value: bytes) -> BookieId:
    text = string_of(value, "name of a bookie")
    if not is_bookie_id(text):
        raise InvalidMetadataError(f"{text[:60]!r} is no name of a bookie")
    return BookieId(text)
