"""How the controller writes: each write checks that nobody else was elected, and follows what became of it.

    fenced(state, part, …)              a multi whose first part checks the version of /controller_epoch
    write(state, multis)                their results without the first part; a failed check raises ControllerMovedError
    update_states(state, …, compute)    write the states of partitions, each against the version that was read

There is one writer of partition states, so what the controller remembers is what is written there, unless an answer was
lost. Then, or when a version differs, the znode is read again. If it has what was to be written, with the next version,
the write was applied: only this controller could have written that. Otherwise `compute` is asked again with what is
there.

A state that was written under a higher controller epoch shows that this controller is not one any longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zab.coordination.operations import (
    Check,
    CoordinationError,
    Create,
    Delete,
    Get,
    Multi,
    Result,
    Set,
    ZooKeeperError,
)
from zab.coordination.steps import Steps, chunks, read
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znodes import CONTROLLER_EPOCH, MalformedError, PartitionState, TopicPartition, state_path

Compute = Callable[[TopicPartition, PartitionState], PartitionState | None]


class ControllerMovedError(Exception):
    """Another controller was elected: resign, write nothing more."""


def fenced(state: ControllerState, *parts: Create | Set | Delete) -> Multi:
    return Multi((Check(CONTROLLER_EPOCH, state.epoch_version), *parts))


def write(state: ControllerState, multis: Iterable[Multi]) -> Steps[tuple[Result, ...]]:
    """The results of fenced multis; `parts` have one each for the parts after the check.

    An answer may be lost: that result has its error and no parts.
    """
    found: list[Result] = []
    for chunk in chunks(multis):
        results = yield chunk
        found += [_without_check(state, multi, result) for multi, result in zip(chunk, results, strict=True)]
    return tuple(found)


def _without_check(state: ControllerState, multi: Multi, result: Result) -> Result:
    if result.parts and not result.ok:
        check = result.parts[0].error
        if check in (ZooKeeperError.BADVERSION, ZooKeeperError.NONODE):
            raise ControllerMovedError(f"the check of the controller epoch's version {state.epoch_version} failed")
    parts = result.parts[1:]
    assert not result.parts or len(parts) == len(multi.parts) - 1
    return Result(error=result.error, parts=parts)


def write_until_known(state: ControllerState, *parts: Create | Set | Delete) -> Steps[Result]:
    """The result of one fenced multi that may be applied twice: it is repeated while its answer is lost."""
    while True:
        (result,) = yield from write(state, (fenced(state, *parts),))
        if not result.is_lost:
            return result


def update_states(
    state: ControllerState, partitions: Iterable[TopicPartition], compute: Compute
) -> Steps[set[TopicPartition]]:
    """Write the states that `compute` gives; None leaves a partition alone. Partitions without state are left out.

    compute: called again with a newer state if the znode had one.

    Return the partitions that were written.
    """
    pending, written = [each for each in partitions if each in state.partitions], set()
    while pending:
        proposed = {}
        for partition in pending:
            proposal = compute(partition, state.partitions[partition])
            if proposal is not None:
                version = state.partitions[partition].partition_epoch + 1
                proposed[partition] = state.stamped(proposal).at(version)
        multis = [fenced(state, _set(partition, proposal)) for partition, proposal in proposed.items()]
        results = yield from write(state, multis)
        doubtful = []
        for (partition, proposal), result in zip(proposed.items(), results, strict=True):
            if result.ok:
                state.put(partition, proposal)
                written.add(partition)
            elif result.is_lost or result.error in (ZooKeeperError.BADVERSION, ZooKeeperError.NONODE):
                doubtful.append(partition)
            else:
                raise CoordinationError(state_path(partition), result.error)
        yield from read_states(state, doubtful)
        applied = {each for each in doubtful if state.partitions[each] == proposed[each]}
        written |= applied
        pending = [each for each in doubtful if each not in applied]
    return written


def _set(partition: TopicPartition, proposal: PartitionState) -> Set:
    return Set(state_path(partition), proposal.encode(), proposal.partition_epoch - 1)


def read_states(
    state: ControllerState, partitions: Iterable[TopicPartition], *, may_be_missing: bool = False
) -> Steps[None]:
    """Read the states of partitions again.

    Raises ControllerMovedError if one was written under a higher controller epoch, CoordinationError if one cannot be
    read: then the controller begins again, and leaves its topic out.
    """
    wanted = tuple(partitions)
    results = yield from read(Get(state_path(each)) for each in wanted)
    for partition, result in zip(wanted, results, strict=True):
        if result.is_missing and may_be_missing:
            continue
        found = result.must(state_path(partition))
        try:
            read_now = PartitionState.decode(partition, found.data, found.stat.version)
        except MalformedError as error:
            state.report(str(error))
            raise CoordinationError(error.path, ZooKeeperError.DATAINCONSISTENCY) from error
        if read_now.controller_epoch > state.epoch:
            raise ControllerMovedError(f"{partition} was written in controller epoch {read_now.controller_epoch}")
        state.put(partition, read_now)
