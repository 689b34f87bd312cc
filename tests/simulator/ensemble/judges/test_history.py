"""The paper's properties: for each a history that breaks it, which the judge must refuse under that name."""

import pytest

from datatree.log.batch import Batch, build, genesis
from datatree.log.zxid import make_zxid
from datatree.opcodes import OpCode
from datatree.record import Txn, encode
from datatree.requests import PathOnly, PathVersion
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.judges.requests import Asked
from zab.simulator.world.verdict import SafetyError

LINEAGE = bytes(range(16))
START = (0, genesis(LINEAGE))

P1, P2 = (1, 1), (2, 1)


def batch_behind(previous: tuple[int, bytes], epoch: int, text: bytes = b"") -> Batch:
    """The next batch of an epoch after a position: one refused write."""
    last = previous[0]
    first = last + 1 if last >> 32 == epoch else make_zxid(epoch, 1)
    body = encode(Txn(first, 1, 0, 0, -1, -101, b"/" + text, None, (1,)))
    return build(
        previous[1], epoch=epoch, first=first, count=1, time=1, flags=0, mark=last, applied=0, digest=0, body=body
    )


def end(batch: Batch) -> tuple[int, bytes]:
    return batch.zxid, batch.chain


@pytest.fixture
def history() -> History:
    """Two processes; the first leads epoch 1 and has broadcast three batches, which nobody has delivered."""
    history = History()
    for sid in (1, 2, 3):
        history.starts_at(sid, 0, START[1], [])
    return history


@pytest.fixture
def batches(history: History) -> list[Batch]:
    made: list[Batch] = []
    position = START
    for _ in range(3):
        batch = batch_behind(position, 1)
        history.broadcast(P1, batch, position)
        made.append(batch)
        position = end(batch)
    return made


def test_deliveries_in_one_order_are_fine(history: History, batches: list[Batch]) -> None:
    for sid in (1, 2, 1, 3, 1, 2, 3, 2, 3):
        history.deliver(sid, batches[history._places[sid]])
    assert history.end == batches[-1].zxid


def test_two_primaries_of_one_epoch_break_leadership(history: History) -> None:
    history.leads(P1, 4)
    history.leads(P1, 4)
    with pytest.raises(SafetyError, match="leadership"):
        history.leads(P2, 4)


def test_a_process_that_was_restarted_is_another_primary(history: History) -> None:
    history.leads(P1, 4)
    with pytest.raises(SafetyError, match="leadership"):
        history.leads((1, 2), 4)


def test_a_batch_that_nobody_broadcast_breaks_integrity(history: History, batches: list[Batch]) -> None:
    with pytest.raises(SafetyError, match="integrity"):
        history.deliver(2, batch_behind(START, 1, b"other"))


def test_another_batch_in_the_same_place_breaks_agreement(history: History, batches: list[Batch]) -> None:
    history.deliver(1, batches[0])
    with pytest.raises(SafetyError, match="agreement"):
        history.deliver(2, batch_behind(START, 1, b"other"))


def test_another_order_breaks_total_order(history: History, batches: list[Batch]) -> None:
    for batch in batches:
        history.deliver(1, batch)
    with pytest.raises(SafetyError, match="total_order"):
        history.deliver(2, batches[1])


def test_a_hole_in_what_a_primary_broadcast_breaks_local_primary_order(history: History, batches: list[Batch]) -> None:
    history.deliver(1, batches[0])
    with pytest.raises(SafetyError, match="local_primary_order"):
        history.deliver(1, batches[2])


def test_a_broadcast_of_an_earlier_primary_behind_a_later_one_breaks_global_primary_order(
    history: History, batches: list[Batch]
) -> None:
    history.deliver(1, batches[0])
    later = batch_behind(end(batches[0]), 2)
    history.broadcast(P2, later, end(batches[0]))
    history.deliver(1, later)
    with pytest.raises(SafetyError, match="global_primary_order"):
        history.deliver(1, batches[1])


