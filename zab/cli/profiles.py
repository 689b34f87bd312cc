"""Profiles: named sets of settings with which the znode commands reach their servers, in `config.toml`.

    [profiles.default]
    hosts = "127.0.0.1:2181"

    [profiles.production]
    hosts = "zab1:2281,zab2:2281,zab3:2281/app"
    ca = "production/truststore.pem"            # beside this file
    key-store = "~/.zab/keystore.pem"
    sasl-user = "alice"
    sasl-password-file = "production/password"

The file is `$XDG_CONFIG_HOME/zab/config.toml`, or what `--config` or `$ZAB_CONFIG` names; the profile is `default`, or
what `--profile` or `$ZAB_PROFILE` names. Keys are the names of the options of `zab`, and `sasl-password`, which is
none, since everybody may read the words of a command. An option on the command line comes first, then the environment,
then the profile.

A file that has a secret, or names a file with one, must belong to the user that runs the command, and be inaccessible
to others. All profiles are checked, not only the one in use: an unknown key, or a value of a wrong type, is refused
with its line. Values are never printed.

Not here: the options (`connection_options.py`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from zab.tls.private import why_not_private

__all__ = ["DEFAULT", "KEYS", "SECRET_KEYS", "Profile", "ProfileError", "default_path", "read_profile"]

BYTES_MAX: Final = 65536
DEFAULT: Final = "default"
_PROFILES: Final = "profiles"
_HEADER: Final = re.compile(r"\s*\[")


@frozen
class _Key:
    """`parameter`: of the root command, which takes the value as if it were the option's default."""

    parameter: str
    types: tuple[type, ...]
    wanted: str
    is_path: bool = False


_TEXT: Final = (str,), "a text"
_FLAG: Final = (bool,), "true or false"
_NUMBER: Final = (int, float), "a number"

KEYS: Final = {
    "hosts": _Key("hosts", *_TEXT),
    "session-timeout": _Key("session_timeout_seconds", *_NUMBER),
    "wait": _Key("wait_seconds", *_NUMBER),
    "auth": _Key("auth", (list,), "a list of texts"),
    "read-only": _Key("read_only", *_FLAG),
    "jute-maxbuffer": _Key("jute_maxbuffer_bytes", (int,), "a whole number"),
    "tls": _Key("tls", *_FLAG),
    "ca": _Key("ca", *_TEXT, is_path=True),
    "key-store": _Key("key_store", *_TEXT, is_path=True),
    "password-file": _Key("password_file", *_TEXT, is_path=True),
    "check-host": _Key("check_host", *_FLAG),
    "sasl-user": _Key("sasl_user", *_TEXT),
    "sasl-password-file": _Key("sasl_password_file", *_TEXT, is_path=True),
    "sasl-password": _Key("sasl_password", *_TEXT),
    "secure-ledgers": _Key("secure_ledgers", *_FLAG),
    "bookie-tls": _Key("bookie_tls", *_FLAG),
    "bootstrap-server": _Key("bootstrap", *_TEXT),
    "client-config": _Key("client_config", *_TEXT, is_path=True),
}
"""The keys that a profile may have."""

SECRET_KEYS: Final = frozenset({"auth", "client-config", "password-file", "sasl-password", "sasl-password-file"})
"""The keys of secrets, or of files with secrets."""


class ProfileError(Exception):
    """The file cannot be used; the text says which line of it, why, and what to do. It never shows a value."""


@frozen
class Profile:
    """The values by parameter, and the password, which has no option."""

    defaults: dict[str, Any] = field(repr=False)
    sasl_password: str | None = field(default=None, repr=False)


def default_path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return Path(home or Path.home() / ".config") / "zab" / "config.toml"


