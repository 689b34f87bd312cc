"""Which ledgers are deleted: those that the coordination service no longer has. A bookie asks; nobody tells it.

Each guard is against a way in which live ledgers were lost somewhere:

1. The ledgers here are listed first, and the metadata read after that, with a `sync`: a ledger that is made meanwhile
   is no candidate, and no member that lags hides one.
2. `INSTANCEID` is this bookie's, before and after: an empty service, or another one, ends the round.
3. Only the directories of ids in which there are ledgers of this bookie are listed, in both trees. An error ends the
   round. A directory that is not there says nothing: BookKeeper's clients delete empty ones.
4. Each candidate is asked for by itself, after another `sync`.
5. **Valve**: a round that would delete too many ledgers deletes nothing, and says so, until three rounds agree.
6. What is deleted was a candidate in the round before too.
7. The tombstones are durable before anything is dropped (`bookie.py`); segments go later (`compaction.py`).

A round that ends early, for whatever reason, counts as one that has not been: the next one begins again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from zab.coordination.operations import Children, Exists, Get, Sync
from zab.coordination.steps import BATCH_MAX, Steps, read
from zab.ledger.bookie.config import BookieConfig
from zab.ledger.metadata.layout import INSTANCE_ID
from zab.ledger.metadata.paths import ledger_path

LISTED_TOGETHER: Final = 20
"""So many directories are listed at a time; each has up to 10,000 names."""
LOOKED_AT_TOGETHER: Final = 10_000
"""So many ledgers are looked up in listings at a time."""
ASKED_TOGETHER: Final = BATCH_MAX - 1
"""So many candidates are asked for at a time, with a `sync` before them."""


@frozen
class Candidates:
    """The ledgers that are not there, of those that were asked for."""

    ledgers: frozenset[int]
    asked: int


@frozen
class NoRound:
    """The round ended early."""

    reason: str


def find_candidates(root: str, instance: bytes, mine: Sequence[int]) -> Steps[Candidates | NoRound]:
    """Which of these ledgers, ascending, are gone from the metadata. Raises CoordinationError."""
    before = yield from _instance(root)
    if before != instance:
        return NoRound(f"{root}/{INSTANCE_ID} is not this bookie's")
    missing: list[int] = []
    for by_parent in _by_parent(root, mine):
        results = yield from read(Children(parent) for parent in by_parent)
        for (parent, names), listed in zip(by_parent.items(), results, strict=True):
            there = frozenset[str]() if listed.is_missing else frozenset(listed.must(parent).children)
            missing += [ledger for name, ledger in names if name not in there]
    gone: list[int] = []
    for at in range(0, len(missing), ASKED_TOGETHER):
        asked = missing[at : at + ASKED_TOGETHER]
        (_, *found) = yield from read((Sync(root), *(Exists(ledger_path(root, ledger)) for ledger in asked)))
        for ledger, result in zip(asked, found, strict=True):
            if result.is_missing:
                gone.append(ledger)
            else:
                result.must(ledger_path(root, ledger))
    after = yield from _instance(root)
    if after != instance:
        return NoRound(f"{root}/{INSTANCE_ID} has changed")
    return Candidates(frozenset(gone), len(mine))


def _by_parent(root: str, mine: Sequence[int]) -> Iterator[dict[str, list[tuple[str, int]]]]:
    """Some of these ledgers after the other: each with its name, by the directory that it is in."""
    found: dict[str, list[tuple[str, int]]] = {}
    count = 0
    for ledger in mine:
        parent, _, name = ledger_path(root, ledger).rpartition("/")
        if count == LOOKED_AT_TOGETHER or (parent not in found and len(found) == LISTED_TOGETHER):
            yield found
            found, count = {}, 0
        found.setdefault(parent, []).append((name, ledger))
        count += 1
    if found:
        yield found


def _instance(root: str) -> Steps[bytes | None]:
    """The id of the cluster now; None: there is none."""
    path = f"{root}/{INSTANCE_ID}"
    _, found = yield from read((Sync(root), Get(path)))
    return None if found.is_missing else found.must(path).data


class Collection:
    """What the rounds come to. `force` lets the next round delete as many as it finds twice."""

    def __init__(self, config: BookieConfig, finding: str = "are gone from the metadata") -> None:
        """`finding`: what was found of them."""
        self._config = config
        self._finding = finding
        self._former: list[frozenset[int]] = []
        """The candidates of the last two rounds, the newest last."""
        self._is_forced = False
        self.reports: list[str] = []
        """The bookie empties it."""

    def force(self) -> None:
        """The operator has looked at it."""
        self._is_forced = True

    def no_round(self) -> None:
        """A round ended early."""
        self._former.clear()

    def decide(self, found: Candidates) -> list[int]:
        """The ledgers to be deleted, ascending."""
        former, self._former = self._former, [*self._former[-1:], found.ledgers]
        if not former:
            return []
        agreed = found.ledgers & former[-1]
        if self._are_too_many(len(agreed), found.asked) and not self._is_forced:
            if len(former) < 2:
                self.reports.append(
                    f"{len(agreed)} of {found.asked} ledgers here {self._finding} -> nothing is deleted,"
                    " unless another round agrees; look whether the metadata are whole"
                )
                return []
            agreed &= former[0]
        self._is_forced = False
        return sorted(agreed)

    def _are_too_many(self, count: int, asked: int) -> bool:
        return count > self._config.collect_count_max or count > self._config.collect_share_max * asked
