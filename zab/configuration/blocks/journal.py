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
        "Ours. json: each line of the journal is an object.",
    )
    level: str = setting(
        "level",
        "info",
        choice(debug="debug", info="info", warning="warning", error="error"),
        "level",
        "Ours. What is below it is not in the journal: debug, info, warning or error.",
    )
    file: str | None = setting(
        "file", None, text_of, "path", "Ours. Where the journal is written; none: standard error."
    )
    file_bytes_max: int = setting(
        "maxFileBytes",
        10 * _MIB,
        integer(64 * 1024, LONG_MAX),
        "bytes",
        "Ours. A larger log.file becomes FILE.1, that one FILE.2, and so on.",
    )
    files_count: int = setting(
        "fileCount",
        10,
        integer(1, 1000),
        "files",
        "Ours. So many are kept of log.file, the newest among them; the oldest goes.",
    )
