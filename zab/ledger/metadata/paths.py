"""The paths of ledgers below the root, and the order in which their tree is walked.

| id | digits | path | |
|---|---|---|---|
| below 2^31 - 1 | 10 | `<root>/NN/NNNN/LNNNN` | the short tree |
| from there on | 19 | `<root>/NNN/NNNN/NNNN/NNNN/LNNNN` | the long tree |

Names below the root tell the trees apart by their digits. Both trees are listed in the order of ids, the short one
first. Parents are made on demand, and BookKeeper's clients delete those that are empty: a creator whose parent is gone
makes it again, and a lister takes a znode that is gone for an empty one.

    top_names(names)                        of the children of the root, those to walk, in order
    inner_names(names)                      the same within a tree
    ledgers_in(root, parent, names)         the ids of the leaves, in order
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from zab.ledger.entries.ids import ID_MAX

LONG_FROM: Final = (1 << 31) - 1
"""The first id of the long tree."""

_SHORT: Final = re.compile(r"([0-9]{2})/([0-9]{4})/L([0-9]{4})", re.ASCII)
_LONG: Final = re.compile(r"([0-9]{3})/([0-9]{4})/([0-9]{4})/([0-9]{4})/L([0-9]{4})", re.ASCII)
_TOP: Final = re.compile(r"[0-9]{2,3}", re.ASCII)
_INNER: Final = re.compile(r"[0-9]{4}", re.ASCII)


def ledger_path(root: str, ledger: int) -> str:
    """The znode of a ledger's metadata."""
    assert 0 <= ledger <= ID_MAX, ledger
    if ledger < LONG_FROM:
        digits = f"{ledger:010}"
        return f"{root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger:019}"
    return f"{root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def ledger_of(root: str, path: str) -> int | None:
    """The ledger whose metadata is at this path; None: this is no ledger's path."""
    below = path.removeprefix(f"{root}/")
    found = _SHORT.fullmatch(below) or _LONG.fullmatch(below)
    if found is None or below == path:
        return None
    ledger = int("".join(found.groups()))
    return ledger if ledger <= ID_MAX and ledger_path(root, ledger) == path else None


def parents_of(root: str, path: str) -> list[str]:
    """The znodes between the root and a path below it, from the root on: in this order they are made, in the opposite
    order those that are empty may be deleted."""
    names = path.removeprefix(f"{root}/").split("/")[:-1]
    return ["/".join((root, *names[: count + 1])) for count in range(len(names))]


def top_names(names: Iterable[str]) -> list[str]:
    """The children of the root that are parts of the two trees, in the order of their ids. All others are skipped."""
    return sorted((name for name in names if _TOP.fullmatch(name)), key=lambda name: (len(name), name))


def inner_names(names: Iterable[str]) -> list[str]:
    """The children of an inner znode that are inner znodes, in the order of their ids."""
    return sorted(name for name in names if _INNER.fullmatch(name))


def ledgers_in(root: str, parent: str, names: Iterable[str]) -> list[int]:
    """The ledgers among the children of `parent`, in order."""
    found = (ledger_of(root, f"{parent}/{name}") for name in names)
    return sorted(ledger for ledger in found if ledger is not None)
