"""What one operation says about a znode: the state before it and the state after it, as far as its reply shows.

A znode is absent, or it has a value, a version and the zxid that wrote them; each of these may be unknown, and what is
unknown agrees with everything. The transition of an operation is a function: state before -> state after, or None when
the reply says that the state was another one.

`Loose` is for writes that are left out of a search, but may happen at any time and any number of times.
Deliberately not here: orders of operations (`zab.pipeline.history.search`).
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from attrs import frozen

from zab.pipeline.history.operation import CREATE, DELETE, EXISTS, FAILED, GET, OK, SET, WRITES, Operation

__all__ = [
    "BADVERSION",
    "BEGINNING",
    "NODEEXISTS",
    "NONODE",
    "NOTHING",
    "Loose",
    "State",
    "is_behind",
    "is_constraint",
    "is_refusal",
    "loosely",
    "observes_absence",
    "shows",
    "transition_of",
]

NONODE: Final = -101
BADVERSION: Final = -103
NODEEXISTS: Final = -110


class State(NamedTuple):
    """`present` is None in the unknown beginning; any other None is not known. `is_seen`: the value is known."""

    present: bool | None
    value: bytes | None
    is_seen: bool
    version: int | None
    mzxid: int | None


BEGINNING: Final = State(None, None, False, None, None)
_ABSENT: Final = State(False, None, True, None, None)


@frozen
class Loose:
    """The possible effects of writes that are left out."""

    values: frozenset[bytes | None] = frozenset()
    may_create: bool = False
    may_delete: bool = False

    @classmethod
    def of(cls, operations: Iterable[Operation]) -> "Loose":
        """The possible effects of these operations; those without effect are skipped."""
        writes = [one for one in operations if one.kind in WRITES and one.status != FAILED]
        return cls(
            frozenset(one.value for one in writes if one.kind != DELETE),
            any(one.kind == CREATE for one in writes),
            any(one.kind == DELETE for one in writes),
        )


NOTHING: Final = Loose()


def observes_absence(one: Operation) -> bool:
    """Whether it is a read that found no znode."""
    return one.kind in (GET, EXISTS) and one.status == FAILED and one.error == NONODE


def is_constraint(one: Operation) -> bool:
    """Whether the operation says anything about the znode."""
    if one.kind in WRITES:
        return one.status != FAILED or is_refusal(one)
    return observes_absence(one) or (one.kind in (GET, EXISTS) and one.status == OK)


def is_refusal(one: Operation) -> bool:
    """Whether it was refused for a reason in this znode alone."""
    if one.status != FAILED:
        return False
    if one.kind == CREATE:
        return one.error == NODEEXISTS
    if one.kind in (SET, DELETE):
        return one.error == NONODE or (one.error == BADVERSION and one.demand is not None)
    return False


def _agrees(known: int | None, said: int | None) -> bool:
    return known is None or said is None or known == said


def is_behind(state: State, one: Operation) -> bool:
    """Whether the operation found a later version than the state has, or may have."""
    if not state.present or state.version is None or one.status == FAILED:
        return True
    found = one.demand if one.version is None else one.version - (one.kind == SET)
    return found is None or found > state.version


def _read(one: Operation, state: State) -> State | None:
    if state.present is False:
        return None
    has_value = one.kind == GET
    if has_value and state.is_seen and state.value != one.value:
        return None
    if not _agrees(state.version, one.version) or (one.mzxid is not None and one.mzxid != state.mzxid):
        return None
    return State(
        True,
        one.value if has_value else state.value,
        state.is_seen or has_value,
        state.version if one.version is None else one.version,
        state.mzxid,
    )


def shows(read: Operation, state: State) -> bool:
    """Whether the read may show this state, whatever its zxid."""
    return _read(read, state._replace(mzxid=read.mzxid)) is not None


def _find_absent(_one: Operation, state: State) -> State | None:
    if state.present:
        return None
    return state if state.present is False else _ABSENT


def _create(one: Operation, state: State) -> State | None:
    if state.present or not _agrees(0, one.version):
        return None
    return State(True, one.value, True, 0, one.zxid)


def _set(one: Operation, state: State) -> State | None:
    before = _demanded(one, state)
    if before is None:
        return None
    version = None if before.version is None else before.version + 1
    if not _agrees(version, one.version) or one.version == 0:
        return None
    return State(True, one.value, True, version if one.version is None else one.version, one.zxid)


def _delete(one: Operation, state: State) -> State | None:
    return None if _demanded(one, state) is None else State(False, None, True, None, one.zxid)


def _demanded(one: Operation, state: State) -> State | None:
    """The state before a set or delete that was done, with what the operation says about it."""
    expected = one.demand
    if state.present is False or not _agrees(state.version, expected):
        return None
    return state if expected is None else state._replace(version=expected)


def _refused(one: Operation, state: State) -> State | None:
    if one.error == NONODE:
        return _find_absent(one, state)
    if state.present is False:
        return None
    if one.error == BADVERSION and state.version is not None and state.version == one.expected:
        return None
    return state if state.present else state._replace(present=True)


def loosely(one: Operation, loose: Loose) -> State | None:
    """The state after the operation if a fitting loose write came right before it."""
    sets = bool(loose.values)
    if one.kind in (GET, EXISTS):
        if observes_absence(one):
            return _ABSENT if loose.may_delete else None
        if not sets or (one.kind == GET and one.value not in loose.values):
            return None
        return State(True, one.value, one.kind == GET, one.version, one.mzxid)
    if one.status == FAILED:
        if one.error == NONODE:
            return _ABSENT if loose.may_delete else None
        return State(True, None, False, None, None) if sets else None
    if one.kind == CREATE:
        return _create(one, _ABSENT) if loose.may_delete else None
    return _APPLY[one.kind](one, State(True, None, False, None, None)) if sets else None


_APPLY: Final[dict[str, Callable[[Operation, State], State | None]]] = {CREATE: _create, SET: _set, DELETE: _delete}


def transition_of(one: Operation) -> Callable[[Operation, State], State | None]:
    if observes_absence(one):
        return _find_absent
    if one.kind in (GET, EXISTS):
        return _read
    return _refused if one.status == FAILED else _APPLY[one.kind]
