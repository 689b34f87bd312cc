"""Reads the files that describe a member: `zoo.cfg`, the dynamic file that it names, and `dataDir/myid`.

Files are read as ISO-8859-1 with \\uXXXX escapes, like in Java. `config` interprets them.

A file with passwords that other users may read causes a warning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from attrs import evolve

from zab.configuration.fields import ConfigWarning, settings_of
from zab.configuration.properties import read_properties
from zab.member.settings.config import SERVER_ID_UNKNOWN
from zab.member.settings.zoo_cfg import NOT_READ, Config, ConfigError, Reading, good, plain_key, read
from zab.tls.private import why_not_private

Content = TypeVar("Content")


def load(path: str | Path) -> Config:
    """The configuration of the member that `path` describes, with its id. Raises ConfigError."""
    return good(load_all(str(path)))


def load_all(path: str) -> Reading:
    """What the file at `path` says, with those that it names, and all that is wrong with them."""
    faults: list[ConfigError] = []

    def tried(reader: Callable[[str], Content], name: str) -> Content | None:
        try:
            return reader(name)
        except ConfigError as error:
            faults.append(error)
            return None

    text = tried(read_text, path)
    if text is None:
        return Reading(faults=tuple(faults))
    set_here = {plain_key(entry.key): entry.value for entry in read_properties(text)}
    dynamic_path = set_here.get("dynamicConfigFile")
    dynamic_text = tried(read_text, dynamic_path) if dynamic_path else None
    myid = Path(set_here.get("dataDir", "")) / "myid"
    has_id = bool(set_here.get("dataDir")) and myid.is_file()
    my_id = tried(_my_id, str(myid)) if has_id else None
    reading = read(text, path, my_id=my_id, dynamic_text=dynamic_text)
    faults += [fault for fault in reading.faults if fault.reason != NOT_READ]  # why not is said above
    # A standalone server needs no myid, so the parsed configuration decides about its absence.
    if not has_id and "dataDir" in reading.places and reading.likely and reading.likely.server_id == SERVER_ID_UNKNOWN:
        reason = "the file is missing: it holds this server's id, the N of its server.N line"
        faults.append(ConfigError(str(myid), None, reason))
    warnings = (*reading.warnings, *_open_passwords(text, path))
    config = reading.config and evolve(reading.config, warnings=warnings)
    return evolve(reading, config=config, faults=tuple(faults), warnings=warnings)


def _open_passwords(text: str, path: str) -> Iterator[ConfigWarning]:
    """Warnings about passwords in a file that is not private."""
    try:
        reason = why_not_private(path, os.stat(path))
    except OSError:
        return
    keys = {setting.key: setting.is_secret for setting in settings_of(Config)}
    for entry in read_properties(text) if reason is not None else ():
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


def _my_id(filename: str) -> int:
    first_line = read_text(filename).partition("\n")[0].strip()
    if not re.fullmatch(r"[0-9]{1,9}", first_line, re.ASCII):
        raise ConfigError(filename, 1, f"server id {first_line!r} is not a number")
    return int(first_line)
