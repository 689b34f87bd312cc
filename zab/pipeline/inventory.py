"""Finds ensembles, their members, and the log and snapshot files of each in the directories that a job is given.

A DIR is a path or URI, or `NAME=DIR` to name the ensemble. It may be a member's data directory (with `version-1` or
`version-2` in it), one of these two, a directory of log files alone, or a directory with such directories in it, down
to DEPTH_MAX. The first bytes of a file say of what kind it is.

    kind        names                               ensemble, unless named         member
    native      version-1/log.…, snapshot.…         the lineage id                 server id of the `member` record
    version-2   version-2/log.…, snapshot.…[.gz]    the directory that all are in  `myid`

A directory that holds only log files, and no such number, is the `dataLogDir` of the member whose data directory holds
no logs, if their paths say which one that is (`datatree.history.pairs`): the two are one member.

A member without a number is named after its directory. If members of one ensemble would have the same name, the path of
the directory is appended. Members of ZooKeeper are taken for one ensemble as long as no two of them have the same
number.

Invariants: nothing is written, no lock is taken, and members may be running. A directory that cannot be used raises
PipelineError; a single file that cannot be used does not. Deliberately not here: the files of one member
(`member_files`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike, fspath
from typing import Final, TypeAlias

from attrs import define

from datatree.history import pairs
from zab.pipeline.errors import PipelineError
from zab.pipeline.member_files import VERSION_DIRECTORIES, MemberFiles, belongs_to_a_member, join, member_in, way_of
from zab.pipeline.places import Place, open_place, shown

__all__ = ["Dirs", "Inventory", "inventory", "shown_dirs", "split_dirs"]

Dirs: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]

DEPTH_MAX: Final = 4
DIRECTORIES_MAX: Final = 10_000
_NAMED: Final = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)


@define
class Inventory:
    """The files of all members found, by ensemble and member; `dirs` are the names that were given."""

    members: list[MemberFiles]
    dirs: list[str]

    @property
    def ensembles(self) -> dict[str, list[MemberFiles]]:
        """The members of each ensemble."""
        found: dict[str, list[MemberFiles]] = {}
        for member in self.members:
            found.setdefault(member.ensemble, []).append(member)
        return found

    @property
    def shown(self) -> str:
        """The directories as a user may see them."""
        return shown_dirs(self.dirs)


def shown_dirs(dirs: Dirs) -> str:
    """The directories as given, but without what may be secret in a URI: user, password and query."""
    return ", ".join(f"{name}={shown(text)}" if name else shown(text) for name, text in split_dirs(dirs))


def split_dirs(dirs: Dirs) -> list[tuple[str | None, str]]:
    """(name of the ensemble or None, path or URI) of each. Raises PipelineError."""
    listed = [dirs] if isinstance(dirs, str | PathLike) else list(dirs)
    if not listed:
        raise PipelineError("no directory was given")
    result: list[tuple[str | None, str]] = []
    for item in listed:
        text = fspath(item)
        named = _NAMED.fullmatch(text)
        if named is not None and not open_place(text).kind():
            result.append((named[1], named[2]))
        else:
            result.append((None, text))
    return result


def inventory(dirs: Dirs) -> Inventory:
    """Find the members in these directories. Raises PipelineError for a directory that does not exist, holds nothing
    to read, or mixes what cannot be read together."""
    found: list[tuple[str | None, MemberFiles]] = []
    listed = split_dirs(dirs)
    seen: set[str] = set()
    for name, text in listed:
        place = open_place(text)
        try:
            members = list(_members(place))
        except OSError as error:
            raise PipelineError(f"{place} cannot be read: {error.strerror or error}") from None
        if not members:
            raise PipelineError(f"{place} holds no logs and no snapshots, and neither do directories in it")
        for member in members:
            if str(member.directory) not in seen:
                seen.add(str(member.directory))
                found.append((name, member))
    members = _named(_joined(found))
    return Inventory(sorted(members, key=lambda one: (one.ensemble, one.member)), [text for _, text in listed])


# Finding the directories.


def _members(place: Place) -> Iterator[MemberFiles]:
    kind = place.kind()
    if kind == "file":
        raise PipelineError(f"{place} is a file; name the directory that it is in")
    if not kind:
        raise PipelineError(f"{place} does not exist")
    level, count = [place], 0
    for _ in range(DEPTH_MAX + 1):
        deeper: list[Place] = []
        for directory in level:
            count += 1
            if count > DIRECTORIES_MAX:
                raise PipelineError(f"{place} has more than {DIRECTORIES_MAX} directories in it; name those of members")
            entries = directory.list()
            if belongs_to_a_member(directory, entries):
                member = member_in(directory, entries)
                if member is not None:
                    yield member
                continue
            inner = [entry.place for entry in entries if entry.is_directory]
            versions = [one for one in inner if one.name in VERSION_DIRECTORIES and _holds_files(one)]
            if len(versions) > 1:
                raise PipelineError(
                    f"{directory} holds both version-1 and version-2; name the one that is meant, as "
                    f"{versions[0]} or {versions[1]}"
                )
            deeper += versions or [one for one in inner if not one.name.startswith(".")]
        level = deeper


def _holds_files(directory: Place) -> bool:
    return belongs_to_a_member(directory, directory.list())


def _joined(found: Sequence[tuple[str | None, MemberFiles]]) -> list[tuple[str | None, MemberFiles]]:
    """Join each directory that holds only logs to the member whose data directory has none."""
    parts: dict[tuple[str | None, str, str], list[MemberFiles]] = {}
    for name, member in found:
        parts.setdefault((name, member.kind, member.directory.root), []).append(member)
    taken: list[MemberFiles] = []
    for members in parts.values():
        states = [member for member in members if not member.logs]
        logs = [member for member in members if member.is_log_directory]
        for state, log in pairs([way_of(one) for one in states], [way_of(one) for one in logs]).items():
            if _may_be_one(states[state], logs[log]):
                join(states[state], logs[log])
                taken.append(logs[log])
    return [(name, member) for name, member in found if not any(member is one for one in taken)]


def _may_be_one(state: MemberFiles, log: MemberFiles) -> bool:
    return state.lineage is None or log.lineage is None or state.lineage == log.lineage


# All members.


def _named(found: Sequence[tuple[str | None, MemberFiles]]) -> list[MemberFiles]:
    """Name the ensembles of the members, and make the members' names unique."""
    unnamed: dict[str, list[MemberFiles]] = {}
    for name, member in found:
        if name is not None:
            member.ensemble = name
        elif member.kind == "native":
            member.ensemble = member.lineage.hex() if member.lineage is not None else member.member
        else:
            unnamed.setdefault(member.directory.root, []).append(member)
    for members in unnamed.values():
        _name_version2(members, 0)
    _check_named(found)
    counts = Counter((member.ensemble, member.member) for _, member in found)
    for _, member in found:
        if counts[member.ensemble, member.member] > 1:
            member.member = f"{member.member} ({member.directory})"
    return [member for _, member in found]


