"""A history against the plainest thing that it could be: a list of all batches from the beginning."""

from random import Random

import pytest

from datatree.log.batch import Batch, Position, build
from zab.protocol.history import TRIMMED_PART, History

BASE: Position = (0, bytes(16))
BYTES_MAX = 4_000


def batch_after(position: Position, rng: Random) -> Batch:
    zxid, chain = position
    epoch, first = zxid >> 32 or 1, zxid + 1
    if not zxid or rng.random() < 0.1:
        epoch += bool(zxid)
        first = epoch << 32 | 1
    return build(
        chain,
        epoch=epoch,
        first=first,
        count=rng.randrange(1, 4),
        time=0,
        flags=0,
        mark=0,
        applied=0,
        digest=0,
        body=bytes(rng.randrange(1, 200)),
    )


def positions(base: Position, batches: list[Batch]) -> list[Position]:
    return [base, *((batch.zxid, batch.chain) for batch in batches)]


@pytest.mark.parametrize("seed", range(20))
def test_it_answers_as_a_list_of_its_batches_does(seed: int) -> None:
    rng = Random(seed)
    history = History(BASE, [], BYTES_MAX)
    base, kept, mark = BASE, list[Batch](), 0
    for _ in range(300):
        action = rng.random()
        if action < 0.7:
            batch = batch_after(history.last, rng)
            history.append(batch)
            kept.append(batch)
        elif action < 0.8:
            mark = max(mark, rng.choice(positions(base, kept))[0])
            history.trim(mark)
            gone = [batch for batch in kept if batch.zxid <= history.base[0]]
            kept = kept[len(gone) :]
            if gone:
                assert gone[-1].zxid <= mark
                base = gone[-1].zxid, gone[-1].chain
        elif action < 0.85:
            end = rng.choice([position for position in positions(base, kept) if position[0] >= mark])
            history.truncate(end)
            kept = [batch for batch in kept if batch.zxid <= end[0]]
        known = positions(base, kept)
        assert (history.base, history.last) == (base, known[-1])
        zxid = rng.randrange(max(0, base[0] - 3), history.last[0] + 3)
        assert history.floor(zxid) == max((at for at in known if at[0] <= zxid), default=None)
        assert history.chain_at(zxid) == dict(known).get(zxid)
        low, high = sorted((rng.choice(known)[0], rng.choice(known)[0]))
        assert history.between(low, high) == [batch for batch in kept if low < batch.zxid <= high]
        size = rng.randrange(600)
        rest = [batch for batch in kept if batch.zxid > low]
        fitting = [count for count in range(len(rest) + 1) if sum(len(b.raw) for b in rest[:count]) <= size]
        assert history.after(low, size) == rest[: max(1, *fitting)]


def test_what_is_trimmed_is_a_part_of_it_and_never_above_the_mark() -> None:
    rng = Random(1)
    history = History(BASE, [], BYTES_MAX)
    size = 0
    while size <= BYTES_MAX:
        history.append(batch_after(history.last, rng))
        size = sum(len(batch.raw) for batch in history.between(0, history.last[0]))
    history.trim(0)
    assert history.base == BASE
    history.trim(history.last[0])
    left = sum(len(batch.raw) for batch in history.between(history.base[0], history.last[0]))
    assert BYTES_MAX - BYTES_MAX // TRIMMED_PART - 300 < left <= BYTES_MAX - BYTES_MAX // TRIMMED_PART


def test_what_fills_it_to_the_brim_stays() -> None:
    batch = batch_after(BASE, Random(1))
    history = History(BASE, [batch], len(batch.raw))
    history.trim(batch.zxid)
    assert history.base == BASE


def test_the_batch_at_the_mark_may_go() -> None:
    batch = batch_after(BASE, Random(1))
    history = History(BASE, [batch], len(batch.raw) - 1)
    history.trim(batch.zxid)
    assert history.base == history.last == (batch.zxid, batch.chain)


@pytest.mark.parametrize("other", [bytes(16), b"\xff" * 16])
def test_a_position_is_a_zxid_and_a_chain(other: bytes) -> None:
    batch = batch_after(BASE, Random(1))
    history = History(BASE, [batch], BYTES_MAX)
    assert history.holds((batch.zxid, batch.chain))
    assert not history.holds((batch.zxid, other))


def test_nothing_is_left_after_a_reset() -> None:
    history = History(BASE, [batch_after(BASE, Random(1))], BYTES_MAX)
    old = history.last
    history.reset((7 << 32 | 9, b"c" * 16))
    assert history.chain_at(old[0]) is None
    assert history.floor(old[0]) is None
    assert history.after(7 << 32 | 9, 100) == []
