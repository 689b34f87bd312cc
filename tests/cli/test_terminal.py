"""What anybody wrote is printed so that it commands no terminal, turns no line around, and forges no line."""

from __future__ import annotations

import json

import pytest

from zab.cli.json_form import json_line
from zab.cli.pipeline.table import cell
from zab.cli.rendering import acl_text
from zab.cli.terminal import in_line, is_text, on_terminal
from zab.client import Acl, Permission

HOSTILE = "\x1b]0;title\x07 \u202eevil\u2069 \x9b31m \u2028next \u061c"
SHOWN = "\\x1b]0;title\\x07 \\u202eevil\\u2069 \\x9b31m \\u2028next \\u061c"


def test_nothing_commands_the_terminal_or_turns_the_direction() -> None:
    assert on_terminal(HOSTILE) == SHOWN
    assert on_terminal("a\tb\nc\rd") == "a\tb\nc\\rd"
    assert on_terminal("é 日本 עברית") == "é 日本 עברית", "letters that run from right to left are letters"


def test_nothing_ends_its_line() -> None:
    assert in_line(HOSTILE) == SHOWN
    assert in_line("a\tb\nc\rd\x0be\x85f") == "a\\tb\\nc\\rd\\x0be\\x85f"
    assert in_line("plain") == "plain"


@pytest.mark.parametrize("text", ["\x1b", "\u202e", "\u2066", "\u200f", "\x00"])
def test_what_has_such_characters_is_no_text(text: str) -> None:
    assert not is_text(f"a{text}b".encode())
    assert is_text(b"a\tb\n")


def test_id_of_a_permission_forges_no_second_entry() -> None:
    acl = Acl(Permission.READ, "digest", "bob:x\n: r\n'world,'anyone\n: cdrwa")
    assert acl_text((acl,)) == "'digest,'bob:x\\n: r\\n'world,'anyone\\n: cdrwa\n: r"


def test_json_is_what_it_was_once_it_is_read() -> None:
    line = json_line({"path": HOSTILE})
    assert json.loads(line) == {"path": HOSTILE}
    assert not set(line) & set("\x1b\x07\x9b\u202e\u2069\u2028\u061c")


def test_cell_of_a_table_is_one_line() -> None:
    assert cell("path", "a\nb\u202ec", cut=False) == "a\\nb\\u202ec"