def read_profile(path: Path, wanted: str | None) -> Profile:
    """The profile of this name; None is the default one, which need not be there. Raises ProfileError, and
    FileNotFoundError where there is no file."""
    text, status = _read(path)
    import tomllib

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path}: {error}") from None
    profiles = _tables(path, text, found)
    for name, values in profiles.items():
        _check(path, text, name, values)
    if any(SECRET_KEYS & values.keys() for values in profiles.values()):
        reason = why_not_private(str(path), status)
        if reason is not None:
            raise ProfileError(reason)
    name = DEFAULT if wanted is None else wanted
    if name not in profiles and wanted is not None:
        raise ProfileError(f"{path}: there is no profile {wanted}{_instead(wanted, list(profiles))}")
    values = {KEYS[key].parameter: _settled(path, KEYS[key], value) for key, value in profiles.get(name, {}).items()}
    return Profile(values, values.pop("sasl_password", None))


def _read(path: Path) -> tuple[str, os.stat_result]:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ProfileError(f"{path}: it cannot be read: {error.strerror or error}") from None
    if len(data) > BYTES_MAX:
        raise ProfileError(f"{path}: it has more than {BYTES_MAX} bytes")
    try:
        return data.decode(), status
    except UnicodeDecodeError:
        raise ProfileError(f"{path}: it is not UTF-8") from None


def _tables(path: Path, text: str, found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The profiles by name. Raises ProfileError for whatever else is in the file."""
    for name in found:
        if name != _PROFILES:
            line = _line_of(text, None, name)
            more = f": it belongs below [{_PROFILES}.{DEFAULT}]" if name in KEYS else _instead(name, [_PROFILES])
            raise ProfileError(f"{path}:{line}: {name} is not known here{more}")
    profiles: Any = found.get(_PROFILES, {})
    if not isinstance(profiles, dict):
        raise ProfileError(f"{path}:{_line_of(text, None, _PROFILES)}: {_PROFILES} are tables, [{_PROFILES}.NAME]")
    for name, values in profiles.items():
        if not isinstance(values, dict):
            raise ProfileError(f"{path}:{_line_of(text, None, name)}: {name} is no profile: write [{_PROFILES}.NAME]")
    return profiles


def _check(path: Path, text: str, profile: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        fault = _fault(name, value)
        if fault is not None:
            raise ProfileError(f"{path}:{_line_of(text, profile, name)}: {fault}")
    if "sasl-password" in values and "sasl-password-file" in values:
        line = _line_of(text, profile, "sasl-password")
        raise ProfileError(f"{path}:{line}: a password, or a file of it, not both")


def _fault(name: str, value: object) -> str | None:
    key = KEYS.get(name)
    if key is None:
        return f"{name} is no key{_instead(name, list(KEYS))}"
    # True is a number in Python, and none here.
    is_flag = isinstance(value, bool)
    fits = isinstance(value, key.types) and (not is_flag or bool in key.types)
    if not fits or (isinstance(value, list) and not all(isinstance(each, str) for each in value)):
        return f"{name} is {key.wanted}"
    return None


def _instead(name: str, known: list[str]) -> str:
    """The probably intended name; or all names, if none is similar."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    if near:
        return f": did you mean {near[0]}?"
    return f": there are {', '.join(known)}" if known else ": there is none in it"


def _line_of(text: str, profile: str | None, name: str) -> int:
    """The line of a key in a profile, or in the whole file if no profile is given; 1 if it is not found."""
    quoted = rf"""["']?{re.escape(name)}["']?"""
    begin = re.compile(rf"""(?:[^#]*[.,{{\s\[])?{quoted}\s*[=.\]]""")
    heads = re.compile(rf"""\s*\[\s*{_PROFILES}\s*\.\s*["']?{re.escape(profile or "")}["']?\s*[.\]]""")
    lines = list(enumerate(text.splitlines(), 1))
    start = next((number for number, line in lines if profile is not None and heads.match(line)), 0)
    for number, line in lines[start:]:
        if begin.match(line):
            return number
        if start and _HEADER.match(line):
            break
    return start or 1


def _settled(path: Path, key: _Key, value: Any) -> Any:
    """A path is beside the file that names it; so is a file of identities."""
    if key.is_path:
        return str(path.parent / Path(value).expanduser())
    if isinstance(value, list):
        return [f"@{path.parent / Path(each[1:]).expanduser()}" if each.startswith("@") else each for each in value]
    return value
