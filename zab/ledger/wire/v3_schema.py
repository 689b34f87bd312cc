"""The messages of version 3, and its numbers.

Enums are declared as int32, which is the same on the wire: a number that is not known reaches this code, which answers
it, instead of making a required field vanish.
"""

from __future__ import annotations

from typing import Final

from zab.ledger.wire.protobuf import MessageClass, message_classes
from zab.ledger.wire.status import Status

VERSION: Final = 3

READ_ENTRY: Final = 1
ADD_ENTRY: Final = 2
AUTH: Final = 5
WRITE_LAC: Final = 6
READ_LAC: Final = 7
GET_BOOKIE_INFO: Final = 8
START_TLS: Final = 9
FORCE_LEDGER: Final = 10
LIST_ENTRIES: Final = 11

FENCE_LEDGER: Final = 1
ENTRY_PIGGYBACK: Final = 2
RECOVERY_ADD: Final = 1
DEFERRED_SYNC: Final = 1
"""A bit of the write flags; the three before it are single values."""

PRIORITY_HIGH: Final = 100
"""What BookKeeper's clients send for reads and adds of a recovery; any priority above 0 is high."""

CODE_OF: Final = {
    Status.OK: 0,
    Status.NO_LEDGER: 402,
    Status.NO_ENTRY: 403,
    Status.BAD_REQUEST: 404,
    Status.IO_ERROR: 501,
    Status.UNAUTHORIZED: 502,
    Status.BAD_VERSION: 503,
    Status.FENCED: 504,
    Status.READ_ONLY: 505,
    Status.TOO_MANY_REQUESTS: 506,
    Status.UNKNOWN_LEDGER_STATE: 507,
    Status.UNREACHABLE: 501,
    Status.TIMED_OUT: 501,
}
"""The code that leaves for a status."""

STATUS_OF: Final = {**{code: status for status, code in CODE_OF.items() if code != 501}, 501: Status.IO_ERROR}
"""What is understood: any code that is not here is an I/O error, which proves nothing."""

_FIELD_OF: Final = {
    READ_ENTRY: ("read", 100),
    ADD_ENTRY: ("add", 101),
    AUTH: ("auth", 102),
    WRITE_LAC: ("writeLac", 103),
    READ_LAC: ("readLac", 104),
    GET_BOOKIE_INFO: ("getBookieInfo", 105),
    START_TLS: ("startTLS", 106),
    FORCE_LEDGER: ("forceLedger", 107),
    LIST_ENTRIES: ("getListOfEntriesOfLedger", 108),
}

REQUEST_FIELD: Final = {operation: f"{name}Request" for operation, (name, _) in _FIELD_OF.items()}
"""Where the message of an operation is in a request."""

RESPONSE_FIELD: Final = {operation: f"{name}Response" for operation, (name, _) in _FIELD_OF.items()}
"""Where the message of an operation is in an answer."""


def _kind(name: str) -> str:
    return "AuthMessage" if name.startswith("auth") else name[0].upper() + name[1:]


def _embedded(names: dict[int, str]) -> list[str]:
    return [f"{name} {_FIELD_OF[operation][1]} {_kind(name)} opt" for operation, name in names.items()]


_CLASSES: Final = message_classes(
    "bookkeeper",
    {
        "BKPacketHeader": ["version 1 int32", "operation 2 int32", "txnId 3 uint64", "priority 4 uint32 opt"],
        "AuthMessage": ["authPluginName 1 bytes", "payload 2 bytes"],
        "Request": ["header 1 BKPacketHeader", *_embedded(REQUEST_FIELD)],
        "Response": ["header 1 BKPacketHeader", "status 2 int32", *_embedded(RESPONSE_FIELD)],
        "ReadRequest": [
            *("ledgerId 1 int64", "entryId 2 int64", "masterKey 3 bytes opt", "previousLAC 4 int64 opt"),
            *("timeOut 5 int64 opt", "flag 100 int32 opt"),
        ],
        "ReadResponse": [
            *("status 1 int32", "ledgerId 2 int64", "entryId 3 int64", "body 4 bytes opt", "maxLAC 5 int64 opt"),
            "lacUpdateTimestamp 6 int64 opt",
        ],
        "AddRequest": [
            *("ledgerId 1 int64", "entryId 2 int64", "masterKey 3 bytes", "body 4 bytes", "writeFlags 5 int32 opt"),
            "flag 100 int32 opt",
        ],
        "AddResponse": ["status 1 int32", "ledgerId 2 int64", "entryId 3 int64"],
        "WriteLacRequest": ["ledgerId 1 int64", "lac 2 int64", "masterKey 3 bytes", "body 4 bytes"],
        "WriteLacResponse": ["status 1 int32", "ledgerId 2 int64"],
        "ReadLacRequest": ["ledgerId 1 int64"],
        "ReadLacResponse": ["status 1 int32", "ledgerId 2 int64", "lacBody 3 bytes opt", "lastEntryBody 4 bytes opt"],
        "GetBookieInfoRequest": ["requested 1 int64 opt"],
        "GetBookieInfoResponse": ["status 1 int32", "totalDiskCapacity 2 int64 opt", "freeDiskSpace 3 int64 opt"],
        "StartTLSRequest": [],
        "StartTLSResponse": [],
        "ForceLedgerRequest": ["ledgerId 1 int64"],
        "ForceLedgerResponse": ["status 1 int32", "ledgerId 2 int64"],
        "GetListOfEntriesOfLedgerRequest": ["ledgerId 1 int64"],
        "GetListOfEntriesOfLedgerResponse": [
            *("status 1 int32", "ledgerId 2 int64", "availabilityOfEntriesOfLedger 3 bytes opt"),
        ],
    },
)

REQUEST_CLASS: Final[MessageClass] = _CLASSES["Request"]
RESPONSE_CLASS: Final[MessageClass] = _CLASSES["Response"]
AUTH_CLASS: Final[MessageClass] = _CLASSES["AuthMessage"]
