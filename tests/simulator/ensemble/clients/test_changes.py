"""The feed of changes in simulated ensembles: through crashes, elections, purged logs and lost data, each change once.

Followers join a run as clients do. They ask any server for what is after their place, move when a connection ends, and
note where a server could not go back far enough. At the end what they were told is compared with what was committed.
"""

from collections import Counter
from random import Random

import pytest

from datatree.acl import SUPER
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import GetChanges
from datatree.txn_changes import WHOLE, changes_of
from zab.jute.change_pages import PageStatus
from zab.jute.framing import CHANGES_XID_MAX, PING_XID, request_frame
from zab.jute.handshake import NO_PASSWORD, ConnectRequest, ConnectResponse
from zab.jute.replies import ReplyHeader, decode_body
from zab.member.requests import change_feed
from zab.member.requests.change_feed import ChangeFeed
from zab.member.storage import change_rows, storage
from zab.member.storage.events import ReadChanges
from zab.member.storage.storage import Storage
from zab.simulator.ensemble.simulation import Simulation
from zab.simulator.world.schedule import MS
from zab.simulator.world.sockets import CLOSED
from zab.wire.frames import FrameReader, frame

SEEDS = (3, 5, 7, 13, 14, 16, 19, 25)
"""In some of them logs are purged that followers have not read."""
CATCH_UP_TICKS = 200
REACHED = ("rows", "connections lost", "GIVEN", "OLDER", "from files", "LookBackSlice")
"""Each of these has to happen, or a run proves nothing."""


