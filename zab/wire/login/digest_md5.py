"""SASL DIGEST-MD5 (RFC 2831) with qop=auth, both sides, as ZooKeeper's clients and servers speak it. Pure: the caller
provides the nonces.

    server                                                  client
    challenge(realm, nonce)     ──── realm, nonce ────>     respond(challenge, user, password, …)
    check(response, …)          <─── response ─────────
                                ──── rspauth ─────────>     `Response.is_answered_by`

ZooKeeper's servers send neither qop (which defaults to `auth`) nor their own name: realm and host are always
`ZOOKEEPER_REALM` and `ZOOKEEPER_URI`.

Each nonce is valid for one response (nc=1), on the connection on which it was sent. So an eavesdropper cannot replay a
response, but can guess passwords offline against it: use this mechanism inside TLS.

A server stores `key_of` the password: that is valid for this realm only, and must be kept as secret as the password.

Limits: a challenge or response has at most MESSAGE_BYTES_MAX; each known directive may appear once; unknown ones are
skipped, as the RFC requires. No subsequent authentication, no integrity or confidentiality layers (auth-int,
auth-conf).

Not here: who the users are, and how many attempts a connection has (`zab.member.clients.authentication`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import md5
from hmac import compare_digest
from typing import Final

from attrs import field, frozen

MESSAGE_BYTES_MAX: Final = 4096
"""The RFC's limit for a digest-response; a digest-challenge is half as long."""

ZOOKEEPER_REALM: Final = "zk-sasl-md5"
ZOOKEEPER_URI: Final = b"zookeeper/zk-sasl-md5"

KEY_BYTES: Final = 16
_NOBODYS_KEY: Final = bytes(KEY_BYTES)
"""The key for unknown users, so that checking them takes as long as checking known ones."""

_FIRST_TIME: Final = b"00000001"
_QOP: Final = b"auth"
_ALGORITHM: Final = b"md5-sess"
_CHARSET: Final = b"utf-8"

_DIRECTIVE = re.compile(
    rb"""[ \t\r\n]*
    (?P<name>[!#$%&'*+\-.0-9A-Z^_`a-z|~]+)
    [ \t\r\n]*=[ \t\r\n]*
    (?: "(?P<quoted>(?:[^"\\\x00]|\\[\x01-\x7f])*+)" | (?P<token>[!#$%&'*+\-.0-9A-Z^_`a-z|~]+) )
    [ \t\r\n]*(?:,|\Z)""",
    re.VERBOSE,
)
_SPACE = re.compile(rb"[ \t\r\n,]*")
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)

_OF_RESPONSES: Final = frozenset(
    {
        *(b"username", b"realm", b"nonce", b"cnonce", b"nc", b"qop", b"digest-uri", b"response", b"maxbuf", b"charset"),
        *(b"cipher", b"authzid"),
    }
)
_OF_CHALLENGES: Final = frozenset({b"nonce", b"stale", b"maxbuf", b"charset", b"algorithm"})
"""Directives that a challenge may have once: it may have several realms, and qop and cipher are lists."""


class DigestMd5Error(Exception):
    """What the other side sent is wrong, or proves nothing. The message never shows a secret."""


@frozen
class Response:
    """A client's response to a challenge."""

    message: bytes
    _expected: bytes = field(repr=False)

    def is_answered_by(self, message: bytes) -> bool:
        """Whether the server proved that it has the password, too."""
        return compare_digest(message.strip(), b"rspauth=" + self._expected)


def key_of(user: str, realm: str, password: str) -> bytes:
    """What the server stores of a password: H(user:realm:password)."""
    return _hash(b":".join(map(_hashed_form, (user, realm, password))))


def challenge(realm: str, nonce: bytes) -> bytes:
    """The first message of the server, in ZooKeeper's form."""
    return b'realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess' % (_quoted(realm.encode()), _quoted(nonce))


def check(
    response: bytes, *, realm: str, nonce: bytes, uri: bytes, key_of_user: Callable[[str], bytes | None]
) -> tuple[str, bytes]:
    """The authenticated user, and the server's last message, by which it proves itself. Raises `DigestMd5Error`.

    `nonce` is the one sent on this connection; do not use it again, whatever the outcome.
    """
    said = _parsed(response, _OF_RESPONSES)
    charset = said.get(b"charset")
    if charset not in (None, _CHARSET):
        raise DigestMd5Error("the charset is not utf-8")
    user = _text(_one(said, b"username"), is_utf8=charset is not None)
    if _text(_one(said, b"realm"), is_utf8=charset is not None) != realm:
        raise DigestMd5Error("it is for another realm")
    if not compare_digest(_one(said, b"nonce"), nonce):
        raise DigestMd5Error("the nonce is not the one that was sent")
    if _one(said, b"nc") != _FIRST_TIME:
        raise DigestMd5Error("the nonce was used before")
    if said.get(b"qop", _QOP) != _QOP:
        raise DigestMd5Error("the quality of protection is not auth")
    said_uri = _one(said, b"digest-uri")
    if said_uri.lower() != uri.lower():
        raise DigestMd5Error("it is for another service")
    authzid = said.get(b"authzid")
    if authzid is not None and authzid != user.encode():
        raise DigestMd5Error("a user may not act for another one")
    key = key_of_user(user)
    a1 = _a1(_NOBODYS_KEY if key is None else key, nonce, _one(said, b"cnonce"), authzid)
    is_right = compare_digest(_one(said, b"response"), _proof(a1, nonce, said[b"cnonce"], b"AUTHENTICATE:" + said_uri))
    if key is None or not is_right:
        raise DigestMd5Error("there is no such user, or the password is wrong")
    return user, b"rspauth=" + _proof(a1, nonce, said[b"cnonce"], b":" + said_uri)


