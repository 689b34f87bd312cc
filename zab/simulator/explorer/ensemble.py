"""The state of an explored ensemble, and every step that can come next.

    lead 3              the election's oracle lets a server lead
    follow 1 3          ... or follow a server that leads; its link comes up with that
    message 1-3 3       the next message of the link that 1 dialled to 3 reaches 3
    down 1-3 3          3 learns that this link is down; what was on its way to it is lost
    store 2             the storage effect of 2 that is next is done, durably
    give-up 2           2 has a role in vain, and every limit of its own is over
    start 2             a server that is down starts from its disk

    propose 3           a leader proposes one write
    crash 2, wipe 2     its process ends; its disk is lost as well
    rollback 2          its process ends; its disk is again what it was at the beginning
    break 1-3           a link breaks; each end learns of it by itself, at any time later
    silence 2           2 hears nobody for so long that every limit of its own is over

The last six are bounded in number, and epochs by the highest that may be accepted. A server that has lost its data
follows only whom a quorum of others names (B2 amnesiacs), which is the one thing that safety asks of an election. It
leads once something was delivered: before that a lineage may begin anew, as at a first start. There all are empty, and
that the election has seen this is nothing to rely on: anybody may lead, and follow anybody, at any time. One that was
rolled back is beyond what votes can tell: until it is readmitted it follows only a leader that has heard more from it
than it has (B4 rollbacks).

Judged in each state, beside what servers assert themselves: the properties of broadcast (`verdict`); a mark is on the
disks of a quorum when it is reached; what was delivered anywhere stays on the disks of a quorum; no lineage begins
after that (B3 first start); and what a message promises is on its sender's disk (`promises`).
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from marshal import dumps
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from datatree.log.batch import LINEAGE_BYTES, Position
from datatree.log.zxid import BEFORE_ALL
from zab.ids import Link, ServerId
from zab.peer_state import Settings
from zab.quorum import Majority
from zab.simulator.explorer.keys import LINKS_MAX, ends_of, link_of, renamed_link
from zab.simulator.explorer.site import Closed, Dialled, Marked, Output, Sent
from zab.simulator.explorer.sites import DOWN, Action, Sites, empty, founded
from zab.simulator.explorer.verdict import Verdicts
from zab.simulator.world.verdict import SafetyError

__all__ = ["Bounds", "Ensemble", "State", "Step", "shown"]

Step: TypeAlias = tuple[str, tuple[int, ...]]
"""Its name, and the servers or the link that it is about."""

_LINEAGE: Final = bytes(range(LINEAGE_BYTES))
_FIRST_EPOCH: Final = 1
_SHOWN_MAX: Final = 120
_PLAIN: Final = 2
"""The form of `marshal` without references: equal values are equal bytes, whatever they share."""


@attrs.frozen
class Bounds:
    """How much may happen."""

    voters: int = 3
    epochs: int = 2
    """That are begun, beside the one in which the ensemble has lived before."""
    writes: int = 1
    crashes: int = 1
    wipes: int = 0
    breaks: int = 1
    silences: int = 0
    rollbacks: int = 0
    empty: int = 0
    """Servers that begin with nothing. If all do, it is a first start."""


class Left(NamedTuple):
    """How often something may still happen."""

    writes: int
    crashes: int
    wipes: int
    breaks: int
    silences: int
    rollbacks: int


Wire: TypeAlias = tuple[tuple[int, int], tuple[int, ...]]
"""((link, the end that receives), numbers of the messages on their way)."""
Wires: TypeAlias = tuple[Wire, ...]
"""Of every end that is open, sorted."""


class State(NamedTuple):
    """All that decides what can come."""

    sites: tuple[int, ...]
    wires: Wires
    verdict: int
    left: Left


class Ensemble:
    """What can happen within these bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._sids = [ServerId(sid) for sid in range(1, bounds.voters + 1)]
        self.quorum = Majority(frozenset(self._sids))
        settings = [Settings(sid, self.quorum, frozenset(self._sids)) for sid in self._sids]
        # Whoever makes a lineage puts its id into it.
        self._is_first_start = bounds.empty >= bounds.voters
        self.sites = Sites(settings, is_symmetric=not self._is_first_start)
        self.verdicts = Verdicts(_LINEAGE, self.sites.renamings)
        self._settings = settings
        self._orders: dict[tuple[int, ...], list[int]] = {}
        self._wire_names: dict[Wire, list[Wire]] = {}
        """Each end of a link, with what is on its way to it, under every renaming."""
        self._place_of = {tuple(map(int, renaming)): at for at, renaming in enumerate(self.sites.renamings)}

    def beginning(self) -> State:
        """Everybody has just started, from what an ensemble left that has lived and written nothing."""
        bounds = self.bounds
        left = Left(*(getattr(bounds, name) for name in Left._fields))
        sites = [founded(settings, _LINEAGE) for settings in self._settings]
        sites[: bounds.empty] = [empty(settings) for settings in self._settings[: bounds.empty]]
        state = State(tuple(map(self.sites.intern, sites)), (), 0, left)
        for sid in self._sids:
            state = self.after(state, ("start", (sid,)))
        return state

    # ------------------------------------------------------------------------------------------------------------ steps

    def steps(self, state: State) -> Iterator[Step]:
        """Every step that can come next, but for the bound of epochs."""
        left, facts = state.left, [self.sites.facts[number] for number in state.sites]
        leaders = [each.sid for each in facts if each.is_leading]
        anybody_leads = self._is_first_start or self.verdicts.ends[state.verdict][0] > BEFORE_ALL
        for each in facts:
            sid = each.sid
            if not each.is_up:
                yield "start", (sid,)
                continue
            if each.can_store:
                yield "store", (sid,)
            if each.is_electing:
                if not each.is_rolled_back and (anybody_leads or not each.is_amnesiac):
                    yield "lead", (sid,)
                for leader in leaders:
                    if self._may_follow(state, sid, leader):
                        yield "follow", (sid, leader)
            if each.has_role and each.is_lonely:
                yield "give-up", (sid,)
            elif each.has_role and left.silences:
                yield "silence", (sid,)
            if left.writes and each.can_propose:
                yield "propose", (sid,)
            if left.crashes:
                yield "crash", (sid,)
            if left.wipes and self._may_be_lost(state, sid):
                yield "wipe", (sid,)
            if left.rollbacks and self._may_be_lost(state, sid):
                yield "rollback", (sid,)
        for (link, end), queue in state.wires:
            if queue and queue[0] != DOWN:
                yield "message", (link, end)
            if queue and queue[-1] == DOWN:
                yield "down", (link, end)
        if left.breaks:
            for (link, end), queue in state.wires:
                other = self._other(link, end)
                is_whole = not (queue and queue[-1] == DOWN) and any(at == (link, other) for at, _ in state.wires)
                if is_whole and end < other:
                    yield "break", (link,)

    def _may_follow(self, state: State, sid: ServerId, leader: ServerId) -> bool:
        """Anybody follows anybody, but for those whose disks have less than they said. Of these, an amnesiac follows
        whom a quorum of others that have their data follows now, itself included."""
        facts = [self.sites.facts[number] for number in state.sites]
        me = facts[sid - 1]
        if me.is_rolled_back:
            return facts[leader - 1].has_heard_more(me)
        if not me.is_amnesiac or self._is_first_start:
            return True
        others = [each for each in facts if each.sid != sid and not (each.is_amnesiac or each.is_rolled_back)]
        return self.quorum.contains({each.sid for each in others if leader in (each.sid, each.follows)})

    def _may_be_lost(self, state: State, sid: ServerId) -> bool:
        """The fault model: as long as a quorum of others is synchronized."""
        facts = [self.sites.facts[number] for number in state.sites]
        kept = {each.sid for each in facts if not (each.lacks_record or each.is_rolled_back)}
        return self.quorum.contains(kept - {sid})

    def after(self, state: State, step: Step) -> State:
        """The state after a step. Raises SafetyError, BrokenError."""
        name, arguments = step
        work = _Work(self, state)
        left = state.left
        if name in ("message", "down"):
            link, end = arguments
            work.hear(Link(link), ServerId(end), is_down=name == "down")
        elif name == "break":
            (link,) = arguments
            work.mark_down(Link(link))
            left = left._replace(breaks=left.breaks - 1)
        else:
            sid = ServerId(arguments[0])
            work.run(sid, _action_of(step))
            if name in _ENDS:
                work.cut(sid)
            if name in _BUDGETS:
                left = left._replace(**{_BUDGETS[name]: getattr(left, _BUDGETS[name]) - 1})
        made = work.state(left)
        self._judge(made)
        return made

    def said(self, state: State, step: Step) -> list[str]:
        """What the peer says that this step is about: why it does what it does."""
        name, at = step
        if name in ("message", "down"):
            link, end = at
            queue = dict(state.wires)[link, end]
            action: Action = ("message", link, queue[0]) if name == "message" else ("down", link)
            what = [str(self.sites.message(queue[0]))[:_SHOWN_MAX]] if name == "message" else []
            return what + self.sites.said(state.sites[end - 1], action)
        return [] if name == "break" else self.sites.said(state.sites[at[0] - 1], _action_of(step))

    def is_beyond(self, state: State) -> bool:
        """Whether some epoch is above the bound."""
        highest = self.bounds.epochs + (0 if self._is_first_start else _FIRST_EPOCH)
        return any(self.sites.facts[number].last_epoch > highest for number in state.sites)

    def _judge(self, state: State) -> None:
        """What was delivered anywhere is on the disks of a quorum."""
        end = self.verdicts.ends[state.verdict]
        if end[0] and not self.is_held(state, end):
            raise SafetyError("no committed write is lost", f"{end[0]:#x} was delivered, and is on no quorum of disks")

    def is_held(self, state: State, position: Position) -> bool:
        """Whether a quorum of disks holds it; one that was wiped or rolled back counts as if it did."""
        held = sum(position in self.sites.facts[number].logged for number in state.sites)
        lost = self.bounds.wipes - state.left.wipes + self.bounds.rollbacks - state.left.rollbacks
        return held + lost > len(self._sids) // 2

    def _other(self, link: int, end: int) -> int:
        dialler, acceptor = ends_of(link)
        return acceptor if end == dialler else dialler

    # --------------------------------------------------------------------------------------------------------- symmetry

    def digest(self, state: State) -> bytes:
        """The same for two states exactly if one is the other with its servers renamed."""
        names = [self.sites.names[number] for number in state.sites]
        lowest = tuple([self.sites.lowest[number] for number in state.sites])
        order = self._orders.get(lowest)
        if order is None:
            order = self._orders[lowest] = self._candidates(lowest)
        if len(order) == 1:
            return blake2b(dumps(self._renamed(state, names, order[0]), _PLAIN), digest_size=8).digest()
        return blake2b(min(dumps(self._renamed(state, names, at), _PLAIN) for at in order), digest_size=8).digest()

    def _candidates(self, lowest: tuple[int, ...]) -> list[int]:
        """The renamings that put the servers into the order of their lowest names."""
        renamings = self.sites.renamings
        if len(renamings) == 1:
            return [0]
        wanted = sorted(lowest)
        if len(set(lowest)) == len(lowest):
            return [self._place_of[tuple([wanted.index(name) + 1 for name in lowest])]]
        return [
            at
            for at, renaming in enumerate(renamings)
            if all(wanted[renaming[place] - 1] == name for place, name in enumerate(lowest))
        ]

    def _renamed(self, state: State, names: list[tuple[int, ...]], at: int) -> Any:
        renaming = self.sites.renamings[at]
        sites = [0] * len(names)
        for place, each in enumerate(names):
            sites[renaming[place] - 1 if renaming else place] = each[at]
        known = self._wire_names
        wires = [(known.get(wire) or self._named(wire))[at] for wire in state.wires]
        wires.sort()
        return sites, wires, self.verdicts.names[state.verdict][at], tuple(state.left)

    def _named(self, wire: Wire) -> list[Wire]:
        (link, end), queue = wire
        self._wire_names[wire] = made = [
            ((renamed_link(link, renaming), renaming[end - 1] if renaming else end), queue)
            for renaming in self.sites.renamings
        ]
        return made


