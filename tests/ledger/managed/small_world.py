"""Every order of events of two owners of one log: a has it, and b takes it over. The ledgers themselves are right.

A ledger has at most one entry. a may roll when its own is acknowledged. Each owner has a value: a appends its own
before or after b comes, b after it has taken over. a's entry is on its way for any time; bookies refuse it when they
are fenced, or when they know that the ledger is gone. Recovery closes a ledger with the entry if it has arrived, or
without.

    explore(Rules()) -> Explored        how many states there are, and the way to the first one that breaks a promise

Checked in every state: a value is in the log at most once, and a value that was acknowledged is in the log.

Each of the rules of `zab.ledger.managed` can be switched off:

    claims       b writes its epoch into the list before it recovers
    abdicates    an owner that is fenced stops; else it makes another ledger, and appends its value again
    tombstones   a bookie that has collected a ledger refuses its entries; else it has forgotten the fence
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from attrs import evolve, frozen

# An entry: not sent, on its way, stored and not known to its writer, acknowledged, refused.
UNSENT, SENT, STORED, ACKNOWLEDGED, REFUSED = range(5)
# A ledger.
NONE, OPEN, FENCED, CLOSED, GONE, COLLECTED = range(6)
# An owner.
OUTSIDE, CLAIMED, RECOVERING, RECOVERED, OWNING, ROLLING, STOPPED = range(7)


@frozen
class Ledger:
    """`value`: whose value its entry is, as it is closed or will be; 0: none."""

    state: int = NONE
    writer: int = 0
    entry: int = UNSENT
    value: int = 0


@frozen
class State:
    ledgers: tuple[Ledger, ...]
    listed: tuple[int, ...]
    version: int
    owners: tuple[int, int]
    """What a does, and b."""
    read: tuple[int, int]
    """The version of the list that each of them has read."""
    has_value: tuple[bool, bool]
    """Whether its value is still to be appended."""
    acknowledged: tuple[bool, bool]


@frozen
class Rules:
    claims: bool = True
    abdicates: bool = True
    tombstones: bool = True


@frozen
class Explored:
    states: int
    broken: str = ""
    steps: tuple[str, ...] = ()


A, B = 0, 1
BEGIN = State((Ledger(OPEN, A),), (0,), 1, (OWNING, OUTSIDE), (1, 0), (True, True), (False, False))


def _with(values: tuple, at: int, value: object) -> tuple:
    return (*values[:at], value, *values[at + 1 :])


def _set(of: State, at: int, /, **fields: object) -> State:
    return evolve(of, ledgers=_with(of.ledgers, at, evolve(of.ledgers[at], **fields)))


def _own(state: State, who: int, phase: int) -> State:
    return evolve(state, owners=_with(state.owners, who, phase))


def successors(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    for who, name in ((A, "a"), (B, "b")):
        yield from _of_owner(state, rules, who, name)
    for at, ledger in enumerate(state.ledgers):
        yield from _of_bookies(state, rules, at, ledger)


def _of_owner(state: State, rules: Rules, who: int, name: str) -> Iterator[tuple[str, State]]:
    phase = state.owners[who]
    own = next((at for at in reversed(range(len(state.ledgers))) if state.ledgers[at].writer == who), None)
    if phase == OWNING and own is not None:
        ledger = state.ledgers[own]
        if ledger.entry == UNSENT and state.has_value[who]:
            sent = _set(state, own, entry=SENT)
            yield f"{name} sends to {own}", evolve(sent, has_value=_with(sent.has_value, who, False))
        if ledger.entry == STORED:
            told = evolve(state, acknowledged=_with(state.acknowledged, who, True))
            yield f"{name} is acknowledged by {own}", _set(told, own, entry=ACKNOWLEDGED)
        if ledger.entry == REFUSED or (ledger.entry == STORED and ledger.state != OPEN):
            if rules.abdicates:
                yield f"{name} is fenced, and stops", _own(state, who, STOPPED)
            else:
                again = evolve(state, has_value=_with(state.has_value, who, True))
                yield f"{name} is fenced, and rolls", _own(again, who, ROLLING)
        if who == A and ledger.state == OPEN and ledger.entry == ACKNOWLEDGED and len(state.ledgers) < 4:
            yield "a rolls", _rolled(state, own)
    if phase == ROLLING and len(state.ledgers) < 4:
        yield f"{name} makes a ledger", _listed(state, who, None)
    if who == B:
        yield from _takeover(state, rules)


def _rolled(state: State, own: int) -> State:
    """One multi: a's ledger is closed, and the next one is in the list, if the list is as a has read it."""
    if state.read[A] != state.version:
        return _own(state, A, STOPPED)
    return _listed(_set(state, own, state=CLOSED, value=A + 1), A, None)


