"""Strangers at the ports of members: anyone who has no secret says nothing there that is believed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import cbor2
import pytest

from tests.hostile.ensembles import Attacked, Target
from tests.hostile.raw import Frames, connect, is_closed_by_the_other, reset, say, word
from zab.host.files.secret_file import read_secrets
from zab.member.membership.greeting import VERSION, Purpose, party
from zab.member.storage.snapshot_request import REQUESTS, SnapshotRequest
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.wire.frames import frame
from zab.wire.handshake import NONCE_BYTES, Dialling, Listening, Party, Secret
from zab.wire.records import MessageError

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]
SECURE_TOO = True

AT = {Purpose.QUORUM: "quorum_port", Purpose.SNAPSHOT: "quorum_port", Purpose.ELECTION: "election_port"}
FORGED = [
    cbor2.dumps([msg.FollowerInfo.TYPE, 0x7FFFFFFE, b"", 0, True, True, False]),
    cbor2.dumps([msg.Notification.TYPE, 0, 2, 0, 0, (1 << 63) - 1, b"", True, 0, False, False, False]),
    cbor2.dumps([mmsg.Request.TYPE, [[[[b"super", b""]], [mmsg.WRITE_HEAD.pack(1, 99, -10) + bytes(4)]]]]),
]


@contextlib.contextmanager
def dialled(member: Attacked, purpose: Purpose) -> Iterator[Frames]:
    frames = Frames(connect(getattr(member, AT[purpose])))
    try:
        yield frames
    finally:
        frames.close()


def other_than(target: Target, member: Attacked) -> int:
    return next(each.server_id for each in target.members if each is not member)


def dialling(me: Party, member: Attacked, purpose: Purpose) -> Dialling:
    return Dialling(me, member.server_id, purpose, os.urandom(NONCE_BYTES))


def stranger(target: Target, member: Attacked, *, has_name: bool = False) -> Party:
    """A stranger that claims to be another member. With `has_name` it names the right secret, which anybody
    overhears."""
    secret = Secret(os.urandom(32))
    if has_name:
        [right] = read_secrets(str(member.secret))
        object.__setattr__(secret, "name", right.name)
    return party(other_than(target, member), [secret], is_open=False)


def proven(target: Target, member: Attacked, purpose: Purpose) -> list[bytes]:
    """What a real member says in a handshake, as somebody overhears it: then the connection ends."""
    me = party(other_than(target, member), read_secrets(str(member.secret)), is_open=False)
    with dialled(member, purpose) as frames:
        shake = dialling(me, member, purpose)
        hello = shake.hello()
        frames.put(hello)
        proof, agreed = shake.welcomed(frames.get())
        assert agreed.is_proven
        if purpose is Purpose.SNAPSHOT:
            frames.put(proof)
    return [hello, proof]


@pytest.mark.parametrize("purpose", Purpose)
def test_who_has_no_secret_says_what_members_say(target: Target, purpose: Purpose) -> None:
    """A stranger greets as another member, with an empty proof, another secret, or the name of the right one, and
    then says all that once brought the ensemble down: an epoch of 2^31-1, a round of 2^63-1, writes of the superuser, a
    session that is served. It is refused, and nothing after it is read."""
    with target.attacked():
        for member in target.members:
            for has_name in (False, True):
                with dialled(member, purpose) as frames:
                    frames.put(dialling(stranger(target, member, has_name=has_name), member, purpose).hello())
                    with contextlib.suppress(EOFError, MessageError, ConnectionError):
                        frames.get()
                    for message in FORGED:
                        say(frames.sock, frame(message))
                    assert is_closed_by_the_other(frames.sock)


@pytest.mark.parametrize("purpose", Purpose)
def test_handshake_that_was_overheard(target: Target, purpose: Purpose) -> None:
    """A stranger repeats what a member said, byte for byte: its proof is for another nonce."""
    with target.attacked():
        for member in target.members:
            hello, proof = proven(target, member, Purpose.SNAPSHOT)
            for at in {AT[Purpose.QUORUM], AT[purpose]}:
                with contextlib.closing(Frames(connect(getattr(member, at)))) as frames:
                    frames.put(hello)
                    say(frames.sock, frame(proof))
                    say(frames.sock, b"".join(frame(message) for message in FORGED))
                    assert is_closed_by_the_other(frames.sock)


def test_proof_of_one_port_at_the_other(target: Target) -> None:
    """A proof at the election port is not valid at the quorum port, nor the other way round: the
    purpose is in the proof, and a port has its own."""
    member = target.leader
    with target.attacked():
        for purpose, port in ((Purpose.ELECTION, "quorum_port"), (Purpose.QUORUM, "election_port")):
            me = party(other_than(target, member), read_secrets(str(member.secret)), is_open=False)
            with contextlib.closing(Frames(connect(getattr(member, port)))) as frames:
                shake = dialling(me, member, purpose)
                frames.put(shake.hello())
                with pytest.raises((MessageError, EOFError)):
                    shake.welcomed(frames.get())
                assert is_closed_by_the_other(frames.sock)


@pytest.mark.parametrize("purpose", [Purpose.QUORUM, Purpose.ELECTION])
def test_proof_of_the_listener_sent_back(target: Target, purpose: Purpose) -> None:
    """A stranger greets with the name of the right secret, gets the listener's proof, and sends it back; or has one
    member's answer answer another member's question. Each side has a proof of its own, for its own nonces."""
    with target.attacked():
        member, other = target.members[:2]
        with dialled(member, purpose) as frames, dialled(other, purpose) as elsewhere:
            frames.put(dialling(stranger(target, member, has_name=True), member, purpose).hello())
            elsewhere.put(dialling(stranger(target, other, has_name=True), other, purpose).hello())
            welcome = frames.get()
            proof = welcome[-32:]
            for said in (welcome, b"\x82\x18\x67\x58\x20" + proof, elsewhere.get()):
                say(frames.sock, frame(said))
            assert is_closed_by_the_other(frames.sock)


def test_greetings_by_the_thousand(target: Target) -> None:
    """A stranger greets as each member, at each member, without pause: bare greetings replaced links once, and 120 a
    second were an outage. No link gives way to an unauthenticated connection."""
    with target.attacked():
        for number in range(300):
            member = target.members[number % 3]
            purpose = (Purpose.QUORUM, Purpose.ELECTION, Purpose.SNAPSHOT)[number // 3 % 3]
            with dialled(member, purpose) as frames:
                frames.put(dialling(stranger(target, member, has_name=number % 2 == 0), member, purpose).hello())
                if number % 5 == 0:
                    reset(frames.sock)


def test_greetings_that_say_anything(target: Target) -> None:
    """A stranger greets with other versions, as a server that is none, as the member itself, to another one, for what
    is not available."""
    member = target.leader
    [secret] = read_secrets(str(member.secret))
    with target.attacked():
        for sid, versions, purpose, dialled_sid in (
            (99, (VERSION, VERSION), 1, member.server_id),
            (member.server_id, (VERSION, VERSION), 1, member.server_id),
            (other_than(target, member), (VERSION + 1, VERSION + 9), 1, member.server_id),
            (other_than(target, member), (0, VERSION - 1), 1, member.server_id),
            (other_than(target, member), (VERSION, VERSION), 77, member.server_id),
            (other_than(target, member), (VERSION, VERSION), 1, 99),
            ((1 << 63) - 1, (0, 1 << 30), 1 << 30, (1 << 63) - 1),
        ):
            me = Party(sid, *versions, secrets=(secret,))
            for port in ("quorum_port", "election_port"):
                with contextlib.closing(Frames(connect(getattr(member, port)))) as frames:
                    shake = Dialling(me, dialled_sid, purpose, os.urandom(NONCE_BYTES))
                    frames.put(shake.hello())
                    with pytest.raises((MessageError, EOFError)):
                        shake.welcomed(frames.get())


@pytest.mark.parametrize(
    "payload",
    [
        b"\x9a\x02\x00\x00\x00" + b"\xa0" * 4000,
        b"\x82\x18\x64\xd8\x1e\x82\xc2\x59\x0f\x00" + b"\xfe" * 3840,
        b"\x81" * 4000,
        b"\xc6" * 4000,
        b"\x9f" * 4000,
        b"\xbb" + b"\xff" * 4000,
        b"\x82\x18\x64\xc5\x82\x1b\x00\x00\x00\x00\x3b\x9a\xca\x00\x03",
        b"\xd8\x23\x79\x0f\x00" + b"(" * 3840,
        b"\x98\x08" + b"\x5b" + b"\xff" * 8,
    ],
    ids=[
        "maps",
        "rational",
        "arrays in arrays",
        "tags",
        "indefinite",
        "map of 2^64",
        "bigfloat",
        "pattern",
        "2^64 bytes",
    ],
)
def test_bombs_for_the_decoder(target: Target, payload: bytes) -> None:
    """A stranger greets with CBOR that takes long to decode, or much memory: of a greeting 4 KiB are read, and only
    plain items."""
    with target.attacked(memory_mb=24):
        for member in target.members:
            for port in ("quorum_port", "election_port"):
                with connect(getattr(member, port)) as sock:
                    say(sock, frame(payload))
                    assert is_closed_by_the_other(sock)


def test_snapshot_without_proof(target: Target) -> None:
    """A stranger asks for a snapshot before any proof, and after a wrong one. There is none."""
    with target.attacked():
        for member in target.members:
            with dialled(member, Purpose.SNAPSHOT) as frames:
                shake = dialling(stranger(target, member, has_name=True), member, Purpose.SNAPSHOT)
                frames.put(shake.hello())
                with contextlib.suppress(EOFError):
                    frames.get()
                say(frames.sock, frame(bytes(32)) + frame(REQUESTS.encode(SnapshotRequest(bytes(16), 1, bytes(16), 0))))
                with contextlib.suppress(EOFError, ConnectionError):
                    while True:
                        assert len(frames.get()) < 600, "a reason, and no file"


def test_listener_that_is_no_member(target: Target) -> None:
    """A process that answers in the place of a member proves nothing without the secret: a member that dials it says
    so, and has sent only its greeting."""
    [secret] = read_secrets(str(target.leader.secret))
    member = party(1, [secret], is_open=False)
    shake = Dialling(member, 2, Purpose.QUORUM, bytes(NONCE_BYTES))
    hello = shake.hello()
    assert secret.key not in hello
    false = Listening(party(2, [Secret(bytes(32))], is_open=True), {1}, {Purpose.QUORUM}, bytes(NONCE_BYTES))
    with pytest.raises(MessageError):
        shake.welcomed(false.welcome(hello))
    assert word(target.leader.client_port, "ruok") == "imok"
