"""Writes the configuration that is in force into the files of this server, as ZooKeeper does.

    FILE.dynamic.<version>     server, group and weight lines; a new file for each configuration
    FILE                       without these lines, with the path of that file as `dynamicConfigFile`
    FILE.bak                   FILE as it was while it had these lines itself

Each is written completely under another name and then renamed, the dynamic file first, so that FILE always names an
existing file. All other lines of FILE stay as they are.

The history decides, not these files: they only say where this server listens at its next start, and which servers it
asks first if its history was lost.

Not here: reading them (`config_file`).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from zab.configuration.dynamic import Ensemble, is_dynamic
from zab.configuration.properties import escaped, without
from zab.host.files.private_file import sync_directory
from zab.member.settings.zoo_cfg import entries_of, plain_key

_KEY = "dynamicConfigFile"
_STALE = frozenset({"version", "peerType", _KEY})
_CLIENT_KEYS = frozenset({"clientPort", "clientPortAddress"})
_MODE = 0o644


def write_configuration(file: str, ensemble: Ensemble, server_id: int) -> str | None:
    """Write this configuration; returns the path of the dynamic file, or None if FILE names it already. Raises OSError,
    and ConfigError if FILE cannot be read."""
    path = Path(file).absolute()
    text = path.read_bytes().decode("latin-1")
    entries = {plain_key(entry.key): entry.value for entry in entries_of(text, str(path))}
    dynamic = Path(f"{path}.dynamic.{ensemble.version:x}")
    if entries.get(_KEY) == str(dynamic) and dynamic.is_file():
        return None
    _replace(dynamic, f"{ensemble.lines}\n", _MODE)
    mode = path.stat().st_mode & 0o777
    if any(map(is_dynamic, entries)):
        _replace(path.with_name(f"{path.name}.bak"), text, mode)
    line = ensemble.servers.get(server_id)
    stale = _STALE | _CLIENT_KEYS if line is not None and line.client_port is not None else _STALE
    rest = without(text, lambda key: is_dynamic(key) or plain_key(key) in stale)
    if rest and not rest.endswith(("\n", "\r")):
        rest += "\n"
    _replace(path, f"{rest}{_KEY}={escaped(str(dynamic))}\n", mode)
    return str(dynamic)


def _replace(path: Path, text: str, mode: int) -> None:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(aside, "xb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text.encode("latin-1"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