def _takeover(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    phase = state.owners[B]
    if phase == OUTSIDE:
        if rules.claims:
            claimed = evolve(state, version=state.version + 1, read=_with(state.read, B, state.version + 1))
            yield "b claims", _own(claimed, B, CLAIMED)
        else:
            yield "b reads the list", _own(evolve(state, read=_with(state.read, B, state.version)), B, CLAIMED)
        return
    last = state.listed[-1]
    if phase == CLAIMED and state.read[B] == state.version:
        yield "b fences", _own(_set(state, last, state=FENCED), B, RECOVERING)
    elif phase == RECOVERING:
        ledger = state.ledgers[last]
        value = ledger.writer + 1 if ledger.entry in (STORED, ACKNOWLEDGED) else 0
        yield "b closes", _own(_set(state, last, state=CLOSED, value=value), B, RECOVERED)
    elif phase == RECOVERED and len(state.ledgers) < 4:
        yield "b makes a ledger", _listed(state, B, last)


def _listed(state: State, who: int, recovered: int | None) -> State:
    """One multi: a new ledger in the list, if the list is as this owner has read it. An empty ledger leaves it."""
    if state.read[who] != state.version:
        return _own(state, who, STOPPED)
    listed = state.listed
    if recovered is not None and not state.ledgers[recovered].value:
        state, listed = _set(state, recovered, state=GONE), listed[:-1]
    new = len(state.ledgers)
    state = evolve(
        state,
        ledgers=(*state.ledgers, Ledger(OPEN, who)),
        listed=(*listed, new),
        version=state.version + 1,
        read=_with(state.read, who, state.version + 1),
    )
    return _own(state, who, OWNING)


def _of_bookies(state: State, rules: Rules, at: int, ledger: Ledger) -> Iterator[tuple[str, State]]:
    if ledger.state == GONE:
        yield f"bookies collect {at}", _set(state, at, state=COLLECTED)
    if ledger.entry == SENT:
        if ledger.state == OPEN or (ledger.state == COLLECTED and not rules.tombstones):
            yield f"bookies store {at}", _set(state, at, entry=STORED)
        elif ledger.state in (FENCED, CLOSED, GONE, COLLECTED):
            yield f"bookies refuse {at}", _set(state, at, entry=REFUSED)


def broken(state: State) -> str:
    """The promise that this state breaks."""
    found = [0, 0]
    for at in state.listed:
        ledger = state.ledgers[at]
        is_there = ledger.value or (ledger.state in (OPEN, FENCED) and ledger.entry in (STORED, ACKNOWLEDGED))
        if is_there:
            found[ledger.writer] += 1
    for who, count in enumerate(found):
        if count > 1:
            return "a value twice"
        if state.acknowledged[who] and not count:
            return "acknowledged and lost"
    return ""


def explore(rules: Rules) -> Explored:
    """Breadth first, so the way that is found is a shortest one."""
    came: dict[State, tuple[State, str] | None] = {BEGIN: None}
    waiting = deque([BEGIN])
    while waiting:
        state = waiting.popleft()
        if why := broken(state):
            steps: list[str] = []
            at: State = state
            while (before := came[at]) is not None:
                at, step = before
                steps.insert(0, step)
            return Explored(len(came), why, tuple(steps))
        for step, following in successors(state, rules):
            if following not in came:
                came[following] = state, step
                waiting.append(following)
    return Explored(len(came))
