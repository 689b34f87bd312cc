"""Data directories that ensembles of three left, ours and the real ZooKeeper's, with what their clients know.

    zab_run(directory), zookeeper_run(…)       make them; `tests.fixtures` does so once in a run of the suite

A run: every kind of write; several clients under load while the leader is killed with `kill -9` and comes back; locks,
sessions that die; all members killed at once in the middle of the load (a copy of the directories is kept as `killed`)
and started again; more load, to the end, and a clean stop. Members take snapshots and begin new log files all the
while; those that a kill came into are taken away.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kazoo.client import KazooClient

from tests.pipeline.rigs.load import Recorder, Worker, Write, connect, disconnect, every_kind
from tests.pipeline.rigs.load_sessions import (
    Hold,
    Life,
    RawSession,
    contend,
    outlive,
    queue_up,
    wait_for_the_end,
    wait_until_gone,
    wave,
)
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_directory import is_complete
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, four_letter_word, zookeeper
from zab.host.storage.disk import RealDisk

WORKERS = 4
SEED = 20_26
LOGS_MIN, SNAPSHOTS_MIN = 6, 5
"""What each member leaves at the least, however fast or slow the machine: tests take files away from them."""
END_COUNT = 8
"""So many frames or records are in the newest log of each member at the least: tests cut the ends of them."""
OPEN_TIMEOUT_MS = 60_000
NATIVE, VERSION_2 = "native", "version-2"

_SHARED_CONFIGURATION = {"tickTime": 300, "minSessionTimeout": 600, "maxSessionTimeout": 60_000}
_CONTAINER_CHECK_MS = 500


def version_of(kind: str) -> str:
    return "version-1" if kind == NATIVE else "version-2"


@dataclass(frozen=True)
class Znode:
    """What a client reads of a znode: `stat` is kazoo's, `acl` (permissions, scheme, id) of each entry."""

    data: bytes | None
    stat: tuple[int, ...]
    acl: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Directories:
    """The data directories of the three members, by server id, and what the clients of the run know.

    kind: native or version-2. members: as a clean stop left them. killed: as `kill -9` of all at once left them, some
    time before. writes: all that were acknowledged, by zxid; killed_zxid: the largest acknowledged before that kill.
    unknown: what got no answer, zxid 0. znodes: the tree at the end, by path. last_zxid: where all members ended.
    epochs: of the leaders there were, rising. holds, lives: of the locks and sessions whose story is known.
    """

    kind: str
    members: tuple[Path, ...]
    killed: tuple[Path, ...]
    writes: tuple[Write, ...]
    killed_zxid: int
    unknown: tuple[Write, ...]
    znodes: dict[str, Znode]
    last_zxid: int
    holds: tuple[Hold, ...]
    lives: tuple[Life, ...]

    @property
    def version(self) -> str:
        """The directory of the files below a data directory."""
        return version_of(self.kind)

    def copy(self, to: Path) -> Directories:
        """A copy with the members below `to`, where a test may change them; `killed` stays as it is. Left out is the
        disk's reserve, 32 MiB of nothing a member."""
        members = tuple(to / f"server{number}" for number, _ in enumerate(self.members, 1))
        for source, target in zip(self.members, members, strict=True):
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("reserve"))
        return replace(self, members=members)

    def logs(self, member: int = 0) -> list[Path]:
        """The log files of a member (by its place in `members`), oldest first."""
        return numbered_files(self.members[member] / self.version, "log")

    def snapshots(self, member: int = 0) -> list[Path]:
        return numbered_files(self.members[member] / self.version, "snapshot")


def numbered_files(directory: Path, kind: str) -> list[Path]:
    """The logs or snapshots in a version-N directory, by the zxid in their names."""
    found = [path for path in directory.glob(f"{kind}.*") if _is_hexadecimal(path.name.partition(".")[2])]
    return sorted(found, key=_zxid_in)


def _zxid_in(file: Path) -> int:
    return int(file.name.partition(".")[2], 16)


def _is_hexadecimal(text: str) -> bool:
    return bool(text) and all(character in "0123456789abcdef" for character in text)


