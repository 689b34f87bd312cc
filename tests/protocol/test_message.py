"""Every message there and back; every frame that is no message is refused with a reason."""

from random import Random

import attrs
import cbor2
import pytest

from zab.protocol import message as msg
from zab.wire.records import MessageError

CHAIN = bytes(range(16))

EXAMPLES: list[msg.Message] = [
    msg.Notification(0, 3, 0x100000007, 1, 5, CHAIN, False, 2, False, True, False),
    msg.Notification(2, 3, 0, 0, 1, b"", True, 0, True, False, False),
    msg.FollowerInfo(4, CHAIN, 1, False, True, False, False),
    msg.ObserverInfo(3, 4, CHAIN, 1, False, False),
    msg.LeaderInfo(5, CHAIN),
    msg.AckEpoch(-1, 0x400000001, CHAIN),
    msg.Diff(0x400000001),
    msg.Trunc(0x400000001, CHAIN, True),
    msg.Snap(0x400000001, CHAIN, False),
    msg.Installed(0x400000001),
    msg.Proposal([b"one", b"two"]),
    msg.NewLeader(5, 0x400000001, False),
    msg.Suspect(0x400000001, 1 << 63),
    msg.Compare(0x400000001, True),
    msg.Compared(0x400000001, 0, False, False),
    msg.Verdict(0x400000001, 7),
    msg.TreeWanted(0x400000001),
    msg.TreeOffered(0x400000001, bytes(16)),
    msg.SessionKeys([[bytes(8), bytes(32)], [bytes(8), bytes(range(32))]]),
    msg.Readmit(3),
    msg.Readmitted(3),
    msg.Ack(5, 0x500000000),
    msg.UpToDate(0x400000001),
    msg.Commit(0x500000001),
    msg.Ping(0x500000001, 0x500000001, (1 << 64) - 1, [[-5, 30000], [7, 4000]], False),
    msg.Confirm(9),
    msg.Confirmed(9),
    msg.Refused("another ensemble"),
    msg.Request([[[[b"ip", b"127.0.0.1"]], [msg.WRITE_HEAD.pack(-1, 7, 5) + b"body"]]]),
    msg.Revalidate(7, -3, 4000),
    msg.Revalidated(7, True, 0x500000001),
    msg.Sync(12),
    msg.Synced(12, 0x500000001),
    msg.HandOver(2),
    msg.Attach(12, 4),
    msg.Attached(12),
    msg.Detach(12),
    msg.Relayed(12, msg.encode(msg.Sync(12))),
    msg.Config(b"server.1=localhost:2888:3888:participant\nversion=100000001", b""),
]


def test_there_is_an_example_of_every_message() -> None:
    assert {type(example) for example in EXAMPLES} == set(msg.MESSAGES)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_message_comes_back_as_it_was(message: msg.Message) -> None:
    assert msg.decode(msg.encode(message)) == message


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_every_prefix_and_every_longer_message_is_refused(message: msg.Message) -> None:
    frame = msg.encode(message)
    for length in range(len(frame)):
        with pytest.raises(MessageError):
            msg.decode(frame[:length])
    fields = [getattr(message, field.name) for field in attrs.fields(type(message))]
    with pytest.raises(MessageError, match="fields"):
        msg.decode(cbor2.dumps([message.TYPE, *fields, 0]))
    with pytest.raises(MessageError, match="fields"):
        msg.decode(cbor2.dumps([message.TYPE, *fields[:-1]]))


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_field_of_another_kind_is_refused_by_name(message: msg.Message) -> None:
    fields = attrs.fields(type(message))
    for at, field in enumerate(fields):
        for wrong in (None, "x" * 5000, [[[]]], -(1 << 64)):
            values = [getattr(message, f.name) for f in fields]
            values[at] = wrong
            with pytest.raises(MessageError, match=field.name):
                msg.decode(cbor2.dumps([message.TYPE, *values]))


@pytest.mark.parametrize(
    "frame", [b"", b"\xff", cbor2.dumps(7), cbor2.dumps([]), cbor2.dumps(["x"]), cbor2.dumps([9999]), cbor2.dumps({})]
)
def test_what_is_no_message_is_refused(frame: bytes) -> None:
    with pytest.raises(MessageError):
        msg.decode(frame)


def test_random_bytes_never_raise_anything_else() -> None:
    rng = Random(3)
    frames = [msg.encode(message) for message in EXAMPLES]
    for _ in range(5000):
        frame = bytearray(rng.choice(frames))
        for _ in range(rng.randrange(1, 4)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        try:
            msg.decode(bytes(frame))
        except MessageError:
            continue
