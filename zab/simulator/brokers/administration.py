"""What operators do to brokers under load, as faults (`faults`): no promise holds less for it.

reassign            a partition moves to other replicas, or its replicas get another order; sometimes that is cancelled
elect_leaders       the first replica of every partition leads again
change_settings     min.insync.replicas and settings of segments of a topic
delete_topic        a plain topic goes, and comes again with another id

Each is one request to the broker that is the controller as far as another broker knows; nobody repeats it. Topics of
coordinators are reassigned as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zab.simulator.brokers.administrator import Administrator
from zab.simulator.brokers.cluster import BrokerCluster
from zab.simulator.brokers.fault_context import BrokerFaultContext
from zab.simulator.world.faults import Cause

CANCEL_SHARE: Final = 0.15
SEGMENT_BYTES: Final = ("8000", "30000")
INDEX_INTERVAL_BYTES: Final = ("0", "500", "4096")
FLUSH_MESSAGES: Final = ("1", "10", "9223372036854775807")


def _administrator(cluster: BrokerCluster) -> Administrator | None:
    """The client that asks; None: nobody takes part in this run, or no broker runs."""
    first = cluster.clients[0] if cluster.clients and cluster.processes else None
    return first if isinstance(first, Administrator) else None


def reassign(context: BrokerFaultContext) -> bool:
    administrator, rng = _administrator(context.cluster), context.rng
    if administrator is None:
        return False
    image = rng.choice(context.cluster.processes).broker.image
    partitions = [(name, index) for name in sorted(image.topics) for index in sorted(image.topics[name].partitions)]
    if not partitions:
        return False
    name, index = rng.choice(partitions)
    state = image.topics[name].partitions[index]
    count = len(state.replicas) - len(state.adding)
    target = rng.sample(list(context.cluster.machines), max(1, min(count, len(context.cluster.machines))))
    is_cancelled = rng.random() < CANCEL_SHARE
    administrator.reassign(image.controller, name, index, None if is_cancelled else tuple(target))
    return True


def elect_leaders(context: BrokerFaultContext) -> bool:
    administrator = _administrator(context.cluster)
    if administrator is None:
        return False
    administrator.elect_leaders(context.rng.choice(context.cluster.processes).broker.image.controller)
    return True


def change_settings(context: BrokerFaultContext) -> bool:
    administrator, rng = _administrator(context.cluster), context.rng
    if administrator is None:
        return False
    topic = rng.choice(list(administrator.topics.values()))
    wanted = {
        "min.insync.replicas": str(rng.randint(1, min(2, topic.replicas))),
        "index.interval.bytes": rng.choice(INDEX_INTERVAL_BYTES),
        "flush.messages": rng.choice(FLUSH_MESSAGES),
    }
    if topic.rolls and topic.is_plain:
        wanted["segment.bytes"] = rng.choice(SEGMENT_BYTES)
    name = rng.choice(sorted(wanted))
    image = rng.choice(context.cluster.processes).broker.image
    administrator.change_setting(image.controller, topic.name, name, wanted[name])
    return True


def delete_topic(context: BrokerFaultContext) -> bool:
    administrator = _administrator(context.cluster)
    plain = [] if administrator is None else [each.name for each in administrator.topics.values() if each.is_plain]
    if administrator is None or not plain:
        return False
    return administrator.delete(context.rng.choice(plain))


ADMINISTRATION_CAUSES: Final[Mapping[str, Cause[BrokerFaultContext]]] = {
    "reassign": reassign,
    "elect_leaders": elect_leaders,
    "change_settings": change_settings,
    "delete_topic": delete_topic,
}
