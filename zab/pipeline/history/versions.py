"""The versions of a znode along its writes: which version each write found and made, and which no known write made.

A create makes version 0, a set one more than it found. A version between two writes that no known write made was made
by a set of unknown outcome: each such *slot* needs one of its own.

Deliberately not here: zxids and time (`zab.pipeline.history.znode`).
"""

from bisect import bisect_left

from attrs import define

from zab.pipeline.history.operation import CREATE, DELETE, SET, Operation

__all__ = [
    "Slot",
    "StateAfter",
    "agree",
    "could_make",
    "found_version",
    "made_version",
    "missing_versions",
    "problem_of",
    "says_version",
    "unfilled_slots",
    "version_after",
]


@define(eq=False)
class StateAfter:
    """The znode after a write, as far as it is known; `by` is that write, None where nothing is known."""

    by: Operation | None = None
    present: bool | None = None
    version: int | None = None


@define(eq=False)
class Slot:
    """A version that no known write made, right before the write at `place`."""

    place: int
    version: int


def unfilled_slots(slots: list[Slot], makers: list[tuple[Operation, int]]) -> list[Slot]:
    """Fill as many slots as possible, each with a set of its own; return those that stay empty. slots: by rising place.

    makers: sets of unknown outcome, each with the place after which it has to be. One that demands a version fits only
    that slot; of these, the one with the latest place chooses first, and takes the earliest slot, which is the hardest
    to fill.
    """
    left = list(slots)
    free: list[int] = []
    for one, after in sorted(makers, key=lambda maker: -maker[1]):
        if one.expected is None or one.expected < 0:
            free.append(after)
            continue
        for number, slot in enumerate(left):
            if slot.version == one.expected + 1 and slot.place > after:
                del left[number]
                break
    free.sort()
    unfilled: list[Slot] = []
    used_count = 0
    for slot in left:
        if bisect_left(free, slot.place) > used_count:
            used_count += 1
        else:
            unfilled.append(slot)
    return unfilled


def problem_of(state: StateAfter, write: Operation) -> str | None:
    """Why this write cannot follow the state, whatever sets were in between; None if it can."""
    if write.kind == CREATE:
        if state.present:
            return "created, and created again without a delete in between"
        return f"created with version {write.version}" if write.version else None
    if state.present is False:
        return f"deleted, and then a {write.kind} found it"
    before = found_version(write)
    if write.kind == SET and (write.version == 0 or not agree(before, write.demand)):
        return f"a set made version {write.version}" + ("" if before == -1 else f" where it demanded {write.expected}")
    if before is not None and state.version is not None and before < state.version:
        return f"a {write.kind} found version {before} after version {state.version}"
    return None


def missing_versions(state: StateAfter, write: Operation) -> range:
    """The versions between the state and what the write found."""
    before = None if write.kind == CREATE else found_version(write)
    if before is None or state.version is None:
        return range(0)
    return range(state.version + 1, before + 1)


def found_version(write: Operation) -> int | None:
    """The version that a set or delete found, if its reply or its demand says so."""
    if write.kind == SET and write.version is not None:
        return write.version - 1
    return write.demand


def made_version(write: Operation) -> int | None:
    """The version after a create or set, if it says so."""
    if write.kind == CREATE:
        return 0
    found = found_version(write)
    return None if found is None else found + 1


def version_after(state: StateAfter, write: Operation, *, exact: bool) -> int | None:
    """`exact`: nothing may have happened in between."""
    if write.kind == DELETE:
        return None
    made = made_version(write)
    if made is None and exact and state.version is not None:
        return state.version + 1
    return made


def could_make(one: Operation, version: int | None) -> bool:
    """Whether a create or set of unknown outcome may have made this version."""
    if version is None:
        return True
    if one.kind == CREATE:
        return version == 0
    expected = one.demand
    return version > 0 and (expected is None or expected + 1 == version)


def says_version(one: Operation) -> bool:
    return one.kind != CREATE and (one.version is not None or one.demand is not None)


def agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other
