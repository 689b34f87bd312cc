"""What a member needs: memory, log, snapshot and descriptors for each znode, session, connection and watch.

    python -m bench.sizing [--count N] [--connections N] [--trees N N] [--no-page]

Each row is measured on a member of its own on loopback, which has a tenth of the things already: code and caches are
there then. Memory is what the process has resident more with them, by their number; `after a start` is the same after
`kill -9` and a start, beside an empty member that has just started. A member of an ensemble needs as much: each has all
znodes and sessions, and the connections and watches of its own clients.

The result is written to docs/explanation/sizing.md.
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from bench.machine import commit, raise_descriptors, say, system
from bench.process_tree import resident_mib
from bench.table import write_page
from tests.hostile.raw import SECURED, Client, create_body, shown, text
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember
from zab.testing.kit.ports import free_ports

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "sizing.md"
TARGET = "make bench-sizing"
COUNT, CONNECTIONS, TREES = 100_000, 2_000, (100_000, 1_000_000)
DATA_BYTES = (0, 100, 1000)
AT_ONCE = 500
ROOT = "/sizing"
PATH_BYTES = 20
TIMEOUT_MS = 3_600_000
SUPER = ("super:wire", "super:VWtk8RlLl86/uVG5FIHgpHieL2Q=")
"""A superuser with his password, and what stands in the file."""
EPHEMERAL, EPHEMERALS = 1, 20_000
"""The flag, and how many a session has: the paths of all of them fit into jute.maxbuffer."""
_CREATE, _EXISTS, _SET, _ADD_WATCH = 1, 3, 5, 106


@attrs.frozen
class Row:
    """Bytes of one of them; None: it has no such part."""

    name: str
    memory: float | None
    started: float | None = None
    log: float | None = None
    snapshot: float | None = None
    descriptors: float = 0.0


@attrs.frozen
class Tree:
    """Of so many znodes of 100 bytes."""

    znodes: int
    snapshot_mib: float
    snapshot_seconds: float
    more_mib: float
    """Resident at most while it was written, above what was before."""
    start_seconds: float


class Measured:
    """One member, standalone, and what it has."""

    def __init__(self, servers: ZooKeeperEnsemble, admin: int, secure: int) -> None:
        self._servers = servers
        [self.member] = servers.members
        self._admin = admin
        self.secure_port = secure

    @property
    def port(self) -> int:
        return self.member.client_port

    def memory(self) -> float:
        return resident_mib(self.member.pid) * 2**20

    def figure(self, name: str) -> float:
        lines = dict(line.split("\t") for line in self.member.word("mntr").splitlines())
        return float(lines[f"zk_{name}"])

    def log_bytes(self) -> int:
        """What is in its log files: behind that there are zeros."""
        return sum(len(file.read_bytes().rstrip(b"\0")) for file in self._files("log"))

    def snapshot_bytes(self) -> int:
        """Of the newest."""
        return max((file.stat().st_size for file in self._files("snapshot")), default=0)

    def _files(self, kind: str) -> Iterator[Path]:
        return (self.member.data_directory / "version-1").glob(f"{kind}.[0-9a-f]*")

    def take_snapshot(self) -> None:
        url = f"http://127.0.0.1:{self._admin}/commands/snapshot?streaming=false"
        who = {"Authorization": f"digest {SUPER[0]}"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=who), timeout=600) as answer:
            answer.read()

    def restart(self) -> float:
        """Seconds from `kill -9` and the start until it serves."""
        self.member.kill()
        began = time.monotonic()
        self.member.start()
        self._servers.wait(600)
        return time.monotonic() - began


@contextlib.contextmanager
def measured() -> Iterator[Measured]:
    admin, secure = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="sizing-") as directory:
        certificates = Certificates(Path(directory))
        lines: dict[str, str | int] = {
            "snapCount": 1 << 30,
            "maxSessionTimeout": TIMEOUT_MS,
            "admin.enableServer": "true",
            "admin.serverPort": admin,
            "admin.rateLimiterIntervalInMS": 1,
            "DigestAuthenticationProvider.superDigest": SUPER[1],
            "secureClientPort": secure,
            "secureClientPortAddress": "127.0.0.1",
            **client_store_lines(certificates.member("127.0.0.1")),
        }
        SECURED[secure] = shown(certificates.client("sizing"))
        try:
            with zab_servers(1, directory=Path(directory) / "member", configuration=lines) as servers:
                yield Measured(servers, admin, secure)
        finally:
            del SECURED[secure]


def path_of(number: int) -> str:
    """Of `PATH_BYTES`."""
    return f"{ROOT}/{number:0{PATH_BYTES - len(ROOT) - 1}}"


def ask(client: Client, requests: Iterator[tuple[int, bytes]], at_once: int = AT_ONCE) -> None:
    """All of them, so many under way at a time. None may be refused, but a look for what is not there."""
    waiting = 0
    for opcode, body in requests:
        client.send(opcode, body)
        waiting += 1
        if waiting == at_once:
            _hear(client, waiting)
            waiting = 0
    _hear(client, waiting)


def _hear(client: Client, count: int) -> None:
    for _ in range(count):
        error, _body = client.reply()
        assert error in (0, -101), error


def creates(numbers: range, data_bytes: int = 0, flags: int = 0) -> Iterator[tuple[int, bytes]]:
    data = b"x" * data_bytes
    return ((_CREATE, create_body(path_of(number), data, flags=flags)) for number in numbers)


def znodes(count: int, data_bytes: int, empty: float, flags: int = 0) -> Row:
    """`empty`: what a member that has just started has."""
    kind = "an ephemeral" if flags else "a znode"
    with measured() as one, contextlib.ExitStack() as opened:

        def create(numbers: range) -> None:
            for first in range(numbers.start, numbers.stop, EPHEMERALS):
                client = opened.enter_context(contextlib.closing(session(one.port)))
                ask(client, creates(range(first, min(first + EPHEMERALS, numbers.stop)), data_bytes, flags))

        opened.enter_context(contextlib.closing(session(one.port))).create(ROOT)
        few = max(1, count // 10)
        create(range(few))
        one.take_snapshot()
        memory, log, snapshot = one.memory(), one.log_bytes(), one.snapshot_bytes()
        create(range(few, few + count))
        memory, log = one.memory() - memory, one.log_bytes() - log
        one.take_snapshot()
        snapshot = one.snapshot_bytes() - snapshot
        one.restart()
        started = (one.memory() - empty) / (few + count)
        return Row(f"{kind} with {data_bytes} B of data", memory / count, started, log / count, snapshot / count)


def session(port: int) -> Client:
    return Client(port, timeout_ms=TIMEOUT_MS)


def connections(count: int, empty: float) -> Iterator[Row]:
    """Those with a session, plain and in TLS; then what is left of sessions that have none."""
    for name in ("plain", "in TLS"):
        with measured() as one, contextlib.ExitStack() as opened:
            port = one.port if name == "plain" else one.secure_port
            for _ in range(max(1, count // 10)):
                opened.callback(session(port).close)
            memory, log, descriptors = one.memory(), one.log_bytes(), one.figure("open_file_descriptor_count")
            for _ in range(count):
                opened.callback(session(port).close)
            memory, log = one.memory() - memory, one.log_bytes() - log
            descriptors = one.figure("open_file_descriptor_count") - descriptors
            yield Row(f"a connection with its session, {name}", memory / count, descriptors=descriptors / count)
            if name == "plain":
                before = one.snapshot_bytes()
                one.take_snapshot()
                snapshot = one.snapshot_bytes() - before
                one.restart()
                started = (one.memory() - empty) / (count + max(1, count // 10))
                yield Row("a session that has no connection here", None, started, log / count, snapshot / count)


def watches(count: int) -> Iterator[Row]:
    """On znodes that are there."""

    def exists(number: int) -> tuple[int, bytes]:
        return _EXISTS, text(path_of(number).encode()) + b"\1"

    def add_watch(mode: int) -> Callable[[int], tuple[int, bytes]]:
        return lambda number: (_ADD_WATCH, text(path_of(number).encode()) + mode.to_bytes(4, "big"))

    for name, request in (
        ("a watch", exists),
        ("a persistent watch", add_watch(0)),
        ("a recursive watch", add_watch(1)),
    ):
        with measured() as one, contextlib.ExitStack() as opened:
            clients = [opened.enter_context(contextlib.closing(session(one.port))) for _ in range(2)]
            clients[0].create(ROOT)
            few = max(1, count // 10)
            ask(clients[0], creates(range(few + count)))
            for which, client in zip(("", ", where another connection has one"), clients, strict=True):
                ask(client, map(request, range(few)))
                memory = one.memory()
                ask(client, map(request, range(few, few + count)))
                yield Row(f"{name}{which}", (one.memory() - memory) / count)


def trees(sizes: Sequence[int]) -> Iterator[Tree]:
    for size in sizes:
        with measured() as one, contextlib.closing(session(one.port)) as client:
            client.create(ROOT)
            ask(client, creates(range(size), 100))
            before = one.memory()
            _forget_peak(one.member)
            spent_ms = one.figure("sum_snapshottime")
            one.take_snapshot()
            spent_ms = one.figure("sum_snapshottime") - spent_ms
            more = _peak_bytes(one.member) - before
            snapshot = one.snapshot_bytes()
            yield Tree(size, snapshot / 2**20, spent_ms / 1000, max(0.0, more) / 2**20, one.restart())


def _forget_peak(member: ZooKeeperMember) -> None:
    Path(f"/proc/{member.pid}/clear_refs").write_text("5")


def _peak_bytes(member: ZooKeeperMember) -> float:
    status = Path(f"/proc/{member.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def writes(count: int) -> dict[int, float]:
    """Log bytes of a set of 100 bytes, with so many under way at a time."""
    found = {}
    with measured() as one, contextlib.closing(session(one.port)) as client:
        client.create(ROOT)
        body = text(ROOT.encode()) + text(b"x" * 100) + b"\xff" * 4
        for at_once in (1, AT_ONCE):
            log = one.log_bytes()
            ask(client, ((_SET, body) for _ in range(count)), at_once)
            found[at_once] = (one.log_bytes() - log) / count
    return found


def table(rows: Sequence[Row], grown: Sequence[Tree], logged: dict[int, float], empty: float) -> str:
    lines = ["| item | memory, B | after a start, B | log, B | snapshot, B | descriptors |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for row in rows:
        numbers = [_shown(each) for each in (row.memory, row.started, row.log, row.snapshot)]
        lines.append(f"| {row.name} | {' | '.join(numbers)} | {row.descriptors:.0f} |")
    lines += ["", "| znodes with 100 B | snapshot, MiB | time to write it, s | more memory meanwhile, MiB | start, s |"]
    lines.append("|---:|---:|---:|---:|---:|")
    for tree in grown:
        numbers = [f"{each:.1f}" for each in (tree.snapshot_mib, tree.snapshot_seconds, tree.more_mib)]
        lines.append(f"| {tree.znodes:,} | {' | '.join(numbers)} | {tree.start_seconds:.1f} |")
    shown = [f"{size:.0f} B with {at_once:,} in flight" for at_once, size in logged.items()]
    logs, memory = " and ".join(shown), f"{empty / 2**20:.0f} MiB"
    lines += ["", f"In the log, a set of 100 B takes {logs}. An empty member has {memory} of memory."]
    return "\n".join(lines) + "\n"


def _shown(value: float | None) -> str:
    return "" if value is None else f"{max(0.0, value):,.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sizing", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT, help=f"of znodes, ephemerals, watches, writes ({COUNT:,})")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help=f"({CONNECTIONS:,})")
    parser.add_argument("--trees", type=int, nargs="+", default=TREES, help="znodes of the snapshots and starts")
    parser.add_argument("--no-page", dest="page", action="store_false", help="leave docs/explanation/sizing.md alone")
    options = parser.parse_args(arguments)
    raise_descriptors()
    with measured() as one:
        one.restart()
        empty = one.memory()
    rows = []
    for found in (
        *(lambda size=size: [znodes(options.count, size, empty)] for size in DATA_BYTES),
        lambda: [znodes(options.count, 100, empty, EPHEMERAL)],
        lambda: connections(options.connections, empty),
        lambda: watches(options.count),
    ):
        for row in found():
            say(f"{row.name}: {_shown(row.started if row.memory is None else row.memory)} B")
            rows.append(row)
    logged = writes(max(1, options.count // 20))
    lines = [system(), f"Python {platform.python_version()}", commit()]
    lines.append(f"`python -m bench.sizing`: {options.count:,} of each, {options.connections:,} connections")
    lines.append(f"paths of {PATH_BYTES} B, all znodes below one parent")
    text = "\n".join(f"- {line}" for line in lines) + "\n\n" + table(rows, list(trees(options.trees)), logged, empty)
    print(text)
    if options.page:
        write_page(PAGE, text, TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
