"""docs/reference/kafka-clients.md: its numbers are those of the tests."""

from __future__ import annotations

from pathlib import Path

from tests.downloads.shell_commands import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "kafka-clients.md"


def test_the_page_says_how_many_commands_are_called() -> None:
    assert f"| {len(COMMANDS.strip().splitlines())} calls of the commands for " in PAGE.read_text(encoding="utf-8")
