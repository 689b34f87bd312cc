"""Every message there and back; every frame that is no message is refused with a reason."""

from random import Random

import attrs
import cbor2
import pytest

from tests.protocol.example_messages import EXAMPLES
from zab.protocol import message as msg
from zab.wire.records import MessageError


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
