"""Whether a file with a secret is for its owner alone.

Not here: what becomes of one that is not: a server and the command line refuse it (`zab.host.process.private_file`,
`zab.cli.profiles`), a client warns of it (`zab.client.tls_context`).
"""

from __future__ import annotations

import os
import stat
from typing import Final

__all__ = ["why_not_private"]

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def why_not_private(path: str, status: os.stat_result) -> str | None:
    """None: it is. Else what is wrong, and what to do."""
    if status.st_mode & _OTHERS:
        return f"{path}: others than its owner may use it: run `chmod 600 {path}`"
    if status.st_uid not in (0, os.geteuid()):
        return f"{path}: it belongs to another user than the one who runs this"
    return None
