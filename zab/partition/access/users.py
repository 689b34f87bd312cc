"""The users of a broker: those of SCRAM, from the znodes, and those of PLAIN, from its file.

    Users.changed(name, config)             `/config/users/NAME` is this now
    Users.scram(mechanism, name)            the credential; an invented one for a user that does not exist
    Users.has_password(listener, …)         whether this is the password of a user of PLAIN

A credential that cannot be read counts as none: its user cannot log in.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Final

from zab.partition.access.scram import HASHES, Credential, Shape, credential_in, invented

SHAPES_MAX: Final = 8
"""How many shapes an invented credential may have: those that most users have."""
_SECRET_BYTES: Final = 32


class Users:
    """See the docstring of the module."""

    def __init__(self, plain: Mapping[str, Mapping[str, str]], rng: Random, secret: bytes = b"") -> None:
        """`plain`: password by listener and user. `rng` is that of the operating system. `secret`: what all brokers of
        the cluster have, so that each of them invents the same; if it is empty, this broker makes its own."""
        self._plain = plain
        self._rng = rng
        self._secret = hmac.digest(secret, b"users", hashlib.sha256) if secret else b""
        self._shapes: dict[str, Counter[Shape]] = {mechanism: Counter() for mechanism in HASHES}
        """How many credentials of a mechanism have which shape."""
        self.of_scram: dict[str, dict[str, Credential]] = {}
        """Credential by user and mechanism."""

    def changed(self, name: str, config: Mapping[str, str]) -> list[str]:
        """Take these settings of a user; returns sentences about what is wrong with them."""
        found: dict[str, Credential] = {}
        wrong = []
        for mechanism in HASHES:
            if mechanism in config:
                try:
                    found[mechanism] = credential_in(mechanism, config[mechanism])
                except ValueError as error:
                    wrong.append(f"user {name!r} cannot log in by {mechanism}: {error}")
        self._count(self.of_scram.pop(name, {}), -1)
        self._count(found, 1)
        if found:
            self.of_scram[name] = found
        return wrong

    def _count(self, credentials: Mapping[str, Credential], change: int) -> None:
        for mechanism, credential in credentials.items():
            shapes = self._shapes[mechanism]
            shapes[credential.shape] += change
            if not shapes[credential.shape]:
                del shapes[credential.shape]

    def scram(self, mechanism: str, name: str) -> Credential:
        """The credential of this user, or one that nobody can prove."""
        # Computed in either case, so that both take the same time.
        shapes = dict(self._shapes[mechanism].most_common(SHAPES_MAX)) or {Shape(): 1}
        other = invented(mechanism, self._own_secret(), name, shapes)
        return self.of_scram.get(name, {}).get(mechanism, other)

    def has_password(self, listener: str, name: str, password: str) -> bool:
        """Whether a user of this listener logs in by PLAIN with this password."""
        key = self._own_secret()
        known = self._plain.get(listener, {}).get(name)
        digests = [hmac.digest(key, each.encode(), hashlib.sha256) for each in (known or "", password)]
        return hmac.compare_digest(*digests) and known is not None

    def _own_secret(self) -> bytes:
        if not self._secret:
            self._secret = self._rng.randbytes(_SECRET_BYTES)
        return self._secret
