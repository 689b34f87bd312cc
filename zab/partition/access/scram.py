"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) on the server's side, without channel binding.

    credential_in(mechanism, text)      a credential as Kafka keeps it in a znode
    derived(mechanism, salted, …)       a credential of a salted password, as AlterUserScramCredentials sends it
    ScramServer.first(message)          the client names its user, and is told salt and iterations
    ScramServer.final(message)          the client proves its password, and the server that it knows the user

The server has no password, and does no work that grows with the iterations: the client does. A user that is unknown is
answered as if it were there (`look_up` invents a credential), and fails at the proof. Names are compared as they are,
without SASLprep, as in Kafka.

Not here: which users there are (`users`), and how often a client may try.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final

from attrs import field, frozen

HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""The limits for credentials that clients set, as in Kafka."""

_FIRST: Final = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>[^,]*))?,)(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,[a-zA-Z]=[^,]*)*)",
    re.ASCII,
)
_FINAL: Final = re.compile(
    r"(?P<bare>c=(?P<binding>[^,]+),r=(?P<nonce>[^,]+)(?:,[a-zA-Z]=[^,]*)*),p=(?P<proof>[^,]+)", re.ASCII
)
_ESCAPE: Final = re.compile(r"=(2C|3D)?")
_CREDENTIAL_KEYS: Final = ("salt", "stored_key", "server_key", "iterations")


class LoginError(Exception):
    """A login fails; the text is for the journal, and has nothing secret."""


@frozen(order=True)
class Shape:
    """What everybody is told of a credential, besides the bytes of its salt."""

    iterations: int = ITERATIONS_MIN
    salt_bytes: int = 24


_ONE_SHAPE: Final[Mapping[Shape, int]] = {Shape(): 1}


@frozen
class Credential:
    """What a server keeps of a password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @property
    def shape(self) -> Shape:
        return Shape(self.iterations, len(self.salt))

    def __str__(self) -> str:
        """As Kafka writes it. This is a secret."""
        salt, stored, server = (b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"


def credential_in(mechanism: str, text: str) -> Credential:
    """Raises ValueError, whose text shows no part of it."""
    pairs = dict(part.partition("=")[::2] for part in text.split(","))
    if set(pairs) != set(_CREDENTIAL_KEYS) or text.count(",") != len(_CREDENTIAL_KEYS) - 1:
        raise ValueError(f"a credential has {', '.join(_CREDENTIAL_KEYS)}")
    iterations = pairs["iterations"]
    if not (iterations.isascii() and iterations.isdecimal() and len(iterations) < 10):
        raise ValueError("the iterations are no number")
    if int(iterations) < ITERATIONS_MIN:
        raise ValueError(f"a credential has at least {ITERATIONS_MIN} iterations")
    salt, stored, server = (_bytes_in(pairs[key]) for key in _CREDENTIAL_KEYS[:3])
    size = hashlib.new(HASHES[mechanism]).digest_size
    if not salt or len(stored) != size or len(server) != size:
        raise ValueError(f"the keys are not those of {mechanism}")
    return Credential(salt, stored, server, int(iterations))


def derived(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    """The credential of a password that its client has salted and hashed."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return Credential(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


def invented(mechanism: str, secret: bytes, user: str, shapes: Mapping[Shape, int] = _ONE_SHAPE) -> Credential:
    """A credential that nobody can prove, the same for each attempt of a user that does not exist.

    It has one of these shapes, each as often as so many users that do exist have it, so that it does not stand out. As
    long as nobody's credential changes, a user has the same one (weighted rendezvous hashing)."""
    name = HASHES[mechanism]

    def digest(part: bytes) -> bytes:
        return hmac.digest(secret, part + b"\0" + user.encode(), name)

    def rank(each: Shape) -> float:
        return float((int.from_bytes(digest(repr(each).encode())[:8], "big") / 2**64) ** (1 / shapes[each]))

    shape = max(shapes, key=rank)
    salt = b"".join(digest(b"salt %d" % number) for number in range(-(-shape.salt_bytes // len(digest(b"")))))
    return Credential(salt[: shape.salt_bytes], digest(b"stored"), digest(b"server"), shape.iterations)


class ScramServer:
    """One conversation. After a LoginError, it is over."""

    def __init__(self, mechanism: str, look_up: Callable[[str], Credential], nonce: str) -> None:
        """`nonce`: the server's, random and printable, without commas."""
        self._hash = HASHES[mechanism]
        self._look_up = look_up
        self._own_nonce = nonce
        self.user = ""
        self._gs2 = self._nonce = self._said = ""
        self._credential: Credential | None = None

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message. Raises LoginError."""
        found = _FIRST.fullmatch(_text(message))
        if found is None:
            raise LoginError("its first message is not one of SCRAM without channel binding")
        self.user = _unescaped(found["user"])
        if found["authzid"] is not None and _unescaped(found["authzid"]) != self.user:
            raise LoginError("it wants to act for somebody else")
        self._credential = self._look_up(self.user)
        self._gs2, self._nonce = found["gs2"], found["nonce"] + self._own_nonce
        salt = b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._said = f"{found['bare']},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes:
        """The answer to the client's proof. Raises LoginError."""
        assert self._credential is not None, "the first message comes first"
        found = _FINAL.fullmatch(_text(message))
        if found is None:
            raise LoginError("its last message is not one of SCRAM")
        try:
            binding, proof = _bytes_in(found["binding"]), _bytes_in(found["proof"])
        except ValueError as error:
            raise LoginError(f"its last message: {error}") from None
        if binding != self._gs2.encode() or found["nonce"] != self._nonce:
            raise LoginError("its last message does not belong to its first one")
        exchange = f"{self._said},{found['bare']}".encode()
        signature = hmac.digest(self._credential.stored_key, exchange, self._hash)
        if len(proof) != len(signature):
            raise LoginError("its proof has another length")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, self._credential.stored_key):
            raise LoginError("there is no such user, or it has another password")
        return b"v=" + b64encode(hmac.digest(self._credential.server_key, exchange, self._hash))


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise LoginError("its message is not UTF-8") from None


def _unescaped(name: str) -> str:
    """Raises LoginError."""
    if any(escape[1] is None for escape in _ESCAPE.finditer(name)):
        raise LoginError("its name has a sign = that stands for nothing")
    return name.replace("=2C", ",").replace("=3D", "=")


def _bytes_in(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not Base64") from None
