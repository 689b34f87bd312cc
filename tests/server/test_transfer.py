"""Snapshot transfer over real sockets of the loopback interface."""

import errno
import os
from contextlib import asynccontextmanager

import pytest
import trio

from datatree.snapshot import SnapshotWriter, fetch_path, snapshot_path
from datatree.tree import DataTree
from tests.member.storage.storage_setup import LINEAGE
from tests.rigs.waiting import PATIENCE_SECONDS, until_async
from tests.server.transfers import greeting, served_by
from zab.host.loop.conversation import introduce, meet
from zab.host.loop.dial import Address
from zab.host.storage.disk import RealDisk, RealFile
from zab.member.membership.greeting import Purpose
from zab.member.storage.snapshot_fetch import FetchError
from zab.member.storage.snapshot_request import ANSWERS, REQUESTS, SnapshotRefused, SnapshotRequest
from zab.protocol.effects import FetchSnapshot
from zab.server import snapshot_transfer as module
from zab.server.snapshot_transfer import Fetcher, TransferServer
from zab.testing.kit.ports import free_ports

ZXID = (1 << 32) + 77
CHAIN = bytes(range(16))
FETCH = FetchSnapshot(1, 1, ZXID, CHAIN, LINEAGE)
STALL_SECONDS = 60.0
"""Longer than the machine lets anybody wait: what ends a transfer sooner is something else."""


REQUEST = REQUESTS.encode(SnapshotRequest(LINEAGE, ZXID, CHAIN, 0))


async def ask(address, payload=REQUEST):
    """A conversation in which somebody has asked for a snapshot, if there is a payload."""
    stream = await trio.open_tcp_stream(address.host, address.port)
    talk = await introduce(stream, greeting(3).dialling_for(Purpose.SNAPSHOT, 1))
    if payload is not None:
        await talk.send(payload)
    return talk


@pytest.fixture
def disks(tmp_path):
    """The disk of the server, with a snapshot on it, and the disk of the learner."""
    server, learner = RealDisk(str(tmp_path / "server")), RealDisk(str(tmp_path / "learner"))
    tree = DataTree()
    tree.applied = ZXID
    SnapshotWriter(server, tree.begin_snapshot(), LINEAGE, CHAIN).write()
    yield server, learner
    server.close()
    learner.close()


def make_large(disk, size_bytes):
    """Behind a header that fits, the transfer does not look at the bytes."""
    header = disk.read(snapshot_path(ZXID), 0, 64)
    disk.replace(snapshot_path(ZXID), header + os.urandom(size_bytes))


@asynccontextmanager
async def serving(disk, *, count_max=10, stall_seconds=STALL_SECONDS, before=None, believes=lambda agreed: True):
    """A server of transfers on a port of its own; `before(stream)` may spoil a connection first."""
    transfers = TransferServer(disk, count_max, stall_seconds, believes)
    async with served_by(transfers, before=before) as address:
        yield transfers, address


def fetcher(disk, address, *, fetch=FETCH, stall_seconds=STALL_SECONDS):
    return Fetcher(disk, fetch, greeting(2), address, int(stall_seconds * 1000))


async def test_file_arrives_unchanged(disks):
    server, learner = disks
    make_large(server, 5_000_000)
    async with serving(server) as (transfers, address):
        with trio.fail_after(PATIENCE_SECONDS):
            await fetcher(learner, address).run()
        assert learner.read(fetch_path(ZXID)) == server.read(snapshot_path(ZXID))
        await until_async(lambda: transfers.being_read == {})


async def test_broken_transfer_goes_on_behind_what_was_received(disks):
    server, learner = disks
    make_large(server, 3_000_000)
    offsets = []

    class Recording(TransferServer):
        async def _send_all(self, stream, data):
            await super()._send_all(stream, data)
            if len(offsets) < 4 and len(data) > 1000:
                # Break after each piece, four times.
                offsets.append(len(data))
                raise trio.BrokenResourceError("pulled")

    async with serving(server) as (transfers, address):
        transfers.__class__ = Recording
        with trio.fail_after(PATIENCE_SECONDS):
            await fetcher(learner, address).run()
    assert len(offsets) == 4
    assert learner.read(fetch_path(ZXID)) == server.read(snapshot_path(ZXID))


