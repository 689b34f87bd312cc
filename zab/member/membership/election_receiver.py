"""Parses the votes on one election connection after its handshake, and decides what to believe.

Anything else is skipped: it never ends a receiver (ZOOKEEPER-3769).

Real servers (`zab.server.election_links`) and simulated ones use this module.

Not here: the handshake, sockets, what a vote means (`zab.protocol.election`).
"""

from __future__ import annotations

from collections.abc import Callable

from zab.protocol.events import NotificationReceived
from zab.protocol.message import CONFIG_BYTES_MAX, Config, Notification
from zab.quorum.ids import ServerId
from zab.wire.records import Codec, MessageError

_VOTES: Codec[Notification | Config] = Codec((Notification, Config))
_SPARE_BYTES = 64
FRAME_BYTES_MAX = 2 * CONFIG_BYTES_MAX + _SPARE_BYTES
"""The longest payload on an election connection."""


class ElectionReceiver:
    """The receiver of one connection."""

    __slots__ = ("_config", "_is_proven", "_sid", "_skipped")

    def __init__(self, sid: ServerId, skipped: Callable[[str], None], *, is_proven: bool) -> None:
        """`sid` is the sender; `is_proven`: it has proven to belong to the ensemble. `skipped` is called with the
        reason for the first payload that is no vote, and not again, so that one connection does not fill the
        journal."""
        self._sid = sid
        self._skipped: Callable[[str], None] | None = skipped
        self._is_proven = is_proven
        self._config = b"", b""
        """The configurations that were sent before the next vote."""

    def vote(self, payload: bytes) -> NotificationReceived | None:
        """The vote in a payload, with the configurations that were sent before it; None if it is no vote."""
        try:
            said = _VOTES.decode(payload)
            if isinstance(said, Notification):
                config, self._config = self._config, (b"", b"")
                return NotificationReceived(self._sid, said, *config, is_proven=self._is_proven)
            self._config = said.in_force, said.outstanding
        except MessageError as error:
            skipped, self._skipped = self._skipped, None
            if skipped is not None:
                skipped(str(error))
        return None
