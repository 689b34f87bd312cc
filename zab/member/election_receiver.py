"""What arrives on one connection to an election port: bytes, and what of them is believed.

    Hello            first: which other server of the ensemble speaks. Anything else ends the connection
    Notification …   its votes. What is none is skipped: it never ends a receiver (ZOOKEEPER-3769)

A length that no frame has ends its connection, and only that. At most `FRAME_BYTES_MAX` + 3 bytes are kept.

The connections of a server (`zab.server.election_links`) and those of a simulated one are read with this.

Not here: sockets, how long a greeting may take, what a vote means (`zab.election`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from zab.ids import ServerId
from zab.member.greeting import other_server
from zab.message import Hello, Notification
from zab.wire.frames import FrameError, FrameReader
from zab.wire.records import Codec, MessageError

FRAME_BYTES_MAX = 4096

_GREETINGS: Codec[Hello] = Codec((Hello,))
_VOTES: Codec[Notification] = Codec((Notification,))


class ElectionReceiver:
    """First `greeting`, until it says who speaks; then `votes`. A connection that raised is closed."""

    __slots__ = ("_frames", "_others", "_sid", "_skipped")

    def __init__(self, others: Collection[int], skipped: Callable[[ServerId, str], None]) -> None:
        """`others` are the servers that may speak here. `skipped` is told who sent the first frame that is no vote, and
        why it is none; of those after it nothing is said, so that one connection does not fill the journal."""
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._others = others
        self._sid: ServerId | None = None
        self._skipped: Callable[[ServerId, str], None] | None = skipped

    def greeting(self, data: bytes) -> ServerId | None:
        """Who speaks, None before that is complete; `votes` has what follows. Raises FrameError, MessageError."""
        assert self._sid is None
        payload = self._frames.feed_one(data)
        if payload is not None:
            self._sid = other_server(_GREETINGS.decode(payload), self._others)
        return self._sid

    def votes(self, data: bytes) -> Iterator[Notification]:
        """The votes that these bytes complete. Raises FrameError, after those that came before."""
        assert self._sid is not None
        failure = None
        try:
            payloads = self._frames.feed(data)
        except FrameError as error:
            payloads, failure = error.frames, error
        for payload in payloads:
            try:
                vote = _VOTES.decode(payload)
            except MessageError as error:
                skipped, self._skipped = self._skipped, None
                if skipped is not None:
                    skipped(self._sid, str(error))
            else:
                yield vote
        if failure is not None:
            raise failure
