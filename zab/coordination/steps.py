"""Handlers that ask the coordination service: generators that read from top to bottom.

A handler yields operations that are sent together (pipelined), and is sent their results, in order:

    def read_epoch() -> Steps[int]:
        (found,) = yield (Get("/controller_epoch"),)
        return int(found.data)

A host decides when results come. CONNECTIONLOSS says that an operation was done or not: `read` repeats what only reads;
who writes has to look.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

from attrs import frozen

from zab.coordination.operations import Create, Delete, Exists, Get, Operation, Result, ZooKeeperError

BATCH_MAX: Final = 500
"""The most operations that are sent together, so that the members of the service need not hold back what follows."""


@frozen
class Pause:
    """Yielded in place of operations: the handler goes on after so long."""

    ms: int


_T = TypeVar("_T")
_Operation = TypeVar("_Operation", bound=Operation)
Steps: TypeAlias = Generator[tuple[Operation, ...] | Pause, tuple[Result, ...], _T]
"""A handler, or a part of one (`yield from`)."""


def chunks(operations: Iterable[_Operation]) -> Iterator[tuple[_Operation, ...]]:
    """Operations in batches of BATCH_MAX."""
    asked = tuple(operations)
    for at in range(0, len(asked), BATCH_MAX):
        yield asked[at : at + BATCH_MAX]


def read(operations: Iterable[Operation]) -> Steps[tuple[Result, ...]]:
    """The results of operations that only read; those whose answer is lost are asked again."""
    asked = tuple(operations)
    results: list[Result] = []
    for chunk in chunks(asked):
        results += yield chunk
    while lost := [index for index, result in enumerate(results) if result.is_lost]:
        again: list[Result] = []
        for chunk in chunks(asked[index] for index in lost):
            again += yield chunk
        for index, result in zip(lost, again, strict=True):
            results[index] = result
    return tuple(results)


def look(path: str) -> Steps[Result | None]:
    """The data of a znode that comes and goes, None if it is not there. A watch is set in either case."""
    while True:
        (found,) = yield from read((Get(path, watch=True),))
        if not found.is_missing:
            return found.must(path)
        (exists,) = yield from read((Exists(path, watch=True),))
        if exists.is_missing:
            return None
        exists.must(path)


def create_one(path: str, data: bytes = b"") -> Steps[bool]:
    """Have a znode. Whether it was not there; after a lost answer, one that is there counts as made here. Raises
    CoordinationError if the service refuses."""
    was_lost = False
    while True:
        (made,) = yield (Create(path, data),)
        if made.error == ZooKeeperError.NODEEXISTS:
            return was_lost
        if not made.is_lost:
            return made.must(path).ok
        was_lost = True


def delete_one(path: str) -> Steps[bool]:
    """Have no such znode. Whether it was there; after a lost answer, one that is not there counts as deleted here.
    Raises CoordinationError if the service refuses, as for one that has children."""
    was_lost = False
    while True:
        (gone,) = yield (Delete(path),)
        if gone.is_missing:
            return was_lost
        if not gone.is_lost:
            return gone.must(path).ok
        was_lost = True