def _name_version2(members: list[MemberFiles], depth: int) -> None:
    """Name the ensembles of ZooKeeper's members: those below one directory are one ensemble, named after it, if no two
    of them have the same number; else each directory in it is handled separately."""
    ways = [way_of(member) for member in members]
    while len({tuple(way[: depth + 1]) for way in ways}) == 1 and depth < min(map(len, ways)) - 1:
        depth += 1
    if len({member.member for member in members}) < len(members) and len(members) > 1:
        below: dict[tuple[str, ...], list[MemberFiles]] = {}
        for way, member in zip(ways, members, strict=True):
            below.setdefault(tuple(way[: depth + 1]), []).append(member)
        if len(below) > 1:
            for group in below.values():
                _name_version2(group, depth + 1)
            return
    name = ways[0][depth - 1] if depth else str(_above(members[0].directory))
    for member in members:
        member.ensemble = name or str(_above(member.directory))


def _above(directory: Place) -> Place:
    """The directory that the member's data directory is in."""
    return directory.parent.parent if directory.name in VERSION_DIRECTORIES else directory.parent


def _check_named(found: Sequence[tuple[str | None, MemberFiles]]) -> None:
    """Raise PipelineError unless the members of each ensemble have one kind and one history."""
    ensembles: dict[str, list[MemberFiles]] = {}
    for _, member in found:
        for other in ensembles.setdefault(member.ensemble, []):
            both = f"{other.directory} and {member.directory} are both taken for the ensemble {member.ensemble}, "
            if other.kind != member.kind:
                raise PipelineError(f"{both}but one belongs to zab and one to ZooKeeper; name them apart, as NAME=DIR")
            if other.lineage != member.lineage and other.lineage and member.lineage:
                lineages = f"{other.lineage.hex()} and {member.lineage.hex()}"
                raise PipelineError(f"{both}but have different lineages, {lineages}")
            if _is_of_other_history(other, member):
                raise PipelineError(f"{both}but hold different transactions; name them apart, as NAME=DIR")
        ensembles[member.ensemble].append(member)


def _is_of_other_history(one: MemberFiles, other: MemberFiles) -> bool:
    """Whether all log files of ZooKeeper that begin with the same zxid begin with different transactions. Only their
    headers are compared: members may write the parts of a failed multi differently."""
    known = {log.first: log.first_header for log in one.logs if log.first_header}
    same = [log.first_header == known[log.first] for log in other.logs if log.first_header and log.first in known]
    return bool(same) and not any(same)
