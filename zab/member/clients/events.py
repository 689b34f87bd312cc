"""What clients do, as inputs of a member; what becomes of logins; what is to be written into the audit log."""

from __future__ import annotations

import attrs

from zab.member.clients.audit import Record
from zab.member.clients.connection import ClientConnection
from zab.member.clients.kerberos import LoginStep
from zab.member.clients.sasl_users import Users


@attrs.define
class ClientConnected:
    """A client's socket is open."""

    connection: ClientConnection


@attrs.define
class ClientBytes:
    """A client sent these bytes."""

    connection: ClientConnection
    data: bytes


@attrs.define
class ClientClosed:
    """A client closed its connection, or it broke."""

    connection: ClientConnection


@attrs.define
class LoginStepped:
    """A worker is done with a token of a login by Kerberos; None: the login has failed."""

    connection: ClientConnection
    xid: int
    step: LoginStep | None


@attrs.define
class UsersRead:
    """Who may log in by SASL from now on. Who has logged in stays."""

    users: Users = attrs.field(repr=False)


@attrs.define
class WriteAudit:
    """Write these records into the audit log. Has no answer."""

    records: list[Record]
