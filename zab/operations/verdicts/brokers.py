"""The status of the brokers below a path of an ensemble: from what their znodes say to alarms.

    alarms_of(registered) -> alarms, the critical ones first

A broker that ended is known by the replicas that it has: it is not registered, and partitions name it.

Not here: what reads the znodes (`zab.operations.registered`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from attrs import field, frozen

from zab.operations.verdicts.status import CRITICAL, WARNING, Alarm, by_severity

__all__ = ["Registered", "RegisteredBroker", "alarms_of"]

_SHOWN_MAX: Final = 3
"""How many partitions a reason names."""


@frozen
class RegisteredBroker:
    """What a broker says about itself. epoch: another one after each of its starts."""

    id: int
    epoch: int
    endpoints: tuple[str, ...]
    rack: str | None


@frozen
class Registered:
    """controller: None if there is none. The counters are by broker: how many partitions it leads, of how many it has a
    replica, of how many of these its replica is not in sync. The rest are partitions, as TOPIC-NUMBER."""

    brokers: tuple[RegisteredBroker, ...]
    controller: int | None
    leads: Counter[int] = field(factory=Counter)
    replicas: Counter[int] = field(factory=Counter)
    lagging: Counter[int] = field(factory=Counter)
    under_replicated: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    """Without a leader that is registered."""
    short: tuple[str, ...] = ()
    """With a leader, and fewer replicas in sync than `min.insync.replicas` of the topic asks for."""
    unclean: tuple[str, ...] = ()
    """Led by a replica that was not in sync when it was elected, and has not recovered yet."""

    @property
    def gone(self) -> tuple[int, ...]:
        """Brokers that have replicas and are not registered."""
        return tuple(sorted(self.replicas.keys() - {each.id for each in self.brokers}))


def alarms_of(registered: Registered) -> tuple[Alarm, ...]:
    """What an operator has to look at."""
    return by_severity(tuple(_alarms(registered)))


def _alarms(registered: Registered) -> Iterator[Alarm]:
    if not registered.brokers:
        yield Alarm(CRITICAL, "no_broker", "", "no broker is registered", "start them; their journals say more")
        return
    if registered.controller is None:
        action = "the journals of the brokers say why none takes it"
        yield Alarm(CRITICAL, "no_controller", "", "no broker is the controller", action)
    if registered.offline:
        action = "start the brokers that have them; zab topic describe names these"
        yield Alarm(CRITICAL, "partitions_offline", "", _said(registered.offline, "no leader"), action)
    if registered.short:
        action = "until more replicas are in sync, writes with acks=all are refused: start the brokers that are gone"
        yield Alarm(CRITICAL, "isr_short", "", _said(registered.short, "too few replicas in sync"), action)
    if registered.unclean:
        action = "acknowledged records may be lost: see unclean.leader.election.enable"
        yield Alarm(WARNING, "unclean_leader", "", _said(registered.unclean, "a leader that was not in sync"), action)
    for broker_id in registered.gone:
        reason = f"broker {broker_id} is not registered, and has {registered.replicas[broker_id]} replicas"
        action = "start it, or move its replicas: zab topic alter"
        yield Alarm(WARNING, "broker_gone", "", reason, action)
    if registered.under_replicated:
        action = "see the brokers that lag: their disks, their links, their journals"
        reason = _said(registered.under_replicated, "replicas that are not in sync")
        yield Alarm(WARNING, "under_replicated", "", reason, action)


def _said(partitions: tuple[str, ...], what: str) -> str:
    """How many partitions have this, and the first of them."""
    count, shown = len(partitions), ", ".join(partitions[:_SHOWN_MAX])
    who = "1 partition has" if count == 1 else f"{count} partitions have"
    return f"{who} {what}: {shown}{', …' if count > _SHOWN_MAX else ''}"
