"""Clients and the shell of the real BookKeeper in one Java process, driven from Python
(`clients/BookKeeperProgram.java`).

with java_client(directory, ensemble.hosts) as java:
    writer = java.create(3, 2, 2)
    java.add(writer, 0, 5, 100)
    assert java.shell("listbookies", "-rw").code == 0
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import attrs

from tests.downloads.bookkeeper import TOLD_BY_THE_SHELL, VERSION, java, server_jars
from tests.downloads.programs import PROGRAMS
from tests.rigs.bookie import metadata_uri
from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.waiting import PATIENCE_SECONDS

V2 = ("useV2WireProtocol=true",)
"""Settings of a client that speaks v2."""
LIKE_PULSAR = (*V2, "numChannelsPerBookie=16", "nettyMaxFrameSizeBytes=5253120")
_CLIENT = (
    "nettyMaxFrameSizeBytes=5253120",
    "zkTimeout=30000",
    "numWorkerThreads=1",
    "numIOThreads=1",
    "allocatorPoolingPolicy=UnpooledHeap",
)


class JavaError(Exception):
    """What a command raised. `code`: BKException's; 0 where it is another exception."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


@attrs.frozen
class Said:
    """What a command of the shell returned and printed."""

    code: int
    text: str


@attrs.frozen
class Opened:
    """A reader, and what it knew when it was opened."""

    name: str
    last: int
    length: int
    is_closed: bool


def payload(number: int, size: int) -> bytes:
    """What the program writes as that number of a ledger."""
    return bytes((number * 31 + i * 7 + (i >> 8)) & 0xFF for i in range(size))


def shown(entry: int, data: bytes) -> str:
    """How the program prints an entry."""
    return f"{entry}:{len(data)}:{zlib.crc32(data)}"


class JavaProgram(GuardedProcess):
    """The process. Names of clients and handles are made here."""

    def __init__(self, directory: Path, hosts: str, version: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._uri = metadata_uri(hosts)
        self._file = directory / "shell.conf"
        self._file.write_text(
            f"metadataServiceUri={self._uri}\nallowLoopback=true\nlisteningInterface=lo\nzkTimeout=30000\n"
        )
        classes = server_jars(version)
        self.command = java(directory, classes, str(PROGRAMS / "BookKeeperProgram.java"), told=TOLD_BY_THE_SHELL)
        self._names = itertools.count(1)
        self._buffer = b""

    @property
    def journal(self) -> Path:
        return self._directory / "java.log"

    def begin(self) -> Self:
        return self.start(stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def kill(self) -> int | None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        return super().kill()

    def ask(self, *words: object) -> list[str]:
        """The values that the command answers. Raises JavaError."""
        self.tell(*words)
        return self.answer()[1]

    def tell(self, *words: object) -> None:
        """Send a command, and do not wait: `answer` waits."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(("\t".join(map(str, words)) + "\n").encode())
        self.process.stdin.flush()

    def answer(self) -> tuple[str, list[str]]:
        """What the command has printed, and the values that it answers. Raises JavaError."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        printed = []
        while not (line := self._line(deadline)).startswith("> "):
            printed.append(line)
        kind, *values = line[2:].split("\t")
        text = "\n".join(printed)
        with self.journal.open("a") as journal:
            journal.write(f"{text}\n{line}\n")
        if kind == "error":
            raise JavaError(int(values[0]), values[1])
        return text, values

    def _line(self, deadline: float) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no answer in {PATIENCE_SECONDS} s: {self._buffer!r} {self.log_text()[-2000:]}"
            data = os.read(descriptor, 1 << 16)
            assert data, self.log_text()[-4000:]
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    def shell(self, *words: object, file: Path | None = None) -> Said:
        """Run a command of `bookkeeper shell`. file: its configuration, instead of one that knows the ensemble."""
        self.tell("shell", file or self._file, *words)
        text, [code] = self.answer()
        return Said(int(code), text)

    def client(self, *settings: str) -> str:
        """Another client with these settings."""
        name = f"client-{next(self._names)}"
        self.ask("client", name, f"metadataServiceUri={self._uri}", *_CLIENT, *settings)
        return name

    def create(
        self, client: str, quorums: tuple[int, int, int], digest: str = "CRC32C", password: bytes = b"", *words: str
    ) -> tuple[str, int]:
        """A writer of a new ledger, and the ledger's id. quorums: ensemble, write quorum, ack quorum."""
        name = f"handle-{next(self._names)}"
        [ledger] = self.ask("create", client, name, *quorums, digest, password.hex() or "-", *words)
        return name, int(ledger)

    def open(
        self, client: str, ledger: int, digest: str = "CRC32C", password: bytes = b"", *, is_recovering: bool = True
    ) -> Opened:
        """A reader of a ledger."""
        name = f"handle-{next(self._names)}"
        words = self.ask("open", client, name, ledger, digest, password.hex() or "-", str(is_recovering).lower())
        return Opened(name, int(words[0]), int(words[1]), words[2] == "true")

    def add(self, handle: str, first: int, *sizes: int) -> list[int]:
        """Write payloads of these sizes; `first` is the number of the first. Returns the ids of the entries."""
        return [int(word) for word in self.ask("add", handle, first, *sizes)]

    def read(self, handle: str, first: int, last: int) -> list[str]:
        """Entries as `shown` shows them."""
        return self.ask("read", handle, first, last)

    def bookies(self, client: str, which: str = "available") -> list[str]:
        """Ids of bookies. which: `available`, `read-only` or `all`."""
        return [word for word in self.ask("bookies", client, which) if word]


@contextlib.contextmanager
def java_client(directory: Path, hosts: str, version: str = VERSION) -> Iterator[JavaProgram]:
    """The process, which is killed when the block is left."""
    program = JavaProgram(directory, hosts, version)
    with ended([program]):
        yield program.begin()
