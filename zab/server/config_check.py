"""`zab server --check`: everything that is wrong with a configuration, where a start says the first of it.

    check(path) -> Checked      nothing is started, opened for writing or made
    read_to_the_end(path)       what the file says, and all that is wrong with that

The file is read by what reads it at a start. What that refuses is noted, and its line is left out; so is what follows
from that: a refusal that names a key whose line was left out. Then the files that the configuration names are read, and
what the process may have is compared with what a server needs.

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
from zab.member.settings.zoo_cfg import ConfigError, entries_of, parse, plain_key
from zab.server.config_file import load_text, read_text
from zab.server.files import READERS, warnings_of
from zab.server.quorum_host import refuse_strangers
from zab.server.start import of_zookeeper
from zab.service.failure import CONFIG_ERROR, DATA_DIRECTORY_ERROR, ServerFailedError

__all__ = ["SUPER_DIGEST", "Checked", "Fault", "check", "known_keys", "public_keys", "read_to_the_end", "secret_keys"]

_LINE_END: Final = re.compile(r"(\r\n|\r|\n)")


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
        return self.faults[0].exit_code if self.faults else 0

    def lines(self, path: str) -> Iterator[dict[str, Any]]:
        """The lines of `--json`: one for each error and each warning, then one for the file."""
        for fault in self.faults:
            yield {"type": "error", "file": fault.file, "line": fault.line, "key": None, "reason": fault.reason}
        for each in self.warnings:
            yield {"type": "warning", "file": each.file, "line": each.line, "key": each.key, "reason": each.reason}
        yield {"type": "configuration", "file": path, "is_good": not self.exit_code, "exit_code": self.exit_code}


def check(path: str) -> Checked:
    config, faults = read_to_the_end(path)
    if config is not None:
        faults += _of_files(config)
        faults += _of_process(config)
    faults.sort(key=lambda fault: (fault.exit_code, fault.file != path, fault.line or sys.maxsize))
    warnings = (*config.warnings, *warnings_of(config)) if config is not None else ()
    return Checked(config, tuple(faults), warnings)


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


def read_to_the_end(path: str) -> tuple[Config | None, list[Fault]]:
    """Read only these files, and none that they name."""
    faults: list[Fault] = []
    texts: dict[str, str] = {}
    left_out: set[str] = set()
    seen: set[tuple[str, int]] = set()

    def read(name: str) -> str:
        if name not in texts:
            texts[name] = read_text(name)
        return texts[name]

    while True:
        try:
            return load_text(read(path), path, read=read), faults
        except ConfigError as error:
            if not any(_names(error.reason, key) for key in left_out):
                faults.append(Fault(error.file, error.line, error.reason))
            is_id = os.path.basename(error.file) == "myid"
            if error.line is None or is_id or error.file not in texts or (error.file, error.line) in seen:
                return _without_id(path, texts), faults
            seen.add((error.file, error.line))
            left_out |= set(_key_at(texts[error.file], error.line))
            texts[error.file] = _without(texts[error.file], error.line)


def _without_id(path: str, texts: dict[str, str]) -> Config | None:
    """The configuration without an id, for when `myid` is missing or wrong."""
    text = texts.get(path, "")
    try:
        named = [entry.value for entry in entries_of(text, path) if plain_key(entry.key) == "dynamicConfigFile"]
        return parse(text, path, dynamic_text=texts.get(named[-1]) if named else None) if text else None
    except ConfigError:
        return None


def _names(reason: str, key: str) -> bool:
    """Whether the reason has the key as a word; for a line about a member, also any such key, and its number."""
    if is_dynamic(key):
        return re.search(r"\b(server|group|weight)\.|\bparticipants?\b", reason) is not None
    return re.search(rf"(?<![\w.]){re.escape(key)}\b", reason) is not None


def _key_at(text: str, line: int) -> Iterator[str]:
    try:
        for entry in entries_of(text, ""):
            if entry.line == line:
                yield plain_key(entry.key)
    except ConfigError:
        return  # this line itself cannot be read


def _without(text: str, line: int) -> str:
    """The text with a comment in place of this line and its continuation lines."""
    parts = _LINE_END.split(text)
    at = 2 * (line - 1)
    while True:
        goes_on = (len(parts[at]) - len(parts[at].rstrip("\\"))) % 2 == 1
        parts[at] = "#"
        at += 2
        if not goes_on or at >= len(parts):
            return "".join(parts)


def _of_files(config: Config) -> list[Fault]:
    """The faults of its secrets, users and stores, each by itself, of authentication between members, and of libraries.
    A file may be used for two purposes, and be wrong for both."""
    found: dict[tuple[int | None, str], Fault] = {}
    for read in (*READERS, _refuse_strangers, _refuse_tracing):
        try:
            read(config)
        except ServerFailedError as failure:
            reason = failure.reason.removeprefix(f"{config.file}: ")
            line = _line_of(config.file, reason.partition(":")[0])
            found[line, reason] = Fault(config.file, line, reason, failure.exit_code)
    return list(found.values())


def _refuse_tracing(config: Config) -> None:
    refuse_without_library(config.tracing, config_file=config.file)


def _refuse_strangers(config: Config) -> None:
    trio.run(refuse_strangers, config)


def _line_of(file: str, key: str) -> int | None:
    """The line of a key; the last one counts."""
    lines = [entry.line for entry in entries_of(read_text(file), file) if plain_key(entry.key) == key]
    return lines[-1] if lines else None


def _of_process(config: Config) -> list[Fault]:
    checks: tuple[Callable[[Config], Fault | None], ...] = (_of_interpreter, _of_descriptors, _of_directories)
    return [fault for each in checks if (fault := each(config)) is not None]


def _of_interpreter(config: Config) -> Fault | None:
    reason = refusal()
    return None if reason is None else Fault(config.file, None, reason)


def _of_descriptors(config: Config) -> Fault | None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= LIMIT_MIN:
        return None
    reason = f"a process may have {hard} file descriptors here, and a server needs {LIMIT_MIN}: raise `ulimit -n`"
    return Fault(config.file, None, reason)


def _of_directories(config: Config) -> Fault | None:
    for key, path in (("dataDir", config.storage.data_dir), ("dataLogDir", config.storage.data_log_dir)):
        nearest = path
        while not os.path.exists(nearest) and os.path.dirname(nearest) != nearest:
            nearest = os.path.dirname(nearest) or "."
        if key == "dataDir" and not os.path.isdir(path) and not config.storage.data_dir_autocreate:
            reason = f"{key}: {path} does not exist, and datadir.autocreate=false: make it"
        elif not os.path.isdir(nearest):
            reason = f"{key}: {nearest} is no directory"
        elif not os.access(nearest, os.W_OK | os.X_OK):
            reason = f"{key}: {nearest} may not be written to by who runs this"
        else:
            continue
        return Fault(config.file, None, reason, DATA_DIRECTORY_ERROR)
    foreign = of_zookeeper(config)
    return None if foreign is None else Fault(config.file, None, foreign, DATA_DIRECTORY_ERROR)
