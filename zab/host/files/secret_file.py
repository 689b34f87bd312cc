"""The file with the secrets by which the members of an ensemble authenticate each other (`quorum.secretFile`).

One secret per line, 32 random bytes as 64 hexadecimal digits; blank lines and lines that begin with `#` are ignored.
The first secret that both sides have is used. A second line is for replacing a secret: see docs/how-to/secure.md.

No other user may read it (`private_file`). Not here: the handshake (`zab.wire.handshake`).
"""

from __future__ import annotations

import secrets
from typing import Final

from zab.host.files.private_file import PrivateFileError, read_private, replace_private, write_private
from zab.wire.handshake import SECRET_BYTES_MIN, SECRETS_MAX, Secret

FILE_BYTES_MAX: Final = 4096


def read_secrets(path: str) -> tuple[Secret, ...]:
    """The secrets in a file, at least one. Raises `PrivateFileError`."""
    found = tuple(_secret(path, number, line) for number, line in _lines(path) if _is_secret(line))
    if not found:
        raise PrivateFileError(f"{path}: there is no secret in it: `zab secret` makes one")
    if len(found) > SECRETS_MAX:
        raise PrivateFileError(f"{path}: {len(found)} secrets are too many, {SECRETS_MAX} may be valid at a time")
    return found


def _lines(path: str) -> list[tuple[int, str]]:
    """The lines of a file, with their numbers."""
    data = read_private(path, FILE_BYTES_MAX, "it holds one secret a line")
    return list(enumerate(map(str.strip, data.decode("latin-1").splitlines()), 1))


def _content(lines: list[str]) -> bytes:
    """The content of a file with these lines, as `_lines` splits it: comments may be in any encoding."""
    return "".join(f"{line}\n" for line in lines).encode("latin-1")


def _is_secret(line: str) -> bool:
    return bool(line) and not line.startswith("#")


def _secret(path: str, number: int, text: str) -> Secret:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < SECRET_BYTES_MIN:
        wanted = f"{2 * SECRET_BYTES_MIN} hexadecimal digits, as `zab secret` writes them"
        raise PrivateFileError(f"{path}:{number}: a secret has at least {wanted}")
    return Secret(key)


def make_secret_file(path: str) -> None:
    """Write a file with one new secret, readable only by its owner. Raises FileExistsError, and other OSError."""
    write_private(path, _content([_new()]))


def add_secret(path: str) -> None:
    """Add a new secret as the last one. Raises `PrivateFileError` and OSError."""
    if len(read_secrets(path)) >= SECRETS_MAX:
        raise PrivateFileError(f"{path}: {SECRETS_MAX} secrets may be valid at a time, and there are as many")
    replace_private(path, _content([*(line for _, line in _lines(path)), _new()]))


def keep_newest(path: str) -> None:
    """Remove all but the newest. Raises `PrivateFileError` and OSError."""
    read_secrets(path)
    lines = _lines(path)
    *older, _ = [number for number, line in lines if _is_secret(line)]
    replace_private(path, _content([line for number, line in lines if number not in older]))


def _new() -> str:
    return secrets.token_hex(SECRET_BYTES_MIN)
