"""The status of an ensemble: what its members say, put together.

    status_of(answers, ensemble) -> Status      members, quorum, alarms

`answers` are those of all members that were queried; `ensemble` is the configuration in force, from
`/zookeeper/config`, or None if it could not be read.

The lag of a learner is how many transactions it has not acknowledged, as the leader says; where the leader's figures do
not have it, how many it has not applied, which is an estimate: the members are asked one after the other.

Every alarm has a bound with a name. Not here: who is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from zab.configuration.dynamic import Ensemble, Role
from zab.operations.verdicts.answers import Answer

__all__ = ["CRITICAL", "WARNING", "Alarm", "MemberStatus", "Status", "by_severity", "status_of"]

CRITICAL: Final = "critical"
WARNING: Final = "warning"

LAG_MAX: Final = 10_000
"""Transactions: docs/how-to/monitor.md has the same rule for Prometheus."""
FSYNC_MS_MAX: Final = 50
"""The average sync since the start, in ms."""
DAYS_MIN: Final = 14
"""The remaining validity of a certificate, in days."""
SHARE_MAX: Final = 0.85
"""The used share of a limit."""
DISK_WITH_ROOM: Final = 2
MAKE_ROOM: Final = "make room on that disk"
_COUNTER: Final = 0xFFFF_FFFF
_LAG: Final = re.compile(r"(?:(\d+)_learner_lag|learner_lag_(\d+))")


@frozen
class Alarm:
    """Something that an operator has to look at. server: of one member; empty for the ensemble."""

    severity: str
    name: str
    server: str
    reason: str
    action: str


@frozen
class MemberStatus:
    """One row. Unknown values are None."""

    server: str
    member: int | None
    state: str
    role: str | None
    zxid: int | None
    lag: int | None
    connections: int | None
    sessions: int | None
    watches: int | None
    outstanding: int | None
    latency_ms: float | None
    version: str | None
    reason: str


@frozen
class Status:
    """quorum: (voters that take part, voters that are needed), if a leader reports it."""

    members: tuple[MemberStatus, ...]
    leader: str | None
    quorum: tuple[int, int] | None
    alarms: tuple[Alarm, ...]

    @property
    def is_well(self) -> bool:
        return not self.alarms


def status_of(answers: Sequence[Answer], ensemble: Ensemble | None = None) -> Status:
    leader = next((each for each in answers if each.is_serving and each.state in ("leader", "standalone")), None)
    lags = _lags(leader)
    members = tuple([_member(each, leader, lags, ensemble) for each in answers])
    quorum = _quorum(leader)
    alarms = [
        *_of_ensemble(answers, ensemble, leader, quorum),
        *(alarm for each in answers for alarm in _of_member(each)),
    ]
    alarms += [alarm for each in members for alarm in _of_lag(each)]
    alarms += list(_of_disks_elsewhere(leader, alarms))
    return Status(members, None if leader is None else leader.server, quorum, by_severity(alarms))


def by_severity(alarms: Sequence[Alarm]) -> tuple[Alarm, ...]:
    """The critical ones first."""
    return tuple(sorted(alarms, key=lambda alarm: alarm.severity != CRITICAL))


def _lags(leader: Answer | None) -> dict[int, int]:
    found = {}
    for name, value in () if leader is None else leader.figures.items():
        match = _LAG.fullmatch(name)
        if match is not None and isinstance(value, int):
            found[int(match[1] or match[2])] = value
    return found


def _member(answer: Answer, leader: Answer | None, lags: dict[int, int], ensemble: Ensemble | None) -> MemberStatus:
    line = None if ensemble is None or answer.server_id is None else ensemble.servers.get(answer.server_id)
    lag = lags.get(answer.server_id) if answer.server_id is not None else None
    if lag is None and leader is not None and answer is not leader and answer.is_serving:
        lag = _behind(answer.zxid, leader.zxid)
    average = answer.figures.get("avg_latency")
    version = answer.figures.get("version")
    return MemberStatus(
        server=answer.server,
        member=answer.server_id,
        state=answer.state,
        role=None if line is None else line.role.value,
        zxid=answer.zxid,
        lag=lag,
        connections=answer.number("num_alive_connections"),
        sessions=answer.number("global_sessions"),
        watches=answer.number("watch_count"),
        outstanding=answer.number("outstanding_requests"),
        latency_ms=float(average) if isinstance(average, int | float) else None,
        version=None if version is None else str(version).partition(",")[0],
        reason=answer.error or answer.waits,
    )


def _behind(zxid: int | None, last: int | None) -> int | None:
    if zxid is None or last is None:
        return None
    if zxid >> 32 == last >> 32:
        return max(0, last - zxid)
    return last & _COUNTER if zxid < last else 0


def _quorum(leader: Answer | None) -> tuple[int, int] | None:
    size = None if leader is None else leader.number("quorum_size")
    if leader is None or size is None:
        return None
    voters = (leader.number("synced_followers") or 0) - (leader.number("synced_non_voting_followers") or 0)
    return 1 + voters, size // 2 + 1


def _unasked(answers: Sequence[Answer], ensemble: Ensemble | None) -> list[int]:
    """The members of the configuration from which there is no answer. An answer that does not name its member may come
    from any of them."""
    asked = {answer.server_id for answer in answers}
    missing = sorted(set(() if ensemble is None else ensemble.servers) - asked)
    return missing if len(missing) > sum(answer.server_id is None for answer in answers) else []


def _of_ensemble(
    answers: Sequence[Answer], ensemble: Ensemble | None, leader: Answer | None, quorum: tuple[int, int] | None
) -> Iterator[Alarm]:
    unasked = _unasked(answers, ensemble)
    if unasked:
        reason = f"{', '.join(f'server.{sid}' for sid in unasked)} of the configuration could not be asked"
        yield Alarm(WARNING, "not_asked", "", reason, "name all members with -s: their server lines say no client port")
    if leader is None and any(answer.is_serving for answer in answers):
        if not unasked:
            silent = any(not answer.is_reached for answer in answers)
            reason = f"the leader is none of those that {'answer' if silent else 'were asked'}"
            action = "see those that do not answer" if silent else "name all members with -s"
            yield Alarm(WARNING, "not_asked", "", reason, action)
    elif leader is None and any(answer.is_reached for answer in answers):
        yield Alarm(
            CRITICAL, "no_leader", "", "no member leads", "see what the members wait for, and start the missing"
        )
    elif leader is None:
        yield Alarm(CRITICAL, "no_leader", "", "no member can be reached", "see that they run, and that -s names them")
    if quorum is not None and quorum[0] < quorum[1]:
        reason = f"{quorum[0]} voters take part, and a quorum has {quorum[1]}"
        yield Alarm(CRITICAL, "no_quorum", "", reason, "start the missing members")
    size = None if leader is None else leader.number("quorum_size")
    if quorum is not None and size is not None and size > 2 and quorum[0] == quorum[1] < size:
        reason = f"{quorum[0]} of {size} voters take part: one more failure ends the service"
        yield Alarm(WARNING, "no_spare_voter", "", reason, "start the missing members")
    leaders = [answer.server for answer in answers if answer.is_serving and answer.state == "leader"]
    if len(leaders) > 1:
        reason = f"{' and '.join(leaders)} say that they lead"
        yield Alarm(
            WARNING, "two_leaders", "", reason, "ask again: one of them steps down; else they are two ensembles"
        )
    versions = sorted({str(each.figures["version"]).partition(",")[0] for each in answers if "version" in each.figures})
    if len(versions) > 1:
        yield Alarm(WARNING, "versions_differ", "", f"members run {' and '.join(versions)}", "finish the upgrade")


def _of_member(answer: Answer) -> Iterator[Alarm]:
    def alarm(severity: str, name: str, reason: str, action: str) -> Alarm:
        return Alarm(severity, name, answer.server, reason, action)

    if not answer.is_reached:
        yield alarm(
            WARNING, "unreachable", answer.error, "see that it runs, and that its port can be reached from here"
        )
        return
    if answer.days_left is not None and answer.days_left < DAYS_MIN:
        severity = CRITICAL if answer.days_left < 1 else WARNING
        reason = f"its certificate ends in {answer.days_left:.0f} days"
        yield alarm(severity, "certificate_ends", reason, "make a new one with `zab certs`")
    if not answer.is_serving:
        yield _of_unserved(answer)
        return
    yield from _of_disk(answer)
    yield from _of_limits(answer)
    if answer.number("digest_mismatches_count"):
        reason = f"its tree was wrong {answer.number('digest_mismatches_count')} times since its start"
        yield alarm(
            CRITICAL,
            "wrong_tree",
            reason,
            "see the lines of trouble in docs/how-to/troubleshoot.md; check its memory",
        )
    if answer.number("damage_found"):
        reason = "files of it were found damaged since its start"
        action = "its journal names them, and mends what it can; see its disk, and zab fsck"
        yield alarm(WARNING, "damage_found", reason, action)
    if answer.number("audit_records_lost"):
        reason = f"{answer.number('audit_records_lost')} records of its audit log are lost"
        yield alarm(WARNING, "audit_lost", reason, "see the disk of audit.file")


def _of_unserved(answer: Answer) -> Alarm:
    """The alarm for a member that serves no clients, or only readers, by what it waits for."""
    reason = answer.waits or answer.error or "it looks for a leader"
    if answer.state == "read-only":
        reason = f"it serves readers alone, in read-only mode: {reason}"
    if "this member's disk is full" in reason:
        return Alarm(CRITICAL, "disk_full", answer.server, reason, MAKE_ROOM)
    if "this member's disk is nearly full" in reason:
        return Alarm(WARNING, "disk_full", answer.server, reason, MAKE_ROOM)
    if "this member has no data, or lost it" in reason:
        action = "its journal names the file; others fill it again"
        return Alarm(WARNING, "history_lost", answer.server, reason, action)
    if "another history" in reason:
        action = "empty its version-1; or, if it was left out, zab restore --rest --into it: see docs/how-to/back-up.md"
        return Alarm(WARNING, "other_history", answer.server, reason, action)
    return Alarm(WARNING, "not_serving", answer.server, reason, "its journal says more")


def _of_disks_elsewhere(leader: Answer | None, known: Sequence[Alarm]) -> Iterator[Alarm]:
    """The members without room that the leader counts and that do not say so themselves. A member whose disk is
    completely full has no link to the leader, and is not counted."""
    known_count = sum(alarm.name == "disk_full" and alarm.severity == WARNING for alarm in known)
    count = (0 if leader is None else leader.number("members_without_room") or 0) - known_count
    if count > 0:
        who = f"{count} {'other ' if known_count else ''}{'member has' if count == 1 else 'members have'}"
        reason = f"{who} little room on the disk, as the leader says"
        yield Alarm(WARNING, "disk_full", "", reason, f"{MAKE_ROOM}; the journal of such a member says so, too")


def _of_disk(answer: Answer) -> Iterator[Alarm]:
    space = answer.number("disk_space")
    if space is not None and space < DISK_WITH_ROOM:
        reason = "its disk is full" if space == 0 else "its disk is nearly full"
        yield Alarm(CRITICAL if space == 0 else WARNING, "disk_full", answer.server, reason, MAKE_ROOM)
    if answer.number("writes_refused_for_room"):
        yield Alarm(CRITICAL, "writes_refused", answer.server, "writes are refused for want of room", "make room")
    average = answer.figures.get("avg_fsynctime")
    if isinstance(average, int | float) and average > FSYNC_MS_MAX:
        reason = f"a sync of its log takes {average:g} ms on average"
        yield Alarm(
            WARNING, "disk_slow", answer.server, reason, "give dataLogDir a disk of its own; zab doctor measures"
        )


_LIMITS: Final = (
    ("num_alive_connections", "connection_limit", "connections", "maxCnxns"),
    ("most_watches", "watch_limit", "watches of one connection", "maxWatchesPerConnection"),
    ("open_file_descriptor_count", "max_file_descriptor_count", "file descriptors", "ulimit -n"),
)
"""The figure for what is used, its limit, and their names."""


def _of_limits(answer: Answer) -> Iterator[Alarm]:
    for used_name, limit_name, what, key in _LIMITS:
        used, limit = answer.number(used_name), answer.number(limit_name)
        if used is not None and limit is not None and 0 < limit * SHARE_MAX < used:
            reason = f"{used} {what} of {limit}"
            yield Alarm(WARNING, "limit_near", answer.server, reason, f"raise {key}, or find who needs so many")


def _of_lag(member: MemberStatus) -> Iterator[Alarm]:
    if member.lag is not None and member.lag > LAG_MAX:
        kind = "observer" if member.role == Role.OBSERVER.value else "learner"
        reason = f"this {kind} lags by {member.lag} transactions"
        yield Alarm(WARNING, "lagging", member.server, reason, "see its disk and its network")
