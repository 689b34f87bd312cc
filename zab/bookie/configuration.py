"""What a start of a bookie finds out before it opens anything: `python -m zab.bookie` and `zab bookie run --check`.

    load(path) -> BookieSettings    the settings, if this machine can run a bookie with them
    why_not() -> str | None         why this interpreter cannot run any bookie

Not here: the directories and the port, which a start uses.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Final

from attrs import evolve

from zab.bookie.config_file import SYNONYMS, BookieSettingsError, read_settings
from zab.bookie.settings import BookieSettings
from zab.bookie.tls import BookieTls
from zab.client.access.ensemble_access import EnsembleAccess, EnsembleAccessError
from zab.host.files.open_passwords import open_passwords
from zab.host.process.refusal import refusal
from zab.tls.stores import StoreError

__all__ = ["StartRefusedError", "load", "why_not"]

LIBRARIES: Final = ("crc32c", "google.protobuf")


class StartRefusedError(Exception):
    """A bookie does not start; the text says why."""


def why_not() -> str | None:
    """Why there can be no bookie in this interpreter, with the libraries that it has; None: there can."""
    reason = refusal()
    if reason is not None:
        return reason
    missing = [name for name in LIBRARIES if not _is_installed(name)]
    if missing:
        return f"the libraries of ledgers are missing ({', '.join(missing)}): pip install 'zab[ledgers]'"
    return None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False  # nor is the package that would contain it


def load(path: str) -> BookieSettings:
    """The settings that this file has. Raises StartRefusedError for the first thing that is wrong with it, or with this
    interpreter."""
    reason = why_not()
    if reason is not None:
        raise StartRefusedError(reason)
    try:
        text, status = Path(path).read_text(encoding="utf-8"), os.stat(path)
        settings = read_settings(text)
        EnsembleAccess(settings.ensemble)
        if settings.tls.is_enabled:
            BookieTls(settings.tls)
    except OSError as error:
        raise StartRefusedError(f"{path} cannot be read: {error.strerror}") from error
    except (BookieSettingsError, EnsembleAccessError, StoreError, UnicodeDecodeError) as error:
        raise StartRefusedError(f"{path}: {error}") from error
    passwords = open_passwords(BookieSettings, text, path, status, SYNONYMS)
    return evolve(settings, warnings=(*settings.warnings, *passwords))
