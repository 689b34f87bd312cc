"""A seeded load for an ensemble, ours or the real ZooKeeper, that keeps what its clients were told.

    every_kind(recorder)      one of each kind of write, refused ones, strange data and paths
    Worker(…).start()         a client in a thread that writes at random until it is stopped, through changes of leader

Every write that was answered is a `Write` with the zxid of its answer. What has no answer, because the connection was
lost, is in `unknown`: it may be in the log or not. The seed decides what is asked for; which of it meets what, and the
zxids, depend on the scheduler.

Not here: locks and sessions that die (`load_sessions`), killing members (`ensembles`).
"""

from __future__ import annotations

import logging
import random
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError
from kazoo.exceptions import ZookeeperError as RefusedError
from kazoo.protocol.serialization import Create2
from kazoo.retry import KazooRetry
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from tests.rigs.waiting import PATIENCE_SECONDS

SESSION_SECONDS = 30.0
CONTAINER_FLAGS, TTL_FLAGS = 4, 5
TTL_MS = 86_400_000
HOT_PATHS = tuple(f"/hot/{index}" for index in range(4))
LOST = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, OperationTimeoutError)

UNICODE_PATH = "/kinds/ünïcödé-日本"
HOSTILE_PATHS = (
    "/kinds/<script>alert(1)<",
    "/kinds/'\"&amp; --> ]]>",
    "/kinds/=HYPERLINK(1),2;3|4",
    "/kinds/${jndi}%s%00{{7*7}}\\n",
)
BINARY = bytes(range(256))

# That connections end is part of the load.
_QUIET = logging.getLogger(f"{__name__}.kazoo")
_QUIET.setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Part:
    """One part of a multi, as the client was answered: error 0 also comes before the part that was refused."""

    operation: str
    path: str
    data: bytes | None = None
    error: int = 0


@dataclass(frozen=True)
class Write:
    """One write. `operation` is that of the log's rows; a refused one is `error`, with what was asked in `asked`."""

    zxid: int
    session: int
    operation: str
    path: str
    data: bytes | None = None
    error: int = 0
    asked: str = ""
    parts: tuple[Part, ...] = ()


class CreateContainer(Create2):
    """kazoo knows no containers; the request is that of create2 with a type and flags of its own."""

    type = 19


class CreateTtl(Create2):
    type = 21

    def serialize(self) -> bytes:
        return bytes(super().serialize()) + struct.pack(">q", TTL_MS)


def connect(hosts: str, seconds: float = SESSION_SECONDS, randomize: bool = True) -> KazooClient:
    """A started client that comes back quickly when its member dies."""
    retry = KazooRetry(max_tries=-1, delay=0.02, backoff=2, max_delay=0.2)
    client = KazooClient(hosts, timeout=seconds, connection_retry=retry, randomize_hosts=randomize, logger=_QUIET)
    client.start(PATIENCE_SECONDS)
    return client


def disconnect(client: KazooClient) -> None:
    """Closes the session."""
    client.stop()
    client.close()


