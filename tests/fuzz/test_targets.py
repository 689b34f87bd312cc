"""The short part of fuzzing: every target with what was found once, its examples, and changes of them by fixed
seeds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import thread_time
from typing import Any

import pytest

from tests.datatree import native_worlds
from tests.fuzz.fuzzer import INPUT_BYTES_MAX, REGRESSIONS, kept
from tests.fuzz.native_targets import NATIVE
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

INPUTS = 1000
NATIVE_INPUTS = 200
"""Each takes some milliseconds."""
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


def try_many(name: str) -> None:
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
    for _ in range(NATIVE_INPUTS if name in NATIVE else INPUTS):
        data = changed(rng, rng.choice(pool), examples)
        if try_(target, data) and len(pool) < 4 * len(examples) + 50:
            pool.append(data)


COMPILED = pytest.mark.skipif(not native_worlds.IS_COMPILED, reason="nothing is compiled here")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[COMPILED, pytest.mark.slow] if name in NATIVE else ()) for name in TARGETS]
)
def test_no_bytes_bring_a_decoder_down(name: str) -> None:
    try_many(name)


def test_what_was_found_belongs_to_a_target() -> None:
    assert {path.parent.name for path in REGRESSIONS.glob("*/*")} <= set(TARGETS)


# Native parts that do not do the same: their targets notice.


class Changed:
    """A native part with another function in place of one of its own."""

    def __init__(self, part: Any, name: str, other: Callable[..., Any]) -> None:
        self._part = part
        self.__dict__[name] = lambda *arguments: other(getattr(part, name), *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


def decode_any_zxid(decode: Any, body: bytes, at: int, _first: int, count: int) -> Any:
    """Whichever is due, the zxid that is there."""
    txns: list[Any] = []
    for _ in range(count):
        one, at = decode(body, at, int.from_bytes(body[at + 7 : at + 15], "big") % (1 << 62) or 1, 1)
        if not one:
            break
        txns += one
    return txns, at


def decode_parts_without_null(decode_parts: Any, rest: bytes) -> Any:
    parts = decode_parts(rest)
    return parts and tuple((*part[:3], part[3] or b"", part[4]) for part in parts)


def encode_without_sign(encode: Any, txn: Any) -> Any:
    return encode((*txn[:3], abs(txn[3]), *txn[4:]))


def prepare_any_version(prepare: Any, context: Any, request: Any, zxid: int, time: int) -> Any:
    session, cxid, opcode, body, ids = request
    return prepare(context, (session, cxid, opcode, body[:-4] + b"\xff" * 4 if opcode == 5 else body, ids), zxid, time)


def prepare_parts_without_journal(prepare_parts: Any, context: Any, _journal: Any, *arguments: Any) -> Any:
    return prepare_parts(context, [], *arguments)


def apply_without_triggers(apply: Any, tree: Any, txn: Any, _is_watched: bool) -> Any:
    return apply(tree, txn, False)


def apply_parts_at_another_time(apply_parts: Any, tree: Any, zxid: int, time: int, *arguments: Any) -> Any:
    return apply_parts(tree, zxid, time + 1, *arguments)


@COMPILED
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "part", "name", "other"),
    [
        ("native_records", "WRITES", "decode", decode_any_zxid),
        ("native_records", "WRITES", "decode_parts", decode_parts_without_null),
        ("native_records", "WRITES", "encode", encode_without_sign),
        ("native_records", "TREE", "apply", apply_without_triggers),
        ("native_records", "TREE", "apply_parts", apply_parts_at_another_time),
        ("native_requests", "WRITES", "prepare", prepare_any_version),
        ("native_requests", "WRITES", "prepare_parts", prepare_parts_without_journal),
        ("native_requests", "TREE", "apply", apply_without_triggers),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_native_parts_that_do_something_else_are_found(
    target: str, part: str, name: str, other: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_worlds, part, Changed(getattr(native_worlds, part), name, other))
    with pytest.raises(AssertionError, match="found by"):
        try_many(target)
