"""Inputs from clients, and the outcome of logins; the effect that writes the audit log."""

from __future__ import annotations

import attrs

from zab.member.clients.connection import ClientConnection
from zab.member.clients.kerberos import LoginStep
from zab.member.clients.sasl_users import Users
from zab.service.audit import Record


@attrs.define
class LoginStepped:
    """A worker has handled a token of a Kerberos login; None: the login has failed."""

    connection: ClientConnection
    xid: int
    step: LoginStep | None


@attrs.define
class UsersRead:
    """The users that may log in by SASL from now on. Clients that have logged in stay."""

    users: Users = attrs.field(repr=False)


@attrs.define
class WriteAudit:
    """Write these records into the audit log. Has no answer."""

    records: list[Record]
