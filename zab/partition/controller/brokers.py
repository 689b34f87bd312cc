"""Brokers come, go and bounce.

The znodes below /brokers/ids are compared with what is known by (id, broker epoch). A broker with the same id and a
higher epoch has *bounced*: it died and came back while nobody looked. That is a death and a return in one event; else
messages and positions of its former life would count for the new one (KAFKA-7235).

    gone      what it led is offline, and gets another leader; its replicas are offline
    come      it gets everything that there is; its replicas are online; what was offline or new gets a leader;
              reassignments and deletions that waited for it go on

A broker says in its znode at which epoch it stopped cleanly, or lost its session while it ran on. If that is not the
last epoch that /brokers/epochs/<id> has, it may have lost the end of its logs: it is *unclean*, and leaves each ISR and
ELR (KIP-966). The controller writes the new epoch there after it has dealt with that, so the next controller does not
do it again, and one that finds an older epoch knows that it still has to. A broker whose znode says nothing is one of
Kafka's, and is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable

from zab.coordination.operations import Children, CoordinationError, Create, Get, Set, ZooKeeperError
from zab.coordination.steps import Steps, read
from zab.partition.controller import deletion, partition_states, reassignment, replica_states
from zab.partition.controller.fencing import fenced, update_states, write
from zab.partition.controller.leaders import without_unclean
from zab.partition.controller.state import ControllerState, Replica, ReplicaPhase
from zab.partition.controller.znodes import (
    BROKERS,
    Broker,
    MalformedError,
    broker_epoch_path,
    broker_path,
    decode_broker_epoch,
    encode_broker_epoch,
)


def read_brokers(state: ControllerState) -> Steps[dict[int, Broker]]:
    """The live brokers, with watches on the list and on each of them. A malformed one is reported, and left out."""
    (listed,) = yield from read((Children(BROKERS, watch=True),))
    ids = []
    for name in listed.must(BROKERS).children:
        if name.isascii() and name.isdecimal():
            ids.append(int(name))
        else:
            state.report(f"{BROKERS}/{name}: not the id of a broker")
    results = yield from read(Get(broker_path(each), watch=True) for each in ids)
    found = {}
    for broker_id, result in zip(ids, results, strict=True):
        if result.is_missing:
            continue
        data, stat = result.must(broker_path(broker_id)).data, result.stat
        try:
            found[broker_id] = Broker.decode(broker_id, data, stat.czxid)
        except MalformedError as error:
            state.report(str(error))
    return found


def on_change(state: ControllerState) -> Steps[None]:
    """The children of /brokers/ids changed, or one of them did."""
    found = yield from read_brokers(state)
    known = state.brokers
    bounced = {each for each in found if each in known and known[each].epoch != found[each].epoch}
    gone = set(known) - set(found) | bounced
    come = set(found) - set(known) | bounced
    for broker_id in set(found) - come:
        if known[broker_id] != found[broker_id]:
            known[broker_id] = found[broker_id]
            state.pushes.brokers_changed = True
    if gone:
        yield from on_gone(state, gone)
    if come:
        yield from on_come(state, [found[each] for each in sorted(come)])


def on_gone(state: ControllerState, broker_ids: set[int]) -> Steps[None]:
    for broker_id in broker_ids:
        del state.brokers[broker_id]
        state.shutting_down.discard(broker_id)
        state.pushes.sequences.pop(broker_id, None)
        state.pushes.stopped.pop(broker_id, None)
    state.pushes.brokers_changed = True
    led = [each for each, current in state.partitions.items() if current.leader in broker_ids]
    partition_states.take_offline(state, sorted(led))
    yield from partition_states.elect_where_there_is_none(state)
    replicas = state.replicas_on(broker_ids)
    deletion.on_brokers_gone(state, replicas)
    yield from replica_states.take_offline(state, [each for each in replicas if not state.is_deleting(each.partition)])
    yield from deletion.proceed(state)


def on_come(state: ControllerState, brokers: list[Broker]) -> Steps[None]:
    yield from admit(state, brokers)
    state.brokers.update((each.id, each) for each in brokers)
    state.pushes.brokers_changed = True
    state.pushes.needs_full.update(each.id for each in brokers)
    replicas = state.replicas_on(each.id for each in brokers)
    yield from deletion.revive(state, replicas)
    bring_online(state, replicas)
    yield from partition_states.elect_where_there_is_none(state)
    yield from reassignment.resume(state, sorted({each.partition for each in replicas}))
    yield from deletion.proceed(state)


def bring_online(state: ControllerState, replicas: Iterable[Replica]) -> None:
    """Replicas whose broker is alive, except those of topics that are being deleted."""
    waiting = (ReplicaPhase.NEW, ReplicaPhase.OFFLINE)
    serving = [each for each in replicas if not state.is_deleting(each.partition)]
    replica_states.bring_online(state, [each for each in serving if replica_states.phase_of(state, each) in waiting])


def admit(state: ControllerState, brokers: list[Broker]) -> Steps[None]:
    """Take brokers that stopped uncleanly out of ISR and ELR; write down the epochs of all."""
    known = yield from _read_epochs(state, brokers)
    new = [each for each in brokers if known.get(each.id) != each.epoch]
    unclean = frozenset(
        each.id for each in new if each.previous_epoch is not None and each.previous_epoch != known.get(each.id, -2)
    )
    if unclean:
        affected = [each for each, current in state.partitions.items() if current.quorum & unclean]
        written = yield from update_states(
            state,
            sorted(affected),
            lambda partition, current: without_unclean(partition_states.candidates(state, partition, current), unclean),
        )
        partition_states.take_offline(state, sorted(each for each in written if state.partitions[each].leader < 0))
    yield from _write_epochs(state, new, known)


def _read_epochs(state: ControllerState, brokers: list[Broker]) -> Steps[dict[int, int]]:
    results = yield from read(Get(broker_epoch_path(each.id)) for each in brokers)
    known = {}
    for broker, result in zip(brokers, results, strict=True):
        if not result.is_missing:
            try:
                known[broker.id] = decode_broker_epoch(broker.id, result.must(broker_epoch_path(broker.id)).data)
            except MalformedError as error:
                # The broker counts as unclean, unless it is one of Kafka's.
                state.report(str(error))
                known[broker.id] = -2
    return known


def _write_epochs(state: ControllerState, brokers: list[Broker], known: dict[int, int]) -> Steps[None]:
    pending = list(brokers)
    is_there = set(known)
    while pending:
        multis = []
        for broker in pending:
            path, data = broker_epoch_path(broker.id), encode_broker_epoch(broker.epoch)
            multis.append(fenced(state, Set(path, data) if broker.id in is_there else Create(path, data)))
        results = yield from write(state, multis)
        again = []
        for broker, result in zip(pending, results, strict=True):
            if result.error == ZooKeeperError.NODEEXISTS:
                is_there.add(broker.id)
            elif not (result.ok or result.is_lost):
                raise CoordinationError(broker_epoch_path(broker.id), result.error)
            if not result.ok:
                again.append(broker)
        pending = again
