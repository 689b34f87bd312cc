"""Every order of events in a small world: 3/3/2, one entry, its writer, recoverers, three bookies that lose power.

Messages are delivered in any order, after any time, or never. A bookie has an add on disk before it answers; a fence is
first noted, then synced, and a power loss between takes it back. The rules are those of `zab.ledger.recovery` and of a
bookie's fence, each with a switch that breaks it; coverage and the number of proofs are the ones of
`zab.ledger.quorums`.

    explore(World()) -> Explored        how many states there are, and the way to the first one that breaks a promise

Checked in every state: G1 (an acknowledged entry is in the closed ledger), G6 (each entry of it has Qa copies), and
that a world in which nothing more can happen has closed its ledger (G10).

`normal` says which states are one: bookies are alike, since all members hold every entry, and so are recoverers; what
nobody will look at is not told apart; and where an order makes no difference, one is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from attrs import frozen

from zab.ledger.quorums.coverage import absent_needed, is_covered

E, QW, QA = 3, 3, 2
NEEDED = absent_needed(QW, QA)

# The metadata.
OPEN, RECOVERING, EMPTY, WHOLE = range(4)
# The writer.
WAITING, RELEASED, STOPPED = range(3)
# A recoverer.
IDLE, FENCING, READING, WRITING, CLOSING_EMPTY, CLOSING_WHOLE, OVER = range(7)
# Of a bookie: the add of the writer.
ADD_SENT, ADD_OK, ADD_COUNTED, ADD_REFUSED, ADD_OVER = range(5)
# Its fence.
UNFENCED, NOTED, FENCED = range(3)
# Its answer to the LAC phase of one recoverer, and to its read, whose answer is no or yes.
UNSENT, SENT, HELD, ANSWERED, COUNTED = range(5)
NO_HELD, NO_ANSWERED, NO_COUNTED, YES_HELD, YES_ANSWERED, YES_COUNTED = range(2, 8)

ADD, HAS, FENCE, FIRST = range(4)
LAC, READ, WRITTEN = range(3)
"""For each recoverer, from FIRST on."""

_HEARD = {ADD_OK: ADD_COUNTED, ADD_REFUSED: ADD_OVER}

State = tuple[int, int, tuple[int, ...], int, tuple[tuple[int, ...], ...]]
"""Metadata, writer, phases of recoverers, power losses left, bookies."""


@frozen
class World:
    """recoverers: how many. losses: how many power losses. The switches are the rules.

    is_eager: recoverers hear answers at once, and what they no longer need is never delivered; for worlds that are too
    large otherwise. No promise is broken only without it: an answer that is heard late is as good as a request that is
    delivered late, which leaves the bookie unfenced for longer; and a fence or a copy more breaks nothing.
    """

    recoverers: int = 1
    losses: int = 1
    reads_fence: bool = True
    negatives_wait: bool = True
    writes_back: bool = True
    proofs_needed: int = NEEDED
    is_eager: bool = False

    def begin(self) -> State:
        bookie = (ADD_SENT, 0, UNFENCED, *[UNSENT, UNSENT, UNSENT] * self.recoverers)
        return OPEN, WAITING, (IDLE,) * self.recoverers, self.losses, (bookie,) * E

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """What can happen next. Once the ledger is closed with the entry, nothing can be broken."""
        if state[0] == WHOLE:
            return
        yield from self._of_writer(state)
        for recoverer in range(self.recoverers):
            yield from self._of_recoverer(state, recoverer)
        for at, bookie in enumerate(state[4]):
            yield from self._of_bookie(state, at, bookie)

    def normal(self, state: State) -> State:
        """The one state that stands for all those without a difference for the promises."""
        metadata, writer, phases, losses, bookies = self._heard_at_once(state) if self.is_eager else state
        if metadata in (EMPTY, WHOLE):
            # What recoverers send now can only fence bookies, and keep the writer from an acknowledgement.
            bookies = tuple((*bookie[:FIRST], *[COUNTED] * (3 * self.recoverers)) for bookie in bookies)
            phases = (OVER,) * self.recoverers
        if metadata != OPEN and writer == WAITING:
            # The writer cannot close: it may as well hear of acknowledgements at once, and of refusals never.
            bookies = tuple((_HEARD.get(bookie[ADD], bookie[ADD]), *bookie[1:]) for bookie in bookies)
            if sum(bookie[ADD] == ADD_COUNTED for bookie in bookies) >= QA:
                writer = RELEASED
        if writer != WAITING:
            bookies = tuple((ADD_SENT if bookie[ADD] == ADD_SENT else ADD_OVER, *bookie[1:]) for bookie in bookies)
        if not losses:
            # The sync of a fence is a delay like any other.
            bookies = tuple(self._synced(bookie) for bookie in bookies)
        orders = [range(self.recoverers)]
        if self.recoverers == 2 and phases[0] <= phases[1]:
            orders = [(1, 0)] if phases[0] < phases[1] else [(0, 1), (1, 0)]
        choices = []
        for order in orders:
            blocks = [slice(FIRST + 3 * recoverer, FIRST + 3 * recoverer + 3) for recoverer in order]
            turned = sorted(
                (*bookie[:FIRST], *(value for block in blocks for value in bookie[block])) for bookie in bookies
            )
            choices.append((metadata, writer, tuple(phases[recoverer] for recoverer in order), losses, tuple(turned)))
        return min(choices)

    def _heard_at_once(self, state: State) -> State:
        while True:
            heard = [
                after
                for recoverer in range(self.recoverers)
                for _, after in self._of_recoverer(state, recoverer)
                if state[2][recoverer] in (FENCING, READING, WRITING)
            ]
            if not heard:
                return state
            state = heard[0]

    def _synced(self, bookie: tuple[int, ...]) -> tuple[int, ...]:
        if bookie[FENCE] != NOTED:
            return bookie
        synced = list(bookie)
        synced[FENCE] = FENCED
        for index in self._held(bookie):
            synced[index] += 1
        return tuple(synced)

    # -------------------------------------------------------------------------------------------------------- bookies

    def _of_bookie(self, state: State, at: int, bookie: tuple[int, ...]) -> Iterator[tuple[str, State]]:
        metadata, writer, phases, losses, bookies = state

        def put(*values: tuple[int, int], lost: int = 0) -> State:
            changed = list(bookie)
            for index, value in values:
                changed[index] = value
            return metadata, writer, phases, losses - lost, _with(bookies, at, tuple(changed))

        if bookie[ADD] == ADD_SENT:
            stored = ((ADD, ADD_OK), (HAS, 1)) if bookie[FENCE] == UNFENCED else ((ADD, ADD_REFUSED),)
            yield f"b{at} is sent the entry", put(*stored)
        if bookie[FENCE] == NOTED:
            freed = [(index, bookie[index] + 1) for index in self._held(bookie)]
            yield f"b{at} syncs its fence", put((FENCE, FENCED), *freed)
            if losses:
                # Whoever waits for an answer asks again.
                again = [(index, SENT) for index in self._held(bookie)]
                yield f"b{at} loses power", put((FENCE, UNFENCED), *again, lost=1)
        for recoverer in range(self.recoverers):
            first = FIRST + 3 * recoverer
            fenced = max(bookie[FENCE], NOTED)
            leaves_now = fenced == FENCED or (not self.negatives_wait and not bookie[HAS])
            if bookie[first + LAC] == SENT:
                answer = ANSWERED if leaves_now else HELD
                yield f"r{recoverer} fences b{at}", put((FENCE, fenced), (first + LAC, answer))
            if bookie[first + READ] == SENT:
                held = YES_HELD if bookie[HAS] else NO_HELD
                if self.reads_fence:
                    yield f"r{recoverer} reads b{at}", put((FENCE, fenced), (first + READ, held + leaves_now))
                else:
                    yield f"r{recoverer} reads b{at}", put((first + READ, held + 1))
            if bookie[first + WRITTEN] == SENT:
                yield f"r{recoverer} writes to b{at}", put((HAS, 1), (first + WRITTEN, ANSWERED))

    def _held(self, bookie: tuple[int, ...]) -> list[int]:
        held = []
        for first in range(FIRST, FIRST + 3 * self.recoverers, 3):
            held += [first + LAC] * (bookie[first + LAC] == HELD)
            held += [first + READ] * (bookie[first + READ] in (NO_HELD, YES_HELD))
        return held

    # -------------------------------------------------------------------------------------------------------- writer

    def _of_writer(self, state: State) -> Iterator[tuple[str, State]]:
        metadata, writer, phases, losses, bookies = state
        if metadata == OPEN:
            end = WHOLE if writer == RELEASED else EMPTY
            yield "w closes", (end, writer if writer == RELEASED else STOPPED, phases, losses, bookies)
        if writer != WAITING:
            return
        for at, bookie in enumerate(bookies):
            if bookie[ADD] == ADD_OK:
                changed = _with(bookies, at, (ADD_COUNTED, *bookie[1:]))
                acks = sum(each[ADD] == ADD_COUNTED for each in changed)
                yield f"w hears of b{at}", (metadata, RELEASED if acks >= QA else writer, phases, losses, changed)
            elif bookie[ADD] == ADD_REFUSED:
                yield "w is fenced", (metadata, STOPPED, phases, losses, _with(bookies, at, (ADD_OVER, *bookie[1:])))

    # ------------------------------------------------------------------------------------------------------ recoverer

    def _of_recoverer(self, state: State, recoverer: int) -> Iterator[tuple[str, State]]:
        metadata, writer, phases, losses, bookies = state
        first, phase = FIRST + 3 * recoverer, phases[recoverer]

        def go(to: int, bookies: tuple[tuple[int, ...], ...], metadata: int = metadata) -> State:
            return metadata, writer, _with(phases, recoverer, to), losses, bookies

        if phase == IDLE:
            if metadata in (OPEN, RECOVERING):
                yield f"r{recoverer} marks", go(FENCING, _all(bookies, first + LAC, SENT), RECOVERING)
            else:
                yield f"r{recoverer} finds it closed", go(OVER, bookies)
        elif phase in (CLOSING_EMPTY, CLOSING_WHOLE):
            end = EMPTY if phase == CLOSING_EMPTY else WHOLE
            # Refused: another one was faster, and its end counts.
            closed = end if metadata == RECOVERING else metadata
            yield f"r{recoverer} closes", go(OVER, self._forget(bookies, first), closed)
        for at, bookie in enumerate(bookies):
            if phase == FENCING and bookie[first + LAC] == ANSWERED:
                heard = _put(bookies, at, first + LAC, COUNTED)
                silent = {index for index, each in enumerate(heard) if each[first + LAC] != COUNTED}
                if is_covered(silent, E, QW, QA):
                    heard = _all(self._forget(heard, first), first + READ, SENT)
                    yield f"r{recoverer} hears of b{at}, covered", go(READING, heard)
                else:
                    yield f"r{recoverer} hears of b{at}", go(phase, heard)
            elif phase == READING and bookie[first + READ] in (NO_ANSWERED, YES_ANSWERED):
                yield (
                    f"r{recoverer} hears {_yes_or_no(bookie[first + READ])} of b{at}",
                    self._heard(state, recoverer, at),
                )
            elif phase == WRITING and bookie[first + WRITTEN] == ANSWERED:
                heard = _put(bookies, at, first + WRITTEN, COUNTED)
                if sum(each[first + WRITTEN] == COUNTED for each in heard) >= QA:
                    yield f"r{recoverer} has confirmed", go(CLOSING_WHOLE, self._forget(heard, first))
                else:
                    yield f"r{recoverer} hears that b{at} has it", go(phase, heard)

    def _heard(self, state: State, recoverer: int, at: int) -> State:
        """An answer to a read: is it the verdict?"""
        metadata, writer, phases, losses, bookies = state
        first = FIRST + 3 * recoverer
        heard = _put(bookies, at, first + READ, bookies[at][first + READ] + 1)
        phase = READING
        if heard[at][first + READ] == YES_COUNTED:
            heard = self._forget(heard, first)
            phase = CLOSING_WHOLE
            if self.writes_back:
                heard, phase = _all(heard, first + WRITTEN, SENT), WRITING
        elif sum(each[first + READ] == NO_COUNTED for each in heard) >= self.proofs_needed:
            heard, phase = self._forget(heard, first), CLOSING_EMPTY
        return metadata, writer, _with(phases, recoverer, phase), losses, heard

    def _forget(self, bookies: tuple[tuple[int, ...], ...], first: int) -> tuple[tuple[int, ...], ...]:
        """Answers that would be ignored. Requests under way fence bookies all the same; adds store."""
        forgotten = []
        for bookie in bookies:
            lac, read, written = bookie[first : first + 3]
            kept = (UNSENT,) if self.is_eager else (UNSENT, SENT)
            lac = lac if lac in kept else COUNTED
            read = read if read in kept else YES_COUNTED
            written = written if written in kept else COUNTED
            forgotten.append((*bookie[:first], lac, read, written, *bookie[first + 3 :]))
        return tuple(forgotten)


def _yes_or_no(answer: int) -> str:
    return "yes" if answer == YES_ANSWERED else "no"


def _with(values, at, value):
    return (*values[:at], value, *values[at + 1 :])


def _put(bookies, at, index, value):
    return _with(bookies, at, _with(bookies[at], index, value))


def _all(bookies, index, value):
    return tuple(_with(bookie, index, value) for bookie in bookies)


# -------------------------------------------------------------------------------------------------------------- search


@frozen
class Explored:
    """broken: the promise, "" if every state keeps all of them. steps: the shortest way to the state that does not."""

    states: int
    broken: str = ""
    steps: tuple[str, ...] = ()


def broken(state: State) -> str:
    """The promise that this state breaks."""
    metadata, writer, _, _, bookies = state
    if metadata == EMPTY and writer == RELEASED:
        return "G1: the entry was acknowledged, and the ledger is closed without it"
    if metadata == WHOLE and sum(bookie[HAS] for bookie in bookies) < QA:
        return "G6: the ledger is closed with an entry that has too few copies"
    return ""


def explore(world: World) -> Explored:
    """Breadth first, until a promise is broken or every state was seen."""
    begin = world.begin()
    came_from: dict[State, State | None] = {begin: None}
    waiting = deque([begin])
    while waiting:
        state = waiting.popleft()
        is_stuck = True
        for _, successor in world.successors(state):
            is_stuck = False
            after = world.normal(successor)
            if after in came_from:
                continue
            came_from[after] = state
            if promise := broken(after):
                return Explored(len(came_from), promise, _way(world, came_from, after))
            waiting.append(after)
        if is_stuck and state[0] in (OPEN, RECOVERING):
            way = _way(world, came_from, state)
            return Explored(len(came_from), "G10: nothing can happen, and it is not closed", way)
    return Explored(len(came_from))


def _way(world: World, came_from: dict[State, State | None], state: State) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        names = (name for name, each in world.successors(before) if world.normal(each) == state)
        steps.append(next(names))
        state = before
    return tuple(reversed(steps))
