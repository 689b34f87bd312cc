"""What a turn begins and does not wait for: real loop, tasks, threads and files; a member that follows a script."""

import errno
import socket
import threading

import pytest
import trio

from datatree.snapshot import snapshot_files, snapshot_path
from datatree.tree import DataTree
from datatree.txn_changes import WHOLE
from tests.member.storage.storage_setup import LINEAGE, batches_from
from tests.rigs.waiting import PATIENCE_SECONDS, until_async
from tests.server.scripted_server import directory, running, snapshot_on, transfers_from
from zab.host.loop.dial import Address
from zab.host.storage.disk import RealFile
from zab.member.storage.events import (
    ChangesRead,
    ChooseSnapshot,
    FetchTree,
    LookBackSlice,
    LookedBack,
    ReadChanges,
    SnapshotChosen,
    SnapshotFetched,
    SnapshotTaken,
    StorageFailed,
    TakeSnapshot,
    TreeInstalled,
)
from zab.member.trees.events import KeepSnapshot, RebuildTree, TreeRebuilt
from zab.member.turn import READ_AHEAD_BYTES
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.service.failure import ServerFailedError

__all__ = ["directory"]


def nobody(_took_ms):
    pass


async def test_storage_effects_are_answered_in_their_order(directory):
    async with running(directory) as parts:
        batches = batches_from(parts.storage, 4)
        parts.do(
            fx.AppendBatches(1, batches[:2]),
            fx.SaveEpochs(1, 2, 1),
            fx.AppendBatches(1, batches[2:]),
            fx.DrainLog(2),
        )
        await parts.member.wait_for(ev.LogDrained(2))
        assert parts.member.inputs == [
            ev.Durable(1, batches[1].zxid),
            ev.EpochsSaved(1, 2, 1),
            ev.Durable(1, batches[3].zxid),
            ev.LogDrained(2),
        ]


async def test_log_that_failed_ends_the_server_with_1(directory):
    async with running(directory) as parts:
        parts.mailbox.put(StorageFailed("cannot write: no space"))
        with pytest.raises(ServerFailedError, match="no space") as failed:
            parts.turn.take()
        assert failed.value.exit_code == 1


async def test_halt_ends_the_server_with_its_reason(directory):
    async with running(directory) as parts:
        parts.member.effects.append(fx.Halt("the tree is wrong"))
        with pytest.raises(ServerFailedError, match="the tree is wrong"):
            parts.turn.take()


async def test_role_changes_are_told(directory):
    async with running(directory) as parts:
        change = fx.RoleChanged(2, "broadcast", 1, True)
        parts.member.effects.append(change)
        parts.turn.take()
        assert parts.roles == [change]


async def test_mark_is_written_when_the_log_is_idle(directory):
    async with running(directory) as parts:
        batches = batches_from(parts.storage, 2)
        parts.do(fx.AppendBatches(1, batches))
        await parts.member.wait_for(ev.Durable(1, batches[1].zxid))
        await trio.sleep(0.15)
        parts.do(fx.MarkMoved(batches[0].zxid))
        await until_async(lambda: parts.storage.log.mark == batches[0].zxid)


# ------------------------------------------------------------------------------------------------------------- learners


async def test_log_read_waits_until_the_link_has_room(directory):
    async with running(directory) as parts:
        batches = batches_from(parts.storage, 3)
        parts.do(fx.AppendBatches(1, batches))
        await parts.member.wait_for(ev.Durable(1, batches[2].zxid))
        parts.links.unsent[7] = READ_AHEAD_BYTES + 1
        parts.do(fx.ReadLog(7, batches[0].zxid, 1 << 20))
        await trio.sleep(0.05)
        assert not any(isinstance(given, ev.LogRead) for given in parts.member.inputs)
        parts.links.unsent[7] = READ_AHEAD_BYTES
        parts.loop.wake()
        read = await parts.member.wait_for(lambda given: isinstance(given, ev.LogRead))
        assert read == ev.LogRead(7, (batches[0].zxid, batches[0].chain), batches[1:])


async def test_reads_for_the_feed_of_changes_are_answered_by_a_worker(directory):
    async with running(directory) as parts:
        batches = batches_from(parts.storage, 2)
        parts.do(fx.AppendBatches(1, batches))
        await parts.member.wait_for(ev.Durable(1, batches[1].zxid))
        threads = []
        real = parts.storage.read_for_changes
        parts.storage.read_for_changes = lambda effect: threads.append(threading.current_thread()) or real(effect)
        # These batches hold no transactions.
        parts.do(ReadChanges((0, WHOLE), b"/", batches[1].zxid, 1000, []))
        assert (await parts.member.wait_for(lambda given: isinstance(given, ChangesRead))).is_damaged
        parts.do(LookBackSlice(batches[1].zxid, 10))
        assert (await parts.member.wait_for(lambda given: isinstance(given, LookedBack))).past is not None
        assert threading.current_thread() not in threads
        assert len(threads) == 2