def respond(
    message: bytes, *, user: str, password: str, cnonce: bytes, uri: bytes, realm_default: str = ""
) -> Response:
    """What a client says to a challenge. Raises `DigestMd5Error`."""
    said = _parsed(message, _OF_CHALLENGES)
    nonce = _one(said, b"nonce")
    if said.get(b"algorithm") != _ALGORITHM:
        raise DigestMd5Error("the algorithm is not md5-sess")
    if _QOP not in [each.strip() for each in said.get(b"qop", _QOP).split(b",")]:
        raise DigestMd5Error("the server does not offer the quality of protection auth")
    is_utf8 = said.get(b"charset") == _CHARSET
    realm = _text(said[b"realm"], is_utf8=is_utf8) if b"realm" in said else realm_default
    a1 = _a1(key_of(user, realm, password), nonce, cnonce, None)
    try:
        name, place = (each.encode("utf-8" if is_utf8 else "latin-1") for each in (user, realm))
    except UnicodeEncodeError:
        raise DigestMd5Error("the server does not accept names in utf-8") from None
    fields = [
        *([b"charset=utf-8"] if is_utf8 else []),
        b'username="%s"' % _quoted(name),
        b'realm="%s"' % _quoted(place),
        b'nonce="%s"' % _quoted(nonce),
        b"nc=" + _FIRST_TIME,
        b'cnonce="%s"' % _quoted(cnonce),
        b'digest-uri="%s"' % _quoted(uri),
        b"response=" + _proof(a1, nonce, cnonce, b"AUTHENTICATE:" + uri),
        b"qop=" + _QOP,
    ]
    return Response(b",".join(fields), _proof(a1, nonce, cnonce, b":" + uri))


# ----------------------------------------------------------------------------------------------------------- directives


def _parsed(message: bytes, known: frozenset[bytes]) -> dict[bytes, bytes]:
    """Directive → value. Raises `DigestMd5Error` if a known one appears twice."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise DigestMd5Error(f"it is longer than {MESSAGE_BYTES_MAX} bytes")
    found: dict[bytes, bytes] = {}
    at = _end_of_space(message, 0)
    while at < len(message):
        directive = _DIRECTIVE.match(message, at)
        if directive is None:
            raise DigestMd5Error("it is not a list of directives")
        name = directive["name"].lower()
        if name in found and name in known:
            raise DigestMd5Error("a directive appears twice")
        quoted = directive["quoted"]
        value = directive["token"] if quoted is None else _ESCAPE.sub(rb"\1", quoted)
        found.setdefault(name, value)
        at = _end_of_space(message, directive.end())
    return found


def _end_of_space(message: bytes, at: int) -> int:
    """Skips the empty elements that such a list may have."""
    found = _SPACE.match(message, at)
    assert found is not None
    return found.end()


def _one(said: dict[bytes, bytes], name: bytes) -> bytes:
    value = said.get(name)
    if not value:
        raise DigestMd5Error(f"{name.decode()} is missing")
    return value


def _quoted(value: bytes) -> bytes:
    return value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _text(value: bytes, *, is_utf8: bool) -> str:
    try:
        return value.decode("utf-8" if is_utf8 else "latin-1")
    except UnicodeDecodeError:
        raise DigestMd5Error("a name is not utf-8") from None


# --------------------------------------------------------------------------------------------------------------- hashes


def _hashed_form(text: str) -> bytes:
    """RFC 2831, 2.1.2.1: a text that fits into ISO 8859-1 is hashed in that encoding, any other one as UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _a1(key: bytes, nonce: bytes, cnonce: bytes, authzid: bytes | None) -> bytes:
    return b":".join((key, nonce, cnonce, *(() if authzid is None else (authzid,))))


def _proof(a1: bytes, nonce: bytes, cnonce: bytes, a2: bytes) -> bytes:
    return _hex(b":".join((_hex(a1), nonce, _FIRST_TIME, cnonce, _QOP, _hex(a2))))


def _hash(data: bytes) -> bytes:
    # DIGEST-MD5 implies MD5: a library that forbids MD5 for security must not end the process.
    return md5(data, usedforsecurity=False).digest()


def _hex(data: bytes) -> bytes:
    return _hash(data).hex().encode()
