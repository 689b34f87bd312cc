"""Looks at what `zab doctor` judges: names, ports, disks, certificates. What it means: `zab.upkeep.checks`.

Nothing is left behind: the file that is written to measure syncs is removed.
"""

from __future__ import annotations

import os
import resource
import socket
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from zab.cli.upkeep.asking import words_of
from zab.configuration.dynamic import bracketed
from zab.host.descriptors import WANTED_MAX
from zab.tls.stores import STORE_BYTES_MAX, kind_of
from zab.upkeep.checks import Disk, Port

__all__ = ["SYNCS", "addresses_of", "days_of", "descriptors", "dial", "measured"]

SYNCS: Final = 100
"""How often a disk is written to and synced, with `WRITE_BYTES` each."""
WRITE_BYTES: Final = 4096
_DAY_SECONDS: Final = 86400


def descriptors() -> int:
    """How many a server started here could have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED_MAX if hard == resource.RLIM_INFINITY else min(hard, WANTED_MAX)


async def addresses_of(host: str, seconds: float) -> frozenset[str] | str:
    """What a name stands for, or why it stands for nothing."""
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
    """Write and sync in a directory, which is there. Blocks."""
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
    """Until the certificate in a key store ends, or why that cannot be said."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(STORE_BYTES_MAX)
        certificates = _certificates(data, kind or kind_of(path), password)
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    except ValueError as error:
        return f"it cannot be read: {error}"
    if not certificates:
        return "it has no certificate"
    return (certificates[0].not_valid_after_utc - datetime.now(UTC)).total_seconds() / _DAY_SECONDS


def _certificates(data: bytes, kind: str | None, password: str | None) -> Sequence[x509.Certificate]:
    if kind != "pkcs12":
        return x509.load_pem_x509_certificates(data)
    _, own, others = pkcs12.load_key_and_certificates(data, (password or "").encode())
    return [each for each in (own, *others) if each is not None]
