"""Prints the rows of a result as a table on the terminal.

Zxids and sessions are hexadecimal, times have milliseconds and are in UTC, and data is text with everything else
escaped, so that data cannot control the terminal. Columns without any value are left out (if there is no other, their
rows say null); the ensemble's name is added if rows of several are shown. On a terminal, texts are cut so that the
table fits, and columns that still do not fit are left out; elsewhere, nothing is cut.
"""

import datetime
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zab.cli.terminal import in_line

__all__ = ["cell", "fit", "print_rows"]

_ENSEMBLE: Final = "ensemble"
_HEXADECIMAL: Final = ("session", "owner", "zxid", "czxid", "mzxid", "pzxid", "previous", "holder", "removed_by")
_CELL_CHARS_MAX: Final = 60
_CELL_CHARS_MIN: Final = 12
_GAP_CHARS: Final = 2
_LISTED_MAX: Final = 20
_WHOLE_FROM: Final = 1000


def print_rows(rows: list[dict[str, Any]], names: list[str], console: Console | None = None) -> list[str]:
    """Print these rows; `names` are the columns in order. Returns the columns for which there is no room.

    rows: at least one, since a header alone says nothing."""
    assert rows
    valued = [name for name in names if any(row[name] is not None for row in rows)]
    shown = valued or names
    if len({row.get(_ENSEMBLE) for row in rows}) > 1 and _ENSEMBLE not in shown:
        shown.insert(0, _ENSEMBLE)
    if console is None:
        console = Console(highlight=False)
    is_cut = console.is_terminal
    # Empty lines below a header would be useless.
    texts = {name: [cell(name, row[name], cut=is_cut) if valued else "null" for row in rows] for name in shown}
    natural = {name: max(map(cell_len, [name, *texts[name]])) for name in shown}
    flexible = {name for name in shown if not _is_hexadecimal(name) and _has_texts(rows, name)}
    widths = fit(natural, flexible, console.width) if is_cut else natural
    table = Table(box=None, padding=(0, _GAP_CHARS, 0, 0), pad_edge=False)
    for name, width in widths.items():
        is_number = not _is_hexadecimal(name) and _has_numbers(rows, name)
        justify: Any = "right" if is_number else "left"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for number in range(len(rows)):
        # Text, not markup: a path may have brackets.
        table.add_row(*(Text(texts[name][number]) for name in widths))
    if not is_cut:
        console.width = sum(widths.values()) + _GAP_CHARS * len(widths)
    console.print(table)
    return [name for name in shown if name not in widths]


def _has_texts(rows: list[dict[str, Any]], name: str) -> bool:
    return any(isinstance(row[name], str | bytes | list) for row in rows)


def _has_numbers(rows: list[dict[str, Any]], name: str) -> bool:
    return any(isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in rows)


def fit(natural: dict[str, int], flexible: set[str], room: int) -> dict[str, int]:
    """The widths of columns side by side in `room`: columns of texts shrink, the widest first, and if that is not
    enough the last columns are left out. natural: the width that each would have."""
    widths = dict(natural)
    while len(widths) > 1:
        floor = sum(min(width, _CELL_CHARS_MIN) if name in flexible else width for name, width in widths.items())
        if floor + _GAP_CHARS * (len(widths) - 1) <= room:
            break
        widths.popitem()
    while sum(widths.values()) + _GAP_CHARS * (len(widths) - 1) > room:
        widest = max(widths, key=lambda name: widths[name] if name in flexible else 0)
        if widest not in flexible or widths[widest] <= _CELL_CHARS_MIN:
            break
        widths[widest] -= 1
    return widths


def cell(name: str, value: Any, *, cut: bool = True) -> str:
    """One value as text, at most 60 characters of it if it is to be cut."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return _shortened(_list_text(name, list(value), cut), cut)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and _is_hexadecimal(name):
        return f"{value & (2**64 - 1):#x}"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.4g}"
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    if isinstance(value, bytes | bytearray):
        value = bytes(value[: 4 * _CELL_CHARS_MAX] if cut else value).decode("utf-8", "backslashreplace")
    return _shortened(in_line(str(value)), cut)


def _is_hexadecimal(name: str) -> bool:
    return any(name == word or name.endswith(f"_{word}") or name == f"{word}_ids" for word in _HEXADECIMAL)


def _list_text(name: str, values: list[Any], cut: bool) -> str:
    shown = values[:_LISTED_MAX] if cut else values
    more = f" and {len(values) - len(shown)} more" if len(shown) < len(values) else ""
    return " ".join(cell(name, value, cut=False) for value in shown) + more


def _shortened(text: str, cut: bool) -> str:
    return text if not cut or len(text) <= _CELL_CHARS_MAX else f"{text[: _CELL_CHARS_MAX - 1]}…"
