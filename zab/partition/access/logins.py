"""The login of one connection by SASL: the mechanism that it chooses, and the tokens of that mechanism.

    login = Login(listener, mechanisms, users, rng)
    login.choose(mechanism) -> bool         SaslHandshake; false: this listener does not have it
    login.take(token) -> answer             SaslAuthenticate; raises LoginError, after which the login is over
    login.name                              the user, once `is_done`

PLAIN has one token: `[authzid] NUL authcid NUL password` in UTF-8.

Not here: requests and their errors (`zab.partition.requests.login`), and the delay after a failed login.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

from zab.partition.access.scram import HASHES, LoginError, ScramServer
from zab.partition.access.users import Users

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *HASHES)
_NONCE_BYTES: Final = 24


class Login:
    """See the docstring of the module."""

    def __init__(self, listener: str, mechanisms: Sequence[str], users: Users, rng: Random) -> None:
        self.mechanisms = mechanisms
        self.mechanism: str | None = None
        """The chosen one."""
        self.name = ""
        self.is_done = False
        self._listener = listener
        self._users = users
        self._rng = rng
        self._scram: ScramServer | None = None

    def choose(self, mechanism: str) -> bool:
        """Choose a mechanism, before any token. False: there is no such mechanism here."""
        if mechanism not in self.mechanisms:
            return False
        self.mechanism, self._scram = mechanism, None
        return True

    def take(self, token: bytes) -> bytes:
        """The answer to a token. Raises LoginError."""
        assert self.mechanism is not None, "a mechanism is chosen first"
        assert not self.is_done
        if self.mechanism == PLAIN:
            return self._take_plain(token)
        if self._scram is None:
            nonce = b64encode(self._rng.randbytes(_NONCE_BYTES)).decode()
            self._scram = ScramServer(self.mechanism, partial(self._users.scram, self.mechanism), nonce)
            return self._scram.first(token)
        answer = self._scram.final(token)
        self._is_proven(self._scram.user)
        return answer

    def _take_plain(self, token: bytes) -> bytes:
        try:
            authzid, name, password = token.decode().split("\0")
        except ValueError:
            raise LoginError("its token is not one of PLAIN") from None
        if authzid not in ("", name):
            raise LoginError("it wants to act for somebody else")
        if not (name and password and self._users.has_password(self._listener, name, password)):
            raise LoginError("there is no such user, or it has another password")
        self._is_proven(name)
        return b""

    def _is_proven(self, name: str) -> None:
        self.name = name
        self.is_done = True
