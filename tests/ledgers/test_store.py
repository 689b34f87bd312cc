"""The client on bookies in memory: what callers get and when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.lowlevel

from tests.ledger.memory import MemoryBookie
from tests.ledgers.memory_bookies import SILENCE, MemoryBookies, memory_bookies
from tests.rigs.in_process import members_here
from tests.rigs.waiting import until_async
from zab.client import connect
from zab.ledger.metadata.ledger_metadata import LedgerState
from zab.ledger.wire.messages import AddEntry, ReadBatch, ReadEntry, answer_without
from zab.ledger.wire.status import Status
from zab.ledgers import (
    BackpressureError,
    BadPasswordError,
    DigestError,
    DigestType,
    EntryLostError,
    EntryTooLargeError,
    LacUnknownError,
    LedgerClosedByOtherError,
    LedgerClosedError,
    LedgerFencedError,
    LedgerNotClosedError,
    LedgerStore,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NoSuchRootError,
    NotConfirmedError,
    NotEnoughBookiesError,
    RecoveryAbortedError,
    RecoverySettings,
    SealedError,
    StoreSettings,
    WriterSettings,
    open_store,
)
from zab.ledgers.tools import AlreadyClosedError, NotReservedError, reserve, seal_at, take_reserved

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ensemble():
    with members_here(1) as members:
        yield members


@asynccontextmanager
async def stored(ensemble, count: int = 3, **settings) -> AsyncIterator[tuple[LedgerStore, MemoryBookies]]:
    async with connect(ensemble.hosts) as root:
        path = f"/{root.nonce()}"
        await root.create(path)
        zk = root.with_chroot(path)
        async with memory_bookies(zk, count) as bookies, open_store(zk, settings=StoreSettings(**settings)) as store:
            yield store, bookies


async def test_entries_are_read_as_they_were_appended(ensemble) -> None:
    async with stored(ensemble) as (store, _):
        async with store.create() as ledger:
            assert await ledger.append(b"a") == 0
            ticket = ledger.append_nowait(b"b")
            assert ticket.entry == 1
            assert await ticket.done() == 1
        reader = await store.open(ledger.id)
        assert [(entry.id, entry.payload) async for entry in reader.entries()] == [(0, b"a"), (1, b"b")]


async def payloads(reader) -> list[bytes]:
    return [entry.payload async for entry in reader.entries()]


@pytest.mark.parametrize("protocol", ["v2", "v3"])
@pytest.mark.parametrize("digest", list(DigestType))
@pytest.mark.parametrize("quorums", [(3, 3, 2), (3, 2, 2), (1, 1, 1)])
async def test_both_protocols_each_digest_striped_or_not(ensemble, protocol, digest, quorums) -> None:
    wanted = [b"%d" % each for each in range(20)]
    async with stored(ensemble, protocol=protocol) as (store, _):
        async with store.create(*quorums, digest=digest, password=b"pw", custom={"k": b"v"}) as ledger:
            for each in wanted[:-1]:
                ledger.append_nowait(each)
            await ledger.append(wanted[-1])
        assert await payloads(await store.open(ledger.id, b"pw")) == wanted
        assert (await store.metadata(ledger.id)).custom == {"k": b"v"}


async def test_appends_of_many_tasks_are_in_the_order_of_the_calls(ensemble) -> None:
    ids = {}

    async def append(ledger, each) -> None:
        ids[each] = await ledger.append(b"%d" % each)

    async with stored(ensemble) as (store, _):
        async with store.create() as ledger, trio.open_nursery() as nursery:
            for each in range(200):
                nursery.start_soon(append, ledger, each)
        found = await payloads(await store.open(ledger.id))
        assert {each: found[entry] for each, entry in ids.items()} == {each: b"%d" % each for each in range(200)}


async def test_a_bookie_that_is_killed_under_load_is_replaced(ensemble) -> None:
    async with stored(ensemble, 4) as (store, bookies):
        async with store.create() as ledger:
            first = ledger.metadata.last_fragment.ensemble
            for each in range(100):
                ledger.append_nowait(b"%d" % each)
            await ledger.flush()
            bookies.all[first[0]].kill()
            count = 100
            with trio.fail_after(10):
                while len(ledger.metadata.fragments) == 1:
                    assert await ledger.append(b"%d" % count) == count
                    count += 1
            assert first[0] not in ledger.metadata.last_fragment.ensemble
        assert await payloads(await store.open(ledger.id)) == [b"%d" % each for each in range(count)]


async def test_a_bookie_that_hangs_is_replaced_and_hung_up_on(ensemble) -> None:
    """A bookie that answers nobody fails when `add_timeout_ms` is over; its connection is closed."""
    writer = WriterSettings(add_timeout_ms=200)
    async with stored(ensemble, 4, writer=writer) as (store, bookies), store.create(3, 3, 3) as ledger:
        await ledger.append(b"a")
        slow = bookies.all[ledger.metadata.last_fragment.ensemble[0]]
        slow.gate = trio.Event()
        assert await ledger.append(b"b") == 1
        assert slow.id not in ledger.metadata.last_fragment.ensemble
        slow.gate.set()
        await until_async(lambda: not slow.streams)


async def test_without_bookies_to_replace_it_the_writer_seals(ensemble) -> None:
    """What is answered with a definite error is never read later."""
    async with stored(ensemble, 3) as (store, bookies):
        ledger = await store.create()
        await ledger.append(b"a")
        for each in list(bookies.all.values())[:2]:
            each.kill()
        with pytest.raises(SealedError) as caught:
            await ledger.append(b"b")
        assert caught.value.definite
        assert isinstance(caught.value.__cause__, NotEnoughBookiesError)
        with pytest.raises(SealedError):
            await ledger.close()
        with pytest.raises(SealedError):
            await ledger.append(b"c")
        assert (await store.metadata(ledger.id)).last == 0
        assert await payloads(await store.open(ledger.id)) == [b"a"]


async def test_a_writer_that_is_fenced_does_not_know_and_finds_out(ensemble) -> None:
    """Two clients: the second recovers. Entries whose outcome was unknown are resolved one by one."""
    async with stored(ensemble) as (store, bookies):
        ledger = await store.create()
        await ledger.append(b"a")
        kept = [each.ledgers[ledger.id] for each in bookies.all.values()]
        gates = [trio.Event() for _ in kept]
        for each, gate in zip(bookies.all.values(), gates, strict=True):
            each.gate = gate
        ticket = ledger.append_nowait(b"b")
        watching = await store.open_no_recovery(ledger.id)
        async with connect(ensemble.hosts + store.zk.operations.chroot) as other, open_store(other) as theirs:
            async with trio.open_nursery() as nursery:
                recovered = []

                async def recover() -> None:
                    recovered.append(await theirs.recover(ledger.id))

                nursery.start_soon(recover)
                await until_async(lambda: watching.metadata.state is not LedgerState.OPEN)
                for each in kept:
                    each.fenced = True
                for gate in gates:
                    gate.set()
            with pytest.raises(LedgerFencedError) as caught:
                await ticket.done()
            assert not caught.value.definite
            assert caught.value.entries == (1,)
            resolved = await caught.value.resolve()
            assert resolved.last == recovered[0].last == 0
            assert (resolved.written, resolved.not_written) == ((), (1,))
            with pytest.raises(LedgerFencedError) as late:
                await ledger.append(b"c")
            assert late.value.definite
            with pytest.raises(LedgerFencedError):
                await ledger.close()


async def test_a_close_after_a_recovery_says_who_closed_it(ensemble) -> None:
    async with stored(ensemble) as (store, _):
        ledger = await store.create()
        await ledger.append(b"a")
        await store.recover(ledger.id)
        # The recovery found the same end, so this writer's close has done what it should.
        await ledger.close()

    async with stored(ensemble) as (store, bookies):
        ledger = await store.create()
        await ledger.append(b"a")
        for each in bookies.all.values():
            each.gate = trio.Event()
        ticket = ledger.append_nowait(b"b")
        while not all(len(each.streams) for each in bookies.all.values()):
            await trio.lowlevel.checkpoint()
        await store.zk.set(*_closed_at(store, ledger, 5))
        with pytest.raises(LedgerClosedByOtherError) as caught:
            await ledger.close(drain=False)
        assert caught.value.last == 5
        assert await ticket.done() == 1


def _closed_at(store, ledger, last):
    from zab.ledger.metadata.paths import ledger_path
    from zab.ledger.metadata.serialized import encode_metadata

    return ledger_path(store.settings.root, ledger.id), encode_metadata(ledger.metadata.closed_at(last, 10))


async def test_limits_of_an_append(ensemble) -> None:
    writer = WriterSettings(entry_bytes_max=10, pending_entries_max=2, waiting_appends_max=1)
    async with stored(ensemble, writer=writer) as (store, bookies):
        async with store.create() as ledger:
            with pytest.raises(EntryTooLargeError):
                ledger.append_nowait(b"x" * 11)
            with pytest.raises(EntryTooLargeError):
                await ledger.append(b"x" * 11)
            gates = [trio.Event() for _ in bookies.all]
            for each, gate in zip(bookies.all.values(), gates, strict=True):
                each.gate = gate
            tickets = [ledger.append_nowait(b"a"), ledger.append_nowait(b"b")]
            with pytest.raises(BackpressureError) as caught:
                ledger.append_nowait(b"c")
            assert caught.value.definite
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ledger.append, b"d")
                await trio.testing.wait_all_tasks_blocked(0.01)
                with pytest.raises(BackpressureError):
                    await ledger.append(b"e")
                for gate in gates:
                    gate.set()
            assert [await each.done() for each in tickets] == [0, 1]
        assert await payloads(await store.open(ledger.id)) == [b"a", b"b", b"d"]
        with pytest.raises(LedgerClosedError):
            await ledger.append(b"late")


async def test_an_append_that_is_cancelled_while_it_waits_for_room_is_not_in_the_ledger(ensemble) -> None:
    writer = WriterSettings(pending_entries_max=1)
    async with stored(ensemble, writer=writer) as (store, bookies):
        async with store.create() as ledger:
            gates = [trio.Event() for _ in bookies.all]
            for each, gate in zip(bookies.all.values(), gates, strict=True):
                each.gate = gate
            ticket = ledger.append_nowait(b"a")
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ledger.append, b"never")
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    scope.cancel()
            for gate in gates:
                gate.set()
            assert await ticket.done() == 0
            assert await ledger.append(b"b") == 1
        assert await payloads(await store.open(ledger.id)) == [b"a", b"b"]


async def test_an_append_that_is_cancelled_with_an_id_is_on_its_way(ensemble) -> None:
    async with stored(ensemble) as (store, bookies):
        async with store.create() as ledger:
            gates = [trio.Event() for _ in bookies.all]
            for each, gate in zip(bookies.all.values(), gates, strict=True):
                each.gate = gate
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ledger.append, b"a")
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    scope.cancel()
            for gate in gates:
                gate.set()
            assert await ledger.append(b"b") == 1
        assert await payloads(await store.open(ledger.id)) == [b"a", b"b"]


async def test_an_exception_in_the_block_closes_without_waiting(ensemble) -> None:
    """What is not acknowledged when the block is left is not in the ledger."""
    async with stored(ensemble) as (store, bookies):
        tickets = []

        async def fail() -> None:
            async with store.create() as ledger:
                await ledger.append(b"a")
                for each in bookies.all.values():
                    each.gate = trio.Event()
                tickets.append(ledger.append_nowait(b"b"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        [ticket] = tickets
        with pytest.raises(LedgerClosedError) as caught:
            await ticket.done()
        assert caught.value.definite
        for each in bookies.all.values():
            each.gate.set()
        [info] = [each async for each in store.ledgers()]
        assert await payloads(await store.open(info.id)) == [b"a"]


async def test_the_end_of_the_store_closes_its_ledgers(ensemble) -> None:
    async with connect(ensemble.hosts) as root:
        path = f"/{root.nonce()}"
        await root.create(path)
        zk = root.with_chroot(path)
        async with memory_bookies(zk, 3):
            with trio.CancelScope() as scope:
                async with open_store(zk) as store:
                    ledger = await store.create()
                    await ledger.append(b"a")
                    scope.cancel()
                    await trio.sleep_forever()
            async with open_store(zk) as store:
                assert (await store.metadata(ledger.id)).state is LedgerState.CLOSED


async def test_the_password_is_needed(ensemble) -> None:
    async with stored(ensemble) as (store, _):
        async with store.create(password=b"pw") as ledger:
            await ledger.append(b"a")
        for wrong in (b"", b"other"):
            with pytest.raises(BadPasswordError):
                await store.open(ledger.id, wrong)
            with pytest.raises(BadPasswordError):
                await store.open_no_recovery(ledger.id, wrong)
            with pytest.raises(BadPasswordError):
                await store.recover(ledger.id, wrong)
        assert await payloads(await store.open(ledger.id, None)) == [b"a"]


async def test_a_tail_follows_the_writer_to_the_end(ensemble) -> None:
    writer = WriterSettings(explicit_lac_ms=10)
    async with stored(ensemble, writer=writer) as (store, _):
        async with store.create() as ledger:
            reader = await store.open_no_recovery(ledger.id)
            found = []

            async def follow() -> None:
                async for entry in reader.tail():
                    found.append(entry.payload)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow)
                for each in range(5):
                    await ledger.append(b"%d" % each)
                    await until_async(lambda each=each: len(found) > each)
                assert await reader.read_last_confirmed() >= 3
                await ledger.close()
        assert found == [b"%d" % each for each in range(5)]


async def test_a_damaged_copy_is_passed_over_and_a_damaged_entry_is_told(ensemble) -> None:
    async with stored(ensemble) as (store, bookies):
        async with store.create() as ledger:
            await ledger.append(b"payload")
            await ledger.append(b"other")
        copies = [each.ledgers[ledger.id].entries for each in bookies.all.values()]
        for copy in copies[:2]:
            copy[0] = copy[0][:-1] + b"X"
        reader = await store.open(ledger.id)
        assert (await reader.read(0)).payload == b"payload"
        copies[2][0] = copies[2][0][:-1] + b"X"
        with pytest.raises(DigestError) as caught:
            await (await store.open(ledger.id)).read(0)
        assert caught.value.entry == 0
        assert caught.value.bookies == frozenset(bookies.all)
        assert (await reader.read(1)).payload == b"other"


async def test_an_entry_that_every_bookie_has_lost(ensemble) -> None:
    async with stored(ensemble) as (store, bookies):
        async with store.create() as ledger:
            await ledger.append(b"a")
            await ledger.append(b"b")
        for each in bookies.all.values():
            del each.ledgers[ledger.id].entries[1]
        reader = await store.open(ledger.id)
        entries = reader.entries()
        assert (await anext(entries)).payload == b"a"
        with pytest.raises(EntryLostError) as caught:
            await anext(entries)
        assert caught.value.entry == 1
        with pytest.raises(NotConfirmedError) as beyond:
            await reader.read(2)
        assert beyond.value.last_confirmed == 1


async def test_too_few_bookies_prove_nothing(ensemble) -> None:
    recovery = RecoverySettings(patience_ms=300, request_timeout_ms=100)
    async with stored(ensemble, recovery=recovery) as (store, bookies):
        ledger = await store.create()
        await ledger.append(b"a")
        for each in list(bookies.all.values())[:2]:
            each.before_answer = lambda request: answer_without(request, Status.UNKNOWN_LEDGER_STATE)
        reader = await store.open_no_recovery(ledger.id)
        with pytest.raises(LacUnknownError):
            await reader.read_last_confirmed()
        with pytest.raises(RecoveryAbortedError) as caught:
            await store.open(ledger.id)
        assert not caught.value.definite
        assert len(caught.value.unknown) == 2
        for each in bookies.all.values():
            each.before_answer = None
        assert (await store.recover(ledger.id)).last == 0
        with pytest.raises(LedgerFencedError):
            await ledger.append(b"b")


async def test_deleting(ensemble) -> None:
    async with stored(ensemble) as (store, bookies):
        ledger = await store.create()
        await ledger.append(b"a")
        with pytest.raises(LedgerNotClosedError):
            await store.delete(ledger.id)
        await ledger.close()
        reader = await store.open(ledger.id)
        await store.delete(ledger.id)
        await store.delete(ledger.id)
        for each in bookies.all.values():
            each.ledgers.clear()
        with pytest.raises((NoSuchLedgerError, EntryLostError)):
            await reader.read(0)
        with pytest.raises(NoSuchLedgerError):
            await store.open(ledger.id)
        with pytest.raises(NoSuchLedgerError):
            await store.recover(ledger.id)


async def test_listing(ensemble) -> None:
    async with stored(ensemble) as (store, _):
        ids = []
        for _ in range(3):
            async with store.create() as ledger:
                ids.append(ledger.id)
        from zab.ledger.metadata.paths import ledger_path

        await store.zk.set(ledger_path(store.settings.root, ids[1]), b"rubbish")
        found = [each async for each in store.ledgers()]
        assert [each.id for each in found] == ids
        assert [each.metadata is None for each in found] == [False, True, False]
        assert found[1].fault
        assert [each.id async for each in store.ledgers(ids[0])] == ids[1:]


async def test_a_root_is_formatted_once(ensemble) -> None:
    async with connect(ensemble.hosts) as root:
        path = f"/{root.nonce()}"
        await root.create(path)
        zk = root.with_chroot(path)
        with pytest.raises(NoSuchRootError):
            async with open_store(zk):
                pass
        async with open_store(zk, has_root=False) as store:
            assert await store.format("a")
            assert not await store.format("b")
        async with open_store(zk) as store:
            with pytest.raises(NotEnoughBookiesError):
                await store.create()
            with pytest.raises(ValueError, match="1 <= ack"):
                await store.create(3, 2, 3)


async def test_a_reader_that_is_left_early_asks_nothing_more(ensemble) -> None:
    async with stored(ensemble) as (store, _):
        async with store.create() as ledger:
            for _ in range(50):
                ledger.append_nowait(b"x" * 1000)
        async with await store.open(ledger.id) as reader:
            entries = reader.entries()
            assert (await anext(entries)).id == 0
            entries.close()
            with pytest.raises(StopAsyncIteration):
                await anext(entries)
            assert len([entry async for entry in reader.entries(10, 20)]) == 11
        driven = store.driving.count
        reader = await store.open(ledger.id)
        assert store.driving.count == driven + 1
        del reader
        await store.metadata(ledger.id)
        assert store.driving.count == driven


async def test_batches_that_a_bookie_does_not_know_are_read_one_by_one(ensemble) -> None:
    async with stored(ensemble) as (store, bookies):
        async with store.create() as ledger:
            for each in range(50):
                ledger.append_nowait(b"%d" % each)

        def refuse(request):
            return answer_without(request, Status.BAD_REQUEST) if isinstance(request, ReadBatch) else None

        for each in bookies.all.values():
            each.before_answer = refuse
        assert len(await payloads(await store.open(ledger.id))) == 50


async def test_answers_that_break_the_protocol_end_the_connection_alone(ensemble) -> None:
    async with stored(ensemble) as (store, bookies):
        async with store.create() as ledger:
            await ledger.append(b"a")
            one = bookies[0]
            for stream in list(one.streams):
                await stream.send_all(b"\xff" * 100)
            for each in range(5):
                await ledger.append(b"%d" % each)
        assert len(await payloads(await store.open(ledger.id))) == 6


async def test_a_request_without_an_answer_ends_in_time(ensemble) -> None:
    async with stored(ensemble, request_timeout_ms=200) as (store, bookies), store.create(1, 1, 1) as ledger:
        await ledger.append(b"a")
        bookie = bookies.all[ledger.metadata.last_fragment.ensemble[0]]
        bookie.before_answer = lambda _request: SILENCE
        answer = await store.ask(bookie.id, ReadEntry(ledger.id, 0))
        assert answer.status in (Status.TIMED_OUT, Status.UNREACHABLE)
        bookie.before_answer = None
        assert (await store.ask(bookie.id, ReadEntry(ledger.id, 0))).status is Status.OK
        assert (await store.ask("nobody", ReadEntry(ledger.id, 0))).status is Status.UNREACHABLE


async def test_a_busy_bookie_is_asked_again(ensemble) -> None:
    async with stored(ensemble) as (store, bookies):
        refused = set()

        def busy(request):
            if isinstance(request, AddEntry) and request.entry not in refused:
                refused.add(request.entry)
                return answer_without(request, Status.TOO_MANY_REQUESTS)
            return None

        async with store.create(3, 3, 3) as ledger:
            first = ledger.metadata.last_fragment.ensemble
            bookies[0].before_answer = busy
            for each in range(10):
                await ledger.append(b"%d" % each)
            assert ledger.metadata.last_fragment.ensemble == first
            assert refused


async def test_only_a_reserved_ledger_gets_a_writer_later_and_one_alone(ensemble) -> None:
    outcomes = []

    async def take(store, ledger) -> None:
        try:
            outcomes.append(await take_reserved(store, ledger))
        except NotReservedError as error:
            outcomes.append(error)

    async with stored(ensemble) as (store, _), store.create() as writer:
        with pytest.raises(NotReservedError):
            await take_reserved(store, writer.id)
        reserved = await reserve(store, 3, 3, 2)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(take, store, reserved)
        [taken] = [each for each in outcomes if not isinstance(each, NotReservedError)]
        async with taken as ledger:
            assert await ledger.append(b"a") == 0
        with pytest.raises(NotReservedError):
            await take_reserved(store, reserved)
        with pytest.raises(NoSuchLedgerError):
            await take_reserved(store, reserved + 1)


async def test_a_ledger_is_sealed_by_decree(ensemble) -> None:
    """Its end is where it was told, if that entry can be read, and never before what was confirmed."""
    async with stored(ensemble, 4) as (store, bookies):
        ledger = await store.create()
        for each in range(5):
            await ledger.append(b"%d" % each)
        for each in bookies.all.values():
            each.ledgers.get(ledger.id, MemoryBookie()).entries.pop(4, None)
        with pytest.raises(EntryLostError):
            await seal_at(store, ledger.id, 4)
        metadata = await seal_at(store, ledger.id, 3)
        assert (metadata.last, metadata.length) == (3, 4)
        assert await payloads(await store.open(ledger.id)) == [b"0", b"1", b"2", b"3"]
        with pytest.raises(AlreadyClosedError):
            await seal_at(store, ledger.id, 2)


async def test_the_end_of_the_session(ensemble) -> None:
    """Appends go on; what needs metadata says why it cannot be done."""
    async with stored(ensemble) as (store, _):
        ledger = await store.create()
        session = store.zk.session_id
        await trio.to_thread.run_sync(ensemble.expire, session)
        await until_async(lambda: store.driving.session_end is not None)
        assert await ledger.append(b"a") == 0
        with pytest.raises(MetadataUnavailableError) as caught:
            await store.metadata(ledger.id)
        assert caught.value.__cause__ is store.driving.session_end
        with pytest.raises(MetadataUnavailableError):
            await store.create()
