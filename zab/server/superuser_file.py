"""The file that `zab ensemble` makes for the superuser: one line, `digest:super:PASSWORD`, for `zab --auth @FILE`.

Not here: other superusers, which `zoo.cfg` defines.
"""

from __future__ import annotations

import secrets
from typing import Final

from datatree.acl import digest_identity
from zab.host.files.private_file import PrivateFileError, read_private, write_private

PASSWORD_BYTES: Final = 24
BYTES_MAX: Final = 4096
_WANTED: Final = "it has one line: digest:super:PASSWORD"


def make_superuser_file(path: str) -> None:
    """Write a private file with a new password. Raises FileExistsError, and other OSError."""
    write_private(path, f"digest:super:{secrets.token_hex(PASSWORD_BYTES)}\n".encode())


def read_super_digest(path: str) -> str:
    """The value of `DigestAuthenticationProvider.superDigest` for this file. Raises `PrivateFileError`."""
    scheme, _, proof = read_private(path, BYTES_MAX, _WANTED).strip().partition(b":")
    if scheme != b"digest" or not proof.startswith(b"super:") or b"\n" in proof:
        raise PrivateFileError(f"{path}: {_WANTED}")
    return digest_identity(proof)[1].decode()
