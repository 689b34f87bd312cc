"""The configuration of one member: ZooKeeper's `zoo.cfg` and `myid`, read once into one frozen `Config`.

    parse(text, filename, ...) -> Config    raises ConfigError(file, line, reason)

Every key may have the prefix `zookeeper.`, since it is a Java property in ZooKeeper. A key set twice has its last
value, as in Java. Invalid files are refused (a value of the wrong kind or out of bounds, fields that contradict each
other, malformed server lines), and so are security keys that are not honoured. Other keys that are unknown or
unsupported are collected in `Config.warnings` and do not stop the start.

Standalone: no server line, or one participant with `standaloneEnabled`; there is no quorum, and the server id is 1.

Relative paths are kept as written.

Not here: reading files (`config_file`); directories, name resolution and ports in use, which the server handles.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from zab.configuration.dynamic import Ensemble, LineError, is_dynamic, parse_dynamic
from zab.configuration.fields import ConfigWarning, Setting, built, settings_of
from zab.configuration.ignored import ignored_keys, why_ignored, why_refused
from zab.configuration.nearest import nearest
from zab.configuration.properties import PropertiesError, Property, parse_properties
from zab.member.settings.config import Config
from zab.member.settings.quorum import HOSTS_ARE_CHECKED
from zab.member.settings.rules import NO_USERS, RuleError, validate
from zab.member.settings.schemes import IP, SASL

__all__ = ["Config", "ConfigError", "ConfigWarning", "entries_of", "parse", "plain_key"]

STANDALONE_SERVER_ID = 1
UNKNOWN_KEY = "the key is unknown and has no effect"
OPENING = (
    *("skipACL", "DigestAuthenticationProvider.superDigest", "superUser", "letAnySaslUserDoX"),
    *("allowSaslFailedClients", "SASLAuthenticationProvider.superPassword", "X509AuthenticationProvider.superUser"),
)
"""These keys, and those that begin with `superUser.`, grant access. ZooKeeper does not read them with the prefix."""
_OFF = (False, None, "none", "", "false")
_DEFAULT_AT_MINUS_ONE = frozenset({"minSessionTimeout", "maxSessionTimeout"})
_VERSION_SUFFIX = re.compile(r"\.dynamic\.([0-9a-fA-F]{1,16})$")


class ConfigError(Exception):
    """The configuration is refused. `file` names the file, `line` its line from 1 (None: the file as a whole)."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


