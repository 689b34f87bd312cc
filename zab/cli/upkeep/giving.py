"""Gives a state to running members, each of which goes on with it: `zab restore --into`.

    written, lineage = give(ports, state)

The snapshot is written to a file once, and sent to the admin port of each member, one after the other: the next one
when the one before has it. So as long as fewer than a majority have it, the others serve what they had.

Not here: which state; what a member makes of it (`datatree.recovery.restoring`).
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Final

from datatree.log.epochs import DIRECTORY
from zab.cli.terminal import count_of
from zab.cli.upkeep.admin_client import AdminError, AdminPort, Told

if TYPE_CHECKING:
    from zab.pipeline.state.snapshot_output import State, Written

__all__ = ["NotGivenError", "give"]

_LINEAGE: Final = re.compile("[0-9a-f]{32}")
SILENCE_SECONDS: Final = 660.0
"""For how long a member may say nothing: it builds the tree before it answers."""


class NotGivenError(Exception):
    """Not all members have it, and what that means."""


def give(ports: list[AdminPort], state: State) -> tuple[Written, bytes]:
    """What the snapshot holds, and the lineage that the members go on with. Raises NotGivenError, PipelineError and
    OSError."""
    from zab.host.disk import RealDisk
    from zab.pipeline.state.snapshot_output import write_native

    with tempfile.TemporaryDirectory(prefix="zab-restore-") as aside:
        os.mkdir(os.path.join(aside, DIRECTORY), 0o700)
        written = write_native(RealDisk(aside, lock=False), state, bytes(16))
        given: dict[str, str] = {}
        for port in ports:
            try:
                told = port.send("restore", os.path.join(aside, written.path), SILENCE_SECONDS)
                given[str(port)] = _lineage(port, told)
            except AdminError as error:
                raise NotGivenError(_so_far(error, port, list(given), len(ports))) from None
    if len(set(given.values())) != 1:
        each = ", ".join(f"{port}: {lineage}" for port, lineage in given.items())
        raise NotGivenError(f"these had not the same history before, so they are no ensemble now: {each}")
    return written, bytes.fromhex(given[str(ports[0])])


def _lineage(port: AdminPort, told: Told) -> str:
    lineage = told.value.get("lineage")
    if not isinstance(lineage, str) or not _LINEAGE.fullmatch(lineage):
        raise AdminError(f"{port}: what it answers to restore names no lineage: is that an admin port of zab?")
    return lineage


def _so_far(error: AdminError, port: AdminPort, given: list[str], count: int) -> str:
    if not given and not error.is_open:
        return f"{error}; no member has it, and nothing is changed"
    has_it = f"{len(given)} of {count_of(count, 'member')} went on with it" + (f": {', '.join(given)}" if given else "")
    if error.is_open:
        # Given to it twice, it would be of another history than those that have it once.
        has_it += (
            f"; whether {port} did is not known, and its journal says so: this member goes on with a snapshot that was "
            "restored"
        )
    return (
        f"{error}; {has_it}. Give the same to the others alone; or empty their version-1: those that have it fill them "
        "then, if they are a majority"
    )
