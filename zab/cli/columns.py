"""Tables for people: columns of one width, two blanks between them, nothing at the ends of lines."""

from collections.abc import Iterable, Iterator, Sequence

__all__ = ["cell", "columns"]


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of rows that all have as many cells."""
    held = list(rows)
    widths = [max(map(len, column)) for column in zip(*held, strict=True)]
    for row in held:
        yield "  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True)).rstrip()


def cell(value: object) -> str:
    """`-` where there is none."""
    return "-" if value is None or value == "" else str(value)