def parse(text: str, filename: str, *, my_id: int | None = None, dynamic_text: str | None = None) -> Config:
    """The configuration that `text` describes. Raises ConfigError.

    my_id: from `myid`; without it a member of an ensemble has server id SERVER_ID_UNKNOWN. dynamic_text: content of the
    file that `dynamicConfigFile` names.
    """
    return _Parser(filename).parse(text, my_id, dynamic_text)


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
    """Parses one file: remembers where each key was, and collects warnings."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        # The file and line of each key.
        self.places: dict[str, tuple[str, int]] = {}
        self.warnings: list[ConfigWarning] = []
        self.takes_several = False
        """Whether a member may have several addresses."""

    def parse(self, text: str, my_id: int | None, dynamic_text: str | None) -> Config:
        entries: dict[str, Property] = {}
        for entry in entries_of(text, self.filename):
            key = plain_key(entry.key)
            if key != entry.key and key.startswith(OPENING):
                raise ConfigError(self.filename, entry.line, f"{entry.key}: in a file it is written {key}")
            if key in entries:
                self._warn(entries[key].line, key, f"it is set again in line {entry.line}, which counts")
            entries[key] = attrs.evolve(entry, key=key)
        self.places = {key: (self.filename, entry.line) for key, entry in entries.items()}
        values: dict[Setting, Any] = {}
        for setting in settings_of(Config):
            if setting.key.endswith("*"):
                self._read_family(setting, entries, values)
                continue
            entry_of_setting = entries.pop(setting.key, None)
            if entry_of_setting is not None:
                self._read_value(setting, entry_of_setting, values)
        by_key = {setting.key: value for setting, value in values.items()}
        if "dataDir" not in by_key:
            raise ConfigError(self.filename, None, "dataDir is not set")
        self.takes_several = by_key.get("multiAddress.enabled", False)
        server_lines = [entry for key, entry in entries.items() if is_dynamic(key)]
        for key, entry in entries.items():
            if not is_dynamic(key) and key != "version":
                self._warn_ignored(entry)
        dynamic_file = by_key.get("dynamicConfigFile")
        if dynamic_file is None:
            version = entries["version"].value if "version" in entries else "0"
            ensemble = self._ensemble(server_lines, self.filename, version)
        else:
            self._refuse_both(server_lines)
            ensemble = self._ensemble_of_file(dynamic_file, dynamic_text)
        return self._finish(built(Config, values, ensemble=ensemble, file=self.filename), my_id)

    def _read_family(self, setting: Setting, entries: dict[str, Property], values: dict[Setting, Any]) -> None:
        """Read and remove all keys of a family, which begin like the setting's key."""
        keys = [key for key in entries if key.startswith(setting.key.removesuffix("*"))]
        values[setting] = tuple([self._read(setting, entries.pop(key)) for key in keys])
        if keys:
            self.places[setting.key] = self.places[keys[0]]

    def _read(self, setting: Setting, entry: Property) -> Any:
        try:
            return setting.read(entry.value)
        except ValueError as error:
            raise ConfigError(self.filename, entry.line, f"{entry.key}: {error}") from None

    def _read_value(self, setting: Setting, entry: Property, values: dict[Setting, Any]) -> None:
        value = self._read(setting, entry)
        if setting.key in _DEFAULT_AT_MINUS_ONE and value == -1:
            return
        if setting.raised_to is not None and value < setting.raised_to:
            self._warn(entry.line, entry.key, f"{value} is too small; {setting.raised_to} is used")
            value = setting.raised_to
        # Port 0 is ZooKeeper's way to say that there is none.
        values[setting] = None if setting.key == "clientPort" and value == 0 else value

    def _refuse_both(self, server_lines: list[Property]) -> None:
        for entry in server_lines:
            reason = f"{entry.key} belongs into the file that dynamicConfigFile names"
            raise ConfigError(self.filename, entry.line, reason)

    def _ensemble_of_file(self, path: str, text: str | None) -> Ensemble:
        """The ensemble in a dynamic file, whose version is in its name (`zoo.cfg.dynamic.100000004`), never in its
        text."""
        if text is None:
            raise ConfigError(path, None, "the dynamic configuration was not read")
        server_lines = {}
        for entry in entries_of(text, path):
            if entry.key == "version":
                raise ConfigError(path, entry.line, "a dynamic file has its version in its name, not inside")
            if is_dynamic(entry.key):
                server_lines[entry.key] = entry
            elif _is_relied_on(plain_key(entry.key), entry.value):
                reason = f"it has no effect in a dynamic file: write it into {self.filename}, or remove the line"
                raise ConfigError(path, entry.line, f"{entry.key}: {reason}")
            else:
                self._warn(entry.line, entry.key, "the key has no place in a dynamic file and is ignored", path)
        suffix = _VERSION_SUFFIX.search(path)
        return self._ensemble(list(server_lines.values()), path, suffix[1] if suffix else "0")

    def _ensemble(self, server_lines: list[Property], path: str, version: str) -> Ensemble:
        if not re.fullmatch(r"[0-9a-fA-F]{1,16}", version, re.ASCII):
            line_of_version = self.places["version"][1] if "version" in self.places else None
            raise ConfigError(path, line_of_version, f"version {version!r} is not a hexadecimal number")
        try:
            ensemble = parse_dynamic(server_lines, int(version, 16))
        except LineError as error:
            raise ConfigError(path, error.line or None, error.reason) from None
        for entry in server_lines:
            self.places[entry.key] = (path, entry.line)
            line = ensemble.servers.get(int(entry.key.partition(".")[2])) if entry.key.startswith("server.") else None
            if line is not None and line.others and not self.takes_several:
                reason = f"{entry.key} has several addresses: add multiAddress.enabled=true to {self.filename}"
                raise ConfigError(path, entry.line, reason)
            if line is not None and line.has_secure_part:
                raise ConfigError(
                    path,
                    entry.line,
                    f"{entry.key} has a secure client port: write secureClientPort in the file of that member",
                )
        return ensemble

    def _finish(self, config: Config, my_id: int | None) -> Config:
        if config.is_standalone:
            config = attrs.evolve(config, server_id=STANDALONE_SERVER_ID)
        elif my_id is not None:
            config = attrs.evolve(config, server_id=my_id)
        try:
            validate(config)
        except RuleError as error:
            places = [self.places[key] for key in error.keys if key in self.places]
            file, line = max(places, key=lambda place: place[1], default=(self.filename, None))
            raise ConfigError(file, line, error.reason) from None
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
        default values: who writes them believes that they are in force."""
        for setting in settings_of(Config):
            key = setting.key
            is_on = key in self.places and setting.of(config) not in _OFF
            reason = _why_idle(key, config) if is_on else None
            if reason is not None:
                file, line = self.places[key]
                raise ConfigError(file, line, f"{key}: {reason}: set that, or remove the line")

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
                raise ConfigError(file, line, f"{key}: 'false' is not supported: {HOSTS_ARE_CHECKED}. Only true is")
            self._warn(line, key, "members speak no TLS, so there are no names to be checked", file)

    def _warn_members(self, config: Config) -> None:
        voters = len(config.ensemble.participants)
        if config.membership.peer_type is not None and config.membership.peer_type != config.role.value:
            reason = f"the server line says {config.role.value}, which counts"
            self._warn(self.places["peerType"][1], "peerType", reason)
        if voters == 1 and config.is_standalone:
            self._warn_servers("one participant is no ensemble; it runs standalone")
        elif voters and voters % 2 == 0:
            survived = f"{(voters - 1) // 2}, as {voters - 1} would" if voters > 2 else "none"
            self._warn_servers(f"{voters} participants survive the failure of {survived}; use an odd number")

    def _warn_servers(self, reason: str) -> None:
        """Warn about all server lines, at the first of them."""
        file, line = min(place for key, place in self.places.items() if key.startswith("server."))
        self._warn(line, "server.*", reason, file)

    def _warn_ignored(self, entry: Property) -> None:
        refusal = why_refused(entry.key, entry.value)
        why = why_ignored(entry.key, entry.value)
        meant = f". Did you mean {near}?" if why is None and (near := nearest(entry.key, known_keys())) else ""
        if refusal is not None:
            said = f"{entry.key}: {refusal}{meant or '.'} Remove the line to go on without it"
            raise ConfigError(self.filename, entry.line, said)
        if why is None:
            self._warn(entry.line, entry.key, f"{UNKNOWN_KEY}{meant}")
        elif why:
            self._warn(entry.line, entry.key, f"the key has no effect: {why}")

    def _warn(self, line: int, key: str, reason: str, path: str | None = None) -> None:
        self.warnings.append(ConfigWarning(path or self.filename, line, key, reason))


def entries_of(text: str, filename: str) -> list[Property]:
    """The lines of a file that set something. Raises ConfigError."""
    try:
        return parse_properties(text)
    except PropertiesError as error:
        raise ConfigError(filename, error.line, error.reason) from None


def known_keys() -> list[str]:
    """The names of all keys that a file may have, except families and the lines about members."""
    own = [setting.key for setting in settings_of(Config)]
    return [key for key in own if not key.endswith("*")] + ignored_keys()


def plain_key(key: str) -> str:
    """The key without the prefix that it has as a Java property."""
    return key.removeprefix("zookeeper.")
