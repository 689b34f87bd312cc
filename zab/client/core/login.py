"""The login of a client by SASL DIGEST-MD5 (operation 102), step by step. Pure.

    client --sasl {empty}-------> server
           <--{challenge}--------
           --sasl {response}---->
           <--{proof}------------       the server has the password, too

An `Exchange` is one login, on one connection: it answers the server's tokens until the login is done. A server that
does not prove that it has the password is not believed.

Not here: the mechanism itself (`zab.wire.login.digest_md5`), and what goes before and after
(`zab.client.core.session`).
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from datatree.opcodes import OpCode
from datatree.requests import Sasl
from zab.client.core.requests import ClientRequest
from zab.client.core.settings import SaslLogin
from zab.jute.replies import decode_body
from zab.wire.login.digest_md5 import ZOOKEEPER_REALM, ZOOKEEPER_URI, DigestMd5Error, Response, respond

__all__ = ["DigestLogin", "Exchange", "Login", "LoginError", "login_request"]


class LoginError(Exception):
    """The login failed; the text says why, and contains no secret."""


class Exchange(Protocol):
    """One login."""

    def respond(self, challenge: bytes | None) -> bytes | None:
        """The answer to the server's token; None when the login is done. Raises LoginError."""


Login: TypeAlias = Callable[[], Exchange]
"""Begins the login of a new connection."""


class DigestLogin:
    """The exchange of DIGEST-MD5. nonce: makes a value that no login had before."""

    def __init__(self, login: SaslLogin, nonce: Callable[[], bytes]) -> None:
        self._login = login
        self._nonce = nonce()
        self._response: Response | None = None

    def respond(self, challenge: bytes | None) -> bytes | None:
        if not challenge:
            raise LoginError("the server does not offer SASL DIGEST-MD5")
        if self._response is not None:
            if not self._response.is_answered_by(challenge):
                raise LoginError("the server did not prove that it knows the password")
            return None
        try:
            self._response = respond(
                challenge,
                user=self._login.user,
                password=self._login.password,
                cnonce=self._nonce,
                uri=ZOOKEEPER_URI,
                realm_default=ZOOKEEPER_REALM,
            )
        except DigestMd5Error as error:
            raise LoginError(f"the server's challenge cannot be answered: {error}") from None
        return self._response.message


def login_request(token: bytes) -> ClientRequest[bytes | None]:
    def decode(payload: bytes, offset: int) -> bytes | None:
        found = decode_body(OpCode.SASL, payload, offset)
        assert found is None or isinstance(found, bytes)
        return found

    return ClientRequest(OpCode.SASL, Sasl(token).encode(), decode)
