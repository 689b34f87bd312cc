"""Directories of real processes whose power can be cut: what was written and not synced is lost, as in the simulator.

    library = build_recorder(directory)         the C library that records (`recorder.c`)
    machine = Machine(library, root, record)    the files below `root`, made by who runs with `machine.environment`
    machine.calls()                             what was done to them, as lines
    machine.cut(rng)                            the processes have ended: leave of the files what a power cut may

What may be lost is said once, by the disk of the simulator (`zab.simulator.world.disk`): the record is played to it, it
is crashed, and what it has then is written back.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import attrs
import pytest

from zab.simulator.world.disk import FaultyDisk, FaultyFile

SOURCE = Path(__file__).with_name("recorder.c")

needs_recorder = pytest.mark.skipif(
    shutil.which("cc") is None or not sys.platform.startswith("linux"), reason="the recorder is C for Linux"
)


def build_recorder(directory: Path) -> Path:
    """Compile the library into a directory."""
    library = directory / "recorder.so"
    flags = ["-shared", "-fPIC", "-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
    return library


@attrs.frozen
class Call:
    """One line of the record; `data` is what was written."""

    words: tuple[str, ...]
    data: bytes


@attrs.define
class Machine:
    """What outlives the processes on one directory: its medium, as far as it is durable."""

    library: Path
    root: Path
    record: Path
    given: tuple[str, ...] = ()
    """Files at the top that were there before the first process; they are durable."""
    _disk: FaultyDisk = attrs.field(init=False, factory=FaultyDisk)

    def __attrs_post_init__(self) -> None:
        for name in self.given:
            self._disk.replace(name, (self.root / name).read_bytes())

    @property
    def environment(self) -> dict[str, str]:
        """For the processes on this directory."""
        return {"LD_PRELOAD": str(self.library), "ZAB_RECORD_ROOT": str(self.root), "ZAB_RECORD": str(self.record)}

    def recorded(self) -> Iterator[Call]:
        """Every call so far; one that a kill has cut short in the record was never answered."""
        data = self.record.read_bytes() if self.record.exists() else b""
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            words = tuple(data[at:end].decode().split(" "))
            at = end + 1
            length = int(words[3]) if words[0] in ("write", "durable") else 0
            if at + length > len(data):
                return
            yield Call(words, data[at : at + length])
            at += length

    def calls(self) -> list[str]:
        """The record as lines, with names in place of the numbers of files."""
        names: dict[str, str] = {}
        found = []
        for call in self.recorded():
            what, *rest = call.words
            if what == "open":
                names[rest[0]] = rest[2]
                rest = [rest[2]]
            elif what not in ("syncdir", "rename", "unlink", "mkdir"):
                rest[0] = names[rest[0]]
            found.append(" ".join((what, *rest)).rstrip())
            if what == "rename":
                names = {file: rest[1] if name == rest[0] else name for file, name in names.items()}
        return found

    def cut(self, rng: Random) -> None:
        """The power goes; the processes have ended. What is left is what the next ones find, and durable."""
        self._replay()
        self._disk.crash(rng)
        for path in self.root.rglob("*"):
            if path.is_file():
                path.unlink()
        for directory in ("", "version-1"):
            for name in self._disk.list(directory):
                path = self.root / directory / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(self._disk.read(str(path.relative_to(self.root))))
        self.record.unlink(missing_ok=True)

    def _replay(self) -> None:
        """Do to the simulated disk what was done to the directory."""
        disk, files = self._disk, dict[str, tuple[FaultyFile, str]]()
        for call in self.recorded():
            what, *rest = call.words
            if what == "open":
                number, flags, name = rest
                file = disk.open_append(name, create=not disk.exists(name))
                files[number] = file, name
                if int(flags) & os.O_TRUNC:
                    disk.shrink(file._inode, 0)
            elif what == "syncdir":
                disk.sync_directory(rest[0])
            elif what == "rename":
                disk.rename(*rest)
            elif what == "unlink":
                disk.remove(rest[0])
            elif what != "mkdir":
                _on_file(disk, *files[rest[0]], what, rest, call.data)


def _on_file(disk: FaultyDisk, file: FaultyFile, name: str, what: str, rest: list[str], data: bytes) -> None:
    inode = file._inode
    if what in ("write", "durable"):
        disk.write_at(inode, name, int(rest[1]), data, durable=what == "durable")
    elif what == "truncate":
        disk.shrink(inode, int(rest[1]))
    elif what == "allocate":
        size = len(inode.data)
        disk.write_at(inode, name, size, bytes(max(0, int(rest[1]) - size)))
    else:
        assert what in ("fsync", "fdatasync"), what
        disk.sync_inode(inode, name)
