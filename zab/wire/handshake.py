"""The handshake: how two servers of one service begin a connection, before anything else is said on it.

    dialler ──Hello────> listener       which versions and features it speaks, who it is, whom it dials, what for;
                                        the names of the secrets that it has; a nonce
            <─Welcome───                the version and the features from here on, who answers; the name of a secret
                                        that both have; a nonce; proof
            ──Proof────>                proof; what the dialler has to say may follow it at once

Proof is a keyed hash of both messages, so of all that they say, under a secret that both have; the nonces make it new
each time. From the same come the keys of the connection: everything after the handshake is sealed (`zab.wire.seal`).

Nothing is believed before it is proven: the listener knows nobody until `Proof` has come, the dialler nobody until
`Welcome` has. A `Refusal` says, in words, why there is no proof; who reads it believes nothing of it.

Inside of TLS the certificates are a proof, too: each end knows for which servers that of the other one is good
(`certified`), and the ids are held against it. Such a connection needs no secret; where both have one, it takes both
proofs.

A secret is at least `SECRET_BYTES_MIN` random bytes. A server may have several, so that they can be changed while it
runs: first each server gets the new one beside the old one, then the old one is taken away. A server that does not
require proof by one (`Party.is_open`) talks to those who have none of its secrets, too: nothing is sealed then.

Not here: who may be let in to do what (the service), TLS and what certificates say, sockets, time, randomness: nonces
are handed in.
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
"""So many may be valid at a time."""
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
    """Who dials, whom, and what for."""

    TYPE: ClassVar[int] = 101
    least_version: int = checked(COUNT)
    version: int = checked(COUNT)
    """The newest that it speaks."""
    features: int = checked(_FEATURES)
    """A bit each, of those that a version leaves open."""
    sid: int = checked(_SID)
    other: int = checked(_SID)
    purpose: int = checked(COUNT)
    nonce: bytes = checked(_NONCE)
    secrets: list[bytes] = checked(_names)


@attrs.frozen
class Welcome:
    """Who answers, and proof of it. Without a secret that both have, its name and the proof are empty."""

    TYPE: ClassVar[int] = 102
    version: int = checked(COUNT)
    features: int = checked(_FEATURES)
    sid: int = checked(_SID)
    nonce: bytes = checked(_NONCE)
    secret: bytes = checked(_name_or_none)
    proof: bytes = checked(_proof_or_none)


@attrs.frozen
class Proof:
    """That the dialler is who it says; empty as in `Welcome`."""

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
    """Whoever was dialled says that it knows no such server as this one. It is seen by the words, which do not change,
    and is not proven: for what a server says of itself, and nothing else."""


class TakenError(MessageError):
    """Whoever was dialled says that another process is the server that this one is. Seen and believed likewise."""


def _not_known(sid: int, to: int) -> str:
    return f"server {sid} is not in the configuration of server {to}"


def _taken(sid: int) -> str:
    return f"server {sid} is another process, "


def taken(sid: int, where: str) -> str:
    """The refusal of one who says that it is this server, which is at this address."""
    return f"{_taken(sid)}at {where}: see the myid of who dials"


def refusal(reason: str) -> bytes:
    """The payload that says it to the other side."""
    return _ANSWERS.encode(Refusal(reason[:REASON_CHARACTERS_MAX]))


@attrs.frozen
class Secret:
    """What the servers of one service have, and nobody else. Its text never shows it."""

    key: bytes = attrs.field(repr=False)
    name: bytes = attrs.field(init=False)
    """Which one it is, for those who have it."""

    def __attrs_post_init__(self) -> None:
        assert len(self.key) >= SECRET_BYTES_MIN
        name = blake2b(self.key, digest_size=_NAME_BYTES, person=b"zab secret name").digest()
        object.__setattr__(self, "name", name)


@attrs.frozen
class Party:
    """One server, as it takes part in handshakes."""

    sid: int
    least_version: int
    version: int
    features: int = 0
    secrets: tuple[Secret, ...] = ()
    is_open: bool = False
    """Whoever has none of the secrets is let in, too: by a certificate, or by nothing."""

    def believes(self, agreed: Agreed) -> bool:
        """Whether what was proven when a connection began still counts: not under a secret that was taken away."""
        return not agreed.secret or any(secret.name == agreed.secret for secret in self.secrets)


@attrs.frozen
class Agreed:
    """How a handshake ended: who is at the other end, and how both go on."""

    sid: int
    purpose: int
    version: int
    features: int
    nonce: bytes
    """Of the other end."""
    secret: bytes
    """The name of the one by which both have proven who they are; empty where nothing was proven."""
    sending: Seal | None
    receiving: Seal | None
    encrypting: Secrecy | None
    decrypting: Secrecy | None
    is_certified: bool = False
    """The connection is inside of TLS, and the other end's certificate is good for that server."""

    @property
    def is_proven(self) -> bool:
        return self.is_certified or bool(self.secret)