async def test_offered_snapshot_is_held_until_it_is_released(directory):
    async with running(directory) as parts:
        zxid, chain = snapshot_on(parts.storage)
        parts.do(fx.OfferSnapshot(7, 0))
        assert await parts.member.wait_for(ev.SnapshotOffered(7, zxid, chain))
        assert parts.turn.offered == {7: zxid}
        parts.do(fx.ReleaseSnapshot(7))
        await until_async(lambda: not parts.turn.offered)


async def test_member_without_a_snapshot_is_told_that_a_learner_needs_one(directory):
    async with running(directory) as parts:
        parts.do(fx.OfferSnapshot(7, 5))
        assert await parts.member.wait_for(ev.NothingToOffer(7, 5))


async def test_dial_that_fails_is_told(directory):
    async with running(directory) as parts:
        parts.do(fx.ConnectQuorum(2))
        await until_async(lambda: parts.links.broken == [("dial", 2)])


# ------------------------------------------------------------------------------------------------------------ snapshots


async def test_fetched_snapshot_is_installed_and_its_tree_comes_right_before_the_event(directory, tmp_path):
    async with (
        transfers_from(tmp_path / "leader") as (address, zxid, chain),
        running(directory, addresses={2: address}) as parts,
    ):
        parts.do(fx.FetchSnapshot(3, 2, zxid, chain, LINEAGE))
        installed = ev.SnapshotInstalled(3, zxid, chain)
        await parts.member.wait_for(installed)
        assert isinstance(parts.member.inputs[-2], TreeInstalled)
        assert parts.member.inputs[-1] == installed
        assert parts.storage.log.last == (zxid, chain)


async def test_observer_fetches_from_its_master_at_the_port_where_it_dialled(directory, tmp_path):
    async with (
        transfers_from(tmp_path / "master") as (address, zxid, chain),
        running(directory, observer_addresses={2: address}) as parts,
    ):
        parts.do(fx.ConnectQuorum(2, as_observer=True))
        parts.do(fx.FetchSnapshot(3, 2, zxid, chain, LINEAGE))
        await parts.member.wait_for(ev.SnapshotInstalled(3, zxid, chain))
        # Who follows the leader itself has nothing to do with that port any more.
        parts.do(fx.ConnectQuorum(2))
        await until_async(lambda: ("dial", 2) in parts.links.broken)


