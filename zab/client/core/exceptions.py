"""What an operation of the client raises: one class per error code, made from the table in `datatree.errors`.

    ZabError                      everything below
    ├─ RequestError               the request was answered with an error code, or will get no answer
    │   ├─ NoNodeError, …         one class per code; `code`, `definite`, `meaning` come from the table
    │   └─ ConnectionLossError
    │       └─ NotConnectedError  never sent, so definite
    │           └─ TlsError       no server could be reached by TLS; the text says why, for each server
    ├─ ClientClosedError          the client was closed by this process
    ├─ WatchOverflowError         a watcher was not read, and its queue is full
    ├─ ChangesLostError           changes cannot be followed from the given place: read the tree again
    └─ PeerProtocolError          the server broke the protocol; its connection is closed (see below)

`definite` answers the one question that matters after an error: may the request have been done? True: it was not, and
will not be. After a `ConnectionLossError` that is unknown: the write may have reached the leader before the connection
broke. Repeat only idempotent operations, or look first (a sequential create may have been done twice).

`PeerProtocolError` is never raised from an operation: the connection is closed, its requests fail with
`ConnectionLossError`, whose `__cause__` it is, and the client reconnects.

A code that the table does not know is an `UnknownError`, never a crash: a newer server may have more.
"""

from typing import ClassVar, Final

from datatree.errors import ERRORS, ErrorCode

__all__ = [
    "EXCEPTIONS",
    "ApiError",
    "AuthFailedError",
    "BadArgumentsError",
    "BadVersionError",
    "ChangesLostError",
    "ClientClosedError",
    "ConnectionLossError",
    "DataInconsistencyError",
    "EphemeralOnLocalSessionError",
    "ForkedError",
    "InvalidAclError",
    "InvalidCallbackError",
    "LoginRefusedError",
    "MarshallingError",
    "NewConfigNoQuorumError",
    "NoAuthError",
    "NoChildrenForEphemeralsError",
    "NoNodeError",
    "NoWatcherError",
    "NodeExistsError",
    "NotConnectedError",
    "NotEmptyError",
    "NotReadOnlyError",
    "OperationTimeoutError",
    "PeerProtocolError",
    "QuotaExceededError",
    "ReconfigDisabledError",
    "ReconfigInProgressError",
    "RequestError",
    "RequestTimeoutError",
    "RequestTooLargeError",
    "RuntimeInconsistencyError",
    "SessionClosedRequiresAuthError",
    "SessionExpiredError",
    "SessionMovedError",
    "SystemFailureError",
    "ThrottledError",
    "TlsError",
    "UnimplementedError",
    "UnknownError",
    "UnknownSessionError",
    "WatchOverflowError",
    "ZabError",
    "request_error",
]

_CLASSES: dict[int, type["RequestError"]] = {}


class ZabError(Exception):
    """Everything that the client raises on purpose."""


class ClientClosedError(ZabError):
    """The client was closed by this process: its `async with` block is left."""


class ForkedError(ZabError):
    """This process is a fork of the one that made the client, which keeps the connection and the session."""


class WatchOverflowError(ZabError):
    """The watcher's queue was full when another event came: the watcher is closed, and later events are lost."""


class ChangesLostError(ZabError):
    """The changes after `since` (a zxid) are not available; the text says why. Their result is in the tree.

    oldest: the oldest zxid after which the server still has changes; None if its history does not have `since`.
    """

    def __init__(self, since: int, reason: str, *, oldest: int | None = None) -> None:
        super().__init__(f"the changes after zxid {since:#x} cannot be told: {reason}")
        self.since = since
        self.oldest = oldest


class PeerProtocolError(ZabError):
    """The server broke the protocol; the text says how."""


class LongReplyError(PeerProtocolError):
    """The server announced an answer that is longer than `reply_bytes_max` of the settings."""


class RequestError(ZabError):
    """The request failed with `code`.

    path: the path of the request, as the caller gave it; None if it has none.
    index: the operation's place in a transaction, from 0; None outside of one.
    definite: True when it is certain that the request changed nothing.
    """

    code: ClassVar[int] = int(ErrorCode.APIERROR)
    definite: ClassVar[bool] = False
    meaning: ClassVar[str] = ""

    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        if code is None:
            return
        assert code not in _CLASSES, f"two classes for {code.name}"
        row = ERRORS[code]
        cls.code, cls.definite, cls.meaning = int(code), row.definite, row.doc
        _CLASSES[code] = cls

    def __init__(self, path: str | None = None, *, index: int | None = None, detail: str | None = None) -> None:
        super().__init__(path, index, detail)
        self.path = path
        self.index = index
        self.detail = detail

    @property
    def name(self) -> str:
        """The code's name, as ZooKeeper's documentation writes it: NONODE."""
        row = ERRORS.get(self.code)
        return row.name if row is not None else f"UNKNOWN({self.code})"

    def __str__(self) -> str:
        where = f" {self.path}" if self.path is not None else ""
        which = f" (operation {self.index} of the transaction)" if self.index is not None else ""
        return f"{self.name}{where}{which}: {self.detail or self.meaning}"


