"""Examines what `zab doctor` judges: names, ports, disks, certificates. The verdicts are in
`zab.operations.verdicts.checks`.

The file that is written to measure syncs is removed.
"""

from __future__ import annotations

import os
import resource
import socket
import tempfile
import time
from datetime import UTC, datetime
from typing import Final

import trio

from zab.configuration.dynamic import bracketed
from zab.host.process.descriptors import WANTED_MAX
from zab.operations.asking import words_of
from zab.operations.verdicts.checks import Disk, Port
from zab.tls.stores import Store, StoreError, StoreKeys

__all__ = ["SYNCS", "addresses_of", "days_of", "descriptors", "dial", "measured"]

SYNCS: Final = 100
"""How often to write `WRITE_BYTES` to a disk and sync it."""
WRITE_BYTES: Final = 4096
_DAY_SECONDS: Final = 86400


def descriptors() -> int:
    """How many descriptors a server started here could have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED_MAX if hard == resource.RLIM_INFINITY else min(hard, WANTED_MAX)


async def addresses_of(host: str, seconds: float) -> frozenset[str] | str:
    """The addresses of a name, or why it has none."""
    with trio.move_on_after(seconds):
        try:
            infos = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            return str(getattr(error, "strerror", None) or error)
        return frozenset(str(info[4][0]) for info in infos)
    return "nobody answers in time"


async def dial(member: int, kind: str, host: str, port: int, seconds: float) -> Port:
    """Whether a port takes a connection; it is closed at once."""
    place = f"{bracketed(host)}:{port}"
    began = time.monotonic()
    with trio.move_on_after(seconds):
        try:
            stream = await trio.open_tcp_stream(host, port)
        except OSError as error:
            return Port(member, kind, place, words_of(error))
        took_ms = (time.monotonic() - began) * 1000
        await trio.aclose_forcefully(stream)
        return Port(member, kind, place, "", took_ms)
    return Port(member, kind, place, "it does not answer in time")


def measured(directory: str, *, syncs: int = SYNCS) -> Disk:
    """Write to a directory, which exists, and sync. Blocks."""
    took: list[float] = []
    try:
        # It is `log.` for nobody: a member that runs there does not read it.
        descriptor, path = tempfile.mkstemp(prefix=".zab-doctor.", dir=directory)
        try:
            for number in range(syncs):
                began = time.monotonic()
                os.pwrite(descriptor, bytes(WRITE_BYTES), number * WRITE_BYTES)
                os.fdatasync(descriptor) if hasattr(os, "fdatasync") else os.fsync(descriptor)
                took.append((time.monotonic() - began) * 1000)
        finally:
            os.close(descriptor)
            os.unlink(path)
        state = os.statvfs(directory)
    except OSError as error:
        return Disk(directory, error=f"it cannot be written to: {error.strerror or error}")
    return Disk(directory, took, state.f_bavail * state.f_frsize)


def days_of(path: str, kind: str | None, password: str | None) -> float | str:
    """How many days the certificate in a key store is still valid, or why that is unknown."""
    keys = StoreKeys("the key store", "its password", "its type")
    try:
        certificate = Store(keys, path, kind, password or "").certificate()
    except StoreError as error:
        return str(error).removeprefix(f"{keys.location}: {path}: ")
    return (certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds() / _DAY_SECONDS
