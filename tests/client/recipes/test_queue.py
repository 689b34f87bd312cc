"""Queues: each item once, with a loss at every request."""

from collections import Counter

import pytest
import trio

from datatree.opcodes import OpCode
from tests.client.recipes.workers import again_and_again, until
from tests.client.recipes.world import KINDS, World, of_each, run, trials
from zab.client import Client, ConnectionLossError, Transaction
from zab.client.recipes.errors import LostError, WaitOverError
from zab.client.recipes.queue import LockingQueue, Queue, Taken, in_order

pytestmark = pytest.mark.slow

PATH = "/queues/a"
ENTRIES = f"{PATH}/entries"


@pytest.mark.parametrize("kind", of_each(["request", "answer", "connection"]))
def test_each_item_is_put_once_and_taken_once_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        taken: list[bytes] = []

        async def put() -> None:
            async with world.connect("putter") as zk:
                queue = Queue(zk, PATH)
                for number in range(4):
                    await queue.put(b"%d" % number)

        async def take(name: str) -> None:
            async with world.connect(name) as zk:
                queue = Queue(zk, PATH)
                while len(taken) < 4:
                    try:
                        taken.append(await queue.get(wait_s=0.4))
                    except WaitOverError:
                        continue

        async with trio.open_nursery() as nursery:
            nursery.start_soon(put)
            for name in ("one", "two"):
                nursery.start_soon(take, name)
        assert sorted(taken) == [b"0", b"1", b"2", b"3"]

    for world in trials(scenario, kind):
        assert world.below(ENTRIES) == world.below(f"{PATH}/waiting") == world.below(f"{PATH}/receipts") == []


@pytest.mark.parametrize("kind", of_each(KINDS))
def test_each_item_is_consumed_once_whatever_is_lost(kind: str) -> None:
    async def scenario(world: World) -> None:
        consumed: Counter[bytes] = Counter()
        tokens: list[int] = []
        held: dict[bytes, str] = {}

        async def take(name: str, zk: Client) -> None:
            queue = LockingQueue(zk, PATH, name=name)
            while world.below(ENTRIES):
                try:
                    async with queue.take(wait_s=0.5) as item:
                        assert item.data not in held
                        held[item.data] = name
                        try:
                            tokens.append(item.token)
                            with trio.move_on_after(0.2):
                                await item.lost()
                        finally:
                            del held[item.data]
                        await item.consume()
                        consumed[item.data] += 1
                except WaitOverError:
                    continue

        async with world.connect("putter") as zk:
            await LockingQueue(zk, PATH).put_all([b"a", b"b", b"c"])
            async with trio.open_nursery() as nursery:
                for name in ("one", "two"):
                    nursery.start_soon(again_and_again, world, name, lambda zk, name=name: take(name, zk))
        # Whether it was consumed, a client whose session ended at that moment does not know.
        assert all(count == 1 for count in consumed.values())
        assert len(consumed) >= 3 - (kind == "late")
        assert len(set(tokens)) == len(tokens)

    for world in trials(scenario, kind, ("one", "two")):
        assert world.below(ENTRIES) == world.below(f"{PATH}/taken") == world.below(f"{PATH}/waiting") == []


def test_who_is_cancelled_while_it_claims_takes_nothing_from_others() -> None:
    async def scenario(world: World) -> None:
        held: list[Taken] = []

        async def take(name: str, queue: LockingQueue) -> None:
            scope = world.scopes[name] = trio.CancelScope()
            with scope:
                held.append(await queue.get())

        async with world.connect("one") as one, world.connect("two") as two:
            await LockingQueue(one, PATH).put_all([b"a", b"b"])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(take, "one", LockingQueue(one, PATH))
                nursery.start_soon(take, "two", LockingQueue(two, PATH))
                # And another taker of the same session.
                nursery.start_soon(take, "one, too", LockingQueue(one, PATH))
                nursery.start_soon(end, nursery)
            await trio.sleep(1)
            assert len({item.data for item in held}) == len(held)
            assert all(item.is_held for item in held)
            assert len(world.below(f"{PATH}/taken")) == len(held)

    async def end(nursery: trio.Nursery) -> None:
        await trio.sleep(2)
        nursery.cancel_scope.cancel()

    for _ in trials(scenario, "cancel", ("one", "two")):
        pass


def test_items_come_by_priority_then_in_their_order() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            queue = Queue(zk, PATH)
            assert await queue.try_get() is None
            await queue.put(b"second")
            await queue.put(b"third")
            await queue.put(b"first", priority=0)
            await queue.put_all([b"fourth", b"fifth"], priority=999)
            assert await queue.count() == 5
            got = [await queue.get() for _ in range(4)]
            assert got == [b"first", b"second", b"third", b"fourth"]
            assert await queue.try_get() == b"fifth"
            with pytest.raises(WaitOverError, match=r"/queues/a: it did not come within 1 s"):
                await queue.get(wait_s=1)
            for priority in (-1, 1000):
                with pytest.raises(ValueError, match="a priority is from 0 to 999"):
                    await queue.put(b"", priority)

    run(scenario, World())


