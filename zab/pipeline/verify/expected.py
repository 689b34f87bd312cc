"""Compares the members of a history's configuration with those that were given.

    not_given(ensemble, members, configurations) -> Finding, or None

A native history has a configuration once there was a reconfiguration; each member of ZooKeeper writes its own into its
tree. It is in the log, as the last `reconfig`, or in a snapshot. Without one, no members are expected.

Deliberately not here: reading files (`zab.pipeline.verify.files`, `configuration_in`).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow.compute as pc

from datatree.paths import CONFIG
from zab.pipeline.decoding.snapshot_rows import Label, SnapshotDamageError
from zab.pipeline.member_files import MemberFiles, SnapshotFile
from zab.pipeline.reading.snapshot_choice import opened
from zab.pipeline.schema import ZNODES, arrow_schema
from zab.pipeline.verify.findings import Finding

__all__ = ["Configuration", "configuration_in", "not_given", "several_ensembles"]

Configuration = tuple[int, bytes]
"""The zxid at which it came into the history, and its text."""

_SERVER: Final = re.compile(rb"^server\.([0-9]{1,9})=", re.MULTILINE)
_COLUMNS: Final = arrow_schema(column for column in ZNODES if column.name in ("path", "data", "mzxid"))


def configuration_in(file: SnapshotFile) -> Configuration | None:
    """The configuration in a snapshot; None if it has none, or cannot be read."""
    try:
        for batch in opened(file).znodes(_COLUMNS, Label("", None, file.name, file.zxid)):
            found = batch.filter(pc.equal(batch.column("path"), CONFIG.decode()))
            for row in found.to_pylist():
                return (row["mzxid"], row["data"]) if row["data"] else None
    except SnapshotDamageError:
        pass
    return None


def not_given(ensemble: str, members: Sequence[MemberFiles], configurations: Iterable[Configuration]) -> Finding | None:
    """The finding that the newest configuration names servers whose directories were not given, if so."""
    newest = max(configurations, key=lambda one: one[0], default=None)
    if newest is None:
        return None
    expected = {number.decode() for number in _SERVER.findall(newest[1])}
    numbers = {member.member.partition(" ")[0] for member in members}
    # A directory that does not say whose it is may belong to any of them.
    nameless = len([number for number in numbers if not number.isdecimal()])
    missing = sorted(expected - numbers, key=int)
    if len(missing) <= nameless:
        return None
    named = "member" if len(missing) == 1 else "members"
    sentence = f"the configuration names {len(expected)} servers; no files of {named} {', '.join(missing)} were given"
    return Finding(ensemble, None, None, None, newest[0] or None, "expected", False, sentence)


def several_ensembles(ensembles: Sequence[tuple[str, Sequence[MemberFiles]]]) -> list[Finding]:
    """The findings that the given members belong to several ensembles, although the user has not named any: they may
    have been meant as one."""
    found = []
    for ensemble, members in ensembles if len(ensembles) > 1 else ():
        lineages = {member.lineage.hex() for member in members if member.lineage is not None}
        if ensemble in lineages:
            others = ", ".join(name for name, _ in ensembles if name != ensemble)
            sentence = f"{len(members)} of the members given; the others belong to another ensemble: {others}"
            found.append(Finding(ensemble, None, None, None, None, "expected", False, sentence))
    return found