class Recorder:
    """Writes through one session at a time and keeps what was answered. One thread at a time, nothing pipelined but
    `burst`: the zxid of the last answer is then that of the last request."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client
        self.writes: list[Write] = []
        self.unknown: list[Write] = []

    @property
    def session(self) -> int:
        """Also while the connection is down, when kazoo's `client_id` is None."""
        return int(self.client._session_id)

    def create(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        acl: Sequence[ACL] | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        create2: bool = False,
    ) -> str | None:
        """The path that was made; None when it was refused or its answer lost."""

        def call() -> str:
            made = self.client.create(path, data, acl=acl, ephemeral=ephemeral, sequence=sequence, include_data=create2)
            return str(made[0]) if create2 else str(made)

        return self._record(Write(0, 0, "create2" if create2 else "create", path, data), call)

    def create_special(self, kind: type[Create2], path: str, data: bytes = b"") -> str | None:
        """A container or a znode with a time to live."""

        def call() -> str:
            result = self.client.handler.async_result()
            flags = CONTAINER_FLAGS if kind is CreateContainer else TTL_FLAGS
            self.client._call(kind(path, data, OPEN_ACL_UNSAFE, flags), result)
            return str(result.get()[0])

        operation = "createContainer" if kind is CreateContainer else "createTTL"
        return self._record(Write(0, 0, operation, path, data), call)

    def set(self, path: str, data: bytes | None, version: int = -1) -> None:
        self._record(Write(0, 0, "setData", path, data), lambda: self.client.set(path, data, version) and None)

    def set_acl(self, path: str, acl: Sequence[ACL]) -> None:
        self._record(Write(0, 0, "setACL", path), lambda: self.client.set_acls(path, acl) and None)

    def delete(self, path: str, version: int = -1) -> None:
        self._record(Write(0, 0, "delete", path), lambda: self.client.delete(path, version) and None)

    def multi(self, parts: Sequence[tuple[Any, ...]]) -> None:
        """parts: ("create", path, data[, ephemeral]), ("setData", path, data), ("delete", path), ("check", path,
        version)."""
        session = self.session
        request = self.client.transaction()
        for operation, path, *rest in parts:
            {"create": self._add_create, "setData": self._add_set}.get(operation, self._add_other)(
                request, operation, path, rest
            )
        try:
            results = request.commit()
        except LOST:
            self._lost(Write(0, session, "multi", ""))
            return
        answered = []
        for (operation, path, *rest), result in zip(parts, results, strict=True):
            data = rest[0] if operation in ("create", "setData") else None
            error = result.code if isinstance(result, RefusedError) else 0
            made = result if operation == "create" and isinstance(result, str) else path
            answered.append(Part("error" if isinstance(result, RefusedError) else operation, made, data, error))
        self.writes.append(Write(self.client.last_zxid, session, "multi", "", parts=tuple(answered)))

    @staticmethod
    def _add_create(request: Any, _operation: str, path: str, rest: list[Any]) -> None:
        request.create(path, rest[0], ephemeral=len(rest) > 1 and rest[1])

    @staticmethod
    def _add_set(request: Any, _operation: str, path: str, rest: list[Any]) -> None:
        request.set_data(path, rest[0])

    @staticmethod
    def _add_other(request: Any, operation: str, path: str, rest: list[Any]) -> None:
        if operation == "check":
            request.check(path, rest[0])
        else:
            assert operation == "delete", operation
            request.delete(path)

    def burst(self, writes: Iterable[tuple[str, str, bytes]]) -> None:
        """Many at once, without waiting between them; setData of znodes that exist, or create2 of new ones."""
        session = self.session
        sent = []
        for operation, path, data in writes:
            write = Write(0, session, operation, path, data)
            if operation == "setData":
                sent.append((write, self.client.set_async(path, data)))
            else:
                sent.append((write, self.client.create_async(path, data, include_data=True)))
        for write, result in sent:
            try:
                answer = result.get()
            except LOST:
                self._lost(write)
            else:
                zxid = answer.mzxid if write.operation == "setData" else answer[1].czxid
                self.writes.append(replace(write, zxid=zxid))

    def _record(self, write: Write, call: Callable[[], str | None]) -> str | None:
        write = replace(write, session=self.session)
        try:
            made = call()
        except LOST:
            self._lost(write)
            return None
        except RefusedError as error:
            refused = replace(write, operation="error", asked=write.operation, data=None, error=error.code)
            self.writes.append(replace(refused, zxid=self.client.last_zxid))
            return None
        self.writes.append(replace(write, zxid=self.client.last_zxid, path=made or write.path))
        return made

    def _lost(self, write: Write) -> None:
        self.unknown.append(write)
        time.sleep(0.01)


def every_kind(recorder: Recorder) -> None:
    """One of each kind of write, on an ensemble without any; some are refused."""
    client = recorder.client
    client.add_auth("digest", "user:secret")
    for path in ("/kinds", "/load", "/hot", "/locks", "/election", "/lives", *HOT_PATHS):
        recorder.create(path, b"first")
    recorder.create("/kinds/null", None)
    recorder.create("/kinds/empty", b"")
    recorder.create("/kinds/binary", BINARY, create2=True)
    recorder.create("/kinds/kib", b"k" * 1024)
    recorder.create("/kinds/large", BINARY * 200)
    recorder.create(UNICODE_PATH, "dätä \U0001f40e".encode())
    for path in HOSTILE_PATHS:
        recorder.create(path, path.encode())
    for _ in range(3):
        recorder.create("/kinds/sequence-", b"s", sequence=True)
    recorder.create("/kinds/ephemeral", b"mine", ephemeral=True)
    recorder.create("/kinds/ephemeral-", b"mine", ephemeral=True, sequence=True)
    recorder.create_special(CreateContainer, "/kinds/container", b"c")
    recorder.create("/kinds/container/child", b"x")
    recorder.create_special(CreateContainer, "/kinds/container-emptied")
    recorder.create("/kinds/container-emptied/child", b"x")
    recorder.delete("/kinds/container-emptied/child")
    recorder.create_special(CreateTtl, "/kinds/ttl", b"t")
    secret = [make_digest_acl("user", "secret", all=True), make_acl("world", "anyone", read=True)]
    recorder.create("/kinds/secret", b"s", acl=secret)
    recorder.create("/kinds/address", b"s", acl=[make_acl("ip", "127.0.0.1", all=True)])
    recorder.set_acl("/kinds/empty", secret)
    recorder.set_acl("/kinds/address", OPEN_ACL_UNSAFE)
    recorder.set("/kinds", b"second", 0)
    recorder.set("/kinds/null", None)
    recorder.set("/kinds/kib", None)
    recorder.create("/kinds/gone", b"soon")
    recorder.delete("/kinds/gone", 0)
    recorder.create("/kinds/gone", b"again")
    _refused(recorder)
    _multis(recorder)


