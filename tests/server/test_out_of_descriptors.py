"""A process without a descriptor left, at each thing for which a member opens one. What can be tried again is; what a
member had before stays; the log alone ends it, and waits a moment before."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from datatree.log.transaction_log import TransactionLog
from tests.datatree.histories import Author, fresh_log, synchronized
from tests.member.storage.storage_setup import LINEAGE
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.waiting import until_async
from tests.server.scripted_server import running, transfers_from
from zab.host.files.private_file import PrivateFileError
from zab.host.files.secret_file import add_secret, make_secret_file, read_secrets
from zab.host.files.watched_file import WatchedFile
from zab.host.loop.dial import Address, dial
from zab.host.storage import disk as disk_module
from zab.host.storage.disk import RealDisk
from zab.member.clients.sasl_users import Users
from zab.member.settings.zoo_cfg import parse
from zab.member.storage.events import SnapshotFailed, SnapshotTaken, TakeSnapshot
from zab.member.storage.storage import Storage
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.server.snapshotter import Snapshotter
from zab.server.tls_settings import client_port_stores
from zab.server.users_file import put_user, watched_users
from zab.service.disk_space import AMPLE, DiskSpace
from zab.tls.stores import StoreError


@contextlib.contextmanager
def no_descriptor_left(seconds: float | None = None, *, spare: int = 0) -> Iterator[None]:
    """Within the block, or for so long, whatever opens something fails with EMFILE, unless it is one of the spare ones.
    What is open stays so."""
    lowest = os.dup(0)
    os.close(lowest)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def give_back() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    timer = None if seconds is None else threading.Timer(seconds, give_back)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, hard))
    if timer is not None:
        timer.start()
    try:
        yield
    finally:
        if timer is not None:
            timer.join()
        give_back()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk waits for a descriptor for a moment only."""
    monkeypatch.setattr(disk_module, "DESCRIPTOR_WAIT_SECONDS", 0.0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    found = RealDisk(str(tmp_path / "member"))
    yield found
    found.close()


@pytest.fixture
def lived(disk: RealDisk) -> tuple[Author, TransactionLog]:
    author = Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(2))
    return author, log


def test_log_that_is_rolled_waits_for_a_descriptor(disk: RealDisk, lived: tuple[Author, TransactionLog]) -> None:
    author, log = lived
    with no_descriptor_left(0.2):
        log.roll()
        log.append(author.write(1))
    assert log.last == author.last


@pytest.mark.usefixtures("impatient")
def test_log_that_is_rolled_and_gets_none_is_final(disk: RealDisk, lived: tuple[Author, TransactionLog]) -> None:
    author, log = lived
    log.roll()
    storage = Storage(disk, log, 1, lambda *_: None)
    with no_descriptor_left(), pytest.raises(OSError) as failed:
        storage.perform([fx.AppendBatches(1, author.write(1))])
    assert failed.value.errno == errno.EMFILE


@pytest.mark.usefixtures("impatient")
def test_snapshot_is_given_up_and_the_next_one_is_taken(disk: RealDisk, lived: tuple[Author, TransactionLog]) -> None:
    author, log = lived
    became: list[object] = []
    snapshotter = Snapshotter(disk, log, became.append)
    for kind in (SnapshotFailed, SnapshotTaken):
        cursor = author.tree.begin_snapshot()
        with no_descriptor_left() if kind is SnapshotFailed else contextlib.nullcontext():
            snapshotter._take(TakeSnapshot(author.tree.applied, author.last[1], cursor))
        assert isinstance(became[-1], kind)


@pytest.mark.usefixtures("impatient")
def test_reserve_is_made_when_there_is_a_descriptor_again(disk: RealDisk) -> None:
    space = DiskSpace(disk, 1, 4096)
    with no_descriptor_left():
        assert space.look() is None
    assert space.level is AMPLE
    assert not disk.exists("version-1/reserve")
    assert space.look() is None
    assert disk.exists("version-1/reserve")


@pytest.mark.parametrize("is_local_only", [False, True])
async def test_dial_fails_as_if_nobody_were_there(is_local_only: bool) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with listener:
        address = Address("127.0.0.1", listener.socket.getsockname()[1])
        with no_descriptor_left(), pytest.raises(OSError):
            await dial(address, is_local_only=is_local_only)
        async with await dial(address, is_local_only=is_local_only):
            pass


@pytest.mark.usefixtures("impatient")
async def test_snapshot_that_cannot_be_fetched_is_asked_for_again(tmp_path: Path) -> None:
    async with (
        transfers_from(tmp_path / "leader") as (address, zxid, chain),
        running(tmp_path / "own", addresses={2: address}) as parts,
    ):
        fetch = fx.FetchSnapshot(3, 2, zxid, chain, LINEAGE)
        with no_descriptor_left():
            parts.do(fetch)
            await until_async(lambda: parts.links.broken == [("dialled", 2)])
        parts.do(fetch)
        await parts.member.wait_for(ev.SnapshotInstalled(3, zxid, chain))


def secrets_file(directory: Path) -> tuple[WatchedFile[Any], Callable[[], None]]:
    path = str(directory / "secret")
    make_secret_file(path)
    return WatchedFile(path, read_secrets), lambda: add_secret(path)


def users_of(path: str) -> WatchedFile[Users]:
    found = watched_users(parse(f"dataDir=/d\nclientPort=2181\nsasl.usersFile={path}", "zoo.cfg"))
    assert found is not None
    return found


def users_file(directory: Path) -> tuple[WatchedFile[Any], Callable[[], None]]:
    path = str(directory / "users")
    put_user(path, "alice", "a password")
    return users_of(path), lambda: put_user(path, "bob", "a password")


@pytest.mark.parametrize("make", [secrets_file, users_file])
def test_file_that_cannot_be_read_again_leaves_what_there_was(
    make: Callable[[Path], tuple[WatchedFile[Any], Callable[[], None]]], tmp_path: Path
) -> None:
    watched, change = make(tmp_path)
    before = watched.content
    change()
    for _ in range(2):
        with no_descriptor_left(), pytest.raises(PrivateFileError, match="Too many open files"):
            watched.read_again()
        assert watched.content == before
    assert watched.read_again()
    assert watched.content != before


@pytest.mark.parametrize("spare", range(3))
@pytest.mark.parametrize("kind", ["pem", "p12"])
def test_stores_that_cannot_be_read_again_leave_those_before(kind: str, spare: int, tmp_path: Path) -> None:
    """A store takes one descriptor for itself, and others for what OpenSSL reads from files alone."""
    certificates = Certificates(tmp_path)
    member = certificates.member("localhost")
    if kind == "pem":
        certificates.revoke(member / "truststore.pem", certificates.client("alice"))
    lines = {"dataDir": "/d", "secureClientPort": "2281", "ssl.crl": str(kind == "pem").lower()}
    lines |= client_store_lines(member, kind)
    watched = client_port_stores(parse("".join(f"{key}={value}\n" for key, value in lines.items()), "zoo.cfg"))
    before = watched.content
    os.utime(member / f"keystore.{kind}", (1, 1))
    with no_descriptor_left(spare=spare), contextlib.suppress(StoreError):
        watched.read_again()
        assert watched.content is not before, "there were enough"
    if watched.content is before:
        assert watched.read_again()
