"""The keys of the journal, as fields that every `Config` has. They are ours.

Not here: its lines (`zab.host.journal.journal`), and the rules between keys (`config`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import LONG_MAX, choice, integer, setting, text_of
from zab.member.settings.addresses import AddressSettings

_MIB = 1024 * 1024


@frozen(kw_only=True)
class JournalSettings(AddressSettings):
    """See the module."""

    log_format: str = setting(
        "log.format",
        "text",
        choice(text="text", json="json"),
        "text/json",
        "Ours. json: each line of the journal is an object.",
    )
    log_level: str = setting(
        "log.level",
        "info",
        choice(debug="debug", info="info", warning="warning", error="error"),
        "level",
        "Ours. What is below it is not in the journal: debug, info, warning or error.",
    )
    log_file: str | None = setting(
        "log.file", None, text_of, "path", "Ours. Where the journal is written; none: standard error."
    )
    log_file_bytes_max: int = setting(
        "log.maxFileBytes",
        10 * _MIB,
        integer(64 * 1024, LONG_MAX),
        "bytes",
        "Ours. A larger log.file becomes FILE.1, that one FILE.2, and so on.",
    )
    log_files_count: int = setting(
        "log.fileCount",
        10,
        integer(1, 1000),
        "files",
        "Ours. So many are kept of log.file, the newest among them; the oldest goes.",
    )