class Dialling:
    """The handshake of the one who dialled server `other`. `nonce` is of `NONCE_BYTES`, and nobody can foresee it.
    `is_certified`: inside of TLS, where a certificate that is good for `other` was shown."""

    def __init__(self, me: Party, other: int, purpose: int, nonce: bytes, *, is_certified: bool = False) -> None:
        self._me = me
        self._is_certified = is_certified
        names = [secret.name for secret in me.secrets]
        self._hello = Hello(me.least_version, me.version, me.features, me.sid, other, purpose, nonce, names)

    def hello(self) -> bytes:
        """The first payload to send."""
        return _HELLOS.encode(self._hello)

    def welcomed(self, payload: bytes) -> tuple[bytes, Agreed]:
        """Take the answer: the last payload of the handshake, to be sent, and how it ended. Raises `MessageError`."""
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
                raise MessageError(f"server {answer.sid} does not prove that it has a secret of this server")
            agreed = _without_secret(hello, answer, dialled=True, is_certified=self._is_certified)
            return _PROOFS.encode(Proof(b"")), agreed
        keys = _Keys(secret, hello, answer)
        if not compare_digest(keys.of(b"listener"), answer.proof):
            raise MessageError(f"the proof of server {answer.sid} is wrong")
        agreed = keys.agreed(dialled=True, is_certified=self._is_certified)
        return _PROOFS.encode(Proof(keys.of(b"dialler"))), agreed


Objection: TypeAlias = Callable[[int, int, bytes], str | None]
"""Why a server is not welcome that dials with this id, these features and this nonce; nothing of it is proven yet."""


def none_at_all(_sid: int, _features: int, _nonce: bytes) -> str | None:
    """The objection of one who has none."""
    return None


class Listening:
    """The handshake of the one who was dialled, by one of the `others`, for one of these `purposes`. `certified`:
    inside of TLS, the servers for which the certificate that was shown is good; None: there is no TLS."""

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
        """Whether `Hello` has come: the next payload is `Proof`."""
        return self._expected is not None

    def welcome(self, payload: bytes) -> bytes:
        """Take the first payload: the answer, to be sent. Raises `MessageError`."""
        me = self._me
        hello = _HELLOS.decode(payload)
        if hello.sid not in self._others:
            if hello.sid == me.sid:
                raise MessageError(f"this is server {me.sid}, and who dials has the same id: see its myid")
            raise MessageError(_not_known(hello.sid, me.sid))
        if self._certified is not None and hello.sid not in self._certified:
            raise MessageError(f"the certificate is not for the host of server {hello.sid}")
        if hello.other != me.sid:
            raise MessageError(f"server {hello.other} is dialled, and this is server {me.sid}")
        if hello.purpose not in self._purposes:
            raise MessageError(f"server {hello.sid} comes for {hello.purpose}, which is not to be had here")
        version = min(me.version, hello.version)
        if version < max(me.least_version, hello.least_version):
            theirs, ours = f"{hello.least_version} to {hello.version}", f"{me.least_version} to {me.version}"
            raise MessageError(f"server {hello.sid} speaks versions {theirs}, server {me.sid} {ours}")
        secret = _named(me, hello.secrets)
        if secret is None and not me.is_open:
            raise MessageError(f"server {hello.sid} has no secret of server {me.sid}")
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
        """Take the last payload: how the handshake ended. Raises `MessageError`."""
        assert self._expected is not None
        hello, answer, keys = self._expected
        proof = _PROOFS.decode(payload).proof
        if keys is None:
            if proof:
                raise MessageError(f"server {hello.sid} proves something without a secret")
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
    """All that follows from a secret and from what both sides have said."""

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
