"""Text for people: safe for a terminal, and with its numbers in words."""

from typing import Final

__all__ = ["count_of", "on_terminal"]

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}


def on_terminal(text: str) -> str:
    """`text` with its control characters, tabs and line ends apart, made visible: data must not command a terminal."""
    return text.translate(_CONTROL)


def count_of(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
