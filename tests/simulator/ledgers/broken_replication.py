"""Variants of auto-recovery that break a promise: each has one rule less."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from zab.coordination.operations import Set
from zab.coordination.steps import Steps
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import encode_metadata
from zab.ledger.replication import worker
from zab.ledger.replication.copying import Copied, Copying
from zab.ledger.replication.repair import Repair, Task
from zab.ledger.replication.worker import Worker
from zab.ledger.store.events import Send
from zab.ledger.wire.messages import AddEntry

Patch = pytest.MonkeyPatch


def name_the_target_before_it_has_the_entries(patch: Patch) -> None:
    """The metadata change first."""

    def beginning(copy: Copying, *given: Any) -> list[Any]:
        copy.outcome = Copied(0, 0)
        return []

    patch.setattr(Copying, "step", beginning)


def copy_with_ordinary_adds(patch: Patch) -> None:
    """S19."""

    add = Copying._add

    def adding(copy: Copying, *given: Any) -> Send:
        sent = add(copy, *given)
        assert isinstance(sent.request, AddEntry)
        request = evolve(sent.request, is_recovery=False)
        copy._adding[request.entry].request = request
        return Send(sent.bookie, request)

    patch.setattr(Copying, "_add", adding)


def forget_the_last_entry(patch: Patch) -> None:
    """S24: a fragment that is not the last is taken to end at the LAC that its last entry tells of."""
    runs_of = Task.runs_of

    def shorter(task: Task, metadata: Any) -> Any:
        runs = list(runs_of(task, metadata))
        return iter([*runs[:-1], (runs[-1][0], runs[-1][1] - 1)])

    patch.setattr(Task, "runs_of", shorter)


def delete_records_blindly(patch: Patch) -> None:
    """Whatever version the record has by now."""
    remove = worker.remove

    def removing(root: str, ledger: int, _version: int) -> Steps[bool]:
        return (yield from remove(root, ledger, -1))

    patch.setattr(worker, "remove", removing)


def place_on_a_member(patch: Patch) -> None:
    """The target is in the ensemble already."""

    def replacing(self: Worker, repair: Repair, task: Task) -> BookieId:
        assert repair.versioned is not None
        ensemble = repair.versioned.metadata.fragment_of(task.member.first).ensemble
        return next(each for each in ensemble if each != task.member.bookie and each in repair.registered)

    def committing(self: Worker, repair: Repair, task: Task, target: BookieId) -> Steps[None]:
        versioned = repair.versioned
        assert versioned is not None
        fragment = versioned.metadata.fragment_of(task.member.first)
        ensemble = list(fragment.ensemble)
        ensemble[task.member.index] = target
        data = encode_metadata(versioned.metadata).replace(task.member.bookie.encode(), target.encode())
        yield (Set(ledger_path(self._root, repair.ledger), data, versioned.version),)

    patch.setattr(Worker, "_replacement", replacing)
    patch.setattr(Worker, "_commit", committing)


def overwrite_what_others_wrote(patch: Patch) -> None:
    """The metadata that were read when the repair began are written, whatever is there."""

    def committing(self: Worker, repair: Repair, task: Task, target: BookieId) -> Steps[None]:
        versioned = repair.versioned
        assert versioned is not None
        wanted = versioned.metadata.with_member(task.member.first, task.member.index, target)
        yield (Set(ledger_path(self._root, repair.ledger), encode_metadata(wanted)),)
        repair.versioned = evolve(versioned, metadata=wanted)
        repair.tasks.pop()
        self._next_task(repair)

    patch.setattr(Worker, "_commit", committing)
