"""The configuration of one member: ZooKeeper's `zoo.cfg` and `myid`, read once into one frozen `Config`.

    parse(text, filename, ...) -> Config    raises ConfigError(file, line, reason)
    read(text, filename, ...) -> Reading    all that is wrong, where `parse` raises the first of it

What follows from an invalid value is not named. So where there is one, the text is read once for each of several valid
values in its place (`STAND_INS`), and what is found with all of them is named.

Every key may have the prefix `zookeeper.`, since it is a Java property in ZooKeeper. A key set twice has its last
value, as in Java. Invalid files are refused (a value of the wrong kind or out of bounds, fields that contradict each
other, malformed server lines), and so are security keys that are not honoured. Other keys that are unknown or
unsupported are collected in `Config.warnings` and do not stop the start.

Standalone: no server line, or one participant with `standaloneEnabled`; there is no quorum, and the server id is 1.

Relative paths are kept as written.

Not here: reading files (`config_file`); directories, name resolution and ports in use, which the server handles.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

import attrs

from zab.configuration.dynamic import SERVER_ID_MAX, Ensemble, Role, is_dynamic, read_dynamic, stand_in_line
from zab.configuration.fields import ConfigWarning, Setting, built, settings_of
from zab.configuration.ignored import ignored_keys, why_ignored, why_refused
from zab.configuration.nearest import nearest
from zab.configuration.properties import PropertiesError, Property, parse_properties, read_properties
from zab.member.settings.config import Config
from zab.member.settings.quorum import HOSTS_ARE_CHECKED
from zab.member.settings.rules import NO_USERS, broken_rules
from zab.member.settings.schemes import IP, PROVIDERS, SASL

__all__ = ["Config", "ConfigError", "ConfigWarning", "Reading", "entries_of", "parse", "plain_key", "read"]

STANDALONE_SERVER_ID = 1
NOT_READ = "the dynamic configuration was not read"
UNKNOWN_KEY = "the key is unknown and has no effect"
OPENING = (
    *("skipACL", "DigestAuthenticationProvider.superDigest", "superUser", "letAnySaslUserDoX"),
    *("allowSaslFailedClients", "SASLAuthenticationProvider.superPassword", "X509AuthenticationProvider.superUser"),
)
"""These keys, and those that begin with `superUser.`, grant access. ZooKeeper does not read them with the prefix."""
_DATA_DIR: Final = next(setting for setting in settings_of(Config) if setting.key == "dataDir")
_OFF = (False, None, "none", "", "false")
_DEFAULT_AT_MINUS_ONE = frozenset({"minSessionTimeout", "maxSessionTimeout"})
Told = TypeVar("Told")
_VERSION_SUFFIX = re.compile(r"\.dynamic\.([0-9a-fA-F]{1,16})$")


class ConfigError(Exception):
    """The configuration is refused. `file` names the file, `line` its line from 1 (None: the file as a whole)."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


STAND_INS: Final = (
    "1",
    "65535",
    "2147483647",
    "participant",
    "observer",
    "false",
    "true",
    "pem",
    "TLSv1.2",
    "SHA1",
    *PROVIDERS,
)
"""Values in place of an invalid one: of those that its key takes, each in turn, or the first."""


@attrs.frozen
class Reading:
    """What a text says, and all that is wrong with it."""

    config: Config | None = None
    """Without the invalid values; None: nothing can be read."""
    likely: Config | None = None
    """With valid values in place of the invalid ones: the files and directories that it names are what to look at."""
    places: Mapping[str, tuple[str, int]] = {}
    """The file and line of each key that is set, and valid."""
    faults: tuple[ConfigError, ...] = ()
    warnings: tuple[ConfigWarning, ...] = ()


def parse(text: str, filename: str, *, my_id: int | None = None, dynamic_text: str | None = None) -> Config:
    """The configuration that `text` describes. Raises ConfigError, see `read`."""
    return good(read(text, filename, my_id=my_id, dynamic_text=dynamic_text))


def good(reading: Reading) -> Config:
    """The configuration. Raises ConfigError with the first thing that is wrong."""
    if reading.faults:
        raise reading.faults[0]
    assert reading.config is not None
    return reading.config


def read(text: str, filename: str, *, my_id: int | None = None, dynamic_text: str | None = None) -> Reading:
    """All that `text` says.

    my_id: from `myid`; without it a member of an ensemble has server id SERVER_ID_UNKNOWN. dynamic_text: content of the
    file that `dynamicConfigFile` names.
    """
    parser = _Parser(filename)
    config = likely = parser.parse(text, my_id, dynamic_text)
    faults, warnings = parser.faults, parser.warnings
    if parser.unreadable:
        parsers = [_Parser(filename, stand_in) for stand_in in STAND_INS]
        likely, *_ = [each.parse(text, my_id, dynamic_text) for each in parsers]
        faults = _in_all([each.faults for each in parsers])
        warnings = _in_all([each.warnings for each in parsers])
        assert faults, "each of them refuses the invalid value itself"
    places = {key: place for key, place in parser.places.items() if key not in parser.unreadable}
    return Reading(config, likely, places, tuple(faults), tuple(warnings))


