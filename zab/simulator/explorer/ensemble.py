"""The steps that are possible in a state of an explored ensemble (`states`).

    lead 3              the election's oracle lets a server lead
    follow 1 3          ... or follow a server that leads, whose link comes up
    message 1-3 3       the next message on the link that 1 dialled to 3 reaches 3
    down 1-3 3          3 learns that this link is down; messages on their way to it are lost
    store 2             the next storage effect of 2 is done, durably
    give-up 2           2 has a role without success, and all its time limits are over
    start 2             a server that is down starts from its disk

    hear 1 3            1 hears from 3 its configurations in force and outstanding, and whether it has a history
    ping 3              a leader checks whether it has to leave the lead, or to give up a hand-over

    propose 3           a leader proposes one write
    reconfigure 3 1     ... or the first configuration of its world
    hand-over 3 1       a leader is asked to hand over the lead to 1
    outsider 1 2        1 hears the second voice of its world, which is no server of the ensemble
    crash 2, wipe 2     the process of 2 ends; its disk is also lost
    rollback 2          the process of 2 ends, and its disk is set back to the beginning
    break 1-3           a link breaks; each end notices it separately, at any later time
    silence 2           2 hears nothing for so long that all its time limits are over

Steps from `propose` on, except the last two, are bounded in number, and epochs by the highest that may be accepted.

The oracle only names leaders from the configurations that a server knows. A server that has lost its data follows only
a leader that a quorum of others names (B2 amnesiacs), by the configurations that it knows itself: safety demands
nothing else of an election. This holds once something was delivered: before that a lineage may begin, as at a first
start. There all servers are empty, and the model does not rely on the election having seen this: any server may lead,
and follow any other, at any time. Votes cannot reveal a server that was rolled back: until it is readmitted it follows
only a leader that has heard more from it than it has (B4 rollbacks).

A vote is heard when it is sent: a late vote would only repeat what was heard before. Two servers hear each other if one
of them knows the other.

Each state is checked, besides the assertions of servers, for: the properties of broadcast (`verdict`); a mark is on the
disks of a quorum when it is reached, and each reconfiguration up to it on those of a quorum of both configurations;
delivered batches stay on the disks of a quorum of the last decided configuration; no lineage begins after that (B3
first start); the promises of a message are on its sender's disk (`promises`); and an heir's disk has the whole history
of the leader that hands over to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from marshal import dumps
from math import factorial
from typing import Any, Final

from datatree.log.batch import LINEAGE_BYTES, Position
from datatree.log.zxid import BEFORE_ALL, Epoch
from zab.protocol import message as msg
from zab.protocol.peer_settings import Settings
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Majority, each_of
from zab.simulator.explorer.configurations import Reader, first_of, text_of
from zab.simulator.explorer.keys import LINKS_MAX, ends_of, link_of, renamed_link
from zab.simulator.explorer.site import Closed, Dialled, Marked, Output, Sent, Told
from zab.simulator.explorer.sites import DOWN, Action, Facts, Sites, empty, founded
from zab.simulator.explorer.states import Bounds, Left, State, Step, Wire
from zab.simulator.explorer.verdict import Verdicts
from zab.simulator.explorer.worlds import WORLDS
from zab.simulator.world.verdict import SafetyError

_LINEAGE: Final = bytes(range(LINEAGE_BYTES))
_FIRST_EPOCH: Final = Epoch(1)
_SHOWN_MAX: Final = 120
_PLAIN: Final = 2
"""The version of `marshal` without references: equal values give equal bytes, even if they share objects."""


class Ensemble:
    """The states and steps within these bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.world = world = WORLDS[bounds.world]
        self._sids = [ServerId(sid) for sid in range(1, bounds.voters + 1)]
        files = world.files or (frozenset(self._sids),) * bounds.voters
        assert len(files) == bounds.voters
        settings = [
            Settings(sid, Majority(file), file, reader=Reader(), takes_unlisted=not world.is_plain)
            for sid, file in zip(self._sids, files, strict=True)
        ]
        # A server puts its id into a lineage that it makes.
        self._is_first_start = bounds.empty >= bounds.voters
        self.sites = Sites(settings, world, is_symmetric=not self._is_first_start)
        self._first = files[0]
        self._written = (first_of(_LINEAGE, _FIRST_EPOCH, self._first),) if world.changes else ()
        self.verdicts = Verdicts(_LINEAGE, self._first, self._written, self.sites.renamings)
        self._settings = settings
        self._orders: dict[tuple[int, ...], list[int]] = {}
        self._wire_names: dict[Wire, list[Wire]] = {}
        """Each end of a link with the messages on their way to it, under every renaming."""
        self._place_of = {tuple(map(int, renaming)): at for at, renaming in enumerate(self.sites.renamings)}

    def beginning(self) -> State:
        """The initial state: all servers have just started, in an ensemble that has lived before, and that has written
        its configuration if it may change."""
        bounds = self.bounds
        left = Left(*(getattr(bounds, name) for name in Left._fields))
        sites = [founded(settings, _LINEAGE, self._written) for settings in self._settings]
        for place, settings in enumerate(self._settings):
            if place < bounds.empty or settings.sid in self.world.joining:
                sites[place] = empty(settings)
        state = State(tuple(map(self.sites.intern, sites)), (), 0, left)
        for sid in self._sids:
            state = self.after(state, ("start", (sid,)))
        return state

    # ------------------------------------------------------------------------------------------------------------ steps

    def steps(self, state: State) -> Iterator[Step]:
        """All possible next steps, without regard to the bound of epochs."""
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
                is_sound = not each.is_rolled_back and (anybody_leads or not each.is_amnesiac)
                if is_sound and sid in each.candidates:
                    yield "lead", (sid,)
                for leader in leaders:
                    if leader in each.candidates and self._may_follow(state, sid, leader):
                        yield "follow", (sid, leader)
            if each.has_role and each.is_lonely:
                yield "give-up", (sid,)
            elif each.has_role and left.silences:
                yield "silence", (sid,)
            if not self.world.is_plain:
                yield from self._hearings(state, each)
            if each.is_to_ping and self.sites.is_news(state.sites[sid - 1], ("ping",)):
                yield "ping", (sid,)
            if left.writes and each.can_propose:
                yield "propose", (sid,)
            for change in each.changes if left.changes else ():
                yield "reconfigure", (sid, change + 1)
            for heir in each.heirs if left.hand_overs else ():
                yield "hand-over", (sid, heir)
            if left.crashes:
                yield "crash", (sid,)
            if left.wipes and self._may_be_lost(state, sid):
                yield "wipe", (sid,)
            if left.rollbacks and left.changes == self.bounds.changes and self._may_be_lost(state, sid):
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

    def _hearings(self, state: State, each: Facts) -> Iterator[Step]:
        """The steps in which this server hears something new."""
        if not each.may_hear:
            return
        others = [self.sites.facts[number] for number in state.sites]
        steps: list[Step] = [
            ("hear", (each.sid, other.sid))
            for other in others
            if other.told and other is not each and (other.sid in each.servers or each.sid in other.servers)
        ]
        steps += [("outsider", (each.sid, voice + 1)) for voice in range(len(self.world.voices))]
        for step in steps:
            if self.sites.is_news(state.sites[each.sid - 1], self._action_of(state, step)):
                yield step

    def _may_follow(self, state: State, sid: ServerId, leader: ServerId) -> bool:
        """Whether a server may follow a leader. Only servers whose disks have less than they promised may not follow
        all: an amnesiac follows a leader that a quorum of others with data follows now, including the leader itself."""
        facts = [self.sites.facts[number] for number in state.sites]
        me = facts[sid - 1]
        if me.is_rolled_back:
            return facts[leader - 1].has_heard_more(me)
        if not me.is_amnesiac or self._is_first_start:
            return True
        others = [each for each in facts if each.sid != sid and not (each.is_amnesiac or each.is_rolled_back)]
        agreeing = {each.sid for each in others if leader in (each.sid, each.follows)}
        return any(quorum.contains(agreeing) for quorum in each_of(me.quorum))

    def _may_be_lost(self, state: State, sid: ServerId) -> bool:
        """Whether the fault model allows this loss: a quorum of others is synchronized, in every configuration that may
        decide next, and the servers without data are no quorum by the file of one of them."""
        facts = [self.sites.facts[number] for number in state.sites]
        kept = {each.sid for each in facts if not (each.lacks_record or each.is_rolled_back)}
        lost = set(self._sids) - kept | {sid}
        files = [settings.quorum for settings in self._settings if settings.sid in lost]
        deciding = [Majority(voters) for voters in self.verdicts.deciding[state.verdict]]
        can_go_on = all(quorum.contains(kept - {sid}) for quorum in deciding)
        return can_go_on and not any(quorum.contains(lost) for quorum in files)

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
            work.run(sid, self._action_of(state, step))
            if name in _ENDS:
                work.cut(sid)
            if name in _BUDGETS:
                left = left._replace(**{_BUDGETS[name]: getattr(left, _BUDGETS[name]) - 1})
        made = work.state(left)
        self._judge(made)
        return made

    def said(self, state: State, step: Step) -> list[str]:
        """The traces of the peer in this step, which explain it."""
        name, at = step
        if name in ("message", "down"):
            link, end = at
            queue = dict(state.wires)[link, end]
            action: Action = ("message", link, queue[0]) if name == "message" else ("down", link)
            what = [str(self.sites.message(queue[0]))[:_SHOWN_MAX]] if name == "message" else []
            return what + self.sites.said(state.sites[end - 1], action)
        return [] if name == "break" else self.sites.said(state.sites[at[0] - 1], self._action_of(state, step))

    def _action_of(self, state: State, step: Step) -> Action:
        """The action of a step on its server."""
        name, arguments = step
        if name in ("lead", "follow"):
            return "adopt", ServerId(arguments[-1])
        if name == "reconfigure":
            return "reconfigure", self.world.changes[arguments[1] - 1]
        if name == "hand-over":
            return "hand_over", ServerId(arguments[1])
        if name == "hear":
            return "hear", ServerId(arguments[1]), self.sites.facts[state.sites[arguments[1] - 1]].told
        if name == "outsider":
            voice = self.world.voices[arguments[1] - 1]
            lineage = _LINEAGE if voice.is_of_lineage else _LINEAGE[::-1]
            text = text_of(voice.version, voice.voters)
            return "hear", voice.sid, Told(lineage, True, text, b"", voice.is_proven)
        return ("give_up",) if name in ("give-up", "silence") else (name,)

    def is_beyond(self, state: State) -> bool:
        """Whether some epoch is above the bound."""
        highest = self.bounds.epochs + (0 if self._is_first_start else _FIRST_EPOCH)
        return any(self.sites.facts[number].last_epoch > highest for number in state.sites)

    def _judge(self, state: State) -> None:
        """Check that delivered batches are on the disks of a quorum."""
        end = self.verdicts.ends[state.verdict]
        if end[0] and not self._is_held(state, end, self.verdicts.deciding[state.verdict][0]):
            raise SafetyError("no committed write is lost", f"{end[0]:#x} was delivered, and is on no quorum of disks")

    def judge_mark(self, state: State, sid: ServerId, mark: Position) -> None:
        """Check a mark: the servers that decided have it on their disks."""
        voters, needed = self._first, list[tuple[Position, frozenset[ServerId]]]()
        for position, voters_after in self.sites.facts[state.sites[sid - 1]].reconfigurations:
            if position[0] <= mark[0]:
                needed += [(position, voters), (position, voters_after)]
                voters = voters_after
        for position, deciding in [*needed, (mark, voters)]:
            if not self._is_held(state, position, deciding):
                what = (
                    f"takes {mark[0]:#x} for committed; {position[0]:#x} is on no quorum of disks of {sorted(deciding)}"
                )
                raise SafetyError("durability", f"server {sid} {what}")

    def _is_held(self, state: State, position: Position, voters: frozenset[ServerId]) -> bool:
        """Whether a quorum of these has it on disk. A server that was wiped or rolled back counts as if it had it,
        until it has a member record again, or is readmitted."""
        facts = [self.sites.facts[state.sites[sid - 1]] for sid in voters]
        lacking = [each for each in facts if position not in each.logged]
        excused = sum(each.lacks_record or each.is_rolled_back for each in lacking)
        return len(voters) - len(lacking) + min(excused, self.lost_count(state.left)) > len(voters) // 2

    def lost_count(self, left: Left) -> int:
        """How many disks have lost data so far."""
        return self.bounds.wipes - left.wipes + self.bounds.rollbacks - left.rollbacks

    def _other(self, link: int, end: int) -> int:
        dialler, acceptor = ends_of(link)
        return acceptor if end == dialler else dialler

    # --------------------------------------------------------------------------------------------------------- symmetry

    def digest(self, state: State) -> bytes:
        """A hash that is equal for two states exactly if one is the other with its servers renamed."""
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
        if len(renamings) < factorial(len(lowest)):
            return list(range(len(renamings)))
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
    """A state during a step."""

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
            self._ensemble.judge_mark(made, sid, position)
        return made

    def run(self, sid: ServerId, action: Action) -> None:
        """Take a step of a server."""
        sites = self._ensemble.sites
        before = self._sites[sid - 1]
        number, outputs = sites.step(before, action)
        self._sites[sid - 1] = number
        if sites.facts[number].is_leading and sites.facts[number].lineage != sites.facts[before].lineage:
            self._judge_beginning(sid)
        for output in outputs:
            self._carry_out(sid, output)

    def _judge_beginning(self, sid: ServerId) -> None:
        """Check that nothing was delivered before a leader begins a lineage (B3 first start)."""
        zxid, _ = self._ensemble.verdicts.ends[self._verdict]
        if zxid:
            raise SafetyError("one lineage", f"server {sid} begins another one, and {zxid:#x} was delivered")

    def _judge_hand_over(self, sid: ServerId, heir: ServerId) -> None:
        """Check that the heir has the whole history of this leader, unless its disk was lost meanwhile."""
        facts = self._ensemble.sites.facts
        end, held = facts[self._sites[sid - 1]].end, facts[self._sites[heir - 1]].logged
        if end[0] and end not in held and not self._ensemble.lost_count(self._left):
            raise SafetyError("hand-over", f"server {heir} is to lead, its disk lacks {end[0]:#x} of server {sid}")

    def _carry_out(self, sid: ServerId, output: Output) -> None:
        if isinstance(output, Sent):
            if isinstance(output.message, msg.HandOver):
                self._judge_hand_over(sid, output.message.heir)
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
        """Connect two servers. A server that does not lead would refuse, which has no effect here."""
        dialler, acceptor = (self._ensemble.sites.facts[self._sites[each - 1]] for each in (sid, to))
        if not acceptor.is_leading or (dialler.is_rolled_back and not acceptor.has_heard_more(dialler)):
            return
        links = (link_of(sid, to, number) for number in range(LINKS_MAX))
        link = next(link for link in links if (link, sid) not in self._wires and (link, to) not in self._wires)
        self._wires[link, sid] = self._wires[link, to] = ()
        self.run(to, ("up", link, sid, True))
        self.run(sid, ("up", link, to, False))

    def hear(self, link: Link, end: ServerId, *, is_down: bool) -> None:
        """Deliver the next message on a link."""
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
        """Break a link."""
        for end in ends_of(link):
            self._mark(link, end)

    def cut(self, sid: ServerId) -> None:
        """End all links of a server with its process."""
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
    "reconfigure": "changes",
    "hand-over": "hand_overs",
}
_ENDS: Final = frozenset({"crash", "wipe", "rollback"})
