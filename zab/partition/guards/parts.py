"""What guards are made of.

free                        the request needs no permission, or its handler asks for them (`by_handler`)
needs(…)                    one permission for the whole request
split(…)                    what of a request its client may do, and what not
leave_out(…)                goes on with what it may do, and adds answers for the rest
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import attrs

from zab.partition.access.acls import CLUSTER_NAME, Operation, ResourceType
from zab.partition.requests.dispatch import Guard
from zab.partition.requests.request import Request

T = TypeVar("T")
REFUSED = "the access lists do not allow it"


def free(_request: Request) -> bool:
    """It needs no permission."""
    return True


by_handler = free
"""Its handler asks for permissions, since they are those of parts of it."""


def needs(
    operation: Operation,
    type_: ResourceType,
    name_of: Callable[[Any], str | None],
    refusal: Callable[[Request], Any],
) -> Guard:
    """A permission for the resource that `name_of` finds in the body; none if that is None. `refusal` makes the answer
    without it."""

    def guard(request: Request) -> bool:
        name = name_of(request.body)
        if name is None or request.may(operation, type_, name):
            return True
        request.answer(refusal(request))
        return False

    return guard


def needs_cluster(operation: Operation, refusal: Callable[[Request], Any]) -> Guard:
    """A permission for the cluster."""
    return needs(operation, ResourceType.CLUSTER, lambda _body: CLUSTER_NAME, refusal)


def split(items: Iterable[T], may: Callable[[T], bool]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """What is allowed, and what is not."""
    allowed: list[T] = []
    refused: list[T] = []
    for each in items:
        (allowed if may(each) else refused).append(each)
    return tuple(allowed), tuple(refused)


def changed(message: T, **fields: Any) -> T:
    """A message with these fields instead of its own."""
    made: T = attrs.evolve(cast(Any, message), **fields)
    return made


def leave_out(request: Request, field: str, allowed: tuple[Any, ...], answers: str, refused: tuple[Any, ...]) -> None:
    """Leave in this field of the request what is allowed. `refused` is added to the field `answers` of the answer."""

    def amend(answer: Any) -> Any:
        return changed(answer, **{answers: (*getattr(answer, answers), *refused)})

    if refused:
        request.body, request.amend = changed(request.body, **{field: allowed}), amend
