"""Faults that happen to brokers, besides those of any service (`world.process_faults`, `world.network_faults`) and what
operators do (`administration`).

pause_leader                    a broker that leads, or the controller, stands still for longer than its session lasts
clean_stop, rolling_restart     a broker stops cleanly, after others lead what it led; all do, one after the other
replace_disk                    a broker ends, and comes back with an empty disk and its id
partition_brokers               brokers alone are cut into two groups; each still reaches the coordination service
isolate                         a broker is cut off from the coordination service alone, often until its session is over
partition, one_way, slow_link   also between a broker and the coordination service
cut_client                      a client and a broker cannot reach each other, in both directions or one
expire                          a session expires although its broker lives
lose_answers                    connections with the coordination service break
service_outage                  the coordination service serves nobody for a while
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zab.simulator.brokers.administration import ADMINISTRATION_CAUSES
from zab.simulator.brokers.fault_context import BrokerFaultContext
from zab.simulator.coordination.service import SERVICE
from zab.simulator.world.disk import FaultyDisk
from zab.simulator.world.faults import Cause
from zab.simulator.world.network_faults import NETWORK_FAULTS, block
from zab.simulator.world.process_faults import PROCESS_FAULTS
from zab.simulator.world.schedule import MS

ROLL_US: Final = 4_000 * MS
"""The time between two stops of a rolling restart."""


def pause_leader(context: BrokerFaultContext) -> bool:
    """Stop a broker that leads, or that is the controller, until others have taken over."""
    processes = context.cluster.processes
    leading = [each for each in processes if any(replica.leader is not None for replica in each.broker.replicas)]
    controllers = [each for each in processes if each.broker.image.controller == each.sid]
    candidates = leading if leading and context.rng.random() < 0.7 else controllers
    if not candidates:
        return False
    timeout_us = context.cluster.profile.session_timeout_ms * MS
    context.rng.choice(candidates).pause(int(timeout_us * (1 + 1.5 * context.rng.random())))
    return True


def clean_stop(context: BrokerFaultContext) -> bool:
    process = context.cluster.process(context.rng.choice(list(context.cluster.machines)))
    if process is None or not process.broker.image.brokers:
        return False
    process.stop_cleanly()
    return True


def rolling_restart(context: BrokerFaultContext) -> bool:
    """Stop one broker after the other; each is back, or should be, before the next one stops."""

    def stop_next(left: list[int]) -> None:
        process = context.cluster.process(left[0])
        if process is not None and process.broker.image.brokers:
            process.stop_cleanly()
        if left[1:]:
            context.cluster.schedule.after(ROLL_US, stop_next, left[1:])

    stop_next(context.rng.sample(list(context.cluster.machines), len(context.cluster.machines)))
    return True


def replace_disk(context: BrokerFaultContext) -> bool:
    machine = context.cluster.machines[context.rng.choice(list(context.cluster.machines))]
    if machine.running is None:
        return False
    machine.stop(with_power=True)
    machine.disk = FaultyDisk()
    context.cluster.observer.losses.wiped(machine.number)
    return True


def partition_brokers(context: BrokerFaultContext) -> bool:
    brokers = list(context.cluster.machines)
    if len(brokers) < 2:
        return False
    group = set(context.rng.sample(brokers, context.rng.randrange(1, len(brokers))))
    pairs = [(one, two) for one in brokers for two in brokers if (one in group) != (two in group)]
    block(context, pairs)
    return True


def isolate(context: BrokerFaultContext) -> bool:
    broker = context.rng.choice(list(context.cluster.machines))
    block(context, [(broker, SERVICE), (SERVICE, broker)], context.rng.randrange(2 * context.cluster.patience_ticks))
    return True


def cut_client(context: BrokerFaultContext) -> bool:
    client = context.rng.choice(context.cluster.clients).number
    broker = context.rng.choice(list(context.cluster.machines))
    pairs = [(client, broker), (broker, client)]
    block(context, pairs if context.rng.random() < 0.5 else [context.rng.choice(pairs)])
    return True


def expire(context: BrokerFaultContext) -> bool:
    sessions = context.cluster.service.session_ids
    if sessions:
        context.cluster.service.expire(context.rng.choice(sessions))
    return bool(sessions)


def lose_answers(context: BrokerFaultContext) -> bool:
    context.cluster.service.lose_connections()
    return True


def service_outage(context: BrokerFaultContext) -> bool:
    service = context.cluster.service
    if service.is_down:
        return False
    service.begin_outage()
    context.mend_after(context.ticks(40), context.end_outage)
    return True


CAUSES: Final[Mapping[str, Cause[BrokerFaultContext]]] = {
    **PROCESS_FAULTS,
    **NETWORK_FAULTS,
    **ADMINISTRATION_CAUSES,
    "pause_leader": pause_leader,
    "clean_stop": clean_stop,
    "rolling_restart": rolling_restart,
    "replace_disk": replace_disk,
    "partition_brokers": partition_brokers,
    "isolate": isolate,
    "cut_client": cut_client,
    "expire": expire,
    "lose_answers": lose_answers,
    "service_outage": service_outage,
}
