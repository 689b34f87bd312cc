"""Time without a leader: from `kill -9` of it to the first write that a survivor acknowledges.

One prober per survivor opens a session and writes, again and again, as a client does that has lost its server. The
first reply of all ends the measurement. It speaks the protocol itself, so that no client library's back-off counts.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperError

PATH = b"/failover"
RETRY_SECONDS = 0.002
ANSWER_SECONDS = 1.0
PATIENCE_SECONDS = 30.0
SETTLE_SECONDS = 2.0
_CREATE, _SET, _CLOSE = 1, 5, -11
_HANDSHAKE = struct.pack(">iiqiqi16sb", 45, 0, 0, 30_000, 0, 16, bytes(16), 0)
_OPEN_ACL = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")


def measure_failover(ensemble: ZooKeeperEnsemble) -> float:
    """Kills the leader and returns the seconds until a write succeeds again. Then starts the member again: it
    follows."""
    _write_once(ensemble.leader().client_port, _CREATE)
    leader = ensemble.leader()
    survivors = [member.client_port for member in ensemble.members if member is not leader]
    succeeded = threading.Event()
    moments: list[float] = []
    probers = [
        threading.Thread(target=_probe, args=(port, succeeded, moments), name=f"prober {port}") for port in survivors
    ]
    assert leader.process is not None
    killed = time.monotonic()
    leader.process.kill()
    for prober in probers:
        prober.start()
    succeeded.wait(PATIENCE_SECONDS)
    succeeded.set()
    for prober in probers:
        prober.join()
    leader.kill()
    if not moments:
        raise ZooKeeperError(f"no write succeeded within {PATIENCE_SECONDS} s after the leader was killed")
    leader.start()
    ensemble.wait()
    time.sleep(SETTLE_SECONDS)
    return min(moments) - killed


def _probe(port: int, succeeded: threading.Event, moments: list[float]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not succeeded.is_set() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            moments.append(_write_once(port, _SET))
            succeeded.set()
            return
        time.sleep(RETRY_SECONDS)


def _write_once(port: int, operation: int) -> float:
    """One session with one write; the moment of the reply. Raises OSError when it fails."""
    with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.sendall(_HANDSHAKE)
        answer = _receive_frame(connection)
        if struct.unpack_from(">i", answer, 4)[0] <= 0:
            raise ConnectionRefusedError("no session")
        body = struct.pack(">ii", 1, operation) + struct.pack(">i", len(PATH)) + PATH + struct.pack(">i1s", 1, b"x")
        body += _OPEN_ACL + struct.pack(">i", 0) if operation == _CREATE else struct.pack(">i", -1)
        connection.sendall(struct.pack(">i", len(body)) + body)
        error = struct.unpack_from(">i", _receive_frame(connection), 12)[0]
        moment = time.monotonic()
        if error and operation != _CREATE:
            raise ConnectionError(f"the write failed with {error}")
        connection.sendall(struct.pack(">iii", 8, 2, _CLOSE))
        with contextlib.suppress(OSError):
            _receive_frame(connection)
        return moment


def _receive_frame(connection: socket.socket) -> bytes:
    length = struct.unpack(">i", _receive(connection, 4))[0]
    return _receive(connection, length)


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionResetError("closed by the server")
        received += piece
    return received
