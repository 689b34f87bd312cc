"""Gives a state to running members, which continue with it: `zab restore --into`.

    ask(ports, is_rest=False)           checks whether they accept it, before anything is changed
    written, lineage = give(ports, state)

The snapshot is written to a file once, and sent to the admin port of each member, one after the other. So while fewer
than a majority have it, the others serve their old state.

Members that have it are one ensemble if they had the same history before, and a quorum of it if they are a majority.
Otherwise the first member that continues with it would only leave the others: so this is checked first, and also
whether each member accepts it.

Not here: the choice of the state; what a member does with it (`datatree.recovery.restoring`).
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any, Final

from datatree.log.epochs import DIRECTORY
from zab.cli.terminal import count_of
from zab.operations.admin_client import AdminError, AdminPort

if TYPE_CHECKING:
    from zab.pipeline.state.snapshot_output import State, Written

__all__ = ["NotGivenError", "ask", "give"]

_NOBODY: Final = "no member has it, and nothing is changed"
_LINEAGE: Final = re.compile("[0-9a-f]{32}")
RESTORE: Final = "restore"
ASK_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 660.0
"""How long a member may be silent: it builds the tree before it answers."""


class NotGivenError(Exception):
    """Not all members have the state; the text says what that means."""


def ask(ports: list[AdminPort], *, is_rest: bool) -> None:
    """Ask each member whether it accepts a state. is_rest: the others have it already. Raises NotGivenError."""
    told: dict[int, tuple[AdminPort, str]] = {}
    participants: set[int] = set()
    try:
        for port in ports:
            value = port.ask(RESTORE, ASK_SECONDS).value
            sid, found = value.get("server_id"), value.get("participants")
            if not isinstance(sid, int) or not isinstance(found, list):
                raise AdminError(f"{port}: it does not say which member it is: is it an older version?")
            if sid in told:
                raise AdminError(f"{told[sid][0]} and {port} are both server {sid}")
            told[sid] = port, _lineage(port, value)
            participants |= {each for each in found if isinstance(each, int)}
    except AdminError as error:
        raise NotGivenError(f"{error}; {_NOBODY}") from None
    if len({lineage for _, lineage in told.values()}) != 1:
        each = ", ".join(f"{port}: {lineage}" for port, lineage in told.values())
        raise NotGivenError(f"these have different histories, and would be no ensemble: {each}; {_NOBODY}")
    count = len(participants & told.keys())
    if not is_rest and 2 * count <= len(participants):
        few = f"{count} of {count_of(len(participants), 'participant')}"
        raise NotGivenError(
            f"{few} would have it, which is no majority, and no part of what the others serve: name more of them, or "
            f"--rest, where these others have it already; {_NOBODY}"
        )


def give(ports: list[AdminPort], state: State) -> tuple[Written, bytes]:
    """Give the state to all members; returns the contents of the snapshot, and the members' new lineage. Raises
    NotGivenError, PipelineError and OSError."""
    from zab.host.storage.disk import RealDisk
    from zab.pipeline.state.snapshot_output import write_native

    with tempfile.TemporaryDirectory(prefix="zab-restore-") as aside:
        os.mkdir(os.path.join(aside, DIRECTORY), 0o700)
        written = write_native(RealDisk(aside, lock=False), state, bytes(16))
        given: dict[str, str] = {}
        for port in ports:
            try:
                told = port.send(RESTORE, os.path.join(aside, written.path), SILENCE_SECONDS)
                given[str(port)] = _lineage(port, told.value)
            except AdminError as error:
                raise NotGivenError(_so_far(error, port, list(given), len(ports))) from None
            if len(set(given.values())) != 1:
                each = ", ".join(f"{name}: {lineage}" for name, lineage in given.items())
                raise NotGivenError(f"these had not the same history before, so they are no ensemble now: {each}")
    return written, bytes.fromhex(given[str(ports[0])])


def _lineage(port: AdminPort, told: dict[str, Any]) -> str:
    lineage = told.get("lineage")
    if not isinstance(lineage, str) or not _LINEAGE.fullmatch(lineage):
        raise AdminError(f"{port}: what it answers to restore names no lineage: is that an admin port of zab?")
    return lineage


def _so_far(error: AdminError, port: AdminPort, given: list[str], count: int) -> str:
    if not given and not error.is_open:
        return f"{error}; {_NOBODY}"
    has_it = f"{len(given)} of {count_of(count, 'member')} went on with it" + (f": {', '.join(given)}" if given else "")
    if error.is_open:
        # If it were given twice, its history would differ from that of the others.
        has_it += (
            f"; whether {port} did is not known, and its journal says so: this member goes on with a snapshot that was "
            "restored"
        )
    return (
        f"{error}; {has_it}. Give the same to the others alone, with --rest; or empty their version-1: those that have "
        "it fill them then, if they are a majority"
    )
