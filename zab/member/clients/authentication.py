"""How a client proves its identity, by scheme, and what it may ask for before it has.

    scheme     by                       identity                     refused
    ip         its address              ("ip", address), always      -
    digest     auth: user:password      ("digest", user:hash)        when switched off
    x509       the certificate in TLS   ("x509", subject), always    auth, on a connection without one
    sasl       sasl: tokens             ("sasl", user)               a token that proves nothing (`zab.wire.login`)
    ensemble   auth: a name             none                         another ensemble's name: closed without an answer
    world      -                        everybody is anyone          like every scheme that has no row in `PROVE`
    super      -                        passes every ACL             likewise: the three schemes above can add it

An auth request goes by the table `PROVE`, in which a scheme has a row with a function. sasl has requests of its own,
a token in each direction, until it ends:

    nothing asked    any token ──> a challenge with a nonce of its own
    challenged       a response ──> the identity and rspauth; or a failure
    ended            any token ──> a failure

With Kerberos (`kerberos`) each token goes to a worker, at most one per connection at a time: a token that comes before
the last one is answered fails the login. Other requests meanwhile are done with the identities from before.

A connection has one nonce, which is good for one response. So guessing passwords takes a connection for each guess, and
a response of one connection proves nothing on another.

A failure is answered with AUTHFAILED, or with SESSIONCLOSEDREQUIRESASLAUTH if sasl is required, and ends the
connection; with `allowSaslFailedClients` it is answered without a token and the connection stays, unless sasl is
required.

Not here: the requests and replies (`local`), who the users of SASL are (`sasl_users`), what an identity may do
(`datatree.acl`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from random import Random
from typing import Final

import attrs

from datatree.acl import ANY_SASL, SUPER, Identity, digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from zab.member.clients.connection import ClientConnection
from zab.member.clients.events import LoginStepped, UsersRead
from zab.member.clients.kerberos import Logins, LoginStep, name_of
from zab.member.clients.sasl_users import Users
from zab.member.settings.config import Config
from zab.member.settings.schemes import SASL, X509
from zab.wire.login.digest_md5 import ZOOKEEPER_REALM, ZOOKEEPER_URI, DigestMd5Error, challenge, check
from zab.wire.login.gssapi import TOKEN_BYTES_MAX

NONCE_BYTES: Final = 30
"""As ZooKeeper's: 40 characters."""

_PROOFS = frozenset({int(OpCode.AUTH), int(OpCode.SASL)})


def identities_of_subject(config: Config, subject: str) -> tuple[Identity, ...]:
    """The identities that a client has from its certificate; `subject` is empty if it showed none."""
    if not subject or not config.clients.offers_x509:
        return ()
    identity = X509.encode(), subject.encode()
    return (identity, SUPER) if subject == config.access.x509_super_user else (identity,)


