"""Sessions whose end is known, and locks whose holders are known.

    RawSession           a session on a plain socket, which can be dropped without a word
    wave(…)              sessions with ephemerals that die together
    contend(…)           clients of kazoo's lock that take it in turn
    queue_up(…)          the plain recipe `lock-<sequence>`, taken and left in a known order
    outlive(…)           a lock whose holder dies, and which the next in line gets at its expiry

Times of `Hold` are this machine's clock, which is also that of the members.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kazoo.client import KazooClient

from tests.pipeline.rigs.load import LOST, connect, disconnect
from tests.rigs.waiting import PATIENCE_SECONDS

DYING_TIMEOUT_MS = 4000
"""No session of these may expire before it has what it is to die with, on a machine that stands still for a while."""
LIVING_TIMEOUT_MS = 40_000
_CREATE, _CLOSE = 1, -11
_EPHEMERAL, _SEQUENCE = 1, 2
_OPEN_ACL = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")


@dataclass(frozen=True)
class Hold:
    """`znode` is the whole path of the contender's znode, which left between `until` and `gone`: before it was given up
    (or its session left alone), and when that was known. Times in seconds of the wall clock."""

    lock: str
    znode: str
    session: int
    since: float
    until: float
    gone: float


@dataclass(frozen=True)
class Life:
    """`ended` is closed, expired or open; `ephemerals` are what it had when it ended (all known cases have some)."""

    session: int
    ended: str
    ephemerals: tuple[str, ...]


class RawSession:
    """One session on one connection of its own."""

    def __init__(self, port: int, timeout_ms: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self._answers = self._connection.makefile("rb")
        greeting = struct.pack(">iqiqi16s", 0, 0, timeout_ms, 0, 16, bytes(16))
        _, self.timeout_ms, self.session, _ = struct.unpack_from(">iiqi", self._exchange(greeting))
        self._xid = 0
        self.ephemerals: list[str] = []

    def create(self, path: str, *, sequence: bool = False) -> str:
        """An ephemeral; its path."""
        self._xid += 1
        flags = _EPHEMERAL | (_SEQUENCE if sequence else 0)
        answer = self._exchange(
            struct.pack(">ii", self._xid, _CREATE) + _text(path) + _text("raw") + _OPEN_ACL + struct.pack(">i", flags)
        )
        _, _, error = struct.unpack_from(">iqi", answer)
        assert error == 0, f"create of {path}: error {error}"
        made = answer[20:].decode()
        self.ephemerals.append(made)
        return made

    def drop(self) -> Life:
        """The socket closes, the session is not told: it will expire."""
        self.disconnect()
        return Life(self.session, "expired", tuple(self.ephemerals))

    def close(self) -> Life:
        """The session is closed as it should be."""
        self._exchange(struct.pack(">ii", self._xid + 1, _CLOSE))
        self.disconnect()
        return Life(self.session, "closed", tuple(self.ephemerals))

    def leave_open(self) -> Life:
        """What is to be said of a session that nobody ends; `disconnect` when the members are down."""
        return Life(self.session, "open", tuple(self.ephemerals))

    def disconnect(self) -> None:
        self._answers.close()
        self._connection.close()

    def _exchange(self, request: bytes) -> bytes:
        self._connection.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", self._answers.read(4))
        return self._answers.read(length)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw


def wave(ports: Sequence[int]) -> list[Life]:
    """One session at each port, each with ephemerals; they are left to die together. One more is closed properly."""
    sessions = [RawSession(port, DYING_TIMEOUT_MS) for port in ports]
    for number, session in enumerate(sessions):
        for index in range(3 + number):
            session.create(f"/lives/wave{number}-{index}")
    lives = [session.drop() for session in sessions]
    proper = RawSession(ports[0], LIVING_TIMEOUT_MS)
    proper.create("/lives/proper")
    lives.append(proper.close())
    return lives


def wait_for_the_end(client: KazooClient, lives: Sequence[Life]) -> None:
    """Until none of their ephemerals is left."""
    for life in lives:
        for path in life.ephemerals:
            wait_until_gone(client, path)


def wait_until_gone(client: KazooClient, path: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _is_gone(client, path):
        assert time.monotonic() < deadline, f"{path} does not go away"
        time.sleep(0.02)


def _is_gone(client: KazooClient, path: str) -> bool:
    try:
        return client.exists(path) is None
    except LOST:
        # The client has not come back yet from the last change of leader.
        return False


def contend(hosts: str, lock: str, *, contenders: int = 3, rounds: int = 4) -> list[Hold]:
    """kazoo's lock, held in turn by as many sessions, each so many times."""
    holds: list[Hold] = []

    def hold_in_turn(client: KazooClient, number: int) -> None:
        for _ in range(rounds):
            contender = client.Lock(lock, f"contender {number}")
            contender.acquire()
            since = time.time()
            time.sleep(0.004 * (number + 1))
            until = time.time()
            znode = f"{lock}/{contender.node}"
            contender.release()
            holds.append(Hold(lock, znode, client._session_id, since, until, time.time()))

    clients = [connect(hosts) for _ in range(contenders)]
    threads = [threading.Thread(target=hold_in_turn, args=(client, number)) for number, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        disconnect(client)
    return sorted(holds, key=lambda hold: hold.since)


def queue_up(ports: Sequence[int], client: KazooClient, lock: str) -> list[Hold]:
    """Three sessions queue up with `lock-<sequence>`; each holds it until its znode goes with its session."""
    client.create(lock, b"")
    sessions = [RawSession(port, LIVING_TIMEOUT_MS) for port in ports]
    waiting = [(session, session.create(f"{lock}/lock-", sequence=True)) for session in sessions]
    holds = []
    for session, znode in waiting:
        since = time.time()
        time.sleep(0.03)
        until = time.time()
        session.close()
        holds.append(Hold(lock, znode, session.session, since, until, time.time()))
    return holds


def outlive(hosts: str, port: int, lock: str) -> tuple[list[Hold], Life]:
    """A holder dies; the one after it gets the lock when the session expires."""
    client = connect(hosts)
    client.create(lock, b"")
    dying = RawSession(port, DYING_TIMEOUT_MS)
    znode = dying.create(f"{lock}/{'0' * 32}__lock__", sequence=True)
    since = time.time()
    heir = client.Lock(lock, "heir")
    left_alone = time.time()
    life = dying.drop()
    heir.acquire(timeout=PATIENCE_SECONDS)
    got = time.time()
    inherited = f"{lock}/{heir.node}"
    until = time.time()
    heir.release()
    second = Hold(lock, inherited, client._session_id, got, until, time.time())
    disconnect(client)
    return [Hold(lock, znode, dying.session, since, left_alone, got), second], life
