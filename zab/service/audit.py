"""Records of an audit log: who did what, from where, and what came of it. A record becomes one line or several:

    session=0x100…  user=digest:al  ip=10.0.0.7  operation=create  znode=/a  …  result=success

A line has pairs with tabs between them. What is not known is left out. The results are success, failure and invoked:
`invoked` means that this server did not learn the result.

Nothing in a value ends the line or a pair, and no two values look alike: control characters, marks of direction,
backslashes, and in lists commas, are escaped. A value ends after `VALUE_CHARS_MAX`.

Records that every service has: `ServerEvent`, `Refusal`, `Lost`. Not here: what a service adds; the file
(`zab.host.journal.audit_log`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import attrs

from zab.wire.visible import in_line

VALUE_CHARS_MAX: Final = 8192
UNSIGNED: Final = (1 << 64) - 1
"""Sessions are shown without a sign."""

SUCCESS, FAILURE, INVOKED = "success", "failure", "invoked"
SERVER_START, SERVER_STOP = "serverStart", "serverStop"


class Record(Protocol):
    """A record, as the audit log writes it."""

    @property
    def held_bytes(self) -> int:
        """About how much memory it takes."""
        ...

    def lines(self, own_user: str) -> Iterator[str]:
        """Its lines, without the time. `own_user` is the user of this process."""
        ...


@attrs.define(eq=False)
class ServerEvent:
    """The server itself did this."""

    operation: str
    result: str

    held_bytes = 512

    def lines(self, own_user: str) -> Iterator[str]:
        yield line_of(user=own_user, operation=self.operation, result=self.result)


@attrs.define(eq=False)
class Refusal:
    """A client or a server was not let in."""

    operation: str
    host: str
    session: int = 0
    """0: none."""
    user: bytes = b""
    scheme: bytes = b""
    reason: str = ""
    left_out_count: int = 0
    """How many refusals of the same operation were left out before this one."""

    @property
    def held_bytes(self) -> int:
        return 512 + len(self.user) + len(self.scheme) + len(self.reason)

    def lines(self, own_user: str) -> Iterator[str]:
        yield line_of(
            session=f"{self.session & UNSIGNED:#x}" if self.session else None,
            user=item_of(self.user),
            ip=self.host,
            operation=self.operation,
            scheme=value(self.scheme),
            reason=value(self.reason.encode()),
            left_out=str(self.left_out_count or ""),
            result=FAILURE,
        )


@attrs.define(eq=False)
class Lost:
    """Records that could not be written."""

    count: int

    held_bytes = 512

    def lines(self, own_user: str) -> Iterator[str]:
        yield line_of(user=own_user, operation="auditRecordsLost", count=str(self.count), result=FAILURE)


def value(data: bytes) -> str:
    """A value from a client, escaped for a line."""
    text = in_line(data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace"))
    if len(text) <= VALUE_CHARS_MAX:
        return text
    return f"{text[:VALUE_CHARS_MAX]}...({len(data)} bytes)"


def item_of(data: bytes) -> str:
    """A value from a client, escaped for a list within a line."""
    return value(data).replace(",", "\\x2c")


def line_of(**pairs: str | None) -> str:
    return "\t".join([f"{name}={said}" for name, said in pairs.items() if said])
