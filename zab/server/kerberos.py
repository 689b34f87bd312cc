"""Logins of clients by Kerberos: the security contexts. The extra `zab[kerberos]` installs the library, `gssapi`.

    token of the client ──> context is there ──> (nothing) ──> `offer`, wrapped ──> choice, wrapped ──> the principal

A server has the key of its principal in a keytab, and contacts no other server. The library stores the tokens that it
has seen in a file (`kerberos(7)`, the replay cache), so a worker thread takes the steps, one at a time; a connection
has at most one waiting.

Only Kerberos itself is accepted, and a context must be complete after one token. Acting for another user is refused.

Not here: the messages after the context (`zab.wire.login.gssapi`), names (`zab.member.clients.kerberos`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final

import attrs
import trio

from zab.host.files.private_file import PrivateFileError, read_private
from zab.member.clients.kerberos import Krb5Login, Login, LoginStep
from zab.member.events import Answer
from zab.wire.login.gssapi import GssapiError, chosen, offer

KEY_TAB_BYTES_MAX: Final = 1 << 20


class _Stage(Enum):
    CONTEXT = auto()
    ESTABLISHED = auto()
    OFFERED = auto()
    ENDED = auto()


class GssapiLogin:
    """The login of one connection (`zab.member.clients.kerberos.Login`)."""

    def __init__(self, gssapi: Any, credentials: Any) -> None:
        self._gssapi = gssapi
        self._credentials = credentials
        self._context: Any = None
        self._stage = _Stage.CONTEXT

    def step(self, token: bytes) -> LoginStep | None:
        stage, self._stage = self._stage, _Stage.ENDED
        try:
            return self._step(stage, token)
        except (self._gssapi.raw.GSSError, GssapiError, UnicodeDecodeError):
            return None

    def _step(self, stage: _Stage, token: bytes) -> LoginStep:
        if stage is _Stage.CONTEXT:
            self._context = self._gssapi.SecurityContext(creds=self._credentials, usage="accept")
            answer = self._context.step(token)
            if not self._context.complete or self._context.mech != self._gssapi.MechType.kerberos:
                raise GssapiError("one token does not complete the context")
            if answer:
                self._stage = _Stage.ESTABLISHED
                return LoginStep(answer)
        elif stage is _Stage.OFFERED:
            principal = str(self._context.initiator_name)
            if chosen(self._context.unwrap(token).message) not in ("", principal):
                raise GssapiError("a user may not act for another")
            return LoginStep(None, principal)
        elif stage is _Stage.ENDED or token:
            raise GssapiError("an unexpected token")
        self._stage = _Stage.OFFERED
        return LoginStep(self._context.wrap(offer(), False).message)


@attrs.frozen
class GssapiCredentials:
    """The key of this server from its keytab, as the library needs it."""

    realm: str
    gssapi: Any
    """The library, which is optional."""
    credentials: Any


@attrs.define
class GssapiLogins:
    """The logins of clients (`zab.member.clients.kerberos.Logins`). `put` gets the outcome of each step, and `spawn`
    starts a task."""

    _key: GssapiCredentials
    _put: Callable[[Answer], None]
    _spawn: Callable[..., None]
    _one: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1), init=False)

    @property
    def realm(self) -> str:
        return self._key.realm

    def begin(self) -> Login:
        return GssapiLogin(self._key.gssapi, self._key.credentials)

    def step(self, login: Login, token: bytes, done: Callable[[LoginStep | None], Answer]) -> None:
        self._spawn(self._step, login, token, done)

    async def _step(self, login: Login, token: bytes, done: Callable[[LoginStep | None], Answer]) -> None:
        self._put(done(await trio.to_thread.run_sync(login.step, token, limiter=self._one)))


def gssapi_credentials(login: Krb5Login) -> GssapiCredentials:
    """Read the key from the keytab. Raises `PrivateFileError`."""
    try:
        import gssapi
    except (ImportError, OSError) as error:
        more = "pip install 'zab[kerberos]', which needs the Kerberos libraries of the system"
        raise PrivateFileError(f"Kerberos needs the library gssapi: {more} ({error})") from None
    read_private(login.key_tab, KEY_TAB_BYTES_MAX, "it holds the keys of a server")
    try:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        store: dict[str | bytes, str | bytes] = {"keytab": f"FILE:{login.key_tab}"}
        credentials = gssapi.Credentials(name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store=store)
    except gssapi.raw.GSSError as error:
        raise PrivateFileError(f"{login.key_tab}: no key of {login.principal} is available: {error}") from None
    return GssapiCredentials(login.realm, gssapi, credentials)
