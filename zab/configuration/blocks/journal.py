"""The journal.

Not here: its lines (`zab.host.journal.journal`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import LONG_MAX, choice, integer, setting, text_of

_MIB: Final = 1024 * 1024


@frozen(kw_only=True)
class JournalSettings:
    """The form, the level and the files of the journal."""

    format: str = setting(
        "format",
        "text",
        choice(text="text", json="json"),
        "text/json",
        "zab only. text: lines for people. json: an object on each line.",
    )
    level: str = setting(
        "level",
        "info",
        choice(debug="debug", info="info", warning="warning", error="error"),
        "level",
        "zab only. The lowest level that is written.",
    )
    file: str | None = setting(
        "file", None, text_of, "path", "zab only. Where the journal is written. None: standard error."
    )
    file_bytes_max: int = setting(
        "maxFileBytes",
        10 * _MIB,
        integer(64 * 1024, LONG_MAX),
        "bytes",
        "zab only. At this size FILE becomes FILE.1, FILE.1 becomes FILE.2, and so on.",
    )
    files_count: int = setting(
        "fileCount",
        10,
        integer(1, 1000),
        "files",
        "zab only. How many files are kept, including the current one.",
    )
