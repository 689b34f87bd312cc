"""Every state of a server that was met, and every step from it, each computed once.

Ensembles have far more states than their servers: the same server, in the same state, takes the same step among
millions of states of the others. So a server's state is a number here, and a step from it is looked up; only what was
never met before copies a peer, steps it, and takes its key. A message is a number as well.

`names` has, for each state and each renaming of the servers, the number of the state that it then is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from datatree.log.batch import Position
from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid
from zab import events as ev
from zab import message as msg
from zab.ids import ServerId
from zab.peer import Peer
from zab.peer_state import Settings, nothing
from zab.simulator.explorer.keys import IDENTITY, Renaming, key_of, unknown_fields
from zab.simulator.explorer.promises import judge_promises
from zab.simulator.explorer.site import BrokenError, Disk, Output, Sent, Site
from zab.simulator.world.verdict import SafetyError

__all__ = ["DOWN", "Action", "Facts", "Sites", "empty", "founded"]

DOWN: Final = 0
"""In place of a message: the link is down, and nothing comes after it."""

Action: TypeAlias = tuple[Any, ...]
"""Name of what happens to a server, and what with."""

_DATA: Final = b"write"


@attrs.frozen
class Facts:
    """What of a server's state decides which steps there are."""

    sid: ServerId
    is_up: bool
    is_electing: bool
    is_leading: bool
    is_lonely: bool
    """It has a role in vain: a leader with links to less than a quorum, or a learner without a link."""
    has_role: bool
    follows: ServerId | None
    is_amnesiac: bool
    lacks_record: bool
    is_rolled_back: bool
    acknowledged: Mapping[ServerId, Zxid]
    """What each server has acknowledged to it, as long as it leads."""
    can_propose: bool
    can_store: bool
    last_epoch: int
    logged: frozenset[Position]
    lineage: bytes
    """Of the disk, or of the process if that runs."""

    def has_heard_more(self, other: Facts) -> bool:
        """Whether this leader has an acknowledgement of another server that this one's disk does not keep."""
        return self.acknowledged.get(other.sid, BEFORE_ALL) > max(
            (zxid for zxid, _ in other.logged), default=BEFORE_ALL
        )


class Sites:
    """The states of all servers of one exploration."""

    def __init__(self, settings: Sequence[Settings], *, is_symmetric: bool, data: bytes = _DATA) -> None:
        self._data = data
        self._numbers: dict[object, int] = {}
        self._sites: list[Site] = []
        self.facts: list[Facts] = []
        self.names: list[tuple[int, ...]] = []
        self.lowest: list[int] = []
        """Of the names of each state."""
        self._interned: dict[object, int] = {}
        self._steps: dict[tuple[int, Action], tuple[int, tuple[Output, ...]] | BrokenError | SafetyError] = {}
        self._messages: list[msg.Message] = [msg.Refused("")]
        self._message_numbers: dict[bytes, int] = {}
        sids = [each.sid for each in settings]
        assert sids == list(range(1, len(sids) + 1)), "a renaming is a row of ids"
        # The first one leaves every id as it is.
        self.renamings: list[Renaming] = [tuple(each) for each in permutations(sids)]
        if not is_symmetric or unknown_fields(Peer(settings[0], nothing(), Random(0))):
            self.renamings = [IDENTITY]

    @property
    def count(self) -> int:
        """How many states of servers there are."""
        return len(self._sites)

    @property
    def steps_count(self) -> int:
        """How many steps were computed."""
        return len(self._steps)

    def intern(self, site: Site) -> int:
        """The number of a server's state; the server must not change any more."""
        sid = site.settings.sid
        key = sid, key_of(site, IDENTITY)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sites)
            self._sites.append(site)
            self.facts.append(_facts_of(site))
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
        """The state after something happens to a server, and what it wants done. Raises BrokenError, SafetyError."""
        known = self._steps.get((number, action))
        if known is None:
            known = self._steps[number, action] = self._computed(number, action)
        if isinstance(known, (BrokenError, SafetyError)):
            raise known
        return known

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
        """The sentences that the peer says in this step."""
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
        """The number of a message. The reason of a refusal is told to nobody but the log."""
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


def _facts_of(site: Site) -> Facts:
    peer = site.peer
    leading = None if peer is None else peer.leading
    following = None if peer is None else peer.following
    quorum, sid = site.settings.quorum, site.settings.sid
    is_lonely = following is not None and following.link is None
    if leading is not None:
        is_lonely = not quorum.contains({sid, *(handler.sid for handler in leading.handlers.values())})
    return Facts(
        sid,
        peer is not None,
        site.is_electing,
        leading is not None,
        is_lonely,
        leading is not None or following is not None,
        following.leader if following is not None else None,
        not site.disk.member if peer is None else peer.amnesiac,
        not site.disk.member,
        site.is_rolled_back,
        {} if leading is None else leading.acknowledged,
        site.can_propose,
        bool(site.to_store),
        site.last_epoch,
        site.logged,
        site.disk.lineage if peer is None else peer.lineage,
    )


def _place_of(error: AssertionError) -> str:
    """The innermost line that the assertion is in."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_globals.get("__name__", "?")
    return f"{name}.{trace.tb_frame.f_code.co_name} {error}".rstrip()


def empty(settings: Settings) -> Site:
    """A server that is down, and has never lived."""
    return Site(settings, Disk())


def founded(settings: Settings, lineage: bytes) -> Site:
    """A server that is down, of an ensemble that has lived: it was synchronized in epoch 1, and nothing was written."""
    disk = Disk(lineage, Epoch(1), Epoch(1), lineage)
    return Site(settings, disk, older_copy=disk)
