"""Files that a real ZooKeeper wrote under a mixed load; `tests.fixtures` has them made once in a run of the suite.

One standalone server with small limits, so that it takes several snapshots while writes go on. The load has every kind
of transaction that a standalone server logs: creates of all types, ACLs, null and binary data, sets, deletes, quotas,
multis that succeed and that fail, refused writes, closed sessions and an expired one. At the end the server is killed,
so that its last log ends without a clean stop.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError
from kazoo.security import make_acl, make_digest_acl

from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zookeeper_server import ZooKeeperMember, zookeeper, zookeeper_main

_LOAD_THREADS = 2
_LOAD_ROUNDS = 400
_EXPIRY_MS = 2000


@dataclass(frozen=True)
class RealFiles:
    """`version_2` holds the snapshots and logs; `znodes` what a client read at the end: path to (data, stat)."""

    version_2: Path
    znodes: dict[str, tuple[bytes | None, tuple[int, ...]]]

    @property
    def data_directory(self) -> Path:
        return self.version_2.parent

    def logs(self) -> list[Path]:
        return sorted(self.version_2.glob("log.*"), key=_zxid)

    def snapshots(self) -> list[Path]:
        return sorted(self.version_2.glob("snapshot.*"), key=_zxid)


def _zxid(path: Path) -> int:
    return int(path.name.split(".")[1], 16)


def make_real_files(directory: Path) -> RealFiles:
    """Makes them in `directory`, in about 5 s."""
    with zookeeper(
        directory=directory,
        configuration={"tickTime": 300, "maxSessionTimeout": 60_000},
        properties={"snapCount": 800, "preAllocSize": 256, "extendedTypesEnabled": "true"},
    ) as ensemble:
        member = ensemble.members[0]
        client = _connect(ensemble.hosts)
        _all_kinds(client)
        zookeeper_main(
            ensemble.hosts, "create -c /container", "create -c /container/child x", "create -t 86400000 /ttl x",
            "create -s -t 86400000 /ttl- y", "setquota -n 100 /quota", "setquota -b 100000 /quota",
        )  # fmt: skip
        _expire_a_session(ensemble.hosts)
        _load(ensemble.hosts)
        _wait_for_snapshot(member)
        # Some transactions after the last snapshot.
        for number in range(20):
            client.create(f"/after-{number}", b"x" * number)
        znodes = dict(_walk(client, "/"))
        # Those may have begun another one.
        _wait_for_snapshot(member)
        member.kill()
        client.stop()
        client.close()
    return RealFiles(member.version_2, znodes)


def _connect(hosts: str, seconds: float = 60.0) -> KazooClient:
    client = KazooClient(hosts, timeout=seconds)
    client.start(PATIENCE_SECONDS)
    return client


def _all_kinds(client: KazooClient) -> None:
    client.create("/a", b"DATA")
    client.create("/a/null", None)
    client.create("/a/empty", b"")
    client.create("/a/binary", bytes(range(256)))
    client.create("/a/ünïcödé-\u65e5\u672c", "dätä \U0001f40e".encode())
    client.create("/a/include", b"x", include_data=True)
    client.create("/a/sequence-", b"", sequence=True)
    client.create("/a/ephemeral", b"mine", ephemeral=True)
    acl = [make_digest_acl("user", "secret", all=True), make_acl("world", "anyone", read=True)]
    client.create("/secret", b"s", acl=acl)
    client.create("/open-later", b"s", acl=[make_acl("ip", "127.0.0.1", all=True)])
    client.set_acls("/open-later", [make_acl("world", "anyone", all=True)])
    client.set_acls("/a/empty", acl)
    client.set("/a", b"changed")
    client.set("/a/null", None)
    client.create("/quota", b"q")
    client.create("/a/gone", b"")
    client.delete("/a/gone")
    for refused in (lambda: client.create("/a", b""), lambda: client.set("/a", b"", version=77)):
        try:
            refused()
        except (NodeExistsError, BadVersionError):
            continue
        raise AssertionError("not refused")
    for path in ("/multi", "/a"):
        multi = client.transaction()
        multi.create(path, b"1")
        multi.create("/multi/below", b"2", ephemeral=True)
        multi.set_data("/a", b"by multi")
        multi.check("/a", 2)
        multi.delete("/a/include" if path == "/multi" else "/absent")
        multi.commit()


def _expire_a_session(hosts: str) -> None:
    """A client that makes ephemerals and hangs up without closing its session; the server closes it."""
    host, _, port = hosts.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        _exchange(connection, struct.pack(">iqiqi16s", 0, 0, _EXPIRY_MS, 0, 16, bytes(16)))
        for xid, path in enumerate((b"/expired", b"/a/expired"), 1):
            acl = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")
            request = struct.pack(">iii", xid, 1, len(path)) + path + bytes(4) + acl + struct.pack(">i", 1)
            answer = _exchange(connection, request)
            assert struct.unpack_from(">iqi", answer)[::2] == (xid, 0), "the znode is not created"
    watcher = _connect(hosts)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while watcher.exists("/expired") is not None:
        assert time.monotonic() < deadline, "the session does not expire"
        time.sleep(0.05)
    watcher.stop()
    watcher.close()


def _exchange(connection: socket.socket, request: bytes) -> bytes:
    """One frame out, the answer's frame in."""
    connection.sendall(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(length, socket.MSG_WAITALL)


def _load(hosts: str) -> None:
    def one(number: int) -> None:
        client = _connect(hosts)
        client.ensure_path(f"/load/{number}")
        pending = []
        for step in range(_LOAD_ROUNDS):
            path = f"/load/{number}/{step % 50}"
            pending.append(client.create_async(path, b"%d" % step, ephemeral=step % 7 == 0))
            pending.append(client.set_async(path, b"%d again" % step))
            if step % 3 == 0:
                pending.append(client.delete_async(path))
            if step % 5 == 0:
                pending.append(client.create_async(f"/load/{number}/n-", b"", sequence=True))
        for result in pending:
            result.wait()
        client.stop()
        client.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(_LOAD_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _wait_for_snapshot(member: ZooKeeperMember) -> None:
    """Until no snapshot is being written: the newest one ends with a seal."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not max(member.version_2.glob("snapshot.*"), key=_zxid).read_bytes().endswith(b"\x00\x00\x00\x01/"):
        assert time.monotonic() < deadline, "a snapshot is not finished"
        time.sleep(0.02)


def _walk(client: KazooClient, path: str) -> list[tuple[str, tuple[bytes | None, tuple[int, ...]]]]:
    found = []
    data, stat = client.get(path)
    found.append((path, (data, tuple(stat))))
    for name in client.get_children(path):
        found += _walk(client, f"{path.rstrip('/')}/{name}")
    return found