def _refused(recorder: Recorder) -> None:
    recorder.create("/kinds", b"")
    recorder.create("/absent/child", b"")
    recorder.create("/kinds/ephemeral/child", b"")
    recorder.set("/kinds", b"", 77)
    recorder.set("/absent", b"")
    recorder.delete("/kinds")
    recorder.delete("/absent")
    assert [write.operation for write in recorder.writes[-7:]] == ["error"] * 7


def _multis(recorder: Recorder) -> None:
    recorder.multi(
        [
            ("create", "/kinds/multi", b"1"),
            ("create", "/kinds/multi/below", b"2", True),
            ("setData", "/kinds/multi", b"3"),
            ("check", "/kinds/multi", 1),
            ("create", "/kinds/multi/gone", b""),
            ("delete", "/kinds/multi/gone"),
        ]
    )
    assert not any(part.error for part in recorder.writes[-1].parts)
    recorder.multi(
        [("setData", "/kinds/multi", b"never"), ("check", "/kinds/multi", 99), ("create", "/kinds/never", b"")]
    )
    assert any(part.error for part in recorder.writes[-1].parts)
    recorder.multi([("check", "/kinds/multi", 1)])


class Worker:
    """Writes below `/load/<number>` and to the hot paths until `finish`, about as fast as one client can; slower while
    `pause_seconds`, which it waits between writes, is not 0."""

    def __init__(self, hosts: str, number: int, seed: int) -> None:
        self._thread = threading.Thread(target=self._run, name=f"worker {number}")
        self._random = random.Random(seed * 1000 + number)
        self._home = f"/load/{number}"
        self._finish = threading.Event()
        self._burst_count = 0
        self.pause_seconds = 0.0
        self.recorder = Recorder(connect(hosts))
        self.recorder.create(self._home)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        recorder = self.recorder
        kinds = {
            self._set: 30, self._create: 22, self._delete: 12, self._sequence: 8, self._ephemeral: 6, self._hot: 12,
            self._multi: 7, self._set_acl: 2, self._burst: 1,
        }  # fmt: skip
        while not self._finish.wait(self.pause_seconds):
            (choice,) = self._random.choices(list(kinds), list(kinds.values()))
            choice(recorder)
        while not recorder.client.connected:
            time.sleep(0.01)
        disconnect(recorder.client)

    def finish(self) -> None:
        """Ends the thread and closes its session."""
        self._finish.set()
        self._thread.join()

    def _path(self) -> str:
        return f"{self._home}/{self._random.randrange(60)}"

    def _data(self) -> bytes | None:
        size = self._random.choice([0, 3, 20, 20, 60, 60, 100, 300])
        return None if size == 3 else self._random.randbytes(size)

    def _set(self, recorder: Recorder) -> None:
        recorder.set(self._path(), self._data())

    def _create(self, recorder: Recorder) -> None:
        recorder.create(self._path(), self._data(), create2=self._random.random() < 0.5)

    def _delete(self, recorder: Recorder) -> None:
        recorder.delete(self._path())

    def _sequence(self, recorder: Recorder) -> None:
        recorder.create(f"{self._home}/n-", b"", sequence=True)

    def _ephemeral(self, recorder: Recorder) -> None:
        recorder.create(f"{self._home}/e{self._random.randrange(20)}", self._data(), ephemeral=True)

    def _hot(self, recorder: Recorder) -> None:
        recorder.set(HOT_PATHS[min(int(self._random.expovariate(1)), len(HOT_PATHS) - 1)], self._data())

    def _set_acl(self, recorder: Recorder) -> None:
        recorder.set_acl(self._path(), [make_acl("world", "anyone", all=True), make_acl("ip", "10.0.0.1", read=True)])

    def _multi(self, recorder: Recorder) -> None:
        parts: list[tuple[Any, ...]] = [("setData", HOT_PATHS[0], self._data() or b"")]
        if self._random.random() < 0.3:
            parts.append(("check", "/hot", 9))
        path = f"{self._home}/m{self._random.randrange(1 << 30):x}"
        recorder.multi([*parts, ("create", path, b"m"), ("delete", path), ("create", path, b"again")])

    def _burst(self, recorder: Recorder) -> None:
        self._burst_count += 1
        sets = [("setData", HOT_PATHS[index % 4], b"burst %d" % index) for index in range(30)]
        start = f"{self._home}/b{self._burst_count}"
        recorder.burst([*sets, *(("create2", f"{start}-{index}", b"%d" % index) for index in range(30))])