class SystemFailureError(RequestError, code=ErrorCode.SYSTEMERROR): ...


class RuntimeInconsistencyError(RequestError, code=ErrorCode.RUNTIMEINCONSISTENCY): ...


class DataInconsistencyError(RequestError, code=ErrorCode.DATAINCONSISTENCY): ...


class ConnectionLossError(RequestError, code=ErrorCode.CONNECTIONLOSS): ...


class ReplyTooLongError(ConnectionLossError):
    """The answer is longer than `reply_bytes_max` of the settings: the connection ended, as it would each time."""

    meaning = "the answer is longer than reply_bytes_max of this client's settings"


class NotConnectedError(ConnectionLossError):
    """No server took the request in the time given; it was never sent."""

    definite = True
    meaning = "no server could be reached in time; the request was never sent"


class TlsError(NotConnectedError):
    """TLS failed with every server, and would fail again; the text names the servers and the reasons."""

    meaning = "no server could be reached by TLS"


class MarshallingError(RequestError, code=ErrorCode.MARSHALLINGERROR): ...


class UnimplementedError(RequestError, code=ErrorCode.UNIMPLEMENTED): ...


class OperationTimeoutError(RequestError, code=ErrorCode.OPERATIONTIMEOUT): ...


class BadArgumentsError(RequestError, code=ErrorCode.BADARGUMENTS): ...


class RequestTooLargeError(BadArgumentsError):
    """The request is above `request_bytes_max` of the client's settings; it was never sent."""


class UnknownSessionError(RequestError, code=ErrorCode.UNKNOWNSESSION): ...


class NewConfigNoQuorumError(RequestError, code=ErrorCode.NEWCONFIGNOQUORUM): ...


class ReconfigInProgressError(RequestError, code=ErrorCode.RECONFIGINPROGRESS): ...


class ApiError(RequestError, code=ErrorCode.APIERROR): ...


class NoNodeError(RequestError, code=ErrorCode.NONODE): ...


class NoAuthError(RequestError, code=ErrorCode.NOAUTH): ...


class BadVersionError(RequestError, code=ErrorCode.BADVERSION): ...


class NoChildrenForEphemeralsError(RequestError, code=ErrorCode.NOCHILDRENFOREPHEMERALS): ...


class NodeExistsError(RequestError, code=ErrorCode.NODEEXISTS): ...


class NotEmptyError(RequestError, code=ErrorCode.NOTEMPTY): ...


class SessionExpiredError(RequestError, code=ErrorCode.SESSIONEXPIRED): ...


class InvalidCallbackError(RequestError, code=ErrorCode.INVALIDCALLBACK): ...


class InvalidAclError(RequestError, code=ErrorCode.INVALIDACL): ...


class AuthFailedError(RequestError, code=ErrorCode.AUTHFAILED): ...


class LoginRefusedError(AuthFailedError):
    """The login by SASL was refused, or the server did not prove that it knows the password; the session is over."""


class SessionMovedError(RequestError, code=ErrorCode.SESSIONMOVED): ...


class NotReadOnlyError(RequestError, code=ErrorCode.NOTREADONLY): ...


class EphemeralOnLocalSessionError(RequestError, code=ErrorCode.EPHEMERALONLOCALSESSION): ...


class NoWatcherError(RequestError, code=ErrorCode.NOWATCHER): ...


class RequestTimeoutError(RequestError, code=ErrorCode.REQUESTTIMEOUT): ...


class ReconfigDisabledError(RequestError, code=ErrorCode.RECONFIGDISABLED): ...


class SessionClosedRequiresAuthError(RequestError, code=ErrorCode.SESSIONCLOSEDREQUIRESASLAUTH): ...


class QuotaExceededError(RequestError, code=ErrorCode.QUOTAEXCEEDED): ...


class ThrottledError(RequestError, code=ErrorCode.THROTTLEDOP): ...


class UnknownError(RequestError):
    """The server answered with an unknown code; whether the request was done is unknown."""

    meaning = "the server answered with an error code that this client does not know"

    def __init__(self, code: int, path: str | None = None, *, index: int | None = None) -> None:
        super().__init__(path, index=index)
        self.unknown_code = code

    @property
    def name(self) -> str:
        return f"UNKNOWN({self.unknown_code})"


EXCEPTIONS: Final = _CLASSES


def request_error(
    code: int, path: str | None = None, *, index: int | None = None, detail: str | None = None
) -> RequestError:
    """The exception for an error code of a reply; `code` is not OK."""
    assert code != ErrorCode.OK
    kind = EXCEPTIONS.get(code)
    if kind is None:
        return UnknownError(code, path, index=index)
    return kind(path, index=index, detail=detail)