def test_a_primary_that_begins_without_what_was_delivered_breaks_primary_integrity(
    history: History, batches: list[Batch]
) -> None:
    for batch in batches:
        history.deliver(1, batch)
    with pytest.raises(SafetyError, match="primary_integrity"):
        history.broadcast(P2, batch_behind(end(batches[1]), 2), end(batches[1]))


def test_what_is_delivered_of_an_earlier_primary_once_a_later_one_began_without_it_breaks_primary_integrity(
    history: History, batches: list[Batch]
) -> None:
    history.deliver(1, batches[0])
    history.broadcast(P2, batch_behind(end(batches[0]), 2), end(batches[0]))
    with pytest.raises(SafetyError, match="primary_integrity"):
        history.deliver(1, batches[1])


def test_a_deposed_primary_may_go_on_without_knowing(history: History, batches: list[Batch]) -> None:
    history.deliver(1, batches[0])
    later = batch_behind(end(batches[0]), 3)
    history.broadcast(P2, later, end(batches[0]))
    history.deliver(2, batches[0])
    history.deliver(2, later)
    history.broadcast((3, 1), batch_behind(end(batches[0]), 2), end(batches[0]))


def test_a_start_with_another_history_breaks_agreement(history: History, batches: list[Batch]) -> None:
    history.deliver(1, batches[0])
    with pytest.raises(SafetyError, match="agreement"):
        history.starts_at(2, batches[0].zxid, bytes(16), [])
    with pytest.raises(SafetyError, match="agreement"):
        history.starts_at(2, batches[0].zxid + 7, bytes(16), [])


def test_a_start_may_deliver_what_nobody_else_has(history: History, batches: list[Batch]) -> None:
    history.starts_at(2, batches[1].zxid, batches[1].chain, batches[:2])
    assert history.end == batches[1].zxid
    history.deliver(1, batches[0])


class TestSyncs:
    """Nothing that a client asked for before a sync is done after it."""

    def ask(self, history: History, number: int, xid: int, opcode: OpCode, version: int = -1) -> Asked:
        body = PathOnly(b"/") if opcode == OpCode.SYNC else PathVersion(b"/x", version)
        asked = Asked(9, number, xid, int(opcode), body, 0, 0)
        if asked.is_write:
            history.ask(asked)
        return asked

    def done(self, history: History, zxid: int, xid: int) -> None:
        txn = Txn(zxid, 1, 9, xid, int(OpCode.DELETE), -1, b"/x", None, ())
        history._requested(txn)
        history.txns[zxid] = txn

    def test_a_write_that_is_done_behind_the_sync_after_it(self, history: History) -> None:
        self.ask(history, 1, 1, OpCode.DELETE)
        sync = self.ask(history, 2, 2, OpCode.SYNC)
        history.synced(sync, 5)
        with pytest.raises(SafetyError, match="sync"):
            self.done(history, 6, 1)

    def test_the_same_where_it_is_done_before_the_answer_is_heard(self, history: History) -> None:
        self.ask(history, 1, 1, OpCode.DELETE)
        sync = self.ask(history, 2, 2, OpCode.SYNC)
        self.done(history, 6, 1)
        history.synced(sync, 6)
        with pytest.raises(SafetyError, match="sync"):
            history.synced(sync, 5)

    def test_requests_that_look_alike_are_not_taken_for_each_other(self, history: History) -> None:
        """The first one was lost with its connection."""
        self.ask(history, 1, 1, OpCode.DELETE, version=1)
        sync = self.ask(history, 2, 2, OpCode.SYNC)
        meant, next_one = (self.ask(history, number, xid, OpCode.DELETE) for number, xid in ((3, 1), (4, 2)))
        self.done(history, 6, 1)
        self.done(history, 7, 2)
        history.synced(sync, 5)
        assert history.requested == {6: meant, 7: next_one}
        with pytest.raises(SafetyError, match="order"):
            self.done(history, 8, 1)