def zab_run(directory: Path, seed: int = SEED) -> Directories:
    """Runs our ensemble in `directory`; about 10 s."""
    configuration = {
        **_SHARED_CONFIGURATION,
        "snapCount": 400,
        "preAllocSize": 96,
        "autopurge.purgeInterval": 0,
        "extendedTypesEnabled": "true",
        "znode.container.checkIntervalMs": _CONTAINER_CHECK_MS,
    }
    return _run(NATIVE, zab_servers(3, directory=directory / "running", configuration=configuration), directory, seed)


def zookeeper_run(directory: Path, seed: int = SEED) -> Directories:
    """Runs the real ZooKeeper in `directory`; about 15 s."""
    properties = {"snapCount": 500, "preAllocSize": 64, "extendedTypesEnabled": "true"}
    servers = zookeeper(3, directory=directory / "running", configuration=_SHARED_CONFIGURATION, properties=properties)
    return _run(VERSION_2, servers, directory, seed)


@dataclass
class _Story:
    """What is known so far."""

    recorders: list[Recorder] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)

    def count(self) -> int:
        return sum(len(recorder.writes) for recorder in self.recorders)

    def writes(self) -> tuple[Write, ...]:
        writes = [write for recorder in self.recorders for write in list(recorder.writes)]
        return tuple(sorted(writes, key=lambda write: write.zxid))


def _run(kind: str, servers: AbstractContextManager[ZooKeeperEnsemble], directory: Path, seed: int) -> Directories:
    story, version = _Story(), version_of(kind)
    with servers as ensemble:
        ports = [member.client_port for member in ensemble.members]
        for member in ensemble.members:
            # Containers are looked at once a minute otherwise; this property has no place in zoo.cfg.
            if kind == VERSION_2:
                member.command.insert(1, f"-Dznode.container.checkIntervalMs={_CONTAINER_CHECK_MS}")
        founder = Recorder(connect(ensemble.hosts))
        story.recorders.append(founder)
        every_kind(founder)
        workers = [Worker(ensemble.hosts, number, seed) for number in range(WORKERS)]
        story.recorders += [worker.recorder for worker in workers]
        for worker in workers:
            worker.start()
        with _finished(workers, founder.client):
            _wait_for_writes(story, 500)
            _kill_the_leader(ensemble, version)
            _wait_for_writes(story, 700)
            with _slowly(workers):
                _tell_stories(story, ensemble.hosts, ports, founder.client)
            killed = _kill_all(ensemble, version, directory / "killed")
            killed_zxid = max(write.zxid for write in story.writes())
            _start_all(ensemble)
            _wait_for_writes(story, 500)
            kept = [member.data_directory / version for member in ensemble.members]
            _wait(lambda: all(map(_has_files, kept)), "there are too few logs and snapshots")
            # The leader deletes it when it looks at containers next, and nothing may change once the tree is read.
            wait_until_gone(founder.client, "/kinds/container-emptied")
        left = RawSession(ports[0], OPEN_TIMEOUT_MS)
        left.create("/lives/left-open")
        story.lives.append(left.leave_open())
        znodes, last_zxid = _end(ensemble, story, kept)
        _wait(lambda: not any(map(_unfinished, kept)), "a snapshot is not finished")
        for member in ensemble.members:
            member.stop()
        left.disconnect()
        members = tuple(member.data_directory for member in ensemble.members)
    unknown = tuple(write for recorder in story.recorders for write in recorder.unknown)
    return Directories(
        kind, members, killed, story.writes(), killed_zxid, unknown, znodes, last_zxid, tuple(story.holds),
        tuple(story.lives),
    )  # fmt: skip


@contextlib.contextmanager
def _finished(workers: Sequence[Worker], founder: KazooClient) -> Iterator[None]:
    """The clients end with the block, whatever happens in it."""
    try:
        yield
    finally:
        for worker in workers:
            worker.finish()
        disconnect(founder)


@contextlib.contextmanager
def _slowly(workers: Sequence[Worker]) -> Iterator[None]:
    """The load goes on, but does not grow with the time that the block takes: every test reads it again."""
    for worker in workers:
        worker.pause_seconds = 0.05
    yield
    for worker in workers:
        worker.pause_seconds = 0.0


def _wait_for_writes(story: _Story, count: int) -> None:
    """Until so many more were acknowledged."""
    until = story.count() + count
    _wait(lambda: story.count() >= until, "no writes get through")


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.01)


def _has_files(directory: Path) -> bool:
    counts = len(numbered_files(directory, "log")), len(numbered_files(directory, "snapshot"))
    return counts[0] >= LOGS_MIN and counts[1] >= SNAPSHOTS_MIN


