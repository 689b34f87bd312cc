"""What a reconfiguration would do, and why it would be refused, as far as that can be known from outside. Pure.

The reasons are in the order of the leader's checks (`zab.member.membership.reconfiguring`):

    the leader     why it refuses any change: it was sent one with a version that no configuration has
    BADVERSION     the requested version is not the one in force
    BADARGUMENTS   fewer than two participants; one is enough if there was one before
    NEWCONFIGNOQUORUM   no quorum of the new configuration follows, even with the servers that cannot be asked

Not here: how the servers are asked (`reconfig`). Not known at all: `standaloneEnabled`, and the caller's permissions.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from attrs import define, frozen

from zab.cli.json_form import hexadecimal
from zab.cli.terminal import count_of
from zab.client import BadArgumentsError, BadVersionError, NewConfigNoQuorumError, RequestError
from zab.configuration.dynamic import Ensemble, ServerLine
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Quorum, rule_of

__all__ = [
    "ASKED_NOBODY",
    "CONFIG_PATH",
    "NOBODY_SERVES",
    "Plan",
    "Stand",
    "best_of",
    "rule_text",
    "too_few",
    "value_of",
]

CONFIG_PATH: Final = "/zookeeper/config"
_FOLLOW: Final = ("leader", "follower", "observer")


@frozen
class Stand:
    """The mode that a server reports. None: it did not answer; `may_follow` says whether it may still follow."""

    mode: str | None = None
    may_follow: bool = True

    @property
    def follows(self) -> bool:
        return self.mode in _FOLLOW

    @property
    def is_known(self) -> bool:
        return self.mode is not None or not self.may_follow

    def __str__(self) -> str:
        return self.mode or ("cannot be asked" if self.may_follow else "does not serve")


ASKED_NOBODY: Final = Stand()
"""It has no client port to ask, it cannot be reached from here, or it does not report its mode."""
NOBODY_SERVES: Final = Stand(may_follow=False)
"""No process listens at its client port, or it says that it does not serve."""


def best_of(stands: Iterable[Stand]) -> Stand:
    """The result for a server with several addresses: one that answered, or else one that cannot be asked."""
    return max(stands, key=lambda stand: (stand.mode is not None, stand.may_follow))


@define(slots=False)
class Plan:
    """Both configurations, the modes of their servers, and why the leader refuses any change."""

    before: Ensemble
    after: Ensemble
    stands: Mapping[int, Stand]
    version: int = -1
    refused_at_once: RequestError | None = None

    @cached_property
    def refused(self) -> RequestError | None:
        if self.refused_at_once is not None:
            return self.refused_at_once
        if self.version not in (-1, self.before.version):
            detail = f"version {self.version:x} is asked for, and {self.before.version:x} is in force"
            return BadVersionError(CONFIG_PATH, detail=detail)
        if len(self.after.participants) < min(2, len(self.before.participants)):
            return too_few(self.after)
        if not self._has_quorum(sid for sid, stand in self.stands.items() if stand.follows or not stand.is_known):
            detail = f"no quorum of the new configuration follows: {rule_text(self.after)}"
            return NewConfigNoQuorumError(CONFIG_PATH, detail=detail)
        return None

    @property
    def hands_over(self) -> int | None:
        """The leader, if it will lose its vote."""
        return next((sid for sid in self._without_vote if self.stands[sid].mode == "leader"), None)

    @property
    def needed(self) -> list[int]:
        """The servers whose disks must not be lost before the change is in force: without any one of them, the
        following servers are no quorum of both configurations, and nothing can be decided, not even to undo the
        change."""
        before, after = _rule(self.before), _rule(self.after)
        if self.refused is not None or before == after:
            return []
        follow = {ServerId(sid) for sid, stand in self.stands.items() if stand.follows or not stand.is_known}
        return sorted(
            sid
            for sid in (before.voters | after.voters) & follow
            if not (before.contains(follow - {sid}) and after.contains(follow - {sid}))
        )

    @property
    def not_known(self) -> list[str]:
        """What this depends on and cannot be known."""
        if self.refused is not None:
            return []
        found = []
        if _has_several(self.after) and not _has_several(self.before):
            found.append("whether several addresses of one server are allowed, as multiAddress.enabled=true does")
        if not self._has_quorum(sid for sid, stand in self.stands.items() if stand.follows):
            unasked = [sid for sid in self.after.participants if not self.stands[sid].is_known]
            servers = f"server{'' if len(unasked) == 1 else 's'} {_listed(unasked)}"
            found.append(f"whether a quorum of the new configuration follows: {servers} cannot be asked")
        if not any(stand.mode == "leader" for stand in self.stands.values()):
            unasked = [sid for sid in self._without_vote if not self.stands[sid].is_known]
            found += [f"whether server {sid} leads, and so hands the lead over" for sid in unasked]
        return found

    @property
    def lines(self) -> list[str]:
        """The lines to print."""
        servers = sorted({*self.before.servers, *self.after.servers})
        changes = [(sid, self.before.servers.get(sid), self.after.servers.get(sid)) for sid in servers]
        found = [_difference(sid, was, will) for sid, was, will in changes if was != will]
        if self.hands_over is not None:
            found.append(f"server {self.hands_over} leads, and hands the lead over once this is in force")
        found += [f"quorum {name}: {rule}" for name, rule in self._quorums.items()]
        found += [f"server {sid} now: {self.stands[sid]}" for sid in sorted(self.after.participants)]
        if self.needed:
            among = f"servers {_listed(self.needed)}"
            found.append(
                f"until this is in force: if the disk of one of {among} is lost, the service ends for good, and only "
                "`zab recover` goes on; a server more that follows makes up for it"
            )
        found += [f"not known: {what}" for what in self.not_known]
        return found if self.refused is None else [*found, f"would be refused: {self.refused}"]

    @property
    def value(self) -> dict[str, Any]:
        """The plan as JSON."""
        return {
            "from": value_of(self.before),
            "to": value_of(self.after),
            "quorums": self._quorums,
            "voters_now": {str(sid): self.stands[sid].mode for sid in sorted(self.after.participants)},
            "hands_over": self.hands_over,
            "needed": self.needed,
            "not_known": self.not_known,
            "refused": None if self.refused is None else str(self.refused),
        }

    @property
    def _quorums(self) -> dict[str, str]:
        before, after = rule_text(self.before), rule_text(self.after)
        meanwhile = before if self.before.participants == self.after.participants else f"{before}, and {after}"
        return {"before": before, "meanwhile": meanwhile, "after": after}

    @property
    def _without_vote(self) -> list[int]:
        """The servers that vote now, and no longer will."""
        return sorted(_rule(self.before).voters - _rule(self.after).voters)

    def _has_quorum(self, servers: Iterable[int]) -> bool:
        return _rule(self.after).contains({ServerId(sid) for sid in servers})


def too_few(after: Ensemble) -> BadArgumentsError:
    detail = f"{count_of(len(after.participants), 'participant')} would be left, and an ensemble has two"
    return BadArgumentsError(CONFIG_PATH, detail=f"{detail}, unless standaloneEnabled=false allows one")


def value_of(ensemble: Ensemble) -> dict[str, Any]:
    """A configuration as JSON. The fields beside `addresses` are those of the first address."""
    return {
        "version": hexadecimal(ensemble.version),
        "servers": [
            {
                "id": sid,
                "host": line.host,
                "quorum_port": line.quorum_port,
                "election_port": line.election_port,
                "addresses": [
                    {"host": each.host, "quorum_port": each.quorum_port, "election_port": each.election_port}
                    for each in line.addresses
                ],
                "role": line.role.value,
                "client_host": line.client_host,
                "client_port": line.client_port,
            }
            for sid, line in sorted(ensemble.servers.items())
        ],
        "groups": {str(gid): list(ids) for gid, ids in sorted(ensemble.groups.items())},
        "weights": {str(sid): weight for sid, weight in sorted(ensemble.weights.items())} if ensemble.groups else {},
    }


def _difference(sid: int, was: ServerLine | None, will: ServerLine | None) -> str:
    if will is None:
        return f"server {sid} leaves"
    if was is None:
        return f"server {sid} joins as {will.role.value}: {_place(will)}"
    return f"server {sid} changes: {was.role.value} {_place(was)} -> {will.role.value} {_place(will)}"


def _place(line: ServerLine) -> str:
    return str(line).partition("=")[2]


def rule_text(ensemble: Ensemble) -> str:
    """Which servers decide, in words."""
    if ensemble.groups:
        heavy = [ids for ids in ensemble.groups.values() if sum(ensemble.weights.get(sid, 1) for sid in ids)]
        listed = "; ".join(_listed(ids) for ids in heavy)
        return f"{len(heavy) // 2 + 1} of {len(heavy)} groups, by more than half of the weight of each: {listed}"
    voters = ensemble.participants
    return f"{len(voters) // 2 + 1} of servers {_listed(voters)}"


def _listed(sids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(sids)))


def _has_several(ensemble: Ensemble) -> bool:
    return any(line.others for line in ensemble.servers.values())


def _rule(ensemble: Ensemble) -> Quorum:
    return rule_of(ensemble.participants, ensemble.groups, ensemble.weights)
