"""Makes untrusted text visible: whatever controls a terminal, ends a line, or reverses the writing direction.

    on_terminal(text)   keeps tabs and line ends
    in_line(text)       makes these visible, too: text within one line of a format cannot end the line or begin another

Not here: printing (`zab.cli.terminal`), and further escapes that a format needs.
"""

from __future__ import annotations

from typing import Final

_CONTROL: Final = (*range(0x20), *range(0x7F, 0xA0))
# Marks that change the writing direction, and separators of lines and paragraphs.
UNSEEN: Final = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_ENDS: Final = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_IN_LINE: Final = {
    **{code: f"\\x{code:02x}" for code in _CONTROL},
    **{code: f"\\u{code:04x}" for code in UNSEEN},
    **_ENDS,
}
_ON_TERMINAL: Final = {code: text for code, text in _IN_LINE.items() if code not in (0x09, 0x0A)}


def on_terminal(text: str) -> str:
    """The text for a terminal, with all control characters but tabs and line ends made visible."""
    return text.translate(_ON_TERMINAL)


def in_line(text: str) -> str:
    """The text for one line, with all control characters made visible."""
    return text.translate(_IN_LINE)
