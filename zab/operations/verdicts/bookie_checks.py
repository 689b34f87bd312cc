"""The checks of `zab doctor` for a bookie: verdicts on its address, its directories and its cluster.

Each function takes facts and gives `Check`s (`zab.operations.verdicts.checks`). Nothing is looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from zab.operations.verdicts.bookies import Bookies, bookie_alarms
from zab.operations.verdicts.checks import Check, Verdict
from zab.operations.verdicts.status import CRITICAL

__all__ = ["Directory", "Metadata", "of_address", "of_cluster", "of_directory", "of_space"]


@frozen(kw_only=True)
class Directory:
    """A directory of the journal or of entries. error: why it cannot be read. damage: what is wrong with its cookie.
    bookie, instance: what that says, None without one. cookie: its bytes. others: what is there without a cookie."""

    path: str
    error: str = ""
    damage: str = ""
    exists: bool = True
    bookie: str | None = None
    instance: str | None = None
    cookie: bytes | None = None
    others: tuple[str, ...] = ()


@frozen(kw_only=True)
class Metadata:
    """What is below the root. instance: the id of the cluster. cookie: that of this bookie, None if it has none."""

    bookies: Bookies
    instance: str | None
    cookie: bytes | None


def of_address(bookie: str, host: str, *, is_here_only: bool, has_members_elsewhere: bool) -> Iterator[Check]:
    """bookie: its id. host: what clients are told to connect to."""
    if is_here_only and has_members_elsewhere:
        said = f"bookie {bookie} is reached at {host}, from this machine alone, and the members are on others"
        yield Check("address", Verdict.WARNING, "advertisedAddress", said, "set it to the name of this machine")
    else:
        yield Check("address", Verdict.OK, "", f"bookie {bookie} is reached at {host}")


def of_directory(found: Directory, bookie: str, metadata: Metadata | None) -> Iterator[Check]:
    """bookie: the id that the file says. metadata: None if it cannot be read."""
    name, path = "directory", found.path
    if found.error:
        yield Check(name, Verdict.FAILED, path, found.error, "see who owns it, and how it is mounted")
    elif found.damage:
        yield Check(
            name, Verdict.FAILED, path, found.damage, f"zab bookie decommission {bookie}; then use a new bookieId"
        )
    elif found.others:
        said = f"there is no cookie, but {', '.join(found.others)}"
        yield Check(name, Verdict.FAILED, path, said, "see that the directory is right: a start ends there")
    elif found.cookie is None:
        yield from _of_empty(found, bookie, metadata)
    elif found.bookie != bookie:
        said = f"it belongs to bookie {found.bookie}, and the file is that of {bookie}"
        yield Check(name, Verdict.FAILED, path, said, "correct bookieId or the directory")
    elif metadata is not None and found.instance != metadata.instance:
        said = f"it belongs to cluster {found.instance}, and the metadata to {metadata.instance}"
        yield Check(name, Verdict.FAILED, path, said, "correct metadataServiceUri or the directory")
    elif metadata is not None and metadata.cookie != found.cookie:
        has = "has no cookie of it" if metadata.cookie is None else "has another cookie of it"
        said = f"it belongs to bookie {bookie}, and the metadata {has}"
        yield Check(name, Verdict.FAILED, path, said, "a start ends there: bring the bookie back with a new bookieId")
    else:
        yield Check(name, Verdict.OK, path, f"it belongs to bookie {bookie}")


def _of_empty(found: Directory, bookie: str, metadata: Metadata | None) -> Iterator[Check]:
    if metadata is not None and metadata.cookie is not None:
        said = f"it has nothing, and the metadata has a cookie of bookie {bookie}: the disk was lost"
        action = f"zab bookie decommission {bookie} takes its ledgers to others; then use a new bookieId"
        yield Check("directory", Verdict.FAILED, found.path, said, action)
    elif not found.exists:
        yield Check("directory", Verdict.SKIPPED, found.path, "there is no such directory yet")
    else:
        yield Check("directory", Verdict.OK, found.path, "it is empty: the next start is the first")


def of_space(path: str, used_share: float, read_only_share: float) -> Iterator[Check]:
    """used_share: of the disk."""
    if used_share >= read_only_share:
        said = f"{used_share:.0%} are used, and from {read_only_share:.0%} on the bookie is read-only"
        yield Check("disk", Verdict.WARNING, path, said, "make room, or raise diskUsageThreshold")


def of_cluster(found: Metadata | str, bookie: str) -> Iterator[Check]:
    """found: what the metadata says, or why it cannot be read."""
    if isinstance(found, str):
        yield Check("cluster", Verdict.FAILED, "", found, "see metadataServiceUri, and that the members run")
        return
    alarms = bookie_alarms(found.bookies)
    for alarm in alarms:
        verdict = Verdict.FAILED if alarm.severity == CRITICAL else Verdict.WARNING
        yield Check("cluster", verdict, "", alarm.reason, alarm.action)
    if not alarms:
        count = len(found.bookies.bookies)
        known = {each.bookie for each in found.bookies.bookies if each.state != "gone"}
        this = "this one is registered" if bookie in known else "this one is not registered"
        yield Check("cluster", Verdict.OK, "", f"{'1 bookie' if count == 1 else f'{count} bookies'}; {this}")
