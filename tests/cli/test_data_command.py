"""Negative numbers as data, before typer sees the words."""

import pytest

from tests.cli.valued_options import VALUED
from zab.cli.data_command import numbers_last


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["/a", "x", "-v", "-1"], ["/a", "x", "-v", "-1"]),
        (["/a", "-5"], ["--", "/a", "-5"]),
        (["/a", "-.5e3"], ["--", "/a", "-.5e3"]),
        (["/a", "-5", "-v", "-1", "-s"], ["-v", "-1", "-s", "--", "/a", "-5"]),
        (["-sv", "-1", "/a", "-5"], ["-sv", "-1", "--", "/a", "-5"]),
        (["-v3", "/a", "-5"], ["-v3", "--", "/a", "-5"]),
        (["--version=3", "/a", "-5"], ["--version=3", "--", "/a", "-5"]),
        (["--version", "-3", "/a", "-5"], ["--version", "-3", "--", "/a", "-5"]),
        (["/a", "--", "-5", "-x"], ["--", "/a", "-5", "-x"]),
        (["/a", "--", "-x"], ["/a", "--", "-x"]),
        (["/a", "-nonsense"], ["/a", "-nonsense"]),
        (["/a", "-5", "-v"], ["-v", "--", "/a", "-5"]),
        ([], []),
    ],
)
def test_numbers_are_arguments(words: list[str], expected: list[str]) -> None:
    assert numbers_last(words, VALUED) == expected
