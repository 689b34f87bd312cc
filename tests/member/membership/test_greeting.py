"""The life that a nonce tells of."""

from zab.member.membership.greeting import LIFE_BYTES, life_of
from zab.protocol.features import ALL, LIVES


def test_the_nonce_of_a_version_without_lives_names_none() -> None:
    nonce = bytes(range(2 * LIFE_BYTES))
    assert life_of(nonce, ALL) == nonce[:LIFE_BYTES]
    assert life_of(nonce, ALL & ~LIVES) == b""