def _unfinished(directory: Path) -> list[Path]:
    """Snapshots that are being written, as ZooKeeper does under their name, and logs with nothing in them."""
    disk = RealDisk(str(directory), lock=False)
    snapshots = numbered_files(directory, "snapshot") if directory.name == "version-2" else []
    found = [path for path in snapshots if not is_complete(disk, path.name)]
    return found + [path for path in numbered_files(directory, "log") if not any(disk.read(path.name, 0, 4))]


def _drop_unfinished(directory: Path) -> None:
    """What `kill -9` came into is chance: it goes, and nothing is lost with it. Readers are tested with files that are
    made for it."""
    for path in _unfinished(directory):
        path.unlink()


def _kill_the_leader(ensemble: ZooKeeperEnsemble, version: str) -> None:
    leader = ensemble.leader()
    leader.kill()
    _drop_unfinished(leader.data_directory / version)
    assert ensemble.leader() is not leader
    leader.start()
    ensemble.wait()


def _kill_all(ensemble: ZooKeeperEnsemble, version: str, directory: Path) -> tuple[Path, ...]:
    """As if the power went, except for the page cache; the directories are copied as they are."""
    for member in ensemble.members:
        assert member.process is not None
        member.process.kill()
    for member in ensemble.members:
        member.kill()
    copies = []
    for member in ensemble.members:
        _drop_unfinished(member.data_directory / version)
        copies.append(directory / f"server{member.server_id}")
        shutil.copytree(member.data_directory, copies[-1])
    return tuple(copies)


def _start_all(ensemble: ZooKeeperEnsemble) -> None:
    for member in ensemble.members:
        member.start()
    ensemble.wait()


def _tell_stories(story: _Story, hosts: str, ports: Sequence[int], client: KazooClient) -> None:
    story.lives += wave(ports)
    story.holds += contend(hosts, "/locks/contended")
    story.holds += contend(hosts, "/election/leader", contenders=2, rounds=2)
    story.holds += queue_up(ports, client, "/locks/queue")
    holds, life = outlive(hosts, ports[1], "/locks/inherited")
    story.holds += holds
    story.lives.append(life)
    wait_for_the_end(client, story.lives)


def _end(ensemble: ZooKeeperEnsemble, story: _Story, kept: Sequence[Path]) -> tuple[dict[str, Znode], int]:
    """One write after the other, each in a frame of its own on all members, until no log has only just begun; the tree
    then, and its zxid."""
    while True:
        recorder = Recorder(connect(ensemble.hosts))
        story.recorders.append(recorder)
        for number in range(END_COUNT):
            recorder.set("/kinds", b"the end %d" % number)
            _wait_for_rest(ensemble)
        znodes = _read_tree(recorder.client)
        disconnect(recorder.client)
        last = _wait_for_rest(ensemble)
        if all(last - _zxid_in(numbered_files(directory, "log")[-1]) >= END_COUNT for directory in kept):
            return znodes, last


def _read_tree(client: KazooClient) -> dict[str, Znode]:
    """All znodes that clients may read, as one client sees them; /zookeeper/config is the member's own text."""
    client.sync("/")
    znodes: dict[str, Znode] = {}
    paths = ["/"]
    while paths:
        reads = [(p, client.get_async(p), client.get_acls_async(p), client.get_children_async(p)) for p in paths]
        paths = []
        for path, got, acls, children in reads:
            data, stat = got.get()
            acl = tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in acls.get()[0])
            znodes[path] = Znode(data, tuple(stat), acl)
            paths += [f"{path.rstrip('/')}/{name}" for name in children.get()]
    return znodes


def _wait_for_rest(ensemble: ZooKeeperEnsemble) -> int:
    """The zxid that all members have reached; nobody writes any more."""
    zxids: set[str] = set()

    def agree() -> bool:
        nonlocal zxids
        zxids = {_zxid_of(member.client_port) for member in ensemble.members}
        return len(zxids) == 1 and "" not in zxids

    _wait(agree, "the members do not come to rest")
    return int(zxids.pop(), 16)


def _zxid_of(port: int) -> str:
    for line in four_letter_word(port, "srvr").splitlines():
        if line.startswith("Zxid: "):
            return line.removeprefix("Zxid: ")
    return ""
