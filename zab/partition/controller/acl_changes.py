"""Access lists, in znodes (`zab.partition.access.acl_znodes`), and how every broker learns of changes.

Who changes a list writes it and, in the same transaction, a sequential notification that names it. So no broker misses
a change, whenever the writer ends; Kafka's tools, which write both one after the other, are understood, too. Every
broker, the controller or not, watches the notifications: it reads the lists that new ones name. With each session it
reads all lists. The controller deletes notifications of more than 15 minutes ago.

The controller changes lists for clients (`create`, `delete`), each list against the version that it has read.

A list that cannot be read counts as one that closes what it is about, until it can be read again or somebody removes
its znode; nobody can add to it or delete from it.

Limits: `LISTS_MAX` lists, `LIST_BYTES_MAX` for one: what would be more is refused. More that are there are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from attrs import Factory, define

from zab.coordination.operations import Children, CoordinationError, Create, Delete, Get, Result, Set, ZooKeeperError
from zab.coordination.steps import Steps, read
from zab.kafka.errors import ErrorCode
from zab.partition.access.acl_filter import AclFilter
from zab.partition.access.acl_znodes import (
    CHANGE_PREFIX,
    CHANGES,
    PARENTS,
    AclError,
    acls_in,
    acls_text,
    change_text,
    changed_in,
    list_path,
    parent_path,
    why_no_acl,
)
from zab.partition.access.acls import AccessLists, Acl, Pattern, Resource, ResourceType
from zab.partition.controller.effects import AccessListsKnown
from zab.partition.controller.fencing import write_until_known
from zab.partition.controller.notifications import numbers_of, purge
from zab.partition.controller.registration import create_parents
from zab.partition.controller.requests import Answer, CreateAcls, DeleteAcls, Outcome, RemovedAcl
from zab.partition.controller.state import ControllerState

LISTS_MAX: Final = 100_000
LIST_BYTES_MAX: Final = 500_000
_AGAIN: Final = (ZooKeeperError.BADVERSION, ZooKeeperError.NODEEXISTS, ZooKeeperError.NONODE)
_Changed = Callable[[frozenset[Acl]], frozenset[Acl]]


class _RefusedError(Exception):
    """A list cannot be changed so."""


@define
class Follower:
    """What a broker knows of the lists. lists: None until they are read for the first time."""

    lists: AccessLists | None = None
    _last: dict[Pattern, int] = Factory(lambda: dict.fromkeys(Pattern, -1))
    """The highest number of a notification that it has dealt with; -1: none yet."""

    # ------------------------------------------------------------------------------------------------------- following

    def on_session(self, state: ControllerState) -> Steps[None]:
        """Read all lists: notifications may be gone that this broker never saw."""
        yield from create_parents(PARENTS)
        numbers = yield from self._notifications()
        lists = AccessLists()
        places = [(type_, pattern) for type_ in ResourceType for pattern in Pattern]
        parents = [parent_path(*place) for place in places]
        found = yield from read(map(Children, parents))
        resources = [
            Resource(*place, name)
            for place, parent, result in zip(places, parents, found, strict=True)
            for name in result.must(parent).children
        ]
        yield from self._read(state, lists, resources)
        # All at once: with half of the lists something would be allowed that another one denies.
        self.lists = lists
        self._last = {pattern: max([-1, *each]) for pattern, each in numbers.items()}
        state.effects.append(AccessListsKnown(len(lists)))

    def on_change(self, state: ControllerState) -> Steps[None]:
        """Read what changed."""
        if self.lists is None:
            return
        numbers = yield from self._notifications()
        for pattern, children in numbers.items():
            new = sorted(number for number in children if number > self._last[pattern])
            notifications = yield from read(Get(f"{CHANGES[pattern]}/{children[each]}") for each in new)
            changed = dict.fromkeys(
                resource for each in notifications for resource in _named(state, pattern, each) if resource is not None
            )
            yield from self._read(state, self.lists, changed)
            self._last[pattern] = max([self._last[pattern], *children])
        if state.is_active:
            for pattern, children in numbers.items():
                yield from purge(state, CHANGES[pattern], [children[each] for each in sorted(children)])

    def _notifications(self) -> Steps[dict[Pattern, dict[int, str]]]:
        """The names of the notifications by their numbers."""
        listed = yield from read(Children(CHANGES[pattern], watch=True) for pattern in Pattern)
        return {
            pattern: numbers_of(CHANGE_PREFIX, result.must(CHANGES[pattern]).children)
            for pattern, result in zip(Pattern, listed, strict=True)
        }

    def _read(self, state: ControllerState, lists: AccessLists, resources: Iterable[Resource]) -> Steps[None]:
        wanted = list(resources)
        results = yield from read(Get(list_path(each)) for each in wanted)
        for resource, result in zip(wanted, results, strict=True):
            if result.is_missing:
                lists.remove(resource)
                continue
            path = list_path(resource)
            try:
                lists.put(resource, acls_in(result.must(path).data))
            except AclError as error:
                state.report(f"{path}: {error} -> nobody may do anything with what it is about")
                lists.put(resource, None)

    # -------------------------------------------------------------------------------------------------------- changing

    def create(self, state: ControllerState, asked: CreateAcls) -> Steps[None]:
        """Add rows to lists. The answer has an outcome for each row, in their order."""
        outcomes: dict[int, Outcome] = {}
        of_lists: dict[Resource, dict[int, Acl]] = {}
        for at, (resource, acl) in enumerate(asked.acls):
            reason = why_no_acl(resource, acl)
            if reason is None:
                of_lists.setdefault(resource, {})[at] = acl
            else:
                outcomes[at] = Outcome(ErrorCode.INVALID_REQUEST, reason)
        for resource, rows in of_lists.items():
            outcome = Outcome()
            try:
                yield from self._change(state, resource, _with(frozenset(rows.values())))
            except _RefusedError as error:
                outcome = Outcome(ErrorCode.INVALID_REQUEST, str(error))
            outcomes |= dict.fromkeys(rows, outcome)
        state.answer(Answer(asked.token, outcomes=tuple(outcomes[at] for at in range(len(asked.acls)))))

    def delete(self, state: ControllerState, asked: DeleteAcls) -> Steps[None]:
        """Take the rows that filters mean out of lists. The answer has each row, with the first filter that means
        it."""
        # What others have changed before this request came counts.
        yield from self.on_change(state)
        removed: list[RemovedAcl] = []
        known = () if self.lists is None else tuple(self.lists)
        for resource, rows in known:
            if not any(each.matches(resource, row) for each in asked.filters for row in rows or ()):
                continue
            of_list: dict[Acl, int] = {}
            try:
                yield from self._change(state, resource, _without(resource, asked.filters, of_list))
            except _RefusedError as error:
                state.report(str(error))
                continue
            removed += [RemovedAcl(at, resource, acl) for acl, at in of_list.items()]
        state.answer(Answer(asked.token, removed=tuple(removed)))

    def _change(self, state: ControllerState, resource: Resource, changed: _Changed) -> Steps[None]:
        """Write a list, against the version that was read. Raises _RefusedError: it stays as it is."""
        path = list_path(resource)
        has_tried = False
        while True:
            (found,) = yield from read((Get(path),))
            before = frozenset() if found.is_missing else self._rows(path, found)
            after = changed(before)
            if after == before and not has_tried:
                return
            if after != before:
                data = self._checked(acls_text(after), is_new=found.is_missing)
                version = found.stat.version
                write = Create(path, data) if found.is_missing else Set(path, data, version)
                part = write if after else Delete(path, version)
                has_tried = True
                notification = Create(
                    f"{CHANGES[resource.pattern]}/{CHANGE_PREFIX}", change_text(resource), sequential=True
                )
                result = yield from write_until_known(state, part, notification)
                if result.error in _AGAIN:
                    continue
                if not result.ok:
                    raise CoordinationError(path, result.error)
            assert self.lists is not None
            if after:
                self.lists.put(resource, after)
            else:
                self.lists.remove(resource)
            return

    @staticmethod
    def _rows(path: str, found: Result) -> frozenset[Acl]:
        try:
            return acls_in(found.must(path).data)
        except AclError as error:
            raise _RefusedError(f"{path}: {error}") from error

    def _checked(self, data: bytes, *, is_new: bool) -> bytes:
        if len(data) > LIST_BYTES_MAX:
            raise _RefusedError(f"a list has at most {LIST_BYTES_MAX} bytes")
        if is_new and self.lists is not None and len(self.lists) >= LISTS_MAX:
            raise _RefusedError(f"there are {LISTS_MAX} access lists already")
        return data


def _with(rows: frozenset[Acl]) -> _Changed:
    return lambda before: before | rows


def _without(resource: Resource, filters: tuple[AclFilter, ...], removed: dict[Acl, int]) -> _Changed:
    """`removed` gets the rows that are taken out, and which filter means them."""

    def changed(before: frozenset[Acl]) -> frozenset[Acl]:
        for acl in before:
            at = next((at for at, each in enumerate(filters) if each.matches(resource, acl)), None)
            if at is not None:
                removed[acl] = at
        return before - removed.keys()

    return changed


def _named(state: ControllerState, pattern: Pattern, notification: Result) -> list[Resource | None]:
    """The list that a notification names."""
    if notification.is_missing:
        return []
    try:
        return [changed_in(pattern, notification.must(CHANGES[pattern]).data)]
    except AclError as error:
        state.report(f"{CHANGES[pattern]}: {error}")
        return []
