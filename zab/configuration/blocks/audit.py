"""The audit log, which is a file."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BOOLEAN, LONG_MAX, integer, setting, text_of

_MIB: Final = 1024 * 1024


def _file(text: str) -> str:
    """A path; what names the system's log is no file."""
    if text in ("journald", "syslog"):
        raise ValueError(f"{text} is not built: it is the path of a file")
    return text_of(text)


@frozen(kw_only=True)
class AuditSettings:
    """Whether there is an audit log, and its files."""

    enabled: bool = setting(
        "enable",
        False,
        BOOLEAN,
        "true/false",
        "Whether there is an audit log: a line for each change and each refusal.",
    )
    file: str | None = setting(
        "file",
        None,
        _file,
        "path",
        "zab only. Best on a different disk from the log.",
        shown="audit.log in the data directory",
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
