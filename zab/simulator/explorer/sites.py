"""All states of servers found so far, and the steps from them, each computed once.

Ensembles have far more states than single servers: the same server, in the same state, takes the same step among
millions of states of the others. So a server's state is a number here, and a step from it is looked up; only a new step
copies a peer, steps it, and makes its key. Messages are numbers as well.

`names` has, for each state and each renaming of the servers, the number of the renamed state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from datatree.log.batch import Batch, Position
from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid
from zab.protocol import events as ev
from zab.protocol import handover, reconfiguration
from zab.protocol import message as msg
from zab.protocol.membership import Membership
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Settings, nothing
from zab.protocol.states import NOTHING
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority, Quorum
from zab.simulator.explorer.configurations import reconfigurations_of
from zab.simulator.explorer.keys import IDENTITY, Renaming, key_of, unknown_fields
from zab.simulator.explorer.promises import judge_promises
from zab.simulator.explorer.site import Disk, Output, Sent, Site, Told
from zab.simulator.explorer.worlds import World
from zab.simulator.world.verdict import BrokenError, SafetyError

__all__ = ["DOWN", "Action", "Facts", "Sites", "empty", "founded"]

DOWN: Final = 0
"""The message number that means that the link is down: nothing comes after it."""

Action: TypeAlias = tuple[Any, ...]
"""The name of an action on a server, and its arguments."""

_DATA: Final = b"write"


@attrs.frozen
class Facts:
    """The properties of a server's state that decide which steps are possible."""

    sid: ServerId
    is_up: bool
    is_electing: bool
    is_leading: bool
    is_lonely: bool
    """Whether it has a role without success: a leader with links to less than a quorum, or a learner without a link."""
    has_role: bool
    follows: ServerId | None
    is_amnesiac: bool
    lacks_record: bool
    is_rolled_back: bool
    acknowledged: Mapping[ServerId, Zxid]
    """What each server has acknowledged to it, while it leads."""
    can_propose: bool
    can_store: bool
    changes: tuple[int, ...]
    """The configurations that it would propose now, by their index in the world."""
    heirs: tuple[ServerId, ...]
    """The servers to which it would hand over the lead."""
    is_to_ping: bool
    """Whether its next ping would change something."""
    quorum: Quorum
    candidates: frozenset[ServerId]
    servers: frozenset[ServerId]
    """The servers that it knows."""
    may_hear: bool
    """Whether it considers what others say about configurations and histories."""
    told: Told | None
    """What it says about them itself."""
    end: Position
    """The end of its history, durable or not."""
    reconfigurations: tuple[tuple[Position, frozenset[ServerId]], ...]
    """The reconfigurations in its history: position and voters of each."""
    last_epoch: int
    logged: frozenset[Position]
    lineage: bytes
    """The lineage of the process, or of the disk if it does not run."""

    def has_heard_more(self, other: Facts) -> bool:
        """Whether this leader has an acknowledgement of the other server that is not on that server's disk."""
        return self.acknowledged.get(other.sid, BEFORE_ALL) > max(
            (zxid for zxid, _ in other.logged), default=BEFORE_ALL
        )


class Sites:
    """The states of all servers of one exploration."""

    def __init__(self, settings: Sequence[Settings], world: World, *, is_symmetric: bool, data: bytes = _DATA) -> None:
        self._world = world
        self._data = data
        self._numbers: dict[object, int] = {}
        self._sites: list[Site] = []
        self.facts: list[Facts] = []
        self.names: list[tuple[int, ...]] = []
        self.lowest: list[int] = []
        """The lowest name of each state."""
        self._interned: dict[object, int] = {}
        self._steps: dict[tuple[int, Action], tuple[int, tuple[Output, ...]] | BrokenError | SafetyError] = {}
        self._messages: list[msg.Message] = [msg.Refused("")]
        self._message_numbers: dict[bytes, int] = {}
        sids = [each.sid for each in settings]
        assert sids == list(range(1, len(sids) + 1)), "a renaming is a row of ids"
        # The first renaming leaves every id as it is.
        self.renamings: list[Renaming] = world.renamings(len(sids))
        if not is_symmetric or unknown_fields(Peer(settings[0], nothing(), Random(0))):
            self.renamings = [IDENTITY]

    @property
    def count(self) -> int:
        """The number of states of servers."""
        return len(self._sites)

    @property
    def steps_count(self) -> int:
        """The number of computed steps."""
        return len(self._steps)

    def intern(self, site: Site) -> int:
        """The number of a server's state; the server must not change afterwards."""
        sid = site.settings.sid
        key = sid, key_of(site, IDENTITY)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sites)
            self._sites.append(site)
            self.facts.append(_facts_of(site, self._world))
            names = [self._interned.setdefault(key, len(self._interned))]
            names += [self._name(site, renaming) for renaming in self.renamings[1:]]
            self.names.append(tuple(names))
            self.lowest.append(min(self.names[-1]))
        return number

    def _name(self, site: Site, renaming: Renaming) -> int:
        sid = site.settings.sid
        key = renaming[sid - 1], key_of(site, renaming)
        return self._interned.setdefault(key, len(self._interned))

    def step(self, number: int, action: Action) -> tuple[int, tuple[Output, ...]]:
        """The state after an action on a server, and its outputs. Raises BrokenError, SafetyError."""
        known = self._steps.get((number, action))
        if known is None:
            known = self._steps[number, action] = self._computed(number, action)
        if isinstance(known, (BrokenError, SafetyError)):
            raise known
        return known

    def is_news(self, number: int, action: Action) -> bool:
        """Whether an action changes something."""
        try:
            return self.step(number, action) != (number, ())
        except (BrokenError, SafetyError):
            return True

    def _computed(self, number: int, action: Action) -> tuple[int, tuple[Output, ...]] | BrokenError | SafetyError:
        site = self._sites[number].copy()
        try:
            outputs = [*self._take(site, *action), *site.drain()]
            judge_promises(site, outputs)
        except (BrokenError, SafetyError) as error:
            return error
        except AssertionError as error:
            return BrokenError(f"server {site.settings.sid} stops at an assertion: {_place_of(error)}")
        return self.intern(site), tuple(outputs)

    def _take(self, site: Site, name: str, *arguments: Any) -> list[Output]:
        if name == "message":
            link, message = arguments
            return site.step(ev.MessageReceived(link, self.message(message)))
        if name == "up":
            return site.step(ev.QuorumLinkUp(*arguments))
        if name == "down":
            return site.step(ev.QuorumLinkDown(*arguments))
        if name == "propose":
            return site.propose(self._data)
        outputs: list[Output] = getattr(site, name)(*arguments)
        return outputs

    def said(self, number: int, action: Action) -> list[str]:
        """The traces of the peer in this step."""
        site = self._sites[number].copy()
        lines: list[str] = []
        try:
            site.said = lines
            self._take(site, *action)
            site.drain()
        except (BrokenError, AssertionError):
            lines.append("and stops")
        return lines

    # --------------------------------------------------------------------------------------------------------- messages

    def number_of(self, sent: Sent) -> int:
        """The number of a message. The reason of a refusal is left out, since it is only logged."""
        message = msg.Refused("") if isinstance(sent.message, msg.Refused) else sent.message
        data = msg.encode(message)
        number = self._message_numbers.get(data)
        if number is None:
            number = self._message_numbers[data] = len(self._messages)
            self._messages.append(msg.decode(data))
        return number

    def message(self, number: int) -> msg.Message:
        assert number != DOWN
        return self._messages[number]


