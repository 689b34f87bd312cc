"""How a broker makes itself known: the parents of all znodes, the cluster's id, the broker's id, its ephemeral znode.

    parents       created when they are missing, by the first broker
    cluster id    created by the first broker; a broker whose files name another cluster must not run
    broker id     given, or the version of /brokers/seqid after a write, above the ids that operators choose themselves
    the znode     ephemeral; its czxid is the broker epoch

If the znode exists already, it is one of this session (the answer to its creation was lost), one of an earlier life of
this broker, or another broker has the same id. The latter two look alike: wait until it is gone, at most five
session timeouts, then fail with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import evolve, frozen

from zab.coordination.operations import CoordinationError, Create, Get, Set, ZooKeeperError
from zab.coordination.steps import Pause, Steps, read
from zab.kafka.primitives import Uuid, uuid_text
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znodes import (
    CLUSTER_ID,
    PARENTS,
    SEQUENCE,
    Broker,
    MalformedError,
    broker_path,
    decode_cluster_id,
    encode_cluster_id,
)

RESERVED_ID_MAX: Final = 1000
"""reserved.broker.max.id: ids that the service gives out are higher."""
PATIENCE_TIMEOUTS: Final = 5
"""How many session timeouts a former life of this broker may take to end: a busy member ends sessions late."""
_RETRY_MS: Final = 200


class RegistrationError(Exception):
    """This broker must not run."""


@frozen
class Registration:
    """What a broker says about itself. broker: its id is -1 if it has none yet. cluster_id: what its files name."""

    broker: Broker
    cluster_id: str | None = None
    session_timeout_ms: int = 6000


@frozen
class RegisteredAs:
    broker: Broker
    cluster_id: str


def register(state: ControllerState, wanted: Registration) -> Steps[RegisteredAs]:
    """Raises RegistrationError."""
    yield from create_parents(PARENTS)
    cluster_id = yield from _cluster_id(state)
    if wanted.cluster_id not in (None, cluster_id):
        raise RegistrationError(f"this broker belongs to cluster {wanted.cluster_id}, and this is cluster {cluster_id}")
    broker = wanted.broker
    if broker.id < 0:
        broker = evolve(broker, id=(yield from _generated_id()))
    epoch = yield from _create(state, broker, wanted.session_timeout_ms)
    return RegisteredAs(evolve(broker, epoch=epoch), cluster_id)


def create_parents(paths: Iterable[str]) -> Steps[None]:
    """Persistent znodes, parents before children; those that are there stay."""
    pending = list(paths)
    while pending:
        results = yield tuple(Create(path) for path in pending)
        for path, result in zip(pending, results, strict=True):
            if not (result.is_lost or result.error == ZooKeeperError.NODEEXISTS):
                result.must(path)
        pending = [path for path, result in zip(pending, results, strict=True) if result.is_lost]


def _cluster_id(state: ControllerState) -> Steps[str]:
    while True:
        (found,) = yield from read((Get(CLUSTER_ID),))
        if not found.is_missing:
            try:
                return decode_cluster_id(found.must(CLUSTER_ID).data)
            except MalformedError as error:
                raise RegistrationError(str(error)) from error
        data = encode_cluster_id(uuid_text(Uuid(state.random.randbytes(16))))
        (created,) = yield (Create(CLUSTER_ID, data),)
        if not (created.is_lost or created.error == ZooKeeperError.NODEEXISTS):
            created.must(CLUSTER_ID)


def _generated_id() -> Steps[int]:
    """An id that nobody has. One whose answer is lost is never used."""
    while True:
        (result,) = yield (Set(SEQUENCE, b""),)
        if not result.is_lost:
            return RESERVED_ID_MAX + result.must(SEQUENCE).stat.version


def _create(state: ControllerState, broker: Broker, session_timeout_ms: int) -> Steps[int]:
    """The broker epoch."""
    path, until_ms = broker_path(broker.id), state.now_ms + session_timeout_ms * PATIENCE_TIMEOUTS
    while True:
        (created,) = yield (Create(path, broker.encode(state.wall_ms), ephemeral=True),)
        if created.error != ZooKeeperError.NODEEXISTS and not (created.ok or created.is_lost):
            raise CoordinationError(path, created.error)
        (found,) = yield from read((Get(path),))
        if found.is_missing:
            continue
        if found.must(path).stat.ephemeral_owner == state.session_id:
            return found.stat.czxid
        if state.now_ms >= until_ms:
            raise RegistrationError(f"duplicate broker id {broker.id}: {path} belongs to another session")
        yield Pause(_RETRY_MS)
