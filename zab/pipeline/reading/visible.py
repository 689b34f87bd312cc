"""Finds how far each ensemble's logs may be shown: nothing that a change of leader could still take away.

Native logs say it: every batch carries the high-water mark that its leader knew, and each member keeps its own beside
the logs (`committed`, which is not synced: after a loss of power its snapshots may prove more). A member's own mark
applies to the history that it holds: everything up to it may be shown. Another member's mark applies to that member's
history; for this one it holds only within the mark's epoch, in which there was one leader. (A deposed leader has
transactions at its end with zxids below the marks of those that went on without them.)

ZooKeeper's logs do not say it: there, what a majority of the given members has is committed
(`datatree.zookeeper.majority`); members are counted, not directories (`committed_epochs`). A single member does not
suffice, and the caller has to allow uncommitted transactions.

Deliberately not here: whether histories agree (`verify`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import pairwise

import numpy as np
from attrs import define, evolve, field

from datatree.history import Evidence, member_count, not_given, unread
from datatree.zookeeper.majority import visible_epochs
from zab.pipeline.decoding.damage import TORN, Damage
from zab.pipeline.decoding.native_log import Block, FrameScan, IndexScan
from zab.pipeline.decoding.version2_log import RecordBlock, RecordScan
from zab.pipeline.errors import PipelineError
from zab.pipeline.member_files import LogFile, MemberFiles
from zab.pipeline.places import OpenFile
from zab.pipeline.reading.missing import joined_ends
from zab.pipeline.reading.spans import read_index

__all__ = [
    "Survey",
    "check_given",
    "committed_epochs",
    "counted",
    "epoch_ends",
    "evidence_of",
    "logged_ends",
    "mark",
    "survey",
    "unread_of",
    "visible_epochs",
]


@define
class Survey:
    """The result of reading the ends of a member's logs. `ends`: by the name of a file, the offset after its last
    readable batch or record. `last`: the last zxid, 0 without any. `mark`: the high-water mark that the member knows
    (native). `epochs`: the last zxid of each epoch that it has (version-2), or knows to be committed (native).
    `logged`: the last zxid of each epoch in its log (native: only of the last epoch). `turns`: (last zxid of an epoch,
    first of the next one) in its log (version-2)."""

    last: int = 0
    mark: int = 0
    ends: dict[str, int] = field(factory=dict)
    epochs: dict[int, int] = field(factory=dict)
    logged: dict[int, int] = field(factory=dict)
    turns: list[tuple[int, int]] = field(factory=list)


def survey(member: MemberFiles) -> Survey:
    """Read the end of a member's logs: the newest file that has a transaction, and with ZooKeeper also the files in
    which an epoch ends. Damage is not reported here. Raises PipelineError if a file cannot be read at all."""
    found = Survey(mark=member.committed)
    usable = [log for log in member.logs if log.is_usable]
    try:
        if member.kind == "native":
            _survey_native(found, member, usable)
        else:
            _survey_version2(found, member, usable)
    except OSError as error:
        raise PipelineError(f"the logs in {member.directory} cannot be read: {error.strerror or error}") from None
    return found


def _survey_native(found: Survey, member: MemberFiles, logs: list[LogFile]) -> None:
    for log in reversed(logs):
        with log.place.open() as file:
            if _survey_end(found, log, file):
                break
    if found.last:
        found.logged = {found.last >> 32: found.last}
    found.mark = max([found.mark, *_proven(member, found.last)])
    known = [found.mark, *(snapshot.zxid for snapshot in member.snapshots)]
    known += [log.previous[0] for log in logs if log.previous is not None]
    _reach(found, (zxid for zxid in known if zxid <= found.mark))


def _proven(member: MemberFiles, last: int) -> Iterator[int]:
    """Yield the zxids up to which the member's snapshots prove its log, which ends at `last`, to be committed."""
    for snapshot in member.snapshots:
        is_own = snapshot.lineage in (None, member.lineage)
        if is_own and (snapshot.zxid <= last or snapshot.zxid >> 32 == last >> 32):
            yield min(snapshot.zxid, last)


def _survey_end(found: Survey, log: LogFile, file: OpenFile) -> bool:
    """The last zxid and the largest mark in a native file; whether it has any batch."""
    index = read_index(log)
    blocks: list[Block | Damage] = []
    if index is not None:
        blocks = list(IndexScan(file, index, after=int(index.zxids[-1]) - 1))
    if not blocks or not isinstance(blocks[-1], Block):
        previous = log.previous[0] if log.previous is not None else None
        scan = FrameScan(file, log.first, file.size, previous, log.is_newest)
        for block in scan:
            if isinstance(block, Block):
                found.mark = max(found.mark, int(block.heads["mark"].max()))
        found.ends[log.name] = scan.stop
        last = scan.last if scan.last != previous else None
    else:
        found.mark = max(found.mark, int(blocks[-1].heads["mark"][-1]))
        last = int(blocks[-1].last[-1])
    if last is None:
        return False
    found.last = last if log.cutoff is None else min(last, log.cutoff)
    return True


