"""The syntax of Java properties files, against what `java.util.Properties` makes of the same text."""

from __future__ import annotations

import pytest

from zab.configuration.properties import PropertiesError, Property, escaped, parse_properties, without


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t \f1", {"a": "1"}),
        ("  a = 1  ", {"a": "1"}),
        ("a==1", {"a": "=1"}),
        ("a = : 1", {"a": ": 1"}),
        ("a", {"a": ""}),
        ("=1", {"": "1"}),
        ("a=1\nb=2\rc=3\r\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# a=1\n  ! b=2\n\n \t\nc=3", {"c": "3"}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a=1\\\n   2", {"a": "12"}),
        ("a=1\\\r\n   2", {"a": "12"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("\\\n# a comment\nb=2", {"b": "2"}),
        ("# a comment is not continued\\\nb=2", {"b": "2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a\\=b=1", {"a=b": "1"}),
        ("a\\:b\\ c=1", {"a:b c": "1"}),
        ("path=C:\\\\temp\\new", {"path": "C:\\temp\new"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("a=\\q\\#", {"a": "q#"}),
        ("a=\\ud83d\\udc18", {"a": "🐘"}),
        ("a=\\ud83d!", {"a": "\ud83d!"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert {entry.key: entry.value for entry in parse_properties(text)} == expected


def test_an_entry_knows_the_line_on_which_its_key_begins() -> None:
    assert parse_properties("# one\r\na=1\\\n  2\n\nb=3") == [Property("a", "12", 2), Property("b", "3", 5)]


@pytest.mark.parametrize("escape", ["\\u", "\\u004", "\\u00g0", "\\u 041"])
def test_a_unicode_escape_without_four_digits_is_refused_with_its_line(escape: str) -> None:
    with pytest.raises(PropertiesError, match="four hexadecimal digits") as refused:
        parse_properties(f"a=1\nb={escape}\n")
    assert refused.value.line == 2


@pytest.mark.parametrize("text", ["", "a b", "C:\\temp", "#=:!", "dätä 中 🐘", "two\nlines"])
def test_what_is_escaped_is_read_as_it_was(text: str) -> None:
    assert escaped(text).isascii()
    assert [entry.value for entry in parse_properties(f"a={escaped(text)}")] == [text]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", ""),
        ("a=1\nb=2\n", "b=2\n"),
        ("b=2\na=1", "b=2\n"),
        ("# a=1\r\na=1\r\n\r\nb=2\r\n", "# a=1\r\n\r\nb=2\r\n"),
        ("a=1\\\n  2\\\n3\nb=2", "b=2"),
        ("a=1\\\\\nb=2", "b=2"),
        ("b=a=1\na=1\n a : 2\nc", "b=a=1\nc"),
    ],
)
def test_entries_are_cut_out_and_nothing_else_is_touched(text: str, left: str) -> None:
    assert without(text, lambda key: key == "a") == left
