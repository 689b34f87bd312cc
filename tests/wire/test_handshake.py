"""Handshakes: both sides know who speaks before anything is believed, or neither goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product

import attrs
import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.wire.frames import GREETING_BYTES_MAX
from zab.wire.handshake import (
    NONCE_BYTES,
    REASON_CHARACTERS_MAX,
    SECRETS_MAX,
    Agreed,
    Dialling,
    Listening,
    NotKnownError,
    Party,
    Secret,
    TakenError,
    refusal,
    taken,
)
from zab.wire.records import MessageError

OLD, NEW, OTHER = (Secret(bytes([number]) * 32) for number in (1, 2, 3))
LINK = 1
ONE = Party(1, 3, 5, features=0b011, secrets=(NEW, OLD))
TWO = Party(2, 2, 4, features=0b110, secrets=(OLD, OTHER))
NONCES = bytes(range(NONCE_BYTES)), bytes(range(100, 100 + NONCE_BYTES))


def dialling(me: Party = ONE, other: int = 2) -> Dialling:
    return Dialling(me, other, LINK, NONCES[0])


def listening(me: Party = TWO) -> Listening:
    return Listening(me, (1, 3), (LINK, LINK + 1), NONCES[1])


def shaken(dialler: Dialling, listener: Listening) -> tuple[Agreed, Agreed]:
    """How it ended for both."""
    proof, of_dialler = dialler.welcomed(listener.welcome(dialler.hello()))
    return of_dialler, listener.proven(proof)


# ------------------------------------------------------------------------------------------------------------ agreeing


def test_both_know_each_other_and_go_on_in_the_newest_version_and_with_the_features_of_both() -> None:
    of_dialler, of_listener = shaken(dialling(), listening())
    assert (of_dialler.sid, of_listener.sid) == (2, 1)
    for agreed in (of_dialler, of_listener):
        assert (agreed.version, agreed.features, agreed.purpose, agreed.is_proven) == (4, 0b010, LINK, True)
    assert [of_dialler.nonce, of_listener.nonce] == [NONCES[1], NONCES[0]]


@pytest.mark.parametrize("change", [{}, {"secrets": (), "is_open": True}], ids=["secrets", "open"])
def test_the_listener_may_object_to_a_nonce(change: dict[str, object]) -> None:
    me, other = attrs.evolve(ONE, **change), attrs.evolve(TWO, **change)
    asked: list[tuple[int | bytes, ...]] = []

    def objection(*said: int | bytes) -> str | None:
        asked.append(said)
        return "no" if len(asked) == 2 else None

    taking = [Listening(other, (1, 3), (LINK,), NONCES[1], None, objection) for _ in range(2)]
    agreed = shaken(dialling(me), taking[0])
    assert [each.nonce for each in agreed] == [NONCES[1], NONCES[0]]
    with pytest.raises(MessageError, match=r"^no$"):
        taking[1].welcome(dialling(me).hello())
    assert asked == 2 * [(1, 0b010, NONCES[0])]


@pytest.mark.parametrize("change", [{}, {"secrets": (), "is_open": True}], ids=["secrets", "open"])
def test_another_server_than_the_one_dialled_is_told_from_it(change: dict[str, object]) -> None:
    """It does not say so itself, as one that is honest does."""
    me, other = attrs.evolve(ONE, **change), attrs.evolve(TWO, **change)
    answer = listening(other).welcome(dialling(me, other=2).hello())
    with pytest.raises(MessageError, match="server 2 answers where server 3 should"):
        dialling(me, other=3).welcomed(answer)


def test_what_one_seals_or_encrypts_only_the_other_takes_and_once() -> None:
    of_dialler, of_listener = shaken(dialling(), listening())
    for sender, receiver in ((of_dialler, of_listener), (of_listener, of_dialler)):
        assert sender.sending is not None
        assert receiver.receiving is not None
        first, second = sender.sending.put(b"first"), sender.sending.put(b"second")
        assert receiver.receiving.take(first) == b"first"
        assert receiver.receiving.take(second) == b"second"
        with pytest.raises(MessageError, match="seal"):
            receiver.receiving.take(second)
        assert sender.encrypting is not None
        assert receiver.decrypting is not None
        hidden = [sender.encrypting.encrypt(b"a key"), sender.encrypting.encrypt(b"a key")]
        assert b"a key" not in hidden[0]
        assert hidden[0] != hidden[1]
        assert [receiver.decrypting.decrypt(each) for each in hidden] == [b"a key", b"a key"]
        with pytest.raises(MessageError, match="decrypted"):
            receiver.decrypting.decrypt(hidden[1])


def test_no_two_keys_are_alike() -> None:
    of_dialler, of_listener = shaken(dialling(), listening())
    again, _ = shaken(Dialling(ONE, 2, LINK, NONCES[1]), listening())
    seals = [each.put(b"same") for each in (of_dialler.sending, of_listener.sending, again.sending) if each is not None]
    assert len(set(seals)) == 3


@given(st.binary(max_size=200), st.integers(0), st.integers(1, 255))
def test_a_changed_byte_breaks_the_seal(payload: bytes, at: int, change: int) -> None:
    of_dialler, of_listener = shaken(dialling(), listening())
    assert of_dialler.sending is not None
    assert of_listener.receiving is not None
    sealed = bytearray(of_dialler.sending.put(payload))
    sealed[at % len(sealed)] ^= change
    with pytest.raises(MessageError, match="seal"):
        of_listener.receiving.take(bytes(sealed))


@pytest.mark.parametrize("length", [0, 1, 15])
def test_what_is_shorter_than_a_seal_has_none(length: int) -> None:
    _, of_listener = shaken(dialling(), listening())
    assert of_listener.receiving is not None
    with pytest.raises(MessageError, match="seal"):
        of_listener.receiving.take(bytes(length))


def test_secrets_change_one_server_after_the_other() -> None:
    """Everybody has the old one; then the new one comes to each, beside it; then the old one goes."""
    steps = [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,)]
    for earlier, later in pairwise(steps):
        for one, two in product((earlier, later), repeat=2):
            agreed = shaken(dialling(attrs.evolve(ONE, secrets=one)), listening(attrs.evolve(TWO, secrets=two)))
            assert all(each.is_proven for each in agreed)


# ------------------------------------------------------------------------------------------------------------- refusing


@pytest.mark.parametrize(
    ("dialler", "listener", "reason"),
    [
        (dialling(attrs.evolve(ONE, secrets=(NEW,))), listening(), "server 1 has none of the secrets of server 2"),
        (dialling(attrs.evolve(ONE, secrets=())), listening(), "server 1 has none of the secrets of server 2"),
        (
            dialling(attrs.evolve(ONE, secrets=(), is_open=True)),
            listening(),
            "server 1 has none of the secrets of server 2",
        ),
        (dialling(attrs.evolve(ONE, sid=9)), listening(), "server 9 is not in the configuration of server 2"),
        (
            dialling(attrs.evolve(ONE, sid=2)),
            listening(),
            "this is server 2, and the dialler has the same id: check its myid",
        ),
        (Dialling(ONE, 2, 7, NONCES[0]), listening(), "server 1 dials for 7, which is not available here"),
        (dialling(other=3), listening(), "server 3 is dialled, and this is server 2"),
        (dialling(attrs.evolve(ONE, least_version=5)), listening(), "versions 5 to 5, server 2 2 to 4"),
        (dialling(attrs.evolve(ONE, least_version=0, version=1)), listening(), "versions 0 to 1, server 2 2 to 4"),
    ],
)
def test_the_listener_says_whom_it_does_not_welcome(dialler: Dialling, listener: Listening, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        listener.welcome(dialler.hello())
    assert not listener.has_welcomed


def test_who_requires_proof_believes_no_welcome_without_it() -> None:
    listener = listening(attrs.evolve(TWO, secrets=(), is_open=True))
    dialler = dialling()
    with pytest.raises(MessageError, match="does not prove"):
        dialler.welcomed(listener.welcome(dialler.hello()))


def test_without_a_common_secret_nothing_is_proven_if_both_allow_it() -> None:
    one, two = attrs.evolve(ONE, is_open=True), attrs.evolve(TWO, secrets=(), is_open=True)
    for agreed in shaken(dialling(one), listening(two)):
        assert not agreed.is_proven
        assert (agreed.sending, agreed.receiving, agreed.encrypting, agreed.decrypting) == (None,) * 4


def test_who_is_open_proves_himself_where_both_can() -> None:
    one, two = attrs.evolve(ONE, is_open=True), attrs.evolve(TWO, is_open=True)
    assert all(agreed.is_proven for agreed in shaken(dialling(one), listening(two)))


def test_a_refusal_is_told_with_its_reason() -> None:
    with pytest.raises(MessageError, match="server 2 refuses: no such thing"):
        dialling().welcomed(refusal("no such thing"))
    with pytest.raises(MessageError, match=r"server 2 refuses: x+$"):
        dialling().welcomed(refusal("x" * (REASON_CHARACTERS_MAX + 1)))


def test_who_is_refused_because_nobody_knows_him_can_tell_that_from_all_else() -> None:
    stranger = attrs.evolve(ONE, sid=9)
    with pytest.raises(MessageError) as told:
        listening().welcome(dialling(stranger).hello())
    with pytest.raises(NotKnownError, match="server 2 refuses: server 9 is not in the configuration of server 2"):
        dialling(stranger).welcomed(refusal(str(told.value)))
    for reason in (f"{told.value}.", "server 1 is not in the configuration of server 2", "server 9 has no secret"):
        with pytest.raises(MessageError) as refused:
            dialling(stranger).welcomed(refusal(reason))
        assert not isinstance(refused.value, NotKnownError)


def test_who_is_refused_because_another_one_is_he_can_tell_that_from_all_else() -> None:
    with pytest.raises(
        TakenError, match=r"^server 2 refuses: server 1 is another process, at h:1: check the dialler's"
    ):
        dialling().welcomed(refusal(taken(1, "h:1")))
    with pytest.raises(MessageError) as refused:
        dialling().welcomed(refusal(taken(3, "h:1")))
    assert not isinstance(refused.value, TakenError)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("version", 3, "proof of server 2 is wrong"),
        ("version", 6, "not offered"),
        ("version", 2, "not offered"),
        ("features", 0, "proof of server 2 is wrong"),
        ("features", 0b110, "not offered"),
        ("sid", 3, "server 3 answers where server 2 should"),
        ("nonce", bytes(NONCE_BYTES), "proof of server 2 is wrong"),
        ("secret", NEW.name, "proof of server 2 is wrong"),
        ("secret", OTHER.name, "does not prove"),
        ("secret", b"", "does not prove"),
        ("proof", b"", "proof of server 2 is wrong"),
        ("proof", bytes(32), "proof of server 2 is wrong"),
    ],
)
def test_a_changed_welcome_is_not_believed(field: str, value: object, reason: str) -> None:
    dialler = dialling()
    answer = cbor2.loads(listening().welcome(dialler.hello()))
    answer[1 + ("version", "features", "sid", "nonce", "secret", "proof").index(field)] = value
    with pytest.raises(MessageError, match=reason):
        dialler.welcomed(cbor2.dumps(answer))


@pytest.mark.parametrize(
    ("field", "value"),
    [("least_version", 2), ("version", 4), ("features", 0b010), ("sid", 3), ("purpose", 2), ("nonce", NONCES[1])],
)
def test_a_changed_hello_is_found_out_by_both(field: str, value: object) -> None:
    dialler, listener = dialling(), listening()
    hello = cbor2.loads(dialler.hello())
    hello[1 + ("least_version", "version", "features", "sid", "other", "purpose", "nonce").index(field)] = value
    answer = listener.welcome(cbor2.dumps(hello))
    with pytest.raises(MessageError, match="proof of server 2 is wrong"):
        dialler.welcomed(answer)
    honest = dialling()
    proof, _ = honest.welcomed(listening().welcome(honest.hello()))
    with pytest.raises(MessageError, match="is wrong"):
        listener.proven(proof)


def test_a_recorded_handshake_proves_nothing_the_next_time() -> None:
    dialler, listener = dialling(), listening()
    hello, welcome = dialler.hello(), listener.welcome(dialler.hello())
    proof, _ = dialler.welcomed(welcome)
    later = Listening(TWO, (1, 3), (LINK,), bytes(NONCE_BYTES))
    assert later.welcome(hello) != welcome
    with pytest.raises(MessageError, match="proof of server 1 is wrong"):
        later.proven(proof)
    with pytest.raises(MessageError, match="proof of server 2 is wrong"):
        Dialling(ONE, 2, LINK, bytes(NONCE_BYTES)).welcomed(welcome)


def test_nobody_proves_himself_with_what_the_other_side_said() -> None:
    listener = listening()
    answer = cbor2.loads(listener.welcome(dialling().hello()))
    with pytest.raises(MessageError, match="proof of server 1 is wrong"):
        listener.proven(cbor2.dumps([103, answer[-1]]))


def test_nothing_is_proven_without_a_secret() -> None:
    two = attrs.evolve(TWO, secrets=(), is_open=True)
    listener = listening(two)
    listener.welcome(dialling().hello())
    with pytest.raises(MessageError, match="without a secret"):
        listener.proven(cbor2.dumps([103, bytes(32)]))


def payloads() -> Iterator[tuple[Callable[[bytes], object], bytes]]:
    dialler, listener = dialling(), listening()
    yield listening().welcome, dialler.hello()
    yield dialler.welcomed, listener.welcome(dialler.hello())
    yield listener.proven, dialler.welcomed(listening().welcome(dialler.hello()))[0]


@given(st.data())
def test_garbage_is_an_error_of_the_one_who_sent_it(data: st.DataObject) -> None:
    number, (take, payload) = data.draw(st.sampled_from(list(enumerate(payloads()))))
    at = data.draw(st.integers(0, len(payload) - 1))
    changed = payload[:at] + data.draw(st.binary(max_size=5)) + payload[at + data.draw(st.integers(0, 5)) :]
    if changed == payload:
        return
    try:
        take(changed)
    except MessageError:
        return
    assert number == 0, "only of what comes first is nothing proven yet"


def test_a_handshake_fits_into_greetings() -> None:
    crowd = tuple(Secret(bytes([number]) * 32) for number in range(SECRETS_MAX))
    large = attrs.evolve(ONE, secrets=crowd, version=(1 << 63) - 1, features=(1 << 32) - 1, sid=(1 << 63) - 1)
    assert len(Dialling(large, (1 << 63) - 1, LINK, NONCES[0]).hello()) < GREETING_BYTES_MAX
    assert len(refusal("\U0001f600" * REASON_CHARACTERS_MAX)) < GREETING_BYTES_MAX


def test_a_secret_is_not_shown() -> None:
    assert OLD.key.hex() not in repr(TWO)
    assert repr(OLD.key) not in repr(TWO)