def _facts_of(site: Site, world: World) -> Facts:
    peer, settings = site.peer, site.settings
    if peer is None:
        return _facts_of_down(site)
    leading, following, memberships = peer.leading, peer.following, peer.memberships
    is_lonely = following is not None and following.link is None
    if leading is not None:
        is_lonely = not peer.quorum.contains({settings.sid, *(handler.sid for handler in leading.handlers.values())})
    has_nothing = peer.amnesiac and peer.holds == NOTHING
    may_change = site.can_propose and not reconfiguration.is_outstanding(peer) and reconfiguration.is_understood(peer)
    return Facts(
        settings.sid,
        is_up=True,
        is_electing=site.is_electing,
        is_leading=leading is not None,
        is_lonely=is_lonely,
        has_role=leading is not None or following is not None,
        follows=following.leader if following is not None else None,
        is_amnesiac=peer.amnesiac,
        lacks_record=not site.disk.member,
        is_rolled_back=site.is_rolled_back,
        acknowledged={} if leading is None else leading.acknowledged,
        can_propose=site.can_propose,
        can_store=bool(site.to_store),
        changes=tuple(
            at
            for at, voters in enumerate(world.changes)
            if may_change
            and voters != memberships.in_force.quorum.voters
            and reconfiguration.has_quorum_of(peer, Membership(BEFORE_ALL, Majority(voters), voters))
        ),
        heirs=tuple(sid for sid in sorted(peer.quorum.voters) if not handover.why_not(peer, sid)),
        is_to_ping=leading is not None and (leading.heir is not None or not peer.is_voter),
        quorum=peer.quorum,
        candidates=peer.election.candidates,
        servers=peer.servers,
        may_hear=not peer.draining and (site.is_electing or has_nothing),
        told=site.told,
        end=peer.history.last,
        reconfigurations=_places_of(reconfigurations_of(peer.history.batches.values())),
        last_epoch=site.last_epoch,
        logged=site.logged,
        lineage=peer.lineage,
    )


def _facts_of_down(site: Site) -> Facts:
    """The facts of a server that is down, from its disk."""
    logged = reconfigurations_of(site.disk.log)
    return Facts(
        site.settings.sid,
        is_up=False,
        is_electing=False,
        is_leading=False,
        is_lonely=False,
        has_role=False,
        follows=None,
        is_amnesiac=not site.disk.member,
        lacks_record=not site.disk.member,
        is_rolled_back=site.is_rolled_back,
        acknowledged={},
        can_propose=False,
        can_store=False,
        changes=(),
        heirs=(),
        is_to_ping=False,
        quorum=site.settings.quorum,
        candidates=frozenset(),
        servers=site.settings.servers,
        may_hear=False,
        told=None,
        end=site.disk.position,
        reconfigurations=_places_of(logged),
        last_epoch=site.last_epoch,
        logged=site.logged,
        lineage=site.disk.lineage,
    )


def _places_of(made: list[tuple[Batch, Membership]]) -> tuple[tuple[Position, frozenset[ServerId]], ...]:
    return tuple(((batch.zxid, batch.chain), membership.quorum.voters) for batch, membership in made)


def _place_of(error: AssertionError) -> str:
    """The innermost line of the assertion."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_globals.get("__name__", "?")
    return f"{name}.{trace.tb_frame.f_code.co_name} {error}".rstrip()


def empty(settings: Settings) -> Site:
    """A server that has never run."""
    return Site(settings, Disk())


def founded(settings: Settings, lineage: bytes, log: tuple[Batch, ...]) -> Site:
    """A server that is down, in an ensemble that has run before: it was synchronized in epoch 1, with this log."""
    disk = Disk(lineage, Epoch(1), Epoch(1), lineage, log)
    return Site(settings, disk, older_copy=disk)
