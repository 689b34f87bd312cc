"""What a start of a broker finds out before it opens anything: `python -m zab.broker` and `zab broker run --check`.

    load(path) -> BrokerConfig      the settings, if this machine can run a broker with them
    why_not() -> str | None         why this interpreter cannot run any broker

Not here: the directory of the logs and the ports, which a start uses.
"""

from __future__ import annotations

import os
from pathlib import Path

from attrs import evolve

from zab.broker.tls import ListenerTls
from zab.client.access.ensemble_access import EnsembleAccess, EnsembleAccessError
from zab.host.files.open_passwords import open_passwords
from zab.host.files.private_file import PrivateFileError, demand_private
from zab.host.process.refusal import refusal
from zab.partition.records.libraries import MissingLibraryError, cramjam, crc32c, is_crc_in_hardware
from zab.partition.settings.broker_config import BrokerConfig, BrokerConfigError, read_config
from zab.tls.stores import StoreError

__all__ = ["StartRefusedError", "hints", "load", "why_not"]


class StartRefusedError(Exception):
    """A broker does not start; the text says why."""


def why_not() -> str | None:
    """Why there can be no broker in this interpreter, with the libraries that it has; None: there can."""
    reason = refusal()
    if reason is not None:
        return reason
    try:
        crc32c()
        cramjam()
    except MissingLibraryError as error:
        return str(error)
    return None


def load(path: str) -> BrokerConfig:
    """The settings that this file has. Raises StartRefusedError for the first thing that is wrong with it, with this
    interpreter, or with the libraries of the extra `zab[broker]`."""
    reason = why_not()
    if reason is not None:
        raise StartRefusedError(reason)
    try:
        text, status = Path(path).read_text(encoding="utf-8"), os.stat(path)
        config = read_config(text)
        if config.plain_users:
            demand_private(path)
        ListenerTls.of(config)
        EnsembleAccess(config.ensemble)
    except OSError as error:
        raise StartRefusedError(f"{path} cannot be read: {error.strerror}") from error
    except (BrokerConfigError, EnsembleAccessError, PrivateFileError, StoreError, UnicodeDecodeError) as error:
        raise StartRefusedError(f"{path}: {error}") from error
    return evolve(config, warnings=(*config.warnings, *open_passwords(BrokerConfig, text, path, status)))


def hints(config: BrokerConfig) -> list[str]:
    """What an operator may not expect: keys without effect, doors that are open, and a slow checksum."""
    slow = "" if is_crc_in_hardware() else "this processor does not compute CRC-32C itself: writes cost more"
    return [*config.warnings, *config.open_doors, *filter(None, [slow])]
