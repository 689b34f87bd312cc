"""`zab doctor` for the file of a bookie: what is looked at on this machine and in the metadata.

Nothing is written, except for the syncs that measure the disk. The directories are not locked: the bookie may run.

Not here: what is well (`zab.operations.verdicts.bookie_checks`).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import trio
from attrs import evolve

from zab.bookie.address import advertised_host, is_loopback
from zab.bookie.configuration import StartRefusedError, load
from zab.bookie.settings import BookieSettings
from zab.client import Client, Settings, ZabError, connect
from zab.client.access.ensemble_access import EnsembleAccess
from zab.client.core.hosts import parse_hosts
from zab.coordination.operations import CoordinationError
from zab.ledger.bookie.cookie_check import COOKIE_FILE, CookieError, parse_local_cookie
from zab.ledger.metadata.cookies import decode_cookie
from zab.ledger.metadata.layout import COOKIES, INSTANCE_ID
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.operations import probes
from zab.operations.registered_bookies import read_registered_bookies
from zab.operations.verdicts import bookie_checks, checks
from zab.operations.verdicts.bookie_checks import Directory, Metadata
from zab.operations.verdicts.checks import Check
from zab.service.failure import ServerFailedError

__all__ = ["examine"]

PARTS: Final = ("journal", "entries", "state", "checkpoint")
"""What a bookie has in its directories besides the cookie."""
COOKIE_BYTES_MAX: Final = 1 << 20


async def examine(file: str, seconds: float, syncs: int) -> list[Check]:
    """All checks. seconds: for what the members are asked. syncs: to measure the disk with."""
    try:
        settings = load(file)
        host = advertised_host(settings.place)
        servers, _ = parse_hosts(settings.metadata.uri.hosts)
    except (StartRefusedError, ServerFailedError, ValueError) as error:
        return list(checks.of_configuration([str(error)], []))
    bookie = settings.place.bookie_id or f"{host}:{settings.place.port}"
    found = list(checks.of_configuration([], [f"{file}: {each}" for each in settings.warnings]))
    elsewhere = any(not is_loopback(server.name) for server in servers)
    found += bookie_checks.of_address(bookie, host, is_here_only=is_loopback(host), has_members_elsewhere=elsewhere)
    metadata = await _metadata_of(settings, bookie, seconds)
    for path in dict.fromkeys((settings.ledger_directory, settings.journal_directory)):
        directory = await trio.to_thread.run_sync(_directory, path)
        found += bookie_checks.of_directory(directory, bookie, None if isinstance(metadata, str) else metadata)
        if directory.exists and not directory.error:
            found += await trio.to_thread.run_sync(_disk, settings, path, syncs)
    found += bookie_checks.of_cluster(metadata, bookie)
    return found


def _disk(settings: BookieSettings, path: str, syncs: int) -> list[Check]:
    disk = probes.measured(path, syncs=max(syncs, 1))
    if syncs <= 1:
        disk = checks.Disk(disk.path, (), disk.free_bytes, disk.error)
    found = [
        evolve(each, action=each.action.replace("dataLogDir", "journalDirectories"))
        for each in checks.of_disk(disk, settings.space.reserve_bytes)
    ]
    if not disk.error:
        usage = shutil.disk_usage(path)
        found += bookie_checks.of_space(path, 1 - usage.free / usage.total, settings.space.read_only_share)
    return found


async def _metadata_of(settings: BookieSettings, bookie: str, seconds: float) -> Metadata | str:
    """What is below the root, or why it cannot be read."""
    uri = settings.metadata.uri
    with trio.move_on_after(seconds):
        try:
            access = EnsembleAccess(settings.ensemble)
            patience = Settings(connect_wait_ms=int(seconds * 1000))
            async with connect(uri.hosts, dial=access.dial, sasl=access.login, settings=patience) as zk:
                instance = await _data(zk, f"{uri.root}/{INSTANCE_ID}")
                if instance is None:
                    return f"there is no {uri.root}/{INSTANCE_ID} at {uri.hosts}: zab ledger format makes it"
                cookie = await _data(zk, f"{uri.root}/{COOKIES}/{bookie}")
                bookies = await read_registered_bookies(zk, uri.root)
                return Metadata(bookies=bookies, instance=instance.decode("utf-8", "replace"), cookie=cookie)
        except (ZabError, CoordinationError, InvalidMetadataError, OSError, ValueError) as error:
            return f"{uri.hosts} cannot be read: {error}"
    return f"{uri.hosts} does not answer in time"


async def _data(zk: Client, path: str) -> bytes | None:
    """None if there is no such znode."""
    if await zk.exists(path) is None:
        return None
    data, _ = await zk.get(path)
    return data or b""


def _directory(path: str) -> Directory:
    try:
        names = os.listdir(path)
        if COOKIE_FILE not in names:
            others = [name for name in PARTS if name in names and _has_content(os.path.join(path, name))]
            return Directory(path=path, others=tuple(others))
        with Path(path, COOKIE_FILE).open("rb") as file:
            local = parse_local_cookie(file.read(COOKIE_BYTES_MAX))
        cookie = decode_cookie(local.data)
    except FileNotFoundError:
        return Directory(path=path, exists=False)
    except OSError as error:
        return Directory(path=path, error=f"it cannot be read: {error.strerror}")
    except (CookieError, InvalidMetadataError) as error:
        return Directory(path=path, damage=str(error))
    return Directory(path=path, bookie=str(cookie.bookie), instance=cookie.instance_id, cookie=local.data)


def _has_content(path: str) -> bool:
    return not os.path.isdir(path) or bool(os.listdir(path))
