"""Whether a member serves clients, and since when. Service always ends in the same way.

    serving     the peer serves, and everything committed before that is applied: clients write and read
    read-only   there is no quorum, and clients that only read are served from the tree as it is (`read_only`)
    halted      this member must not go on: its process ends

Not here: when service begins (`zab.member.member`).
"""

from __future__ import annotations

from collections.abc import Callable

from datatree.log.zxid import BEFORE_ALL, Zxid
from zab.member.clients.connection import Clients, Closing
from zab.member.requests.read_only import ReadOnlyMode
from zab.member.sessions.sessions import Sessions
from zab.member.settings.config import Config
from zab.member.state.outbox import Outbox
from zab.member.state.state_times import Times
from zab.member.state.turn_clock import TurnClock
from zab.member.state.waiting import Waiting
from zab.protocol import effects as fx
from zab.protocol.peer_state import PeerState
from zab.protocol.states import LEADING


class Serving:
    """The service of one member. Attributes without an underscore may be read."""

    def __init__(
        self,
        config: Config,
        peer: PeerState,
        clock: TurnClock,
        clients: Clients,
        sessions: Sessions,
        times: Times,
        outbox: Outbox[fx.Halt],
        drop_role: Callable[[], None],
    ) -> None:
        """`drop_role` makes the other parts of the member drop what is under way (G2 former roles)."""
        self._config = config
        self._peer = peer
        self._clock = clock
        self._clients = clients
        self._sessions = sessions
        self._times = times
        self._outbox = outbox
        self._drop_role = drop_role
        self.is_on = False
        """Whether clients are served: the peer serves, and everything committed before that is applied."""
        self.is_halted = False
        self.begins_at: Zxid = BEFORE_ALL
        """The zxid before the epoch in which serving began, if nothing has happened since this history began: a client
        that has seen an earlier epoch has seen it in the previous history (B8 restored members)."""
        self.read_only = ReadOnlyMode(config, clock.now)
        self.waiting = Waiting(clock.now)

    @property
    def takes_clients(self) -> bool:
        """Whether a client may have a session here; not on a leader that serves only its learners."""
        config = self._config
        if self.read_only.is_on:
            return True
        return self.is_on and (config.membership.leader_serves or config.is_standalone or self._peer.state != LEADING)

    def begin(self, begins_at: Zxid) -> None:
        """Serve clients from now on."""
        self.is_on = True
        self.begins_at = begins_at
        self._times.serves(self._clock.now, self._peer.state)
        self._sessions.local.resume(self._clock.now)

    def begin_reading_only(self) -> None:
        """Serve clients that only read, from the tree as it is."""
        self.read_only.begin()
        self._sessions.read_only(is_on=True)
        self._sessions.local.resume(self._clock.now)

    def why_not(self) -> str | None:
        """Why this member does not serve, if it is time to report it again."""
        return self.waiting.turn(self._clock.now, self._peer, reads=self.read_only.is_on)

    def stop(self, how: Closing = Closing.AT_ONCE) -> None:
        """Stop serving clients; nothing that was under way goes to the next leader (G2 former roles)."""
        if self.is_on:
            self._times.serves_nobody(self._clock.now)
        self.begins_at = BEFORE_ALL
        self.is_on = False
        self._clients.close_all(how)
        if self.read_only.is_on:
            self.read_only.end()
            self._sessions.read_only(is_on=False)
            if not self._config.has_local_sessions:
                self._sessions.local.clear()
        self.waiting.begin(self._clock.now)
        self._drop_role()

    def halt(self, reason: str) -> None:
        """Stop this member for good."""
        self.is_halted = True
        self._outbox.want(fx.Halt(reason))
        self._clients.close_all()
