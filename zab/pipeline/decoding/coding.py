"""Texts as numbers: equal texts have equal numbers.

    coded(chunks) -> numbers, texts     numbers[k] is that of text k of all chunks together; texts[n] is the text of n

Arrow's own dictionary compares each text with one that lies elsewhere in memory, and that is what takes its time. Here
texts are cut into words of eight bytes, side by side, and a number of 64 bits is made of the words of each text. Texts
are told apart by that number, and afterwards all words are compared. Where two texts had one number, and where some are
longer than LENGTH_MAX, Arrow does it after all.
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
    """See the module. The chunks have no nulls."""
    whole = pa.chunked_array(chunks, pa.string())
    lengths = np.concatenate([np.empty(0, np.int64), *(np.diff(_offsets(chunk)) for chunk in chunks)])
    if len(lengths) and int(lengths.max()) <= LENGTH_MAX:
        words = _words(chunks, int(lengths.max()))
        numbers = pa.array(_mixed(lengths, words)).dictionary_encode().indices.to_numpy().astype(np.int64)
        first = np.zeros(int(numbers.max()) + 1, np.int64)
        # Where an index comes more than once, the last value is assigned: that of the first text, backwards.
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]
        same = first[numbers]
        if bool((lengths[same] == lengths).all()) and all(bool((word[same] == word).all()) for word in words):
            return numbers, whole.take(pa.array(first)).combine_chunks()
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


def _words(chunks: Sequence[pa.StringArray], longest: int) -> list[_Words]:
    """Word k of all texts, for each k; the last word of a text reaches back into the one before it."""
    count = max(1, -(-longest // _WORD))
    columns: list[list[_Words]] = [[] for _ in range(count)]
    for chunk in chunks:
        offsets = _offsets(chunk)
        starts, ends = offsets[:-1], offsets[1:]
        data = chunk.buffers()[2]
        padded = (b"" if data is None else data.to_pybytes()) + bytes(_WORD)
        view: _Words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))
        short = np.flatnonzero(ends - starts < _WORD)
        for k, column in enumerate(columns):
            word = view[np.maximum(np.minimum(starts + _WORD * k, ends - _WORD), 0)]
            if k:
                word[starts + _WORD * k >= ends] = 0
            elif len(short):
                bits = (8 * (ends[short] - starts[short])).astype(np.uint64)
                word[short] = view[starts[short]] & ((np.uint64(1) << bits) - np.uint64(1))
            column.append(word)
    return [np.concatenate(column) for column in columns]


def _mixed(lengths: Integers, words: Sequence[_Words]) -> _Words:
    mixed = lengths.astype(np.uint64)
    for word in words:
        mixed = (mixed ^ word) * _FACTOR
        mixed ^= mixed >> _HALF
    return mixed
