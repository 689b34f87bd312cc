"""`zab server --check`: everything that is wrong with a configuration, where a start says the first of it.

    check(path) -> Checked      nothing is started, opened for writing or made

The configuration is read as at a start (`config_file`). Then the files and directories that it names are looked at, and
what the process may have is compared with what a server needs. What is invalid or missing in the configuration is named
by its reader alone, and not again here.

Not here: whether ports are free and members can be reached (`zab doctor`). Names of members are resolved only where
members do not authenticate: then all have to be on this machine.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import trio
from attrs import field, frozen

from zab.configuration.dynamic import is_dynamic
from zab.configuration.fields import ConfigWarning, settings_of
from zab.host.journal.tracing import refuse_without_library
from zab.host.process.descriptors import LIMIT_MIN
from zab.host.process.refusal import refusal
from zab.member.settings.config import Config
from zab.member.settings.zoo_cfg import Reading, plain_key
from zab.server.config_file import load_all
from zab.server.files import READERS, warnings_of
from zab.server.quorum_host import refuse_strangers
from zab.server.start import of_zookeeper
from zab.service.failure import CONFIG_ERROR, DATA_DIRECTORY_ERROR, ServerFailedError

__all__ = ["SUPER_DIGEST", "Checked", "Fault", "check", "known_keys", "public_keys", "secret_keys"]


@frozen
class Fault:
    """One of them. line: from 1; None: the file as a whole, or what is outside of it. exit_code: that of a start."""

    file: str
    line: int | None
    reason: str
    exit_code: int = CONFIG_ERROR

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


@frozen
class Checked:
    """The result of a check. config: the readable part; None: nothing is readable."""

    config: Config | None
    faults: tuple[Fault, ...]
    warnings: tuple[ConfigWarning, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """The exit code of a start with it; 0: it would start."""
        return min([fault.exit_code for fault in self.faults], default=0)

    def lines(self, path: str) -> Iterator[dict[str, Any]]:
        """The lines of `--json`: one for each error and each warning, then one for the file."""
        for fault in self.faults:
            yield {"type": "error", "file": fault.file, "line": fault.line, "key": None, "reason": fault.reason}
        for each in self.warnings:
            yield {"type": "warning", "file": each.file, "line": each.line, "key": each.key, "reason": each.reason}
        yield {"type": "configuration", "file": path, "is_good": not self.exit_code, "exit_code": self.exit_code}


def check(path: str) -> Checked:
    reading = load_all(path)
    faults = [Fault(error.file, error.line, error.reason) for error in reading.faults]
    warnings = reading.warnings
    if reading.likely is not None:
        faults += _of_files(reading, reading.likely)
        faults += _of_process(reading, reading.likely)
        warnings += warnings_of(reading.likely)

    def place(told: Fault | ConfigWarning) -> tuple[bool, str, int]:
        return told.file != path, told.file, told.line or sys.maxsize

    return Checked(
        reading.config,
        tuple(sorted(dict.fromkeys(faults), key=place)),
        tuple(sorted(dict.fromkeys(warnings), key=place)),
    )


def known_keys() -> frozenset[str]:
    return frozenset(each.key for each in settings_of(Config))


def public_keys() -> Callable[[str], bool]:
    """Whether the value of a key may be shown: the key is known, and its value has no password, hash or key (`secret`
    marks such fields)."""
    public = known_keys() - _secret_keys()

    def is_public(key: str) -> bool:
        key = plain_key(key)
        return is_dynamic(key) or key == "version" or key in public

    return is_public


def secret_keys() -> Callable[[str], bool]:
    """Whether a key is known, and its value must not be shown."""
    found = _secret_keys()
    return lambda key: plain_key(key) in found


def _secret_keys() -> frozenset[str]:
    return frozenset(each.key for each in settings_of(Config) if each.is_secret) | _HASHES


SUPER_DIGEST: Final = "DigestAuthenticationProvider.superDigest"
_HASHES: Final = frozenset({SUPER_DIGEST})


def _of_files(reading: Reading, config: Config) -> Iterator[Fault]:
    """The faults of its secrets, users and stores, each by itself, of authentication between members, and of libraries.
    A file may be used for two purposes, and be wrong for both."""
    for read in (*READERS, _refuse_strangers, _refuse_tracing):
        try:
            read(config)
        except ServerFailedError as failure:
            reason = failure.reason.removeprefix(f"{config.file}: ")
            key = re.split("[:=]", reason)[0]
            if key not in known_keys() or key in reading.places:
                file, line = reading.places.get(key, (config.file, None))
                yield Fault(file, line, reason, failure.exit_code)


def _refuse_tracing(config: Config) -> None:
    refuse_without_library(config.tracing, config_file=config.file)


def _refuse_strangers(config: Config) -> None:
    trio.run(refuse_strangers, config)


def _of_process(reading: Reading, config: Config) -> Iterator[Fault]:
    reason = refusal()
    if reason is not None:
        yield Fault(config.file, None, reason)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < LIMIT_MIN:
        reason = f"a process may have {hard} file descriptors here, and a server needs {LIMIT_MIN}: raise `ulimit -n`"
        yield Fault(config.file, None, reason)
    unusable = [
        Fault(*reading.places[key], f"{key}: {reason}", DATA_DIRECTORY_ERROR)
        for key, path in (("dataDir", config.storage.data_dir), ("dataLogDir", config.storage.data_log_dir))
        if key in reading.places and (reason := _why_not_usable(key, path, config)) is not None
    ]
    yield from unusable
    try:
        foreign = of_zookeeper(config)
    except OSError as error:
        foreign = None if unusable else str(error)
    if foreign is not None:
        yield Fault(config.file, None, foreign, DATA_DIRECTORY_ERROR)


def _why_not_usable(key: str, path: str, config: Config) -> str | None:
    nearest = path
    while not os.path.exists(nearest) and os.path.dirname(nearest) != nearest:
        nearest = os.path.dirname(nearest) or "."
    if key == "dataDir" and not os.path.isdir(path) and not config.storage.data_dir_autocreate:
        return f"{path} does not exist, and datadir.autocreate=false: make it"
    if not os.path.isdir(nearest):
        return f"{nearest} is no directory"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} may not be written to by who runs this"
    return None