def _survey_version2(found: Survey, member: MemberFiles, logs: list[LogFile]) -> None:
    following: int | None = None
    known_epoch = -1
    for log in reversed(logs):
        if log.first >> 32 == known_epoch:
            following = log.first if any(log.first_record) else following
            continue
        with log.place.open() as file:
            scan = RecordScan(file, file.size, log.first - 1)
            zxids: list[int] = []
            for block in scan:
                if isinstance(block, RecordBlock):
                    # The first and the last of each epoch in it.
                    turns = np.flatnonzero(np.diff(block.zxid >> 32))
                    zxids += block.zxid[np.unique(np.concatenate(([0], turns, turns + 1, [len(block) - 1])))].tolist()
            found.ends[log.name] = scan.stop
        if not zxids:
            continue  # it says nothing: the one before it does
        _reach(found, zxids)
        begin = [following] if following is not None else []
        found.turns += [(last, first) for last, first in pairwise(zxids + begin) if last >> 32 != first >> 32]
        known_epoch, following = log.first >> 32, zxids[0]
    found.turns.sort()
    if found.epochs:
        found.last = max(found.epochs.values())
    found.logged = dict(found.epochs)
    _reach(found, (snapshot.zxid for snapshot in member.snapshots))


def _reach(found: Survey, zxids: Iterable[int]) -> None:
    for zxid in zxids:
        found.epochs[zxid >> 32] = max(found.epochs.get(zxid >> 32, 0), zxid)


def committed_epochs(members: Sequence[MemberFiles], surveys: Sequence[Survey]) -> dict[int, int]:
    """The last zxid of each epoch that a majority of these members of ZooKeeper has."""
    pairs = list(zip(members, surveys, strict=True))
    # It is not known whose snapshots belong to a directory that has only logs: no member counts twice.
    has_parts = any(member.is_log_directory for member in members)
    reached = [found for member, found in pairs if member.logs or (member.has_records and not has_parts)]
    return visible_epochs(reached, counted(members))


def counted(members: Iterable[MemberFiles]) -> int:
    """How many members these are. A directory that holds only snapshots is no member."""
    voters = (member for member in members if member.logs or member.has_records)
    return member_count((bool(member.logs), not member.is_log_directory) for member in voters)


def check_given(members: Sequence[MemberFiles], surveys: Sequence[Survey]) -> None:
    """Raise PipelineError if a directory that was not given may hold more committed transactions. Damage in those that
    were given is reported as damage."""
    reason = not_given(_evidence(members, surveys))
    if reason is not None:
        raise PipelineError(reason)


def unread_of(members: Sequence[MemberFiles], surveys: Sequence[Survey]) -> str | None:
    """Call `datatree.history.unread` with what the logs above the marks hold. Raises PipelineError."""
    pairs = zip(_evidence(members, surveys), members, surveys, strict=True)
    return unread([evolve(one, damage=_damage_above(member, found)) for one, member, found in pairs])


def _damage_above(member: MemberFiles, found: Survey) -> str | None:
    """The first damage in a native log above its mark; below it, reading notices what is missing. A torn end was never
    acknowledged, so it does not count."""
    if member.kind != "native" or found.last <= found.mark:
        return None
    usable = [log for log in member.logs if log.is_usable]
    try:
        for log, following in zip(usable, [*usable[1:], None], strict=True):
            upto = None if following is None or following.previous is None else following.previous[0]
            if upto is None or upto > found.mark:
                with log.place.open() as file:
                    reason = _first_damage(log, file, found.mark, upto)
                if reason is not None:
                    return f"{log.name}: {reason}"
    except OSError as error:
        raise PipelineError(f"the logs in {member.directory} cannot be read: {error.strerror or error}") from None
    return None


def _first_damage(log: LogFile, file: OpenFile, mark: int, upto: int | None) -> str | None:
    begin = 0 if log.previous is None else log.previous[0]
    scan = FrameScan(file, log.first, file.size, begin or None, log.is_newest)
    found = list(scan)
    blocks = [one for one in found if isinstance(one, Block)]
    ends = [(one.base + int(at), int(last)) for one in blocks for at, last in zip(one.at, one.last, strict=True)]
    for damage in found:
        if isinstance(damage, Damage) and damage.kind != TORN:
            before = max((last for offset, last in ends if offset < damage.offset), default=begin)
            if before >= mark:
                return f"{damage.reason}, after {before:#x}"
    last = max((last for _, last in ends), default=begin)
    if upto is not None and last < upto:
        return f"it ends at {last:#x}, and the next file goes on after {upto:#x}"
    return None


def _evidence(members: Sequence[MemberFiles], surveys: Sequence[Survey]) -> list[Evidence]:
    pairs = zip(members, surveys, strict=True)
    return [evidence_of(member, found.last, found.mark, _newest(member)) for member, found in pairs]


def _newest(member: MemberFiles) -> int | None:
    own = [file.zxid for file in member.snapshots if not (file.lineage and member.lineage != file.lineage)]
    return max(own, default=None)


def evidence_of(member: MemberFiles, logged: int, mark: int, snapshot: int | None) -> Evidence:
    """What a member's files prove about the end of its history."""
    return Evidence(
        name=str(member.directory),
        is_native=member.kind == "native",
        has_records=member.has_records,
        has_log=bool(member.logs),
        logged=logged,
        snapshot=snapshot,
        committed=member.committed,
        mark=mark,
        epoch=member.epoch,
    )


def mark(surveys: Iterable[Survey]) -> int:
    """The largest high-water mark that any of these native members knows."""
    return max((found.mark for found in surveys), default=0)


def epoch_ends(surveys: Iterable[Survey]) -> dict[int, int]:
    """The last zxid of each epoch that any of these members has (version-2), or knows to be committed (native)."""
    return reduce(joined_ends, (found.epochs for found in surveys), {})


def logged_ends(surveys: Iterable[Survey]) -> dict[int, int]:
    """The last zxid of each epoch that any of these members has in its log."""
    return reduce(joined_ends, (found.logged for found in surveys), {})