async def test_transfer_ends_with_the_secret_that_proved_who_fetches(disks):
    server, learner = disks
    make_large(server, 3_000_000)
    asked = []

    def believes(agreed):
        asked.append(agreed)
        return len(asked) < 3

    async with serving(server, believes=believes) as (transfers, address):
        with (
            pytest.raises(FetchError, match="closed before the end of the snapshot"),
            trio.fail_after(PATIENCE_SECONDS),
        ):
            await fetcher(learner, address, stall_seconds=0.5).run()
        await until_async(lambda: transfers.being_read == {})
    assert learner.size(fetch_path(ZXID)) < server.size(snapshot_path(ZXID))


async def test_part_of_an_earlier_attempt_is_continued_not_fetched_again(disks):
    server, learner = disks
    make_large(server, 1_000_000)
    whole = server.read(snapshot_path(ZXID))
    learner.replace(fetch_path(ZXID), whole[:900_000])
    sent = []

    class Counting(TransferServer):
        async def _send_all(self, stream, data):
            sent.append(len(data))
            await super()._send_all(stream, data)

    async with serving(server) as (transfers, address):
        transfers.__class__ = Counting
        with trio.fail_after(PATIENCE_SECONDS):
            await fetcher(learner, address).run()
    assert sum(sent) < 200_000
    assert learner.read(fetch_path(ZXID)) == whole


async def test_part_of_another_history_is_thrown_away(disks):
    server, learner = disks
    tree = DataTree()
    tree.applied = ZXID
    SnapshotWriter(learner, tree.begin_snapshot(), LINEAGE, b"\1" * 16).write()
    learner.rename(snapshot_path(ZXID), fetch_path(ZXID))
    async with serving(server) as (_, address):
        with trio.fail_after(PATIENCE_SECONDS):
            await fetcher(learner, address).run()
    assert learner.read(fetch_path(ZXID)) == server.read(snapshot_path(ZXID))


async def test_whole_file_of_an_earlier_attempt_needs_no_byte(disks):
    server, learner = disks
    learner.replace(fetch_path(ZXID), server.read(snapshot_path(ZXID)))
    async with serving(server) as (_, address):
        with trio.fail_after(PATIENCE_SECONDS):
            await fetcher(learner, address).run()
    assert learner.read(fetch_path(ZXID)) == server.read(snapshot_path(ZXID))


@pytest.mark.parametrize(
    ("fetch", "reason"),
    [
        (FetchSnapshot(1, 1, ZXID + 1, CHAIN, LINEAGE), "there is no"),
        (FetchSnapshot(1, 1, ZXID, bytes(16), LINEAGE), "another history"),
        (FetchSnapshot(1, 1, ZXID, CHAIN, bytes(16)), "another history"),
    ],
    ids=["gone", "other chain", "other lineage"],
)
async def test_refusal_ends_the_transfer_at_once(disks, fetch, reason):
    server, learner = disks
    async with serving(server) as (_, address):
        with trio.fail_after(STALL_SECONDS / 2), pytest.raises(FetchError, match=reason):
            await fetcher(learner, address, fetch=fetch).run()


async def test_transfer_without_progress_fails_after_its_time(disks):
    server, learner = disks

    async def never_answers(stream):
        await trio.sleep_forever()

    async with serving(server, before=never_answers) as (_, address):
        started = trio.current_time()
        with pytest.raises(FetchError, match="nothing came for"):
            await fetcher(learner, address, stall_seconds=0.3).run()
        assert 0.29 <= trio.current_time() - started < STALL_SECONDS / 2


async def test_nobody_at_the_address_fails_after_its_time(disks):
    _, learner = disks
    address = Address("127.0.0.1", *free_ports(1))
    with pytest.raises(FetchError, match="nothing came for"):
        await fetcher(learner, address, stall_seconds=0.3).run()


async def test_slow_transfer_that_makes_progress_does_not_fail(disks):
    """It fails when it makes no progress for its time, not when it is long."""
    server, learner = disks
    make_large(server, 1_500_000)

    class Slow(TransferServer):
        async def _send_all(self, stream, data):
            await trio.sleep(0.5)
            await super()._send_all(stream, data)

    async with serving(server) as (transfers, address):
        transfers.__class__ = Slow
        started = trio.current_time()
        await fetcher(learner, address, stall_seconds=3.0).run()
        assert trio.current_time() - started > 3.0


async def test_learner_that_does_not_read_does_not_hold_a_place_for_ever(disks):
    server, learner = disks
    make_large(server, 20_000_000)
    async with serving(server, count_max=1, stall_seconds=0.3) as (_, address):
        sleeper = await ask(address)
        await trio.sleep(0.05)
        with trio.fail_after(PATIENCE_SECONDS):
            await fetcher(learner, address).run()
        await sleeper.stream.aclose()


