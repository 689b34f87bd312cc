"""Equal texts have equal numbers, whatever they are and however they are cut into chunks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zab.pipeline.decoding import coding
from zab.pipeline.decoding.coding import LENGTH_MAX, coded

TEXTS = st.lists(st.one_of(st.text("/ab\0é", max_size=20), st.text("a", max_size=LENGTH_MAX + 2)), max_size=40)


def check(texts: list[str], cut: int) -> None:
    whole = pa.array(["not", *texts], pa.string())
    # Arrays that begin within another one.
    chunks = [whole.slice(1, cut), whole.slice(1 + min(cut, len(texts)))]
    numbers, distinct = coded(chunks)
    assert [distinct[number].as_py() for number in numbers.tolist()] == texts
    assert len(distinct) == len(set(texts))


@settings(max_examples=200)
@given(TEXTS, st.integers(0, 40))
def test_texts_come_back(texts: list[str], cut: int) -> None:
    check(texts, cut)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, LENGTH_MAX, LENGTH_MAX + 1])
def test_texts_that_differ_in_one_place(length: int) -> None:
    plain = "x" * length
    check([plain, *(plain[:at] + "y" + plain[at + 1 :] for at in range(length)), plain + "\0", plain], 3)


def test_texts_of_one_number_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding, "_mixed", lambda words: np.zeros(len(words[0]), np.uint64))
    check(["/a", "/b", "/a", "/a/longer/one"], 2)


def test_nothing() -> None:
    numbers, texts = coded([])
    assert (len(numbers), len(texts)) == (0, 0)
