"""Which broker is the controller.

    1  read /controller_epoch, created with 0 if it is missing: epoch e, version v
    2  read /controller, with a watch: who is there is followed
    3  one multi: create /controller (ephemeral), set /controller_epoch to e + 1 if its version is v
    4  done: this broker is the controller of epoch e + 1, and v + 1 is what its writes check
       anything else: read again from 1

If the answer to the multi is lost, /controller tells: it names this broker, belongs to this session, and the epoch is e
+ 1 with version v + 1. Else the multi was not applied, and another try is made, or somebody else is followed. A
/controller of an earlier life of this broker belongs to another session: it is followed until it expires.
"""

from __future__ import annotations

from attrs import frozen

from zab.coordination.operations import Check, CoordinationError, Create, Delete, Get, Multi, Set, ZooKeeperError
from zab.coordination.steps import Steps, look, read
from zab.partition.controller.fencing import fenced
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znode_json import number_in
from zab.partition.controller.znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    MalformedError,
    decode_controller,
    encode_controller,
)

_CONTENDED = frozenset({ZooKeeperError.NODEEXISTS, ZooKeeperError.BADVERSION, ZooKeeperError.NONODE})


@frozen
class Elected:
    """The controller. epoch, version: only if it is this broker."""

    broker_id: int
    is_here: bool = False
    epoch: int = 0
    version: int = 0


@frozen
class _Epoch:
    value: int
    version: int


def elect(state: ControllerState) -> Steps[Elected]:
    """Become the controller, or find out who is. A watch on /controller is set in either case."""
    wanted: _Epoch | None = None
    while True:
        # The epoch first: if somebody is elected after that, what follows is refused.
        epoch = yield from _epoch()
        holder = yield from _holder(state)
        if holder is not None and not holder.is_here:
            return holder
        if holder is not None:
            if wanted == epoch:
                return Elected(state.broker_id, True, epoch.value, epoch.version)
            if state.is_active and epoch == _Epoch(state.epoch, state.epoch_version):
                return Elected(state.broker_id, True, epoch.value, epoch.version)
            # It is this session's, but nobody knows of which epoch: a term that ended without being able to delete it.
            yield from _delete(epoch)
            continue
        wanted = _Epoch(epoch.value + 1, epoch.version + 1)
        (result,) = yield (
            Multi(
                (
                    Create(CONTROLLER, encode_controller(state.broker_id, state.wall_ms), ephemeral=True),
                    Set(CONTROLLER_EPOCH, str(wanted.value).encode(), epoch.version),
                )
            ),
        )
        if not (result.ok or result.is_lost or result.error in _CONTENDED):
            raise CoordinationError(CONTROLLER, result.error)


def _holder(state: ControllerState) -> Steps[Elected | None]:
    """The owner of /controller; None: there is none. The watch fires when that changes."""
    found = yield from look(CONTROLLER)
    if found is None:
        return None
    try:
        broker_id = decode_controller(found.data)
    except MalformedError as error:
        state.report(str(error))
        return Elected(-1)
    return Elected(broker_id, found.stat.ephemeral_owner == state.session_id and broker_id == state.broker_id)


def _epoch() -> Steps[_Epoch]:
    while True:
        (found,) = yield from read((Get(CONTROLLER_EPOCH),))
        if not found.is_missing:
            data = found.must(CONTROLLER_EPOCH).data
            try:
                return _Epoch(number_in(CONTROLLER_EPOCH, data), found.stat.version)
            except MalformedError as error:
                raise CoordinationError(str(error), ZooKeeperError.DATAINCONSISTENCY) from error
        (created,) = yield (Create(CONTROLLER_EPOCH, b"0"),)
        if not (created.ok or created.is_lost or created.error == ZooKeeperError.NODEEXISTS):
            raise CoordinationError(CONTROLLER_EPOCH, created.error)


def _delete(epoch: _Epoch) -> Steps[None]:
    """Delete /controller of this session, unless somebody was elected since the epoch was read."""
    (result,) = yield (Multi((Check(CONTROLLER_EPOCH, epoch.version), Delete(CONTROLLER))),)
    if not (result.ok or result.is_lost or result.error in _CONTENDED):
        raise CoordinationError(CONTROLLER, result.error)


def give_up(state: ControllerState) -> Steps[None]:
    """Delete /controller, if this broker still is the controller of the epoch that it thinks."""
    (result,) = yield (fenced(state, Delete(CONTROLLER)),)
    if not (result.ok or result.is_lost or result.error in _CONTENDED):
        state.report(f"{CONTROLLER} cannot be deleted: {result.error.name}")
