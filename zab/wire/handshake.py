"""The handshake: how two servers of one service begin a connection, before they send anything else.

    dialler ──Hello────> listener       its versions and features, who it is, whom it dials, for which
                                        purpose; the names of its secrets; a nonce
            <─Welcome───                the version and the features to use, who answers; the name of a
                                        secret that both have; a nonce; proof
            ──Proof────>                proof; the dialler's messages may follow it at once

A proof is a keyed hash of both messages, under a secret that both servers have; the nonces make it different each time.
The keys of the connection are derived from the same input: everything after the handshake is sealed (`zab.wire.seal`).

Nothing is trusted before it is proven: the listener trusts no claim before `Proof` has arrived, the dialler none before
`Welcome`. A `Refusal` explains in words why there is no proof; its reader only reports it.

Inside TLS, certificates are a proof, too: each end knows for which servers the other's certificate is valid
(`certified`), and checks the claimed id against that. Such a connection needs no secret; if both servers have one, both
proofs are required.

A secret is at least `SECRET_BYTES_MIN` random bytes. A server may have several, so that they can be rotated while it
runs: first add the new one to every server, then remove the old one. A server that does not require a secret
(`Party.is_open`) also talks to servers that have none of its secrets; such a connection is not sealed.

Not here: authorization (the service's), TLS and certificates, sockets, time, randomness: the caller provides the
nonces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2b
from hmac import compare_digest
from typing import ClassVar, Final, TypeAlias

import attrs

from zab.wire.frames import GREETING_BYTES_MAX
from zab.wire.records import COUNT, Codec, MessageError, checked, is_bytes, is_int, is_list_of, is_text
from zab.wire.seal import KEY_BYTES, Seal, Secrecy

NONCE_BYTES: Final = 32
SECRET_BYTES_MIN: Final = 32
SECRETS_MAX: Final = 4
"""How many secrets may be valid at a time."""
REASON_CHARACTERS_MAX: Final = 500

_NAME_BYTES: Final = 8
_PROOF_BYTES: Final = 32
_FEATURES: Final = is_int(0, (1 << 32) - 1)
_SID: Final = is_int(0, (1 << 63) - 1)
_NONCE: Final = is_bytes(NONCE_BYTES, NONCE_BYTES)


def _name_or_none(value: object) -> bool:
    return value == b"" or _NAME(value)


def _proof_or_none(value: object) -> bool:
    return value == b"" or _PROOF(value)


def _names(value: object) -> bool:
    return type(value) is list and len(value) <= SECRETS_MAX and is_list_of(_NAME)(value)


_NAME: Final = is_bytes(_NAME_BYTES, _NAME_BYTES)
_PROOF: Final = is_bytes(_PROOF_BYTES, _PROOF_BYTES)


@attrs.frozen
class Hello:
    """The dialler's claim: who it is, whom it dials, and for which purpose."""

    TYPE: ClassVar[int] = 101
    least_version: int = checked(COUNT)
    version: int = checked(COUNT)
    """The newest that the dialler speaks."""
    features: int = checked(_FEATURES)
    """The optional features that it supports, a bit each."""
    sid: int = checked(_SID)
    other: int = checked(_SID)
    purpose: int = checked(COUNT)
    nonce: bytes = checked(_NONCE)
    secrets: list[bytes] = checked(_names)


@attrs.frozen
class Welcome:
    """The listener's answer: who it is, and proof of that. If the two have no secret in common, its name and the proof
    are empty."""

    TYPE: ClassVar[int] = 102
    version: int = checked(COUNT)
    features: int = checked(_FEATURES)
    sid: int = checked(_SID)
    nonce: bytes = checked(_NONCE)
    secret: bytes = checked(_name_or_none)
    proof: bytes = checked(_proof_or_none)


@attrs.frozen
class Proof:
    """Proof of who the dialler is; empty as in `Welcome`."""

    TYPE: ClassVar[int] = 103
    proof: bytes = checked(_proof_or_none)


@attrs.frozen
class Refusal:
    """Why the connection is closed, in words."""

    TYPE: ClassVar[int] = 104
    reason: str = checked(is_text(REASON_CHARACTERS_MAX))


_HELLOS: Codec[Hello] = Codec((Hello,))
_ANSWERS: Codec[Welcome | Refusal] = Codec((Welcome, Refusal))
_PROOFS: Codec[Proof] = Codec((Proof,))


class NotKnownError(MessageError):
    """The server that was dialled says that this server is not in its configuration. It is recognized by its words,
    which must not change, and it is not proven: only report it."""


class TakenError(MessageError):
    """The server that was dialled says that another process has this server's id. Recognized and believed like
    `NotKnownError`."""


def _not_known(sid: int, to: int) -> str:
    return f"server {sid} is not in the configuration of server {to}"


def _taken(sid: int) -> str:
    return f"server {sid} is another process, "


def taken(sid: int, where: str) -> str:
    """The refusal of a server whose id is in use by the one at this address."""
    return f"{_taken(sid)}at {where}: check the dialler's myid"


