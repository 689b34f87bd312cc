"""Variants of owners of managed ledgers that break a promise: each has one rule less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from zab.coordination.operations import ANY_VERSION, Check, Delete, Get
from zab.coordination.steps import Steps, read
from zab.ledger.managed import deleting, owner, sweep, trimming
from zab.ledger.managed.appends import Appends
from zab.ledger.managed.cursor_events import CursorFlush
from zab.ledger.managed.cursor_loading import CursorLoading
from zab.ledger.managed.cursor_parts import Cursor
from zab.ledger.managed.cursor_state import CursorState, decode_cursor
from zab.ledger.managed.cursors import Cursors
from zab.ledger.managed.events import Done, LogAppended
from zab.ledger.managed.log_info import LogInfo, LogState, Position
from zab.ledger.managed.store import Taken, VersionedLog, Written, read_log, write_log
from zab.ledger.managed.succession import Succession
from zab.ledger.managed.trimming import Trims
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.store.events import Completed
from zab.ledger.writer.events import AppendUnknown, NotAppended, Reason

Patch = pytest.MonkeyPatch


def append_again_without_the_end(patch: Patch) -> None:
    """What was appended to a ledger that somebody else ends is appended to the next one at once."""
    answered = Appends.answered

    def answering(appends: Appends, ledger: int, token: Any, outcome: object) -> None:
        again = NotAppended(Reason.FENCED) if isinstance(outcome, AppendUnknown) else outcome
        answered(appends, ledger, token, again)

    patch.setattr(Appends, "answered", answering)


def take_over_without_a_claim(patch: Patch) -> None:
    """The list names the new owner together with its first ledger, and not before."""
    claim = Succession.claim

    def claiming(of: Succession) -> Steps[Any]:
        found = yield from read_log(of._logs, of._name)
        if found is None:
            return (yield from claim(of))
        of.log = evolve(found, info=found.info.claimed(of._owner))
        of.epoch = of.log.info.epoch
        return of.log

    patch.setattr(Succession, "claim", claiming)


def claim_again_and_append_again(patch: Patch) -> None:
    """M2: no claim, and a fenced owner goes on in a new ledger with what it had."""
    take_over_without_a_claim(patch)
    append_again_without_the_end(patch)


def delete_ledgers_before_the_list(patch: Patch) -> None:
    """M8: trimming deletes, and then says so."""

    def trimming_first(of: Succession, root: str, marks: Callable[[], Any], wall_ms: int, *given: Any) -> Steps[int]:
        count = trimming.trimmable(of.info, marks(), wall_ms, *given[:2])
        for each in of.info.ledgers[:count]:
            yield (Delete(ledger_path(root, each.id), ANY_VERSION),)
        if count:
            written = yield from write_log(of.known, of.info.without(count))
            of.adopt(written.log if isinstance(written, Written) else None)
        return count

    patch.setattr(trimming, "trim_ledgers", trimming_first)


def drop_an_empty_ledger_before_the_list(patch: Patch) -> None:
    """M7: it is deleted, and the list names it until the next multi."""
    follow = Succession._try_to_follow

    def following(of: Succession, goal: Any) -> Steps[Any]:
        if of.ended is not None and of.ended.metadata.last < 0:
            yield (Delete(ledger_path(of._root, of.ended.ledger), ANY_VERSION),)
        return (yield from follow(of, goal))

    patch.setattr(Succession, "_try_to_follow", following)


def leave_cursors_unclaimed(patch: Patch) -> None:
    """M11: the znodes of cursors are read, and stay as they are; their ledgers are not recovered."""

    def claiming(loading: CursorLoading, name: str, path: str) -> Steps[Cursor | None]:
        (found,) = yield from read((Get(path),))
        stored = decode_cursor(found.must(path).data)
        return Cursor(name, path, found.stat.version, stored.created_ms, stored.state, stored.state.mark)

    patch.setattr(CursorLoading, "_claim", claiming)


def go_on_after_a_lost_list(patch: Patch) -> None:
    """M15: a job in the background is refused, and the owner goes on."""

    def trim(trims: Trims) -> Steps[None]:
        owner, of = trims._owner, trims._owner.settings
        limits = owner.wall_ms, of.retention_ms, of.retention_bytes
        yield from trimming.trim_ledgers(owner.list, owner.root, trims._marks, *limits)
        owner.list.is_taken = False

    patch.setattr(Trims, "_trim", trim)


def forget_the_recovered_ledger(patch: Patch) -> None:
    """T4 without the end of the ledger before: the list has two ledgers without an end."""
    parts = Succession._parts_of_ended

    def checking(of: Succession) -> Any:
        return tuple(each for each in parts(of) if isinstance(each, Check))

    patch.setattr(Succession, "_parts_of_ended", checking)


def store_what_is_not_consumed(patch: Patch) -> None:
    """What is acknowledged out of order counts as if everything before it was."""

    def acknowledge(state: CursorState, ledger: int, _first: int, last: int, info: LogInfo) -> bool:
        return state.mark_delete(Position(ledger, last), info)

    patch.setattr(CursorState, "acknowledge", acknowledge)


def flush_without_storing(patch: Patch) -> None:
    """A flush is answered at once."""
    ask = Cursors._ask

    def asking(cursors: Cursors, each: Any) -> None:
        if isinstance(each, CursorFlush):
            cursors._out.append(Completed(each.token, Done()))
        else:
            ask(cursors, each)

    patch.setattr(Cursors, "_ask", asking)


def trim_without_cursors(patch: Patch) -> None:
    """Time and bytes alone decide what is trimmed."""
    patch.setattr(Cursors, "stored_marks", lambda _cursors: [])


def trim_what_is_young(patch: Patch) -> None:
    """What all cursors have consumed is trimmed at once."""
    trimmable = trimming.trimmable

    def trimming_young(info: LogInfo, marks: Any, wall_ms: int, *_limits: Any) -> int:
        return trimmable(info, marks, wall_ms, 0, 0)

    patch.setattr(trimming, "trimmable", trimming_young)


def acknowledge_without_bookies(patch: Patch) -> None:
    """What is held is said to be in the log, although somebody else ends the ledger."""

    def give_up(appends: Appends, reason: Any) -> tuple[Position, ...]:
        held, appends._held = appends._held, []
        appends._out.extend(Completed(op.append.token, LogAppended(position)) for position, op in held)
        return tuple(position for position, _ in held)

    patch.setattr(Appends, "give_up", give_up)


def delete_a_log_before_its_ledgers(patch: Patch) -> None:
    """The list is empty in one write; its ledgers are to follow."""

    def delete(root: str, log: VersionedLog, *_given: Any) -> Steps[Any]:
        emptied = log.info.without(len(log.info.ledgers))
        written = yield from write_log(log, evolve(emptied, state=LogState.DELETING))
        if not isinstance(written, Written):
            return Taken(None)
        return (yield from deleting._delete_znode(root, written.log))

    patch.setattr(owner, "delete_log", delete)


def sweep_the_ledgers_of_cursors(patch: Patch) -> None:
    """A ledger is an orphan if its log does not name it."""
    is_named = sweep._is_named

    def is_in_list(logs: str, log: str, _cursor: str | None, ledger: int) -> Steps[bool]:
        return (yield from is_named(logs, log, None, ledger))

    patch.setattr(sweep, "_is_named", is_in_list)
