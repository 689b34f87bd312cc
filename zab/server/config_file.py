"""Reads the files that describe a member: `zoo.cfg`, the dynamic file that it names, and `dataDir/myid`.

Files are read as ISO-8859-1 with \\uXXXX escapes, like in Java. `config` interprets them.

A file with passwords that other users may read causes a warning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import evolve

from zab.configuration.fields import ConfigWarning, settings_of
from zab.member.settings.config import SERVER_ID_UNKNOWN
from zab.member.settings.zoo_cfg import Config, ConfigError, entries_of, parse, plain_key
from zab.tls.private import why_not_private


def load(path: str | Path) -> Config:
    """The configuration of the member that `path` describes, with its id. Raises ConfigError."""
    return load_text(read_text(str(path)), path, read=read_text)


def load_text(text: str, path: str | Path, *, read: Callable[[str], str]) -> Config:
    """The configuration of a text from the file at `path`. `read` returns the text of another file. Raises
    ConfigError."""
    set_here = {plain_key(entry.key): entry.value for entry in entries_of(text, str(path))}
    dynamic_path = set_here.get("dynamicConfigFile")
    dynamic_text = read(dynamic_path) if dynamic_path else None
    myid = Path(set_here.get("dataDir", "")) / "myid"
    # A standalone server needs no myid, so the parsed configuration decides about its absence.
    my_id = _my_id(read(str(myid)), str(myid)) if set_here.get("dataDir") and myid.is_file() else None
    config = parse(text, str(path), my_id=my_id, dynamic_text=dynamic_text)
    if config.server_id == SERVER_ID_UNKNOWN:
        raise ConfigError(str(myid), None, "the file is missing: it holds this server's id, the N of its server.N line")
    return evolve(config, warnings=(*config.warnings, *_open_passwords(text, str(path))))


def _open_passwords(text: str, path: str) -> Iterator[ConfigWarning]:
    """Warnings about passwords in a file that is not private."""
    try:
        reason = why_not_private(path, os.stat(path))
    except OSError:
        return
    keys = {setting.key: setting.is_secret for setting in settings_of(Config)}
    for entry in entries_of(text, path) if reason is not None else ():
        key = plain_key(entry.key)
        if keys.get(key) and entry.value:
            elsewhere = f", or have the password in the file of {key}Path" if f"{key}Path" in keys else ""
            yield ConfigWarning(path, entry.line, key, f"its value is a password, and {reason}{elsewhere}")


def read_text(name: str) -> str:
    """The text of a file. Raises ConfigError."""
    try:
        return Path(name).read_bytes().decode("latin-1")
    except OSError as error:
        raise ConfigError(name, None, f"it cannot be read: {error.strerror or error}") from None


def _my_id(text: str, filename: str) -> int:
    first_line = text.partition("\n")[0].strip()
    if not re.fullmatch(r"[0-9]{1,9}", first_line, re.ASCII):
        raise ConfigError(filename, 1, f"server id {first_line!r} is not a number")
    return int(first_line)
