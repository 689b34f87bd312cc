"""Whether only its owner can use a file with a secret.

Not here: what to do about one that others can use: a server and the command line refuse it
(`zab.host.files.private_file`, `zab.cli.profiles`), a client warns about it (`zab.client.tls_context`).
"""

from __future__ import annotations

import os
import stat
from typing import Final

__all__ = ["why_not_private"]

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def why_not_private(path: str, status: os.stat_result) -> str | None:
    """What is wrong with the file's permissions, and what to do; None if nothing."""
    if status.st_mode & _OTHERS:
        return f"{path}: users other than its owner can use it: run `chmod 600 {path}`"
    if status.st_uid not in (0, os.geteuid()):
        return f"{path}: it does not belong to the user who runs this"
    return None
