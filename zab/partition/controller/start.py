"""What a new controller does first, in this order.

    1  watches on the lists and on the legacy requests, each set by the read that it guards, so that no change is missed
    2  stale notifications are deleted: everything is read anyway
    3  brokers; topics with ids (a fresh one where an old writer gave none), replicas and settings; the states of
       partitions
    4  ELRs that are not due by the settings are emptied; brokers that stopped uncleanly leave ISR and ELR
    5  replicas are online, or offline where their broker is dead; partitions are online if their leader is alive, new
       if they have no state, else offline; what is new or offline gets a leader
    6  reassignments, deletions and legacy requests go on
    7  every broker gets everything, at the end of the event; the live brokers are in every message, so none hears of a
       leader that it does not know (KAFKA-4443)

A znode that is malformed is reported, and its topic left out: its partitions are not led, moved or deleted.
"""

from __future__ import annotations

from zab.coordination.operations import Children, Delete, Exists
from zab.coordination.steps import Steps, read
from zab.partition.controller import (
    brokers,
    config_changes,
    deletion,
    partition_states,
    preferred,
    reassignment,
    replica_states,
    topics,
)
from zab.partition.controller.fencing import fenced, write
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znodes import (
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PREFERRED_ELECTION,
    REASSIGNMENT,
    TOPICS,
)


def start(state: ControllerState) -> Steps[None]:
    yield from read((Exists(REASSIGNMENT, watch=True), Exists(PREFERRED_ELECTION, watch=True)))
    yield from _delete_stale(state)
    live = yield from brokers.read_brokers(state)
    yield from config_changes.read_defaults(state)
    (listed,) = yield from read((Children(TOPICS, watch=True),))
    yield from topics.load(state, listed.must(TOPICS).children)
    yield from config_changes.empty_elrs(state, {each: state.min_isr(each) for each in state.all_partitions()})
    state.brokers.update(live)
    state.pushes.needs_full.update(live)
    for partition in list(state.all_partitions()):
        replica_states.create(state, partition)
        topics.place(state, partition)
    yield from brokers.admit(state, [live[each] for each in sorted(live)])
    # Topics under deletion are known before leaders are elected: they get none.
    yield from deletion.on_requests_changed(state)
    yield from partition_states.elect_where_there_is_none(state)
    dead = [
        each
        for partition in state.all_partitions()
        for each in state.replicas_of(partition)
        if each.broker_id not in live
    ]
    yield from replica_states.leave_isr(state, dead)
    yield from reassignment.resume(state, list(state.all_partitions()))
    yield from reassignment.on_legacy_request(state)
    yield from preferred.on_legacy_request(state)


def _delete_stale(state: ControllerState) -> Steps[None]:
    for parent in (ISR_CHANGES, LOG_DIR_EVENTS):
        (found,) = yield from read((Children(parent, watch=True),))
        children = found.must(parent).children
        yield from write(state, [fenced(state, Delete(f"{parent}/{each}")) for each in children])