async def test_snapshot_being_read_is_known_to_retention(disks):
    server, _ = disks
    make_large(server, 20_000_000)
    async with serving(server) as (transfers, address):
        sleeper = await ask(address)
        await until_async(lambda: transfers.being_read == {ZXID: 1})
        await sleeper.stream.aclose()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"\x80",
        b"\x82\x18\xc8\x01",
        REQUESTS.encode(SnapshotRequest(LINEAGE, ZXID, CHAIN, 0)) + b"\0",
        REQUEST[:-1],
    ],
)
async def test_bytes_that_are_no_request_end_the_connection_and_no_more(disks, payload):
    server, learner = disks
    async with serving(server) as (_, address):
        talk = await ask(address, payload)
        with trio.fail_after(PATIENCE_SECONDS):
            async with talk.stream:
                with pytest.raises(EOFError):
                    await talk.receive()
            await fetcher(learner, address).run()


async def test_who_asks_nothing_is_not_waited_for(disks):
    server, _ = disks
    async with serving(server, stall_seconds=0.1) as (_, address):
        talk = await ask(address, None)
        with trio.fail_after(PATIENCE_SECONDS):
            async with talk.stream:
                with pytest.raises(EOFError):
                    await talk.receive()


async def test_only_so_many_wait_for_their_turn(disks, monkeypatch):
    monkeypatch.setattr(module, "WAITING_MAX", 1)
    server, _ = disks
    make_large(server, 20_000_000)
    async with serving(server, count_max=1) as (transfers, address):
        first = await ask(address)
        await until_async(lambda: transfers.being_read == {ZXID: 1})
        second = await ask(address)
        await until_async(lambda: transfers._places.statistics().tasks_waiting == 1)
        third = await ask(address)
        with trio.fail_after(PATIENCE_SECONDS):
            assert ANSWERS.decode(await third.receive()) == SnapshotRefused("1 requests are waiting already")
        for talk in (first, second, third):
            await talk.stream.aclose()


async def test_answer_that_is_none_ends_the_transfer(disks):
    _, learner = disks

    async def babbles(stream):
        talk = await meet(stream, greeting(1).listening(None))
        await talk.send(b"\x82\x18\xcb\x01")
        return True

    async with serving(learner, before=babbles) as (_, address):
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(FetchError, match="no answer to a request"):
            await fetcher(learner, address).run()


async def test_server_that_is_another_one_is_not_believed(disks):
    _, learner = disks

    async def another(stream):
        with pytest.raises(module.MessageError, match="this is server 3"):
            await meet(stream, greeting(3).listening(None))
        return True

    async with serving(learner, before=another) as (_, address):
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(FetchError, match="this is server 3"):
            await fetcher(learner, address, stall_seconds=0.3).run()


# ------------------------------------------------------------------------------------------------------ disks that fail


@pytest.mark.parametrize("call", ["write", "sync", "close"])
async def test_c1_error_of_the_own_disk_is_final_and_not_taken_for_one_of_the_network(disks, monkeypatch, call):
    server, learner = disks
    make_large(server, 9_000_000)
    real, calls = getattr(RealFile, call), []

    def fail_once(file, *arguments):
        calls.append(file.size)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")
        return real(file, *arguments)

    monkeypatch.setattr(RealFile, call, fail_once)
    async with serving(server) as (_, address):
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(OSError, match="Input/output error"):
            await fetcher(learner, address).run()
    assert len(calls) == 1, "the pages count as clean now: nothing that is done with the file proves anything"


async def test_error_of_the_servers_disk_ends_the_connection_and_no_more(disks, monkeypatch):
    """What the server promised is in its log; a snapshot that cannot be read is fetched from somebody else."""
    server, learner = disks
    make_large(server, 1_000_000)

    def fail(disk, path, offset=0, length=None):
        if disk is server and offset:
            raise OSError(errno.EIO, "Input/output error")
        return read(disk, path, offset, length)

    read = RealDisk.read
    monkeypatch.setattr(RealDisk, "read", fail)
    async with serving(server) as (transfers, address):
        with pytest.raises(FetchError, match="nothing came for"):
            await fetcher(learner, address, stall_seconds=1.0).run()
        await until_async(lambda: transfers.being_read == {})
