"""The file with which the znode commands reach their servers: `client.toml`, in TOML.

    hosts = "zab1:2281,zab2:2281,zab3:2281"
    ca = "truststore.pem"               # beside this file
    key-store = "~/.zab/keystore.pem"
    sasl-user = "alice"
    sasl-password = "…"

It is `$XDG_CONFIG_HOME/zab/client.toml`, or what `--config` or `$ZAB_CONFIG` names. Keys are the names of the options
of `zab`, and `sasl-password`, which is none, since everybody may read the words of a command. An option on the command
line comes first, then the environment, then this file.

What holds a password belongs to who runs the command, and nobody else may read it. A key that is not known, or a value
of another type, is refused with its line; values are never printed.

Not here: the options (`connection_options.py`).
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

__all__ = ["KEYS", "SECRET_KEYS", "ClientFile", "ClientFileError", "check_private", "default_path", "read_client_file"]

BYTES_MAX: Final = 65536
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


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
    "timeout": _Key("timeout_seconds", *_NUMBER),
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
}
"""What may stand in the file."""

SECRET_KEYS: Final = frozenset({"auth", "sasl-password"})


class ClientFileError(Exception):
    """The file cannot be used; the text says which line of it, why, and what to do. It never shows a value."""


@frozen
class ClientFile:
    """The values by parameter, and the one that is no option's."""

    defaults: dict[str, Any] = field(repr=False)
    sasl_password: str | None = field(default=None, repr=False)


def default_path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return Path(home or Path.home() / ".config") / "zab" / "client.toml"


def read_client_file(path: Path) -> ClientFile:
    """Raises ClientFileError, and FileNotFoundError where there is none."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ClientFileError(f"{path}: it cannot be read: {error.strerror or error}") from None
    if len(data) > BYTES_MAX:
        raise ClientFileError(f"{path}: it has more than {BYTES_MAX} bytes")
    try:
        text = data.decode()
        found = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it is not UTF-8"
        raise ClientFileError(f"{path}: {reason}") from None
    for name, value in found.items():
        fault = _fault(name, value)
        if fault is not None:
            raise ClientFileError(f"{path}:{_line_of(name, text)}: {fault}")
    if SECRET_KEYS & found.keys():
        check_private(path, status)
    values = {KEYS[name].parameter: _settled(path, KEYS[name], value) for name, value in found.items()}
    password = values.pop("sasl_password", None)
    if password is not None and "sasl_password_file" in values:
        raise ClientFileError(f"{path}:{_line_of('sasl-password', text)}: a password, or a file of it, not both")
    return ClientFile(values, password)


def check_private(path: Path, status: os.stat_result) -> None:
    """Raises ClientFileError where others than the user may read or change a file with a secret in it."""
    if status.st_mode & _OTHERS:
        raise ClientFileError(f"{path}: there is a password in it, and others may use it: run `chmod 600 {path}`")
    if status.st_uid not in (0, os.geteuid()):
        raise ClientFileError(f"{path}: there is a password in it, and it belongs to another user")


def _fault(name: str, value: object) -> str | None:
    key = KEYS.get(name)
    if key is None:
        return f"{name} is no key: there are {', '.join(KEYS)}"
    # True is a number in Python, and none here.
    is_flag = isinstance(value, bool)
    fits = isinstance(value, key.types) and (not is_flag or bool in key.types)
    if not fits or (isinstance(value, list) and not all(isinstance(each, str) for each in value)):
        return f"{name} is {key.wanted}"
    return None


def _line_of(name: str, text: str) -> int:
    """Where the key stands, or the table or first dotted key of that name."""
    begin = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if begin.match(line)), 1)


def _settled(path: Path, key: _Key, value: Any) -> Any:
    """A path is beside the file that names it."""
    return str(path.parent / Path(value).expanduser()) if key.is_path else value