def _in_all(readings: list[list[Told]]) -> list[Told]:
    texts = [{str(each): each for each in reading} for reading in readings]
    return [each for text, each in texts[0].items() if all(text in reading for reading in texts)]


def _is_relied_on(key: str, value: str) -> bool:
    """Whether the key would have an effect, or be refused, in the main file."""
    keys = [setting.key for setting in settings_of(Config)]
    is_field = any(key.startswith(each[:-1]) if each.endswith("*") else key == each for each in keys)
    return is_field or why_refused(key, value) is not None


def _why_idle(key: str, config: Config) -> str | None:
    """Why the key has no effect; None: it has one."""
    if key.startswith("ssl.quorum."):
        has_tls = config.quorum.has_tls or config.admin.has_tls
        return None if has_tls else "neither sslQuorum nor portUnification is set"
    if key.startswith("ssl."):
        return None if config.clients.has_tls else "neither secureClientPort nor client.portUnification is set"
    if key == "quorum.secretRequired" and config.quorum.secret_file is None:
        return "quorum.secretFile is not set: nobody is asked for a secret"
    return None


class _Parser:
    """Parses one file: remembers where each key was, and collects faults and warnings."""

    def __init__(self, filename: str, stand_in: str | None = None) -> None:
        self.filename = filename
        # What is read in place of an invalid value; None: nothing.
        self.stand_in = stand_in
        # Keys whose value is not known, since it is invalid or missing.
        self.unreadable: set[str] = set()
        # The file and line of each key.
        self.places: dict[str, tuple[str, int]] = {}
        self.faults: list[ConfigError] = []
        self.warnings: list[ConfigWarning] = []
        self.takes_several = False
        """Whether a member may have several addresses."""

    def parse(self, text: str, my_id: int | None, dynamic_text: str | None) -> Config | None:
        entries = self._entries(text)
        self.places = {key: (self.filename, entry.line) for key, entry in entries.items()}
        values: dict[Setting, Any] = {}
        for setting in settings_of(Config):
            if setting.key.endswith("*"):
                self._read_family(setting, entries, values)
                continue
            entry_of_setting = entries.pop(setting.key, None)
            if entry_of_setting is not None:
                self._read_value(setting, entry_of_setting, values)
        if "dataDir" not in self.places:
            self._refuse(None, "dataDir is not set")
            values[_DATA_DIR] = self._in_place_of(_DATA_DIR)
        by_key = {setting.key: value for setting, value in values.items()}
        self.takes_several = by_key.get("multiAddress.enabled", False)
        server_lines = [entry for key, entry in entries.items() if is_dynamic(key)]
        for key, entry in entries.items():
            if not is_dynamic(key) and key != "version":
                self._warn_ignored(entry)
        dynamic_file = by_key.get("dynamicConfigFile")
        if dynamic_file is None:
            version = entries["version"].value if "version" in entries and not entries["version"].fault else "0"
            ensemble = self._ensemble(server_lines, self.filename, version)
        else:
            for entry in server_lines:
                self._refuse(entry.line, f"{entry.key} belongs into the file that dynamicConfigFile names")
            ensemble = self._ensemble_of_file(dynamic_file, dynamic_text, my_id)
        if values.get(_DATA_DIR, attrs.NOTHING) is attrs.NOTHING:
            return None
        return self._finish(built(Config, values, ensemble=ensemble, file=self.filename), my_id)

    def _entries(self, text: str) -> dict[str, Property]:
        """The entry of each key that counts."""
        entries: dict[str, Property] = {}
        for entry in read_properties(text):
            key = plain_key(entry.key)
            if entry.fault:
                self._refuse(entry.line, entry.fault)
            if entry.fault and not key:
                continue
            if key != entry.key and key.startswith(OPENING):
                self._refuse(entry.line, f"{entry.key}: in a file it is written {key}")
                continue
            if key in entries:
                self._warn(entries[key].line, key, f"it is set again in line {entry.line}, which counts")
            entries[key] = attrs.evolve(entry, key=key)
        return entries

    def _read_family(self, setting: Setting, entries: dict[str, Property], values: dict[Setting, Any]) -> None:
        """Read and remove all keys of a family, which begin like the setting's key."""
        keys = [key for key in entries if key.startswith(setting.key.removesuffix("*"))]
        read = [self._read(setting, entries.pop(key)) for key in keys]
        values[setting] = tuple([value for value in read if value is not attrs.NOTHING])
        if keys:
            self.places[setting.key] = self.places[keys[0]]

    def _read(self, setting: Setting, entry: Property) -> Any:
        """The value; NOTHING if it is invalid, and nothing is in its place."""
        try:
            if not entry.fault:
                return setting.read(entry.value)
        except ValueError as error:
            self._refuse(entry.line, f"{entry.key}: {error}")
        return self._in_place_of(setting)

    def _in_place_of(self, setting: Setting) -> Any:
        self.unreadable.add(setting.key)
        for text in (self.stand_in, *STAND_INS) if self.stand_in is not None else ():
            with contextlib.suppress(ValueError):
                return setting.read(text)
        return attrs.NOTHING

    def _read_value(self, setting: Setting, entry: Property, values: dict[Setting, Any]) -> None:
        value = self._read(setting, entry)
        if value is attrs.NOTHING or (setting.key in _DEFAULT_AT_MINUS_ONE and value == -1):
            return
        if setting.raised_to is not None and value < setting.raised_to:
            self._warn(entry.line, entry.key, f"{value} is too small; {setting.raised_to} is used")
            value = setting.raised_to
        # Port 0 is ZooKeeper's way to say that there is none.
        values[setting] = None if setting.key == "clientPort" and value == 0 else value

    def _ensemble_of_file(self, path: str, text: str | None, my_id: int | None) -> Ensemble:
        """The ensemble in a dynamic file, whose version is in its name (`zoo.cfg.dynamic.100000004`), never in its
        text."""
        if text is None:
            self._refuse(None, NOT_READ, path)
            return self._unknown_ensemble(my_id)
        server_lines = {}
        for entry in read_properties(text):
            if entry.fault:
                self._refuse(entry.line, entry.fault, path)
            if entry.key == "version":
                self._refuse(entry.line, "a dynamic file has its version in its name, not inside", path)
            elif is_dynamic(entry.key):
                server_lines[entry.key] = entry
            elif _is_relied_on(plain_key(entry.key), entry.value):
                reason = f"it has no effect in a dynamic file: write it into {self.filename}, or remove the line"
                self._refuse(entry.line, f"{entry.key}: {reason}", path)
            elif entry.key or not entry.fault:
                self._warn(entry.line, entry.key, "the key has no place in a dynamic file and is ignored", path)
        suffix = _VERSION_SUFFIX.search(path)
        return self._ensemble(list(server_lines.values()), path, suffix[1] if suffix else "0")

    def _unknown_ensemble(self, my_id: int | None) -> Ensemble:
        """In place of the members in a file that is not known: three, or none."""
        self.unreadable.add("server.*")
        ids = () if self.stand_in in (None, "observer") else (my_id or 1, SERVER_ID_MAX + 1, SERVER_ID_MAX + 2)
        return Ensemble({server_id: stand_in_line(server_id, Role.PARTICIPANT) for server_id in ids})

    def _ensemble(self, server_lines: list[Property], path: str, version: str) -> Ensemble:
        if not re.fullmatch(r"[0-9a-fA-F]{1,16}", version, re.ASCII):
            line_of_version = self.places["version"][1] if "version" in self.places else None
            self._refuse(line_of_version, f"version {version!r} is not a hexadecimal number", path)
            version = "0"
        role = Role.OBSERVER if self.stand_in == "observer" else Role.PARTICIPANT
        ensemble, errors = read_dynamic(server_lines, int(version, 16), None if self.stand_in is None else role)
        for error in errors:
            self._refuse(error.line or None, error.reason, path)
            self.unreadable.add("server.*")
        refused = {error.line for error in errors}
        for entry in server_lines:
            self.places[entry.key] = (path, entry.line)
            is_server = entry.key.startswith("server.") and entry.line not in refused
            line = ensemble.servers.get(int(entry.key.partition(".")[2])) if is_server else None
            if line is not None and line.others and not self.takes_several:
                reason = f"{entry.key} has several addresses: add multiAddress.enabled=true to {self.filename}"
                self._refuse(entry.line, reason, path)
            if line is not None and line.has_secure_part:
                reason = f"{entry.key} has a secure client port: write secureClientPort in the file of that member"
                self._refuse(entry.line, reason, path)
        return ensemble

    def _finish(self, config: Config, my_id: int | None) -> Config:
        if config.is_standalone:
            config = attrs.evolve(config, server_id=STANDALONE_SERVER_ID)
        elif my_id is not None:
            config = attrs.evolve(config, server_id=my_id)
        for broken in broken_rules(config):
            places = [self.places[key] for key in broken.keys if key in self.places]
            file, line = max(places, key=lambda place: place[1], default=(self.filename, None))
            self._refuse(line, broken.reason, file)
        self._refuse_idle_protection(config)
        self._look_at_unverified_hosts(config)
        self._warn_members(config)
        if SASL in config.access.auth_providers and not config.login.is_offered:
            file, line = self.places["authProvider.*"]
            self._warn(line, "authProvider.*", f"nobody can log in by SASL: {NO_USERS}", file)
        if IP in config.access.required_schemes:
            self._warn(
                self.places["enforce.auth.schemes"][1], "enforce.auth.schemes", "every client has ip: all are let in"
            )
        return attrs.evolve(config, warnings=tuple(self.warnings))

    def _refuse_idle_protection(self, config: Config) -> None:
        """Refuse keys of TLS without TLS, and of a secret without one, unless they switch something off. This includes
        default values: who writes them believes that they are in force. A line that a rule refuses is named by that."""
        refused = {(fault.file, fault.line) for fault in self.faults}
        for setting in settings_of(Config):
            key = setting.key
            is_on = key in self.places and setting.of(config) not in _OFF
            reason = _why_idle(key, config) if is_on else None
            if reason is not None and self.places[key] not in refused:
                file, line = self.places[key]
                self._refuse(line, f"{key}: {reason}: set that, or remove the line", file)

    def _look_at_unverified_hosts(self, config: Config) -> None:
        """Refuse or warn about unverified host names: members always check them. Without TLS there are no names, so
        nothing is left open."""
        keys = ("ssl.quorum.hostnameVerification", "ssl.quorum.clientHostnameVerification")
        values = (config.quorum.hostname_verification, config.quorum.client_hostname_verification)
        for key, value in zip(keys, values, strict=True):
            if value != "false":
                continue
            file, line = self.places[key]
            if config.quorum.has_tls:
                self._refuse(line, f"{key}: 'false' is not supported: {HOSTS_ARE_CHECKED}. Only true is", file)
            else:
                self._warn(line, key, "members speak no TLS, so there are no names to be checked", file)

    def _warn_members(self, config: Config) -> None:
        voters = len(config.ensemble.participants)
        if config.membership.peer_type is not None and config.membership.peer_type != config.role.value:
            reason = f"the server line says {config.role.value}, which counts"
            self._warn(self.places["peerType"][1], "peerType", reason)
        if voters == 1 and config.is_standalone:
            self._warn_servers("one participant is not an ensemble; it runs standalone")
        elif voters and voters % 2 == 0:
            survived = f"{(voters - 1) // 2}, as {voters - 1} would" if voters > 2 else "none"
            self._warn_servers(f"{voters} participants survive the failure of {survived}; use an odd number")

    def _warn_servers(self, reason: str) -> None:
        """Warn about all server lines, at the first of them."""
        file, line = min(place for key, place in self.places.items() if key.startswith("server."))
        self._warn(line, "server.*", reason, file)

    def _warn_ignored(self, entry: Property) -> None:
        refusal = None if entry.fault else why_refused(entry.key, entry.value)
        why = why_ignored(entry.key, entry.value)
        meant = f". Did you mean {near}?" if why is None and (near := _meant(entry.key)) else ""
        if refusal is not None:
            self._refuse(entry.line, f"{entry.key}: {refusal}{meant or '.'} Remove the line to go on without it")
        elif why is None:
            self._warn(entry.line, entry.key, f"{UNKNOWN_KEY}{meant}")
        elif why:
            self._warn(entry.line, entry.key, f"the key has no effect: {why}")

    def _refuse(self, line: int | None, reason: str, path: str | None = None) -> None:
        self.faults.append(ConfigError(path or self.filename, line, reason))

    def _warn(self, line: int, key: str, reason: str, path: str | None = None) -> None:
        self.warnings.append(ConfigWarning(path or self.filename, line, key, reason))


def entries_of(text: str, filename: str) -> list[Property]:
    """The lines of a file that set something. Raises ConfigError."""
    try:
        return parse_properties(text)
    except PropertiesError as error:
        raise ConfigError(filename, error.line, error.reason) from None


@lru_cache(maxsize=256)
def _meant(key: str) -> str | None:
    """The known key that is most like this one. It takes milliseconds, and a text is read several times."""
    return nearest(key, known_keys())


def known_keys() -> list[str]:
    """The names of all keys that a file may have, except families and the lines about members."""
    own = [setting.key for setting in settings_of(Config)]
    return [key for key in own if not key.endswith("*")] + ignored_keys()


def plain_key(key: str) -> str:
    """The key without the prefix that it has as a Java property."""
    return key.removeprefix("zookeeper.")
