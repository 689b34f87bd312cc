"""Text that may be anybody's, made visible: what commands a terminal, ends a line, or turns the direction of writing.

    on_terminal(text)   tabs and line ends stay
    in_line(text)       they are made visible, too: what stands in a line of a format neither ends it nor begins another

Not here: what is printed where (`zab.cli.terminal`), and what a format needs beyond this.
"""

from __future__ import annotations

from typing import Final

_CONTROL: Final = (*range(0x20), *range(0x7F, 0xA0))
# Marks that turn the direction of what follows, and separators of lines and paragraphs.
UNSEEN: Final = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_ENDS: Final = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_IN_LINE: Final = {
    **{code: f"\\x{code:02x}" for code in _CONTROL},
    **{code: f"\\u{code:04x}" for code in UNSEEN},
    **_ENDS,
}
_ON_TERMINAL: Final = {code: text for code, text in _IN_LINE.items() if code not in (0x09, 0x0A)}


def on_terminal(text: str) -> str:
    """See the module."""
    return text.translate(_ON_TERMINAL)


def in_line(text: str) -> str:
    """See the module."""
    return text.translate(_IN_LINE)
