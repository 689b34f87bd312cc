"""What a member reports about its environment but only its process can see: files, descriptors, the machine.

Not here: collecting it, which takes time: `LookAround` asks for that (`zab.member.events`).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Surroundings:
    """The defaults describe a member without a process around it."""

    data_bytes: int = 0
    """The size of the files in `dataDir`."""
    log_bytes: int = 0
    """The size of the files in `dataLogDir`; the same number if both are one directory."""
    snapshot_zxid: int = 0
    snapshot_at: int = 0
    """The zxid of the newest snapshot, and when it was written (s since 1970); 0 if there is none."""
    open_descriptors: int = 0
    max_descriptors: int = 0
    properties: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)
    """What `envi` shows besides the version, in order."""
    tls_handshakes: int = 0
    """How many TLS handshakes with clients are under way."""
    tls_handshakes_exceeded: int = 0
    """How many were ended because there were too many."""
    tls_handshakes_failed: int = 0
    """How many have failed, in whatever way."""