def test_other_names_are_no_items_and_numbers_wrap_around() -> None:
    names = ["entry-100--000000001", "entry-100-0000000000", "other", "entry-1-0000000001", "entry-٣00-0000000001"]
    assert in_order([*names, "entry-100--2147483648", "entry-100-2147483647"][:5]) == names[:2]
    assert in_order(["entry-100--2147483648", "entry-100-2147483647"]) == [
        "entry-100-2147483647",
        "entry-100--2147483648",
    ]


def test_an_item_wakes_one_of_those_who_wait() -> None:
    async def scenario(world: World) -> None:
        got: list[bytes] = []
        async with world.connect("putter") as zk, trio.open_nursery() as nursery:

            async def take(name: str) -> None:
                async with world.connect(name) as client:
                    got.append(await Queue(client, PATH).get())
                    await trio.sleep_forever()

            queue = Queue(zk, PATH)
            for number in range(3):
                nursery.start_soon(take, str(number))
            await until(lambda: len(world.below(f"{PATH}/waiting")) == 3)
            await trio.sleep(1)
            asked = len(world.requests)
            await queue.put(b"item")
            await until(lambda: got == [b"item"])
            await trio.sleep(1)
            woken = {name for name, opcode in world.requests[asked:] if name != "putter" and opcode is OpCode.GET_DATA}
            assert len(woken) == 1
            nursery.cancel_scope.cancel()

    run(scenario, World())


def test_an_item_comes_back_when_it_is_released_or_its_holder_is_gone() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("two") as two:
            queue = LockingQueue(two, PATH)
            await queue.put(b"item")
            async with world.connect("one") as one:
                other = LockingQueue(one, PATH)
                item = await other.get()
                assert await queue.try_get() is None
                assert await queue.count() == 1
                await item.release()
                assert not item.is_held
                with pytest.raises(LostError, match="it is released"):
                    await item.consume()
                assert (await other.get()).data == b"item"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.lowlevel.checkpoint)
                async with queue.take(wait_s=5) as item:
                    assert item.data == b"item"
                    await item.consume()
            assert await queue.count() == 0

    run(scenario, World())


def test_who_lost_an_item_cannot_consume_it() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            queue = LockingQueue(one, PATH)
            await queue.put(b"item")
            item = await queue.get()
            await two.delete(item.path)
            async with LockingQueue(two, PATH).take(wait_s=5) as theirs:
                assert theirs.token > item.token
                with pytest.raises(LostError):
                    await item.consume()
            await item.release()
            assert await queue.count() == 1

    run(scenario, World())


def test_a_claim_of_somebody_who_is_late_hides_no_consumed_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is lost, and another one, who has not heard of it yet, claims what is no more."""

    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            queue = LockingQueue(one, PATH)
            await queue.put(b"item")
            item = await queue.get()
            commit = Transaction.commit

            async def commit_and_lose(transaction: Transaction) -> None:
                await commit(transaction)
                monkeypatch.undo()
                await two.create(item.path, b"of two", ephemeral=True)
                raise ConnectionLossError(item.path)

            monkeypatch.setattr(Transaction, "commit", commit_and_lose)
            await item.consume()
            assert await two.exists(item.path) is not None
            assert await queue.count() == 0

    run(scenario, World())


def test_who_is_cancelled_while_it_waits_leaves_nothing() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("one") as zk:
            queue = LockingQueue(zk, PATH)
            scope = world.scopes["one"] = trio.CancelScope()
            with scope, pytest.raises(WaitOverError):
                await queue.get(wait_s=1)
            await until(lambda: not world.below(f"{PATH}/waiting") and not world.below(f"{PATH}/taken"))

    for _ in trials(scenario, "cancel"):
        pass


def test_who_is_cancelled_when_it_has_an_item_leaves_it_to_others() -> None:
    """Whatever it waits for then: an item that was claimed is handed out, or given back."""

    async def scenario(world: World) -> None:
        async with world.connect("one") as one, world.connect("two") as two:
            scope = world.scopes["one"] = trio.CancelScope()
            queue, other = LockingQueue(one, PATH), LockingQueue(two, PATH)
            got: list[Taken] = []

            async def take() -> None:
                with scope:
                    got.append(await queue.get())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(take)
                # By now it waits, unless it was cancelled before.
                await until(lambda: scope.cancelled_caught or len(world.below(f"{PATH}/taken")) == 0)
                await trio.sleep(1)
                await other.put(b"item")
            if not got:
                assert (await other.get(wait_s=1)).data == b"item"

    for _ in trials(scenario, "cancel", ("one",)):
        pass