def refusal(reason: str) -> bytes:
    """The payload that tells the other side why it is refused."""
    return _ANSWERS.encode(Refusal(reason[:REASON_CHARACTERS_MAX]))


@attrs.frozen
class Secret:
    """What all servers of one service have, and nobody else. Its text form never shows it."""

    key: bytes = attrs.field(repr=False)
    name: bytes = attrs.field(init=False)
    """Identifies the secret to those who have it."""

    def __attrs_post_init__(self) -> None:
        assert len(self.key) >= SECRET_BYTES_MIN
        name = blake2b(self.key, digest_size=_NAME_BYTES, person=b"zab secret name").digest()
        object.__setattr__(self, "name", name)


@attrs.frozen
class Party:
    """One server, as a party to handshakes."""

    sid: int
    least_version: int
    version: int
    features: int = 0
    secrets: tuple[Secret, ...] = ()
    is_open: bool = False
    """Also accept servers that have none of the secrets: by certificate, or without proof."""

    def believes(self, agreed: Agreed) -> bool:
        """Whether the proof with which a connection began still counts: not if its secret was removed since."""
        return not agreed.secret or any(secret.name == agreed.secret for secret in self.secrets)


@attrs.frozen
class Agreed:
    """The result of a handshake: who is at the other end, and how both continue."""

    sid: int
    purpose: int
    version: int
    features: int
    nonce: bytes
    """The other end's."""
    secret: bytes
    """The name of the secret that both used as proof; empty if there was none."""
    sending: Seal | None
    receiving: Seal | None
    encrypting: Secrecy | None
    decrypting: Secrecy | None
    is_certified: bool = False
    """The connection is inside TLS, and the other end's certificate is valid for that server."""

    @property
    def is_proven(self) -> bool:
        return self.is_certified or bool(self.secret)

    @property
    def proof(self) -> str:
        """How the other end has proven its identity, for the journal."""
        proofs = [name for name, is_one in (("tls", self.is_certified), ("secret", bool(self.secret))) if is_one]
        return "+".join(proofs) or "nothing"


class Dialling:
    """The dialler's side of the handshake with server `other`. `nonce` has `NONCE_BYTES` and must be unpredictable.
    `is_certified`: the connection is inside TLS, and a certificate valid for `other` was presented."""

    def __init__(self, me: Party, other: int, purpose: int, nonce: bytes, *, is_certified: bool = False) -> None:
        self._me = me
        self._is_certified = is_certified
        names = [secret.name for secret in me.secrets]
        self._hello = Hello(me.least_version, me.version, me.features, me.sid, other, purpose, nonce, names)

    def hello(self) -> bytes:
        """The first payload to send."""
        return _HELLOS.encode(self._hello)

    def welcomed(self, payload: bytes) -> tuple[bytes, Agreed]:
        """Take the answer; return the last payload to send, and the result. Raises `MessageError`."""
        me, hello = self._me, self._hello
        answer = _ANSWERS.decode(payload)
        if isinstance(answer, Refusal):
            kind: type[MessageError] = MessageError
            if answer.reason == _not_known(me.sid, hello.other):
                kind = NotKnownError
            elif answer.reason.startswith(_taken(me.sid)):
                kind = TakenError
            raise kind(f"server {hello.other} refuses: {answer.reason}")
        if answer.sid != hello.other:
            raise MessageError(f"server {answer.sid} answers where server {hello.other} should")
        if not me.least_version <= answer.version <= me.version or answer.features & ~me.features:
            raise MessageError(f"server {answer.sid} answers in a version or with features that were not offered")
        secret = _named(me, (answer.secret,))
        if secret is None:
            if answer.secret or answer.proof or not me.is_open:
                raise MessageError(f"server {answer.sid} does not prove that it has one of this server's secrets")
            agreed = _without_secret(hello, answer, dialled=True, is_certified=self._is_certified)
            return _PROOFS.encode(Proof(b"")), agreed
        keys = _Keys(secret, hello, answer)
        if not compare_digest(keys.of(b"listener"), answer.proof):
            raise MessageError(f"the proof of server {answer.sid} is wrong")
        agreed = keys.agreed(dialled=True, is_certified=self._is_certified)
        return _PROOFS.encode(Proof(keys.of(b"dialler"))), agreed


Objection: TypeAlias = Callable[[int, int, bytes], str | None]
"""Why to refuse a server that dials with this id, these features and this nonce, or None; none of it is proven yet."""


def none_at_all(_sid: int, _features: int, _nonce: bytes) -> str | None:
    """Objects to nobody."""
    return None


@attrs.frozen
class Purposes:
    """What the connections between the servers of a service are for, as its handshakes number it."""

    link: int
    """A link from here on."""
    at_link_port: frozenset[int]
    """What may be asked for at the port of links."""
    life_bytes: int
    """The name of a process: with it all its nonces begin."""


