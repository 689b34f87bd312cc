"""Which members a history says that there are, and which of them were not given.

    configured(texts) -> the servers of the newest configuration
    not_given(ensemble, members, texts) -> Finding, or None

A history of ours has a configuration once there was a reconfiguration; each member of ZooKeeper writes its own into its
tree. It is in the log, as the last `reconfig`, or in a snapshot. Where none is found, nothing is expected.

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
"""The zxid from which it is in the history, and its text."""

_SERVER: Final = re.compile(rb"^server\.([0-9]{1,9})=", re.MULTILINE)
_COLUMNS: Final = arrow_schema(column for column in ZNODES if column.name in ("path", "data", "mzxid"))


def configuration_in(file: SnapshotFile) -> Configuration | None:
    """That of a snapshot; None where it has none, or cannot be read."""
    try:
        for batch in opened(file).znodes(_COLUMNS, Label("", None, file.name, file.zxid)):
            found = batch.filter(pc.equal(batch.column("path"), CONFIG.decode()))
            for row in found.to_pylist():
                return (row["mzxid"], row["data"]) if row["data"] else None
    except SnapshotDamageError:
        pass
    return None


def not_given(ensemble: str, members: Sequence[MemberFiles], configurations: Iterable[Configuration]) -> Finding | None:
    """What is said where the newest configuration names servers of which nothing was given."""
    newest = max(configurations, key=lambda one: one[0], default=None)
    if newest is None:
        return None
    expected = {number.decode() for number in _SERVER.findall(newest[1])}
    numbers = {member.member.partition(" ")[0] for member in members}
    # A directory that does not say whose it is may be that of any of them.
    nameless = len([number for number in numbers if not number.isdecimal()])
    missing = sorted(expected - numbers, key=int)
    if len(missing) <= nameless:
        return None
    named = "member" if len(missing) == 1 else "members"
    sentence = f"the configuration names {len(expected)} servers, and of {named} {', '.join(missing)} nothing was given"
    return Finding(ensemble, None, None, None, newest[0] or None, "expected", False, sentence)


def several_ensembles(ensembles: Sequence[tuple[str, Sequence[MemberFiles]]]) -> list[Finding]:
    """What is said where what was given belongs to several ensembles that nobody has named: members of one may have
    been meant."""
    found = []
    for ensemble, members in ensembles if len(ensembles) > 1 else ():
        lineages = {member.lineage.hex() for member in members if member.lineage is not None}
        if ensemble in lineages:
            others = ", ".join(name for name, _ in ensembles if name != ensemble)
            sentence = f"{len(members)} of the members given, and the others are of another ensemble: {others}"
            found.append(Finding(ensemble, None, None, None, None, "expected", False, sentence))
    return found
