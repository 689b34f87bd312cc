"""Faults that happen to bookies and clients of ledgers, besides those of any service (`world.process_faults`,
`world.network_faults`).

pause_client        a writer, recoverer or reader stands still, often for longer than its session lasts
silence             a direction between a client and a bookie, or all to one bookie, carry nothing for long
wipe                the disk of a bookie is replaced by an empty one: it has to come back under another name
full_disk           little room is left on the disk of a bookie
isolate             a machine is cut off from the coordination service alone, often until its session is over
expire              a session expires although its owner lives
lose_answers        connections with the coordination service break
service_outage      the coordination service serves nobody for a while
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zab.simulator.coordination.service import SERVICE
from zab.simulator.ledgers.fault_context import LedgerFaultContext
from zab.simulator.ledgers.losses import may_lose
from zab.simulator.world.cluster import process_of
from zab.simulator.world.faults import Cause
from zab.simulator.world.network_faults import NETWORK_FAULTS, block
from zab.simulator.world.process_faults import PROCESS_FAULTS
from zab.simulator.world.schedule import MS

ROOM_MAX: Final = 20_000
"""The most bytes that are left on a disk that is full."""


def pause_client(context: LedgerFaultContext) -> bool:
    process = process_of(context.rng.choice(list(context.cluster.clients.values())))
    if process is None:
        return False
    timeout_us = context.cluster.profile.session_timeout_ms * MS
    process.pause(int(timeout_us * 2.5 * context.rng.random()))
    return True


def silence(context: LedgerFaultContext) -> bool:
    bookie = context.rng.choice(list(context.cluster.bookies))
    clients = list(context.cluster.clients)
    if context.rng.random() < 0.3:
        pairs = [(client, bookie) for client in clients]
    else:
        client = context.rng.choice(clients)
        pairs = [(client, bookie)] if context.rng.random() < 0.5 else [(bookie, client)]
    block(context, pairs, context.rng.randrange(1 + 2 * context.cluster.patience_ticks))
    return True


def wipe(context: LedgerFaultContext) -> bool:
    cluster = context.cluster
    number = context.rng.choice(list(cluster.bookies))
    bookie = cluster.id_of(number)
    is_kept = cluster.profile.keeps_promises
    if bookie in cluster.judge.lost or (is_kept and not may_lose(cluster.judge, bookie)):
        return False
    cluster.lose_disk(number)
    return True


def full_disk(context: LedgerFaultContext) -> bool:
    machine = context.cluster.bookies[context.rng.choice(list(context.cluster.bookies))]
    disk = machine.disk
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes() + context.rng.randrange(ROOM_MAX)

    def mend() -> None:
        disk.capacity_bytes = context.cluster.capacity_bytes

    context.mend_after(context.ticks(40), mend)
    return True


def isolate(context: LedgerFaultContext) -> bool:
    number = context.rng.choice(list(context.cluster.machines))
    block(context, [(number, SERVICE), (SERVICE, number)], context.rng.randrange(2 * context.cluster.patience_ticks))
    return True


def expire(context: LedgerFaultContext) -> bool:
    sessions = context.cluster.service.session_ids
    if sessions:
        context.cluster.service.expire(context.rng.choice(sessions))
    return bool(sessions)


def lose_answers(context: LedgerFaultContext) -> bool:
    context.cluster.service.lose_connections()
    return True


def service_outage(context: LedgerFaultContext) -> bool:
    service = context.cluster.service
    if service.is_down:
        return False
    service.begin_outage()
    context.mend_after(context.ticks(40), context.end_outage)
    return True


CAUSES: Final[Mapping[str, Cause[LedgerFaultContext]]] = {
    **PROCESS_FAULTS,
    **NETWORK_FAULTS,
    "pause_client": pause_client,
    "silence": silence,
    "wipe": wipe,
    "full_disk": full_disk,
    "isolate": isolate,
    "expire": expire,
    "lose_answers": lose_answers,
    "service_outage": service_outage,
}