async def test_of_several_addresses_the_one_that_answers_becomes_the_link(directory, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        async with transfers_from(tmp_path / "leader") as (there, _, _):
            both = Address("127.0.0.1", mute.getsockname()[1], (there,))
            async with running(directory, addresses={2: both}) as parts:
                parts.do(fx.ConnectQuorum(2))
                await until_async(lambda: parts.links.broken)
                assert parts.links.broken == [("adopted", 2)]
                [greeted] = parts.links.greeted
                assert greeted.agreed.sid == 2


async def test_tree_is_made_of_a_snapshot_that_is_fetched_while_the_log_goes_on(directory, tmp_path):
    addresses = {2: None}
    async with running(directory, addresses=addresses) as own:
        batches = batches_from(own.storage, 2)
        own.do(fx.AppendBatches(1, batches))
        await own.member.wait_for(ev.Durable(1, batches[1].zxid))
        at = batches[0]
        hold = trio.Event()
        async with transfers_from(tmp_path / "leader", hold, at=(at.zxid, at.chain)) as (address, zxid, chain):
            addresses[2] = address
            fetch = FetchTree(2, zxid, chain, LINEAGE)
            own.do(fetch)
            own.do(fx.DrainLog(4))
            await own.member.wait_for(ev.LogDrained(4))
            hold.set()
            await own.member.wait_for(SnapshotFetched(fetch))
        rebuild = RebuildTree(zxid, None, zxid, fetch.header)
        own.do(rebuild)
        rebuilt = await own.member.wait_for(lambda given: isinstance(given, TreeRebuilt))
        assert rebuilt.tree.applied == zxid
        own.do(KeepSnapshot(fetch.header))
        await until_async(lambda: snapshot_files(own.storage.disk) == [zxid])
        own.do(ChooseSnapshot(7, 0))
        assert await own.member.wait_for(SnapshotChosen(7, 0, (zxid, chain)))
        assert own.storage.log.last == (batches[1].zxid, batches[1].chain)


async def test_storage_effect_behind_a_transfer_gives_it_up(directory, tmp_path):
    """Its role is over; the effects keep their order, and nothing is installed later."""
    never = trio.Event()
    async with (
        transfers_from(tmp_path / "leader", never) as (address, zxid, chain),
        running(directory, addresses={2: address}) as parts,
    ):
        parts.do(fx.FetchSnapshot(3, 2, zxid, chain, LINEAGE))
        await trio.sleep(0.05)
        parts.do(fx.DrainLog(4))
        await parts.member.wait_for(ev.LogDrained(4))
        never.set()
        await trio.sleep(0.1)
        assert parts.member.inputs == [ev.LogDrained(4)]
        assert parts.links.broken == []


async def test_transfer_without_progress_breaks_the_link_to_that_leader(directory, tmp_path):
    never = trio.Event()
    async with (
        transfers_from(tmp_path / "leader", never) as (address, zxid, chain),
        running(directory, addresses={2: address}, stall_ms=200) as parts,
    ):
        parts.do(fx.FetchSnapshot(3, 2, zxid, chain, LINEAGE))
        await until_async(lambda: parts.links.broken == [("dialled", 2)])


async def test_c1_error_of_the_disk_while_a_snapshot_is_fetched_ends_the_server(directory, tmp_path, monkeypatch):
    def fail(file):
        raise OSError(errno.EIO, "Input/output error")

    async with transfers_from(tmp_path / "leader") as (address, zxid, chain):
        monkeypatch.setattr(RealFile, "sync", fail)
        with pytest.RaisesGroup(pytest.RaisesExc(ServerFailedError, match="cannot write what is fetched: .*output")):
            async with running(directory, addresses={2: address}) as parts:
                parts.do(fx.FetchSnapshot(3, 2, zxid, chain, LINEAGE))
                await trio.sleep(PATIENCE_SECONDS)
        assert not any(isinstance(given, ev.SnapshotInstalled) for given in parts.member.inputs)
        assert parts.links.broken == []


async def test_unusable_snapshot_breaks_the_link_to_that_leader(directory, tmp_path):
    async with transfers_from(tmp_path / "leader") as (address, zxid, chain):
        leader = tmp_path / "leader" / snapshot_path(zxid)
        data = bytearray(leader.read_bytes())
        data[-30] ^= 1
        leader.write_bytes(bytes(data))
        async with running(directory, addresses={2: address}) as parts:
            parts.do(fx.FetchSnapshot(3, 2, zxid, chain, LINEAGE))
            await until_async(lambda: parts.links.broken == [("dialled", 2)])


async def test_snapshot_is_written_beside_and_the_log_begins_a_new_file(directory):
    async with running(directory) as parts:
        batches = batches_from(parts.storage, 2)
        parts.do(fx.AppendBatches(1, batches[:1]))
        tree = DataTree()
        tree.applied = batches[0].zxid
        parts.do(TakeSnapshot(batches[0].zxid, batches[0].chain, tree.begin_snapshot()))
        await parts.member.wait_for(SnapshotTaken(batches[0].zxid))
        assert parts.taken == [{}]
        parts.do(fx.AppendBatches(1, batches[1:]))
        await parts.member.wait_for(ev.Durable(1, batches[1].zxid))
        assert len(parts.storage.log.segments) == 2
        assert parts.storage.disk.exists(snapshot_path(batches[0].zxid))


async def test_no_loop_work_waits_for_the_disk(directory, monkeypatch):
    """H3: a disk that hangs holds the log thread, never a turn."""
    async with running(directory) as parts:
        may_go = threading.Event()
        real = parts.storage.perform

        def slow(effects):
            may_go.wait(PATIENCE_SECONDS)
            return real(effects)

        monkeypatch.setattr(parts.storage, "perform", slow)
        parts.do(fx.DrainLog(1))
        await trio.sleep(0.05)
        for _ in range(5):
            before = parts.order.count("links.receive")
            parts.loop.wake()
            await until_async(lambda count=before: parts.order.count("links.receive") > count)
        assert not may_go.is_set()
        assert parts.turn.longest_ns < PATIENCE_SECONDS * 1_000_000_000 / 2
        may_go.set()
        await parts.member.wait_for(ev.LogDrained(1))