class Verdict(Enum):
    """The outcome of an auth request."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    CLOSED = "closed"
    """The connection is closed without an answer."""


@attrs.frozen
class SaslFailed(Exception):  # noqa: N818  (it is an answer, not a failure)
    """A failed login."""

    error: ErrorCode
    """The error with which the connection ends; OK: it stays."""


class Authentication:
    """The schemes of one member."""

    def __init__(self, config: Config, rng: Random, kerberos: Logins | None) -> None:
        """`kerberos`: with it, clients log in by GSSAPI, and not by DIGEST-MD5."""
        self._config = config
        self._rng = rng
        self.users: Users = {}
        """The users that may log in by SASL; empty until they have been read."""
        self.kerberos = kerberos
        self._required = frozenset(scheme.encode() for scheme in config.access.required_schemes)
        self.is_required = bool(self._required)
        """Whether clients have to prove an identity first."""
        self._super_users = {*config.access.sasl_super_users, config.access.sasl_super_user}
        super_digest = config.access.super_digest
        self._super_digest = None if super_digest is None else super_digest.encode()

    def take(self, event: UsersRead) -> None:
        self.users = event.users

    # ------------------------------------------------------------------------------------------------- what is required

    def lets_through(self, connection: ClientConnection, opcode: int) -> bool:
        """Whether a request may be processed: the client has proven its identity, or does so with this request."""
        return opcode in _PROOFS or any(scheme in self._required for scheme, _ in connection.identities)

    # ---------------------------------------------------------------------------------------------------- auth requests

    def prove(self, connection: ClientConnection, scheme: bytes, proof: bytes) -> Verdict:
        """Handle an auth request. The connection gets the identities that it proves."""
        prove = PROVE.get(scheme)
        return Verdict.REFUSED if prove is None else prove(self, connection, proof)

    def _prove_address(self, _connection: ClientConnection, _proof: bytes) -> Verdict:
        return Verdict.ACCEPTED

    def _prove_digest(self, connection: ClientConnection, proof: bytes) -> Verdict:
        if not self._config.access.digest_enabled:
            return Verdict.REFUSED
        identity = digest_identity(proof, self._config.access.digest_algorithm)
        proven = (identity, SUPER) if identity[1] == self._super_digest else (identity,)
        return Verdict.ACCEPTED if connection.identify(*proven) else Verdict.REFUSED

    def _prove_certificate(self, connection: ClientConnection, _proof: bytes) -> Verdict:
        """Accept a client whose certificate was accepted by TLS; nothing can be proven later."""
        is_proven = any(scheme == X509.encode() for scheme, _ in connection.identities)
        return Verdict.ACCEPTED if is_proven else Verdict.REFUSED

    def _prove_ensemble(self, _connection: ClientConnection, proof: bytes) -> Verdict:
        """Check the name of the ensemble. It proves nothing about the client, which wants to be refused by any other
        ensemble."""
        if not self._config.access.asks_for_ensemble:
            return Verdict.REFUSED
        names = self._config.access.ensemble_names
        is_other = proof and names and proof.decode("utf-8", "replace") not in names
        return Verdict.CLOSED if is_other else Verdict.ACCEPTED

    # ---------------------------------------------------------------------------------------------------- sasl requests

    def answer_token(self, connection: ClientConnection, xid: int, token: bytes) -> bytes | None:
        """The answer to a token of a login; None: it comes later (`stepped`). Raises `SaslFailed`."""
        if self.kerberos is not None:
            self._begin_step(self.kerberos, connection, xid, token)
            return None
        nonce = connection.sasl_nonce
        if not self._config.login.is_offered or nonce is None:
            raise self._failed()
        if not nonce:
            # A first token has no meaning in DIGEST-MD5: ZooKeeper ignores it as well.
            connection.sasl_nonce = b64encode(self._rng.randbytes(NONCE_BYTES))
            return challenge(ZOOKEEPER_REALM, connection.sasl_nonce)
        connection.sasl_nonce = None
        try:
            user, answer = check(
                token, realm=ZOOKEEPER_REALM, nonce=nonce, uri=ZOOKEEPER_URI, key_of_user=self.users.get
            )
        except DigestMd5Error:
            raise self._failed() from None
        if not self._identify(connection, user):
            raise self._failed()
        return answer

    def _begin_step(self, logins: Logins, connection: ClientConnection, xid: int, token: bytes) -> None:
        """Hand a token to a worker. A worker has one token of a connection at a time, and a connection has one
        login."""
        if connection.is_login_stepping or connection.sasl_nonce is None or len(token) > TOKEN_BYTES_MAX:
            connection.sasl_nonce = None
            raise self._failed()
        if connection.login is None:
            connection.login = logins.begin()
        connection.is_login_stepping = True
        logins.step(connection.login, token, partial(LoginStepped, connection, xid))

    def stepped(self, connection: ClientConnection, step: LoginStep | None) -> bytes | None:
        """The answer that a worker found for a token; None at the end. Raises `SaslFailed`."""
        connection.is_login_stepping = False
        if step is None or connection.sasl_nonce is None or self.kerberos is None:
            connection.login = connection.sasl_nonce = None
            raise self._failed()
        if step.principal is not None:
            connection.login = connection.sasl_nonce = None
            name = name_of(step.principal, self.kerberos.realm, self._config)
            if name is None or not self._identify(connection, name):
                raise self._failed()
        return step.answer

    def _identify(self, connection: ClientConnection, user: str) -> bool:
        """Add the identities of a user. False: the connection has too many already."""
        identities = [(SASL.encode(), user.encode())]
        if user in self._super_users:
            identities.append(SUPER)
        if self._config.access.any_sasl_user is not None:
            identities.append((ANY_SASL, self._config.access.any_sasl_user.encode()))
        return connection.identify(*identities)

    def _failed(self) -> SaslFailed:
        if SASL.encode() in self._required:
            return SaslFailed(ErrorCode.SESSIONCLOSEDREQUIRESASLAUTH)
        keeps = self._config.access.keeps_sasl_failed and self._config.login.is_offered
        return SaslFailed(ErrorCode.OK if keeps else ErrorCode.AUTHFAILED)


PROVE: Mapping[bytes, Callable[[Authentication, ClientConnection, bytes], Verdict]] = {
    b"ip": Authentication._prove_address,
    b"digest": Authentication._prove_digest,
    b"x509": Authentication._prove_certificate,
    b"ensemble": Authentication._prove_ensemble,
}
"""The check of each scheme."""