class Follower:
    """A client that asks for nothing but changes. `is_super`: it may see all of them."""

    def __init__(self, simulation: "FollowedSimulation", number: int, rng: Random, *, is_super: bool) -> None:
        self.number = number
        self.is_super = is_super
        self.place = (0, WHOLE)
        self.rows: list[tuple] = []
        self.gaps: list[tuple[int, int]] = []
        self.is_gone = False
        self.counts: Counter[str] = Counter()
        self._ensemble = simulation.ensemble
        self._schedule = simulation.schedule
        self._profile = simulation.profile
        self._rng = rng
        self._link = None
        self._sid = 0
        """The tree of the server that it is connected to."""
        self._frames = FrameReader(1 << 26)
        self._is_connected = False
        self._session, self._password = 0, NO_PASSWORD
        self._seen = 0
        self._xid = CHANGES_XID_MAX
        self._history_id = b""
        self._heard_at = 0
        self._timeout_ms = 6 * self._profile.tick_ms

    def start(self) -> None:
        self._schedule.after(int(self._profile.tick_us * self._rng.random()), self._look_after)

    def _look_after(self) -> None:
        """Connect, ping, leave who does not answer."""
        self._schedule.after(self._profile.tick_us // 2, self._look_after)
        if self.is_gone:
            return
        if self._link is None:
            self._connect()
        elif self._schedule.now - self._heard_at > self._timeout_ms * MS // 2 or self._rng.random() < 0.03:
            self._leave()
        elif self._is_connected:
            self._send(request_frame(PING_XID, OpCode.PING, b""))

    def _leave(self) -> None:
        link, self._link = self._link, None
        link.to_client.cut()
        link.to_server.send(CLOSED, 1)

    def _connect(self) -> None:
        self._sid = sid = self._rng.choice(self._profile.sids)
        process = self._ensemble.process(sid)
        if process is None or not self._ensemble.network.reaches(self.number, sid):
            return
        self._link = process.clients.connect(self)
        if self.is_super:
            self._link.connection.identify(SUPER)
        self._frames = FrameReader(1 << 26)
        self._is_connected = False
        self._heard_at = self._schedule.now
        self._send(frame(ConnectRequest(self._seen, self._timeout_ms, self._session, self._password).encode()))

    def _send(self, data: bytes) -> None:
        self._link.to_server.send(data, len(data))

    def _ask(self) -> None:
        self._xid -= 1
        wait_ms = self._rng.choice((0, self._profile.tick_ms, 5 * self._profile.tick_ms))
        body = GetChanges(*self.place, self._history_id, b"/", self._rng.choice((1, 300, 1 << 20)), wait_ms)
        self._send(request_frame(self._xid, OpCode.GET_CHANGES, body.encode()))

    def receive(self, link, data: bytes) -> None:
        if link is not self._link or self.is_gone:
            return
        if data == CLOSED:
            self._link = None
            self.counts["connections lost"] += 1
            return
        self._heard_at = self._schedule.now
        for payload in self._frames.feed(data):
            if not self._is_connected:
                self._connected(ConnectResponse.decode(payload))
            else:
                self._replied(ReplyHeader.decode(payload), payload)

    def _connected(self, response: ConnectResponse) -> None:
        if response.timeout_ms == 0:
            self._session, self._password = 0, NO_PASSWORD
            return
        self._session, self._password = response.session_id, response.password
        self._is_connected = True
        self._ask()

    def _replied(self, header: ReplyHeader, payload: bytes) -> None:
        if header.error == ErrorCode.DATAINCONSISTENCY:
            assert self._ensemble.machines[self._sid].damaged, "only a damaged log cannot be read"
            self.counts["damaged logs"] += 1
            self._leave()
            return
        assert header.error == 0, header
        self._seen = max(self._seen, header.zxid)
        if header.xid == PING_XID:
            return
        assert header.xid == self._xid
        page = decode_body(OpCode.GET_CHANGES, payload)
        self.counts[page.status.name] += 1
        if page.status is PageStatus.OLDER:
            assert page.oldest > self.place[0]
            self.gaps.append((self.place[0], page.oldest))
            self.place = page.oldest, WHOLE
        else:
            assert page.status is PageStatus.GIVEN, page
            assert self.place <= (page.zxid, page.part) <= (header.zxid, WHOLE)
            self.rows += page.rows
            self.place, self._history_id = (page.zxid, page.part), page.history_id
        self._ask()


class FollowedSimulation(Simulation):
    """A run with followers: who may see all, and who is nobody; from the start, and from somewhere in the middle."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.followers = [
            Follower(self, -100 - number, Random(f"{seed}/follower/{number}"), is_super=number % 2 == 0)
            for number in range(4)
        ]

    def run(self):
        for number, follower in enumerate(self.followers):
            late = number // 2 * self.profile.fault_ticks * self.profile.tick_us * 3 // 4
            self.schedule.after(late, follower.start)
        return super().run()

    def _fall_silent(self) -> None:
        """First the followers catch up."""
        history = self.observer.history
        self.until(
            lambda: all(follower.place == (history.end, WHOLE) for follower in self.followers),
            CATCH_UP_TICKS,
            lambda: f"followers are at {[hex(follower.place[0]) for follower in self.followers]}, {self._state()}",
        )
        for follower in self.followers:
            follower.is_gone = True
        super()._fall_silent()


def committed(simulation: FollowedSimulation, follower: Follower) -> list[tuple]:
    """What there was to be told, except for the gaps."""
    rows = []
    for zxid, txn in sorted(simulation.observer.history.txns.items()):
        if zxid <= follower.place[0] and not any(low < zxid <= high for low, high in follower.gaps):
            rows += [
                (zxid, part, txn.time, txn.session, kind, path, data, version, owner)
                for kind, part, path, data, version, owner in changes_of(txn)
            ]
    return rows


@pytest.mark.hunt
@pytest.mark.slow
def test_each_change_is_told_once_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: Counter[str] = Counter()
    real = Storage.read_for_changes

    def read_for_changes(self, effect):
        reached[type(effect).__name__] += 1
        if isinstance(effect, ReadChanges):
            reached["from memory" if effect.batches else "from files"] += 1
        return real(self, effect)

    monkeypatch.setattr(Storage, "read_for_changes", read_for_changes)
    for seed in SEEDS:
        simulation = FollowedSimulation(seed)
        simulation.run()
        for follower in simulation.followers:
            # The clients of these runs restrict nothing, so everybody is told everything.
            assert follower.rows == committed(simulation, follower)
            reached += follower.counts
            reached["rows"] += len(follower.rows)
    few = {what: reached[what] for what in REACHED if reached[what] < 5}
    assert not few, few


def tell_twice(patch: pytest.MonkeyPatch) -> None:
    real = change_rows.gather

    def gather(found, after, prefix, bytes_max):
        return real(found, after if after[1] == WHOLE else (after[0], after[1] - 1), prefix, bytes_max)

    patch.setattr(change_feed, "gather", gather)
    patch.setattr(storage, "gather", gather)


def lose_parts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(change_feed, "start_of", lambda place: place[0])
    patch.setattr(storage, "start_of", lambda place: place[0])


def tell_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    real = ChangeFeed.turn

    def turn(self, now, history, history_id, applied):
        return real(self, now, history, history_id, history.last[0])

    patch.setattr(ChangeFeed, "turn", turn)


@pytest.mark.parametrize("break_it", [tell_twice, lose_parts, tell_what_is_not_committed])
def test_a_feed_that_is_wrong_is_noticed(break_it, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    with pytest.raises(AssertionError):
        test_each_change_is_told_once_whatever_happens(monkeypatch)
