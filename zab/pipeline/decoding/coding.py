"""Texts as numbers: equal texts have equal numbers.

    coded(chunks) -> numbers, texts     numbers[k] is the number of text k of all chunks; texts[n] has number n

Arrow's own dictionary encoding spends its time on comparing each text with one elsewhere in memory. Here texts are cut
into words of eight bytes, side by side, and the words of each text are hashed to 64 bits. Texts are distinguished by
that hash, and afterwards all words are compared. If two texts have the same hash, or one is longer than LENGTH_MAX,
Arrow does it after all. Each chunk is hashed by itself, so that its words stay in the processor's cache.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zab.pipeline.decoding.arrays import Integers

__all__ = ["coded"]

LENGTH_MAX: Final = 128
_WORD: Final = 8
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)

_Words = NDArray[np.uint64]


def coded(chunks: Sequence[pa.StringArray]) -> tuple[Integers, pa.StringArray]:
    """Number the texts. The chunks have no nulls."""
    whole = pa.chunked_array(chunks, pa.string())
    longest = max((int(np.diff(_offsets(chunk)).max(initial=0)) for chunk in chunks), default=0)
    if len(whole) and longest <= LENGTH_MAX:
        keys = [_keys(chunk, longest) for chunk in chunks]
        numbers = pa.array(np.concatenate(list(map(_mixed, keys)))).dictionary_encode().indices.to_numpy()
        # Arrow counts as it goes: a number is new where it is larger than all before it.
        first = np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))
        texts = whole.take(pa.array(first)).combine_chunks()
        distinct, begin = _keys(texts, longest), 0
        for key in keys:
            own = numbers[begin : begin + len(key[0])]
            begin += len(own)
            if not all(bool((known[own] == word).all()) for known, word in zip(distinct, key, strict=True)):
                break
        else:
            return numbers.astype(np.int64), texts
    by_arrow = whole.dictionary_encode()
    if not by_arrow.num_chunks:
        return np.empty(0, np.int64), pa.array([], pa.string())
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in by_arrow.chunks]).astype(np.int64)
    return numbers, by_arrow.chunk(by_arrow.num_chunks - 1).dictionary


def _offsets(chunk: pa.StringArray) -> Integers:
    offsets = chunk.buffers()[1]
    if offsets is None or not len(chunk):
        return np.zeros(1, np.int64)
    return np.frombuffer(offsets, np.int32, len(chunk) + 1, 4 * chunk.offset).astype(np.int64)


def _keys(texts: pa.StringArray, longest: int) -> list[_Words]:
    """The lengths of all texts, then word k of each text, for each k. The last word of a text overlaps the one
    before it."""
    offsets = _offsets(texts)
    starts, ends = offsets[:-1], offsets[1:]
    lengths = ends - starts
    data = texts.buffers()[2]
    padded = (b"" if data is None else data.to_pybytes()) + bytes(_WORD)
    view: _Words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))
    words = [lengths.astype(np.uint64)]
    for begin in range(0, max(1, longest), _WORD):
        word = view[np.maximum(np.minimum(starts + begin, ends - _WORD), 0)]
        if begin:
            word[lengths <= begin] = 0
        else:
            short = np.flatnonzero(lengths < _WORD)
            bits = (8 * lengths[short]).astype(np.uint64)
            word[short] = view[starts[short]] & ((np.uint64(1) << bits) - np.uint64(1))
        words.append(word)
    return words


def _mixed(words: Sequence[_Words]) -> _Words:
    mixed = words[0].copy()
    for word in words[1:]:
        mixed ^= word
        mixed *= _FACTOR
        mixed ^= mixed >> _HALF
    return mixed
