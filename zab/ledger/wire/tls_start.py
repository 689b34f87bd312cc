"""How TLS begins on a connection to a bookie: what both ends allow while it is in clear.

    a bookie        BookieStart(is_required).take(found, has_more) -> Starts | the requests that go on
    a client        ClientStart().request, then take(data) -> whether TLS begins now

A client asks for it with StartTls, in version 3 of the protocol. The bookie answers OK in clear, and the next bytes of
both ends are those of the handshake, which the client begins.

StartTls has to be the first request of a connection: no answer to an earlier one can then come between. What follows it
in clear, before the handshake, ends the connection, at both ends: somebody in between who adds requests or answers in
clear must not have them taken for what was said within TLS. A second StartTls, or one after other requests, is a bad
request. A bookie that requires TLS refuses every other request in clear as unauthorized; it closes a connection that
logs in in version 2, whose answer has no place for a refusal.

Not here: TLS itself, bookies without TLS and connections within TLS: both answer StartTls with BAD_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from zab.ledger.wire import v3
from zab.ledger.wire.codec import Decoded, Refused, ServerRequest, encode_answer
from zab.ledger.wire.frames import FrameCutter, ProtocolError
from zab.ledger.wire.messages import Authenticate, Request, StartTls, TlsStarted, answer_without
from zab.ledger.wire.status import Status
from zab.ledger.wire.v2 import V2Reply
from zab.ledger.wire.v3 import V3Reply

ANSWER_BYTES_MAX: Final = 1024
"""What a bookie may send in answer to StartTls. The answer has 12 bytes."""
_NUMBER: Final = 1


@attrs.frozen
class Starts:
    """TLS begins: this frame is the last thing that is sent in clear."""

    frame: bytes


class BookieStart:
    """A bookie's end of one connection in clear."""

    def __init__(self, is_required: bool) -> None:
        """`is_required`: requests in clear are refused."""
        self.is_required = is_required
        self._is_first = True
        self._has_started = False

    def take(self, found: Sequence[Decoded], has_more: bool) -> Starts | list[Decoded]:
        """What becomes of the requests in one piece of input. `has_more`: bytes follow them in it, or an error.

        Raises ProtocolError."""
        if self._has_started:
            raise ProtocolError("bytes in clear follow StartTls")
        going_on: list[Decoded] = []
        for index, each in enumerate(found):
            is_first, self._is_first = self._is_first, False
            if not isinstance(each, ServerRequest):
                going_on.append(each)
            elif not isinstance(each.request, StartTls):
                going_on.append(_unauthorized(each) if self.is_required else each)
            elif not is_first:
                going_on.append(_refused(each, Status.BAD_REQUEST))
            elif has_more or index + 1 < len(found):
                raise ProtocolError("bytes in clear follow StartTls")
            else:
                self._has_started = True
                return Starts(encode_answer(each.reply_to, TlsStarted(Status.OK)))
        return going_on


def _unauthorized(each: ServerRequest) -> Refused:
    if isinstance(each.request, Authenticate) and isinstance(each.reply_to, V2Reply):
        raise ProtocolError("a login in clear, where TLS is required")
    return _refused(each, Status.UNAUTHORIZED)


def _refused(each: ServerRequest, status: Status) -> Refused:
    request: Request = each.request
    return Refused(encode_answer(each.reply_to, answer_without(request, status)), status, request)


class ClientStart:
    """A client's end of one connection in clear."""

    def __init__(self) -> None:
        self.request, operation = v3.request_frame(StartTls(), _NUMBER)
        """The frame to send first."""
        self._reply = V3Reply(operation, _NUMBER)
        self._cutter = FrameCutter(ANSWER_BYTES_MAX)

    def take(self, data: bytes) -> bool:
        """Whether the bookie has agreed; False: the answer is incomplete. Raises ProtocolError: it has not agreed, or
        says more than that."""
        bodies, error = self._cutter.feed(data)
        if error is not None:
            raise error
        if not bodies:
            return False
        reply, response = v3.read_response(bodies[0])
        if reply != self._reply:
            raise ProtocolError("the answer is another one, not that to StartTls")
        answer = v3.answer_of(StartTls(), response)
        if answer.status is not Status.OK:
            raise ProtocolError("the bookie has no TLS")
        if len(bodies) > 1 or self._cutter.kept_bytes:
            raise ProtocolError("bytes in clear follow the answer to StartTls")
        return True
