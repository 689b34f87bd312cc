"""The file with the secrets by which the members of an ensemble prove who they are (`quorum.secretFile`).

One secret a line, 32 random bytes as 64 hexadecimal digits; blank lines and lines that begin with `#` say nothing. The
first that both sides have is used. Two lines are for the time of a change: see docs/security.md.

The file belongs to the user that runs the server, and nobody else may read it.

Not here: what a secret proves (`zab.wire.handshake`).
"""

from __future__ import annotations

import os
import secrets
import stat
from typing import Final

from zab.wire.handshake import SECRET_BYTES_MIN, SECRETS_MAX, Secret

FILE_BYTES_MAX: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class SecretFileError(Exception):
    """The file cannot be used; the text says which line of it, why, and what to do. It never shows a secret."""


class SecretFile:
    """The file of a running server, read again when it has changed."""

    def __init__(self, path: str) -> None:
        """Raises `SecretFileError`."""
        self._path = path
        self._seen = self._look()
        self.secrets = read_secrets(path)

    def read_again(self) -> bool:
        """Whether there are other secrets now. Raises `SecretFileError`: those there were stay."""
        seen = self._look()
        if seen in (None, self._seen):
            return False
        before, self.secrets = self.secrets, read_secrets(self._path)
        self._seen = seen
        return self.secrets != before

    def _look(self) -> tuple[int, ...] | None:
        """What tells one content of the file from another; None while there is no file."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def read_secrets(path: str) -> tuple[Secret, ...]:
    """The secrets in a file, one at least. Raises `SecretFileError`."""
    found = tuple(_secret(path, number, line) for number, line in _lines(path) if _is_secret(line))
    if not found:
        raise SecretFileError(f"{path}: there is no secret in it: `zab secret` makes one")
    if len(found) > SECRETS_MAX:
        raise SecretFileError(f"{path}: {len(found)} secrets are too many, {SECRETS_MAX} may be valid at a time")
    return found


def _lines(path: str) -> list[tuple[int, str]]:
    """With their numbers. Raises `SecretFileError`, also where others may read the file."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SecretFileError(f"{path}: it cannot be read: {error.strerror or error}") from None
    if status.st_mode & _OTHERS:
        raise SecretFileError(f"{path}: others than its owner may use it: run `chmod 600 {path}`")
    if status.st_uid not in (0, os.geteuid()):
        raise SecretFileError(f"{path}: it belongs to another user than the one who runs this")
    if len(data) > FILE_BYTES_MAX:
        raise SecretFileError(f"{path}: it has more than {FILE_BYTES_MAX} bytes; it holds one secret a line")
    return list(enumerate(map(str.strip, data.decode("latin-1").splitlines()), 1))


def _is_secret(line: str) -> bool:
    return bool(line) and not line.startswith("#")


def _secret(path: str, number: int, text: str) -> Secret:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < SECRET_BYTES_MIN:
        wanted = f"{2 * SECRET_BYTES_MIN} hexadecimal digits, as `zab secret` writes them"
        raise SecretFileError(f"{path}:{number}: a secret has at least {wanted}")
    return Secret(key)


def make_secret_file(path: str) -> None:
    """Write a file with one new secret, for its owner alone. Raises FileExistsError, and other OSError."""
    _write(path, [_new()])


def add_secret(path: str) -> None:
    """One more, the newest. Raises `SecretFileError` and OSError."""
    if len(read_secrets(path)) >= SECRETS_MAX:
        raise SecretFileError(f"{path}: {SECRETS_MAX} secrets may be valid at a time, and there are as many")
    _replace(path, [*(line for _, line in _lines(path)), _new()])


def keep_newest(path: str) -> None:
    """Remove all but the newest. Raises `SecretFileError` and OSError."""
    read_secrets(path)
    lines = _lines(path)
    *older, _ = [number for number, line in lines if _is_secret(line)]
    _replace(path, [line for number, line in lines if number not in older])


def _new() -> str:
    return secrets.token_hex(SECRET_BYTES_MIN)


def _replace(path: str, lines: list[str]) -> None:
    aside = f"{path}.{secrets.token_hex(8)}"
    _write(aside, lines)
    os.replace(aside, path)


def _write(path: str, lines: list[str]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="latin-1") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
