"""The error codes: one table with number, name, definiteness, meaning and the text that ZooKeeper's tools print.

An error is *definite* when it proves that the request changed nothing, and will not later: a client may then decide by
itself what to do next. An indefinite error (a lost connection, an expired session) leaves open whether the write
happened; repeating it is safe only if it is idempotent. The client's retry rules and exception classes are made from
this table.

The Java client throws on a code that it does not know, so a server never answers with a number outside this table.

Deliberately not here: what happens to the connection after an error (`zab.member`), and the errors of files and of the
protocol between members, which never reach a client.
"""

from enum import IntEnum
from types import MappingProxyType
from typing import Final

from attrs import frozen

__all__ = ["ERRORS", "ErrorCode", "ErrorInfo", "Refused"]


class ErrorCode(IntEnum):
    """The number in a reply header; 0 is success."""

    OK = 0
    SYSTEMERROR = -1
    RUNTIMEINCONSISTENCY = -2
    DATAINCONSISTENCY = -3
    CONNECTIONLOSS = -4
    MARSHALLINGERROR = -5
    UNIMPLEMENTED = -6
    OPERATIONTIMEOUT = -7
    BADARGUMENTS = -8
    UNKNOWNSESSION = -12
    NEWCONFIGNOQUORUM = -13
    RECONFIGINPROGRESS = -14
    APIERROR = -100
    NONODE = -101
    NOAUTH = -102
    BADVERSION = -103
    NOCHILDRENFOREPHEMERALS = -108
    NODEEXISTS = -110
    NOTEMPTY = -111
    SESSIONEXPIRED = -112
    INVALIDCALLBACK = -113
    INVALIDACL = -114
    AUTHFAILED = -115
    SESSIONMOVED = -118
    NOTREADONLY = -119
    EPHEMERALONLOCALSESSION = -120
    NOWATCHER = -121
    REQUESTTIMEOUT = -122
    RECONFIGDISABLED = -123
    SESSIONCLOSEDREQUIRESASLAUTH = -124
    QUOTAEXCEEDED = -125
    THROTTLEDOP = -127


@frozen
class ErrorInfo:
    """One row: `definite` means that the error proves that nothing happened; `java_text` is what ZooKeeper prints."""

    code: ErrorCode
    definite: bool
    doc: str
    java_text: str

    @property
    def name(self) -> str:
        return self.code.name


# Columns: code, definite, meaning, the text after "KeeperErrorCode = ".
_TABLE: Final = (
    (ErrorCode.OK, False, "the request was done", "ok"),
    (ErrorCode.SYSTEMERROR, False, "marks the range of system errors; the server failed", "SystemError"),
    (
        ErrorCode.RUNTIMEINCONSISTENCY,
        True,
        "in a multi: not tried, since an earlier operation was refused",
        "RuntimeInconsistency",
    ),
    (ErrorCode.DATAINCONSISTENCY, False, "the server found its data inconsistent", "DataInconsistency"),
    (ErrorCode.CONNECTIONLOSS, False, "the connection broke before the reply arrived", "ConnectionLoss"),
    (ErrorCode.MARSHALLINGERROR, True, "the request could not be decoded", "MarshallingError"),
    (ErrorCode.UNIMPLEMENTED, True, "the operation is unknown or switched off", "Unimplemented"),
    (ErrorCode.OPERATIONTIMEOUT, False, "the operation took too long", "OperationTimeout"),
    (ErrorCode.BADARGUMENTS, True, "an argument is invalid, such as a malformed path", "BadArguments"),
    (ErrorCode.UNKNOWNSESSION, True, "between members: the session is not tracked", "Unknown error UNKNOWNSESSION"),
    (
        ErrorCode.NEWCONFIGNOQUORUM,
        True,
        "no quorum of the proposed configuration is connected and synchronized",
        "NewConfigNoQuorum",
    ),
    (ErrorCode.RECONFIGINPROGRESS, True, "another reconfiguration is not finished", "ReconfigInProgress"),
    (ErrorCode.APIERROR, False, "marks the range of errors of the interface", "APIError"),
    (ErrorCode.NONODE, True, "there is no znode at the path", "NoNode"),
    (ErrorCode.NOAUTH, True, "no identity of the connection has the permission", "NoAuth"),
    (ErrorCode.BADVERSION, True, "the version given is not the current one", "BadVersion"),
    (
        ErrorCode.NOCHILDRENFOREPHEMERALS,
        True,
        "the parent is ephemeral, so it can have no children",
        "NoChildrenForEphemerals",
    ),
    (ErrorCode.NODEEXISTS, True, "there is a znode at the path already", "NodeExists"),
    (ErrorCode.NOTEMPTY, True, "the znode has children", "Directory not empty"),
    (ErrorCode.SESSIONEXPIRED, False, "the session is over; its ephemerals are gone", "Session expired"),
    (ErrorCode.INVALIDCALLBACK, True, "a callback of the client was invalid", "Invalid callback"),
    (ErrorCode.INVALIDACL, True, "the ACL is empty, malformed or names no identity", "InvalidACL"),
    (ErrorCode.AUTHFAILED, False, "the credentials were refused; the connection is closed", "AuthFailed"),
    (ErrorCode.SESSIONMOVED, True, "the session is attached through another connection now", "Session moved"),
    (ErrorCode.NOTREADONLY, True, "a write was sent to a server in read-only mode", "Not a read-only call"),
    (
        ErrorCode.EPHEMERALONLOCALSESSION,
        True,
        "a local session cannot own ephemeral znodes",
        "Ephemeral node on local session",
    ),
    (ErrorCode.NOWATCHER, True, "no watch of that kind is registered at the path", "No such watcher"),
    (
        ErrorCode.REQUESTTIMEOUT,
        False,
        "the client gave up waiting for the reply",
        "Unknown error REQUESTTIMEOUT",
    ),
    (ErrorCode.RECONFIGDISABLED, True, "reconfiguration is switched off", "Reconfig is disabled"),
    (
        ErrorCode.SESSIONCLOSEDREQUIRESASLAUTH,
        True,
        "the server demands an authentication that the connection does not have",
        "Session closed because client failed to authenticate",
    ),
    (ErrorCode.QUOTAEXCEEDED, True, "a hard limit of the enclosing quota would be exceeded", "Quota has exceeded"),
    (
        ErrorCode.THROTTLEDOP,
        True,
        "the server is overloaded and did not take the request",
        "Op throttled due to high load",
    ),
)

ERRORS: Final = MappingProxyType(
    {int(code): ErrorInfo(code, definite, doc, java_text) for code, definite, doc, java_text in _TABLE}
)


class Refused(Exception):  # noqa: N818  (it is an answer, not a failure)
    """The request is refused with `code`. Raised while a request is checked; never crosses a connection or a file."""

    def __init__(self, code: ErrorCode) -> None:
        assert code != ErrorCode.OK
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"{self.code.name} ({self.code.value})"