class _Work:
    """A state while a step is taken."""

    def __init__(self, ensemble: Ensemble, state: State) -> None:
        self._ensemble = ensemble
        self._sites = list(state.sites)
        self._wires = dict(state.wires)
        self._verdict = state.verdict
        self._left = state.left
        self._marked: list[tuple[ServerId, Position]] = []

    def state(self, left: Left) -> State:
        made = State(tuple(self._sites), tuple(sorted(self._wires.items())), self._verdict, left)
        for sid, position in self._marked:
            if not self._ensemble.is_held(made, position):
                reason = f"server {sid} takes {position[0]:#x} for committed; it is on no quorum of disks"
                raise SafetyError("durability", reason)
        return made

    def run(self, sid: ServerId, action: Action) -> None:
        """Something happens to a server."""
        sites = self._ensemble.sites
        before = self._sites[sid - 1]
        number, outputs = sites.step(before, action)
        self._sites[sid - 1] = number
        if sites.facts[number].is_leading and sites.facts[number].lineage != sites.facts[before].lineage:
            self._judge_beginning(sid)
        for output in outputs:
            self._carry_out(sid, output)

    def _judge_beginning(self, sid: ServerId) -> None:
        """A leader has begun a lineage: nothing was delivered before (B3 first start)."""
        zxid, _ = self._ensemble.verdicts.ends[self._verdict]
        if zxid:
            raise SafetyError("one lineage", f"server {sid} begins another one, and {zxid:#x} was delivered")

    def _carry_out(self, sid: ServerId, output: Output) -> None:
        if isinstance(output, Sent):
            at = output.link, self._ensemble._other(output.link, sid)
            queue = self._wires.get(at)
            if queue is not None and not (queue and queue[-1] == DOWN):
                self._wires[at] = (*queue, self._ensemble.sites.number_of(output))
        elif isinstance(output, Closed):
            self._wires.pop((output.link, sid), None)
            self._mark(output.link, self._ensemble._other(output.link, sid))
        elif isinstance(output, Dialled):
            self._connect(sid, output.sid)
        elif isinstance(output, Marked):
            self._marked.append((sid, output.position))
        else:
            self._verdict = self._ensemble.verdicts.step(self._verdict, sid, output)

    def _connect(self, sid: ServerId, to: ServerId) -> None:
        """One that does not lead would refuse: that is as if nobody had dialled."""
        dialler, acceptor = (self._ensemble.sites.facts[self._sites[each - 1]] for each in (sid, to))
        if not acceptor.is_leading or (dialler.is_rolled_back and not acceptor.has_heard_more(dialler)):
            return
        links = (link_of(sid, to, number) for number in range(LINKS_MAX))
        link = next(link for link in links if (link, sid) not in self._wires and (link, to) not in self._wires)
        self._wires[link, sid] = self._wires[link, to] = ()
        self.run(to, ("up", link, sid, True))
        self.run(sid, ("up", link, to, False))

    def hear(self, link: Link, end: ServerId, *, is_down: bool) -> None:
        """What comes next on a link reaches its end."""
        queue = self._wires[link, end]
        if is_down:
            del self._wires[link, end]
            self.run(end, ("down", link))
        else:
            self._wires[link, end] = queue[1:]
            self.run(end, ("message", link, queue[0]))

    def _mark(self, link: int, end: int) -> None:
        queue = self._wires.get((link, end))
        if queue is not None and not (queue and queue[-1] == DOWN):
            self._wires[link, end] = (*queue, DOWN)

    def mark_down(self, link: int) -> None:
        """A link breaks."""
        for end in ends_of(link):
            self._mark(link, end)

    def cut(self, sid: ServerId) -> None:
        """All links of a server end with its process."""
        for link, end in list(self._wires):
            if end == sid:
                del self._wires[link, end]
                self._mark(link, self._ensemble._other(link, end))


_BUDGETS: Final = {
    "propose": "writes",
    "crash": "crashes",
    "wipe": "wipes",
    "rollback": "rollbacks",
    "silence": "silences",
}
_ENDS: Final = frozenset({"crash", "wipe", "rollback"})


def _action_of(step: Step) -> Action:
    """What a step that is about one server does with it."""
    name, arguments = step
    if name in ("lead", "follow"):
        return "adopt", ServerId(arguments[-1])
    return ("give_up",) if name in ("give-up", "silence") else (name,)


def shown(step: Step) -> str:
    """A step as a line."""
    name, arguments = step
    if name in ("message", "down", "break"):
        dialler, acceptor = ends_of(arguments[0])
        number = arguments[0] % LINKS_MAX
        link = f"{dialler}-{acceptor}" + (f".{number}" if number else "")
        return " ".join([name, link, *map(str, arguments[1:])])
    return " ".join([name, *map(str, arguments)])
