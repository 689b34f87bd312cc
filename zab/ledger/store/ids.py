"""New ids of ledgers, as BookKeeper makes them: from sequential znodes.

    idgen/ID-0000000007                      short ids: below 2^31 - 1
    idgen-long/HOB-0000000001/ID-0000000007  long ids: 2^32 times the first number, plus the second

The long way is for everybody as soon as its directory exists, which the first client makes that gets no short id any
more. An id that was made and not used is lost, which is no harm: ids are unique, not dense. Znodes of ids are
ephemeral, and are deleted at once.

Not here: whether an id is taken all the same (`ledgers`): a rebuilt directory begins from 0 again.
"""

from __future__ import annotations

from typing import Final

from zab.coordination.operations import Children, CoordinationError, Create, Delete, Exists, Result, ZooKeeperError
from zab.coordination.steps import Steps, read
from zab.ledger.metadata.layout import IDS, LONG_IDS

SHORT_MAX: Final = (1 << 31) - 2
"""The largest number that one directory of sequential znodes gives."""
HIGH_ORDER_MAX: Final = (1 << 31) - 1
"""The largest first number of a long id, so that the id has 63 bits."""
KEPT_DIRECTORIES: Final = 3
"""So many directories of long ids are kept, the newest."""
TRIES_MAX: Final = 100
"""How often an id is asked for again: its directory is not there, or the answer was lost."""

_PREFIX: Final = "ID-"
_HIGH_ORDER: Final = "HOB-"


def new_ledger_id(root: str) -> Steps[int]:
    """An id that no other client gets. Raises CoordinationError if there is none."""
    long = f"{root}/{LONG_IDS}"
    (exists,) = yield from read((Exists(long),))
    if exists.is_missing:
        short = yield from _next_number(f"{root}/{IDS}")
        if short is not None:
            return short
        yield from _make(long)
    else:
        exists.must(long)
    return (yield from _new_long_id(long))


def _new_long_id(path: str) -> Steps[int]:
    (listed,) = yield from read((Children(path),))
    numbers = sorted(filter(None, map(_high_order, listed.must(path).children)))
    high = numbers[-1] if numbers else 1
    while high <= HIGH_ORDER_MAX:
        low = yield from _next_number(f"{path}/{_HIGH_ORDER}{high:010}")
        if low is not None:
            yield from _delete_old(path, [each for each in numbers if each <= high - KEPT_DIRECTORIES])
            return (high << 32) + low
        high += 1
    raise CoordinationError(path, ZooKeeperError.NODEEXISTS)


def _high_order(name: str) -> int | None:
    digits = name.removeprefix(_HIGH_ORDER)
    is_one = name != digits and digits.isascii() and digits.isdigit()
    return int(digits) if is_one and 0 < int(digits) <= HIGH_ORDER_MAX else None


def _next_number(directory: str) -> Steps[int | None]:
    """The next number of this directory, which is made if it is not there; None if it has no more."""
    prefix = f"{directory}/{_PREFIX}"
    for _ in range(TRIES_MAX):
        (created,) = yield (Create(prefix, ephemeral=True, sequential=True),)
        if created.is_missing:
            yield from _make(directory)
        elif not created.is_lost:
            yield (Delete(created.must(prefix).path),)
            number = int(created.path.removeprefix(prefix))
            return number if 0 <= number <= SHORT_MAX else None
    raise CoordinationError(directory, ZooKeeperError.CONNECTIONLOSS)


def _make(directory: str) -> Steps[None]:
    results: tuple[Result, ...] = yield (Create(directory),)
    [made] = results
    if not (made.is_lost or made.error == ZooKeeperError.NODEEXISTS):
        made.must(directory)


def _delete_old(path: str, numbers: list[int]) -> Steps[None]:
    """Directories of long ids that are full. One with a znode in it is deleted another time."""
    if numbers:
        yield tuple(Delete(f"{path}/{_HIGH_ORDER}{number:010}") for number in numbers)