class Listening:
    """The listener's side of the handshake: it accepts the servers in `others`, for one of these `purposes`.
    `certified`: the servers for which the presented certificate is valid; None outside TLS."""

    def __init__(
        self,
        me: Party,
        others: Collection[int],
        purposes: Collection[int],
        nonce: bytes,
        certified: Collection[int] | None = None,
        objection: Objection = none_at_all,
    ) -> None:
        self._me = me
        self._certified = certified
        self._others = others
        self._purposes = purposes
        self._nonce = nonce
        self._objection = objection
        self._expected: tuple[Hello, Welcome, _Keys | None] | None = None

    @property
    def has_welcomed(self) -> bool:
        """Whether `Hello` has arrived: the next payload is `Proof`."""
        return self._expected is not None

    def welcome(self, payload: bytes) -> bytes:
        """Take the first payload; return the answer to send. Raises `MessageError`."""
        me = self._me
        hello = _HELLOS.decode(payload)
        if hello.sid not in self._others:
            if hello.sid == me.sid:
                raise MessageError(f"this is server {me.sid}, and the dialler has the same id: check its myid")
            raise MessageError(_not_known(hello.sid, me.sid))
        if self._certified is not None and hello.sid not in self._certified:
            raise MessageError(f"the certificate is not for the host of server {hello.sid}")
        if hello.other != me.sid:
            raise MessageError(f"server {hello.other} is dialled, and this is server {me.sid}")
        if hello.purpose not in self._purposes:
            raise MessageError(f"server {hello.sid} dials for {hello.purpose}, which is not available here")
        version = min(me.version, hello.version)
        if version < max(me.least_version, hello.least_version):
            theirs, ours = f"{hello.least_version} to {hello.version}", f"{me.least_version} to {me.version}"
            raise MessageError(f"server {hello.sid} speaks versions {theirs}, server {me.sid} {ours}")
        secret = _named(me, hello.secrets)
        if secret is None and not me.is_open:
            raise MessageError(f"server {hello.sid} has none of the secrets of server {me.sid}")
        objection = self._objection(hello.sid, me.features & hello.features, hello.nonce)
        if objection is not None:
            raise MessageError(objection)
        name = b"" if secret is None else secret.name
        answer = Welcome(version, me.features & hello.features, me.sid, self._nonce, name, b"")
        keys = None
        if secret is not None:
            keys = _Keys(secret, hello, answer)
            answer = attrs.evolve(answer, proof=keys.of(b"listener"))
        self._expected = hello, answer, keys
        return _ANSWERS.encode(answer)

    def proven(self, payload: bytes) -> Agreed:
        """Take the last payload; return the result. Raises `MessageError`."""
        assert self._expected is not None
        hello, answer, keys = self._expected
        proof = _PROOFS.decode(payload).proof
        if keys is None:
            if proof:
                raise MessageError(f"server {hello.sid} sends a proof without a secret")
            return _without_secret(hello, answer, dialled=False, is_certified=self._is_certified)
        if not compare_digest(keys.of(b"dialler"), proof):
            raise MessageError(f"the proof of server {hello.sid} is wrong")
        return keys.agreed(dialled=False, is_certified=self._is_certified)

    @property
    def _is_certified(self) -> bool:
        return self._certified is not None


def _named(me: Party, names: Collection[bytes]) -> Secret | None:
    return next((secret for secret in me.secrets if secret.name in names), None)


def _without_secret(hello: Hello, answer: Welcome, *, dialled: bool, is_certified: bool) -> Agreed:
    other = answer if dialled else hello
    nothing = (b"", None, None, None, None)
    return Agreed(other.sid, hello.purpose, answer.version, answer.features, other.nonce, *nothing, is_certified)


class _Keys:
    """Everything derived from a secret and from what both sides have sent."""

    def __init__(self, secret: Secret, hello: Hello, answer: Welcome) -> None:
        self._hello = hello
        self._answer = answer
        said = _HELLOS.encode(hello), _ANSWERS.encode(attrs.evolve(answer, proof=b""))
        both = b"".join(len(each).to_bytes(4, "big") + each for each in said)
        assert len(both) < 2 * GREETING_BYTES_MAX
        key = blake2b(secret.key, digest_size=KEY_BYTES, person=b"zab secret key").digest()
        self._root = blake2b(both, digest_size=KEY_BYTES, key=key, person=b"zab handshake").digest()

    def of(self, purpose: bytes) -> bytes:
        return blake2b(purpose, digest_size=KEY_BYTES, key=self._root, person=b"zab connection").digest()

    def agreed(self, *, dialled: bool, is_certified: bool) -> Agreed:
        other = self._answer if dialled else self._hello
        sent, received = (b"of dialler", b"of listener") if dialled else (b"of listener", b"of dialler")
        return Agreed(
            other.sid,
            self._hello.purpose,
            self._answer.version,
            self._answer.features,
            other.nonce,
            self._answer.secret,
            Seal(self.of(b"seal " + sent)),
            Seal(self.of(b"seal " + received)),
            Secrecy(self.of(b"secrecy " + sent)),
            Secrecy(self.of(b"secrecy " + received)),
            is_certified,
        )
