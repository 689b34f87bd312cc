"""A member asks others over real sockets for what a hole in its log has lost (C9 holes)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from datatree.log.batch import Position
from datatree.log.zxid import Zxid
from datatree.recovery.holes import Hole, read_history
from datatree.recovery.recover import recover
from tests.datatree.histories import LINEAGE, Author
from tests.datatree.recovery.holes import PIECE_BYTES, damage, files, lived, lost, twin
from tests.rigs.waiting import PATIENCE_SECONDS, until_async
from tests.server.transfers import greeting, served_by
from zab.host.loop.conversation import Conversation, meet
from zab.host.loop.dial import Address
from zab.member.storage import snapshot_request
from zab.member.storage.hole_fill import find, put
from zab.member.storage.snapshot_request import (
    HISTORY_BYTES_MAX,
    REQUESTS,
    HistoryRequest,
    accepted,
    history_of,
    refused,
)
from zab.protocol.states import FOLLOWING, LOOKING, State
from zab.quorum.ids import ServerId
from zab.server import hole_filler
from zab.server.hole_filler import HoleFiller
from zab.server.snapshot_transfer import TransferServer
from zab.simulator.world.disk import FaultyDisk
from zab.wire.handshake import Agreed

STALL_SECONDS = 60.0
WHOLE = lived()[0]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hole_filler, "FILL_MS", 1)


@attrs.define
class Peer:
    amnesiac: bool = True
    state: State = LOOKING


def damaged() -> tuple[FaultyDisk, Hole]:
    disk = damage(twin(WHOLE), files(WHOLE)[1], 80, 300, 500)
    hole = find(disk, recover(disk), None)
    assert hole is not None
    return disk, hole


@asynccontextmanager
async def serving(
    disk: FaultyDisk, sid: int = 1, believes: Callable[[Agreed], bool] = lambda _agreed: True
) -> AsyncIterator[Address]:
    async with served_by(TransferServer(disk, 2, STALL_SECONDS, believes), sid) as address:
        yield address


async def asked(hole: Hole, others: Mapping[int, Address], peer: Peer | None = None) -> Hole | None:
    at = {ServerId(sid): address for sid, address in others.items()}
    with trio.fail_after(PATIENCE_SECONDS):
        return await HoleFiller(hole, ServerId(2), at, greeting(2), STALL_SECONDS, peer or Peer()).run()


def wanted(hole: Hole) -> tuple[Position, Zxid]:
    assert hole.wanted is not None
    return hole.wanted


def assert_filled(disk: FaultyDisk, hole: Hole | None) -> None:
    assert hole is not None
    assert put(disk, hole)
    assert recover(disk).last == recover(twin(WHOLE)).last


async def test_what_is_missing_comes_in_as_many_answers_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_request, "HISTORY_BYTES", PIECE_BYTES)
    disk, hole = damaged()
    async with serving(twin(WHOLE)) as address:
        assert_filled(disk, await asked(hole, {1: address}))


async def test_each_has_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches that one has lost, the other has."""
    monkeypatch.setattr(snapshot_request, "HISTORY_BYTES", 1)
    disk = twin(WHOLE)
    for path in files(WHOLE)[1:3]:
        disk.remove(path)
    hole = find(disk, recover(disk), None)
    assert hole is not None
    missing = read_history(WHOLE, LINEAGE, *wanted(hole), 1 << 20)
    one, other = (lost(twin(WHOLE), batch) for batch in (missing[0], missing[-1]))
    async with serving(one) as first, serving(other, 3) as third:
        assert_filled(disk, await asked(hole, {1: first, 3: third}))


async def test_who_is_not_there_is_asked_again() -> None:
    disk, hole = damaged()
    at = {ServerId(1): Address("127.0.0.1", 9), ServerId(3): Address("127.0.0.1", 9)}
    filler = HoleFiller(hole, ServerId(2), at, greeting(2), STALL_SECONDS, Peer())
    async with serving(twin(WHOLE)) as address, trio.open_nursery() as nursery:

        async def come() -> None:
            await until_async(lambda: filler.rounds_count > 2)
            at[ServerId(1)] = address

        nursery.start_soon(come)
        with trio.fail_after(PATIENCE_SECONDS):
            assert_filled(disk, await filler.run())


async def test_it_does_not_ask_itself() -> None:
    """The addresses of the members are also its own."""
    disk, hole = damaged()

    async def itself(_talk: Conversation, _asked: HistoryRequest) -> None:
        raise AssertionError("this is the one that asks")

    async with answered_by(itself, 2) as own, serving(twin(WHOLE)) as address:
        # In the first round the second one is asked first.
        assert_filled(disk, await asked(hole, {1: address, 2: own}))


