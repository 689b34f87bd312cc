"""What only the process around a member knows, and its words tell: files, descriptors, the machine.

Not here: looking at it, which takes its time: `LookAround` asks for it (`zab.member.events`).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Surroundings:
    """The defaults are of a member that has none."""

    data_bytes: int = 0
    """Of the files in `dataDir`."""
    log_bytes: int = 0
    """Of those in `dataLogDir`; of one directory for both, the same."""
    snapshot_zxid: int = 0
    snapshot_at: int = 0
    """Of the newest snapshot, and when it was written (s since 1970); 0: there is none."""
    open_descriptors: int = 0
    max_descriptors: int = 0
    properties: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)
    """What `envi` says beside the version, in its order."""
    tls_handshakes: int = 0
    """Of clients, under way."""
    tls_handshakes_exceeded: int = 0
    """Those that ended since there were too many."""
