"""The short part of fuzzing: every target with what was found once, its examples, and changes of them by fixed
seeds."""

from __future__ import annotations

from random import Random
from time import thread_time

import pytest

from tests.fuzz.fuzzer import INPUT_BYTES_MAX, REGRESSIONS, kept
from tests.fuzz.targets import TARGETS, Target

INPUTS = 1000
SECONDS_MAX = 2.0
"""The limit of processor time for one input: none takes a hundredth of it."""
EDGES = (b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00")


def changed(rng: Random, data: bytes, others: list[bytes]) -> bytes:
    """The input with some bytes changed."""
    result = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(result) + 1)
        end = min(len(result), at + rng.choice((0, 1, 1, 2, 4, 8, 40)))
        choice = rng.randrange(6)
        if choice == 0:
            del result[at:end]
        elif choice == 1:
            result[at:end] = rng.randbytes(end - at)
        elif choice == 2:
            edge = rng.choice(EDGES)
            result[at : at + len(edge)] = edge
        elif choice == 3:
            result[at:at] = result[at:end] * rng.choice((1, 2, 30))
        elif choice == 4:
            other = rng.choice(others)
            result[at:] = other[rng.randrange(len(other) + 1) :]
        elif at < len(result):
            result[at] ^= 1 << rng.randrange(8)
    return bytes(result[:INPUT_BYTES_MAX])


def try_(target: Target, data: bytes) -> bool:
    began = thread_time()
    try:
        return target.decodes(data)
    except Exception as error:
        raise AssertionError(f"found by {data.hex()}") from error
    finally:
        assert thread_time() - began < SECONDS_MAX, data.hex()


@pytest.mark.parametrize("name", TARGETS)
def test_no_bytes_bring_a_decoder_down(name: str) -> None:
    target = TARGETS[name]
    examples = list(target.examples())
    rng = Random(name)
    decoded = [try_(target, example) for example in examples]
    assert any(decoded), "an example is decoded"
    for data in kept(name):
        try_(target, data)
    for data in (b"", b"\0", b"\xff" * 64, bytes(64)):
        try_(target, data)
    pool = list(examples)
    for _ in range(INPUTS):
        data = changed(rng, rng.choice(pool), examples)
        if try_(target, data) and len(pool) < 4 * len(examples) + 50:
            pool.append(data)


def test_what_was_found_belongs_to_a_target() -> None:
    assert {path.parent.name for path in REGRESSIONS.glob("*/*")} <= set(TARGETS)