async def test_a_leader_that_fills_this_member_is_let_do_it() -> None:
    _, hole = damaged()
    peer = Peer(state=FOLLOWING)
    at = {ServerId(1): Address("127.0.0.1", 9)}
    filler = HoleFiller(hole, ServerId(2), at, greeting(2), STALL_SECONDS, peer)
    async with trio.open_nursery() as nursery:

        async def synchronize() -> None:
            await trio.sleep(0.05)
            assert filler.rounds_count == 0, "while there is a leader nobody is asked"
            peer.amnesiac = False

        nursery.start_soon(synchronize)
        with trio.fail_after(PATIENCE_SECONDS):
            assert await filler.run() is None


Answering = Callable[[Conversation, HistoryRequest], Awaitable[None]]


@asynccontextmanager
async def answered_by(answer: Answering, sid: int = 1) -> AsyncIterator[Address]:
    """A member that answers as it likes."""

    async def handle(stream: trio.SocketStream) -> bool:
        async with stream:
            talk = await meet(stream, greeting(sid).listening(None))
            asked = REQUESTS.decode(await talk.receive())
            assert isinstance(asked, HistoryRequest)
            with contextlib.suppress(trio.BrokenResourceError):
                await answer(talk, asked)
        return True

    server = TransferServer(twin(WHOLE), 1, STALL_SECONDS, lambda _: True)
    async with served_by(server, sid, before=handle) as address:
        yield address


async def nothing(_talk: Conversation, _asked: HistoryRequest) -> None:
    """As a member of an earlier version, which does not know the request."""


async def refusal(talk: Conversation, _asked: HistoryRequest) -> None:
    await talk.send(refused("not now"))


async def garbage(talk: Conversation, _asked: HistoryRequest) -> None:
    await talk.send(accepted(300))
    await talk.send(bytes(300))


async def no_record(talk: Conversation, _asked: HistoryRequest) -> None:
    await talk.send(b"\xff")


async def too_much(talk: Conversation, _asked: HistoryRequest) -> None:
    await talk.send(accepted(HISTORY_BYTES_MAX + 1))
    with contextlib.suppress(EOFError):
        await talk.receive()


async def more_than_was_said(talk: Conversation, asked: HistoryRequest) -> None:
    data = history_of(WHOLE, asked)
    await talk.send(accepted(len(data) - 1))
    await talk.send(data)


async def half(talk: Conversation, asked: HistoryRequest) -> None:
    data = history_of(WHOLE, asked)
    await talk.send(accepted(len(data)))
    await talk.send(data[:50])


async def another_history(talk: Conversation, asked: HistoryRequest) -> None:
    """The numbers are right, and so is the chain to each batch from the one before."""
    real = read_history(WHOLE, LINEAGE, (asked.zxid, asked.chain), asked.upto, 1 << 20)
    author = Author(seed=77, start=(asked.zxid, asked.chain), epoch=asked.upto >> 32)
    data = b"".join(author.batch(batch.count, lag=1 << 30).raw for batch in real)
    await talk.send(accepted(len(data)))
    await talk.send(data)


@pytest.mark.parametrize(
    "answer",
    [nothing, refusal, garbage, no_record, too_much, more_than_was_said, half, another_history],
    ids=lambda answer: answer.__name__,
)
async def test_whatever_one_answers_another_one_fills_it(answer: Answering) -> None:
    disk, hole = damaged()
    count = 0

    async def counted(talk: Conversation, request: HistoryRequest) -> None:
        nonlocal count
        count += 1
        await answer(talk, request)

    async with answered_by(counted) as wrong, serving(twin(WHOLE), 3) as right:
        # In the first round the second one is asked first.
        assert_filled(disk, await asked(hole, {3: right, 1: wrong}))
    assert count == 1


async def test_no_more_is_sent_when_the_secret_was_taken_away() -> None:
    _, hole = damaged()
    filler_ended = trio.Event()

    async def ask() -> None:
        at = {ServerId(1): address}
        filler = HoleFiller(hole, ServerId(2), at, greeting(2), STALL_SECONDS, peer)
        assert await filler.run() is None
        assert filler.rounds_count > 1
        filler_ended.set()

    peer = Peer()
    refusals: list[Agreed] = []

    def believes(agreed: Agreed) -> bool:
        refusals.append(agreed)
        peer.amnesiac = len(refusals) < 3
        return False

    async with serving(twin(WHOLE), believes=believes) as address, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        with trio.fail_after(PATIENCE_SECONDS):
            await filler_ended.wait()
