"""Follows the logs of ensembles: how far they may be shown, and in which files of which members to read what comes.

    following = Following(["/var/lib/zab1", "/var/lib/zab2"])
    following.poll()
    ensemble = following.ensembles["…"]
    route = ensemble.route(ensemble.earliest())      # legs: stretches of files, one after the other
    ensemble.obstacle(route.end)                     # why it goes no further, where it should

The directories may belong to running members, or receive shipped logs: files grow, roll, are cut and purged while they
are followed. Any member will do. What one lacks comes from another, and each transaction comes once.

Invariants:
- A route continues from its position without a gap: by the numbers within an epoch, by the headers of the files and the
  order within them where an epoch ends. It ends where no member has what follows.
- It shows only committed transactions. Of a native member: up to the largest high-water mark in its batches or beside
  its logs, which applies to the history that it holds; and up to other members' marks within their epochs, in which
  there is only one history. With ZooKeeper: what is in the logs of a majority of the given members, and everything
  before that in the same log.
- A poll lists the directories and reads only what is new in them.

Deliberately not here: Spark, and reading rows (`stream`).
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, TypeVar

from attrs import define, field, frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, Inventory, inventory
from zab.pipeline.member_files import LogFile, MemberFiles
from zab.pipeline.reading.missing import follows, is_missing, joined_ends, proofs
from zab.pipeline.reading.spans import Span
from zab.pipeline.reading.visible import Survey, committed_epochs, logged_ends
from zab.pipeline.streaming.chart import Chart

__all__ = ["Ensemble", "Following", "Leg", "Route"]

_NO_LIMIT: Final = 1 << 63
_INVENTORY_ATTEMPTS: Final = 3
_INVENTORY_PAUSE_SECONDS: Final = 0.05

_T = TypeVar("_T")


LEG_TRANSACTIONS_MAX: Final = 250_000
"""The most transactions of one leg, so that several workers share a large file."""


@frozen
class Leg:
    """A stretch of one file of one member: exactly the transactions whose zxids are in `runs`, (first, last) each."""

    span: Span
    runs: tuple[tuple[int, int], ...]

    @property
    def until(self) -> int:
        return self.runs[-1][1]

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)


@frozen
class Route:
    """The transactions in (after, end] of an ensemble, none missing and none twice."""

    after: int
    legs: tuple[Leg, ...] = ()

    @property
    def end(self) -> int:
        return self.legs[-1].until if self.legs else self.after

    @property
    def count(self) -> int:
        return sum(leg.count for leg in self.legs)


@define(eq=False)
class MemberLogs:
    """One member's log files and what is known of them."""

    found: MemberFiles
    charts: dict[str, Chart] = field(factory=dict)

    def settle(self, found: MemberFiles) -> None:
        """Take over what an inventory found; charts of files that are still the same stay."""
        charts = {}
        for log in found.logs:
            if not log.is_usable:
                continue
            known = self.charts.get(log.name)
            is_same = known is not None and known.log.header_crc == log.header_crc
            charts[log.name] = known if known is not None and is_same else Chart(log)
            charts[log.name].log = log
        self.found = found
        self.charts = charts

    @property
    def in_order(self) -> list[Chart]:
        """The charts of the files that can be read, by rising zxid."""
        return list(self.charts.values())

    @property
    def newest(self) -> Chart | None:
        return self.in_order[-1] if self.charts else None

    def advance(self) -> None:
        """Look at the end of the log. Raises OSError."""
        charts = self.in_order
        if self.found.kind == "native":
            # The newest may be without a batch as yet.
            for chart in reversed(charts):
                chart.advance()
                if chart.runs:
                    break
            return
        known_epoch = -1
        for chart in reversed(charts):
            if chart.log.first >> 32 == known_epoch:
                continue
            chart.advance()
            if chart.runs:
                known_epoch = chart.log.first >> 32

    def survey(self) -> Survey:
        """The last zxid that the member has of each epoch."""
        found = Survey()
        reached = [run.last for chart in self.in_order for run in chart.runs]
        for zxid in reached:
            found.logged[zxid >> 32] = max(found.logged.get(zxid >> 32, 0), zxid)
        snapshots = {snapshot.zxid >> 32: snapshot.zxid for snapshot in self.found.snapshots}
        found.epochs = joined_ends(found.logged, snapshots)
        return found

    def ends_of_epochs(self) -> Iterator[tuple[int, int]]:
        """(last zxid of an epoch, first of the next one) where nothing is missing in between."""
        charts = self.in_order
        for number, chart in enumerate(charts):
            for run, following in pairwise(chart.runs):
                if following.joined and following.first >> 32 != run.first >> 32:
                    yield run.last, following.first
            if chart.runs and number + 1 < len(charts):
                first = charts[number + 1].log.first
                if first >> 32 != chart.last >> 32 and follows(chart.last, first) and chart.end_damage is None:
                    yield chart.last, first

    def chart_after(self, zxid: int) -> Chart | None:
        """The chart of the file that continues after `zxid`, judged by the headers and names."""
        below = [chart for chart in self.in_order if chart.lowest <= zxid]
        if not below:
            return None
        chart = below[-1]
        if chart.last <= zxid:
            chart.advance()
        if chart.last > zxid or len(below) == len(self.charts):
            return chart
        # ZooKeeper's files do not say what they continue; the first zxid of an epoch continues whatever was last.
        following = self.in_order[len(below)]
        return following if follows(zxid, following.log.first) and following.log.previous is None else chart

    def mark_for(self, chart: Chart) -> int:
        """The high-water mark that applies to the batches of this file: its own or of files that continue it."""
        charts = self.in_order
        at = charts.index(chart)
        mark = chart.mark
        for current, following in zip(charts[at:], charts[at + 1 :], strict=False):
            if mark >= chart.last:
                return mark
            following.advance()
            previous = following.log.previous
            if previous is None or previous[0] > current.last:
                return mark
            mark = max(mark, following.mark)
        return max(mark, self.found.committed)


@define(eq=False)
class Ensemble:
    """The members of one ensemble. Only a native one has a `lineage`."""

    name: str
    uncommitted: bool = False
    members: dict[str, MemberLogs] = field(factory=dict)
    epochs: dict[int, int] = field(factory=dict)
    """The last zxid of each epoch known to be committed; for native logs, as far as a mark lies in the epoch."""
    proven: dict[int, int] = field(factory=dict)
    """The last zxid of each epoch that a snapshot proves and no log has."""
    _preferred: str = ""

    @property
    def kind(self) -> str:
        return next(iter(self.members.values())).found.kind

    @property
    def lineage(self) -> str:
        known = [logs.found.lineage for logs in self.members.values()]
        return next((lineage.hex() for lineage in known if lineage is not None), "")

    @property
    def logs(self) -> list[LogFile]:
        """The files of all members that can be read, by rising zxid."""
        found = [chart.log for logs in self.members.values() for chart in logs.in_order]
        return sorted(found, key=lambda log: log.first)

    def settle(self, found: Sequence[MemberFiles]) -> None:
        """Take over what an inventory found."""
        before = self.lineage if self.members else ""
        self.members = {one.member: self.members.get(one.member, MemberLogs(one)) for one in found}
        for member in found:
            self.members[member.member].settle(member)
        if self.lineage != before:
            self.epochs = {}

    def advance(self) -> None:
        """Look at what was appended to all logs. If a file is gone by then, the next listing will show it."""
        for logs in self.members.values():
            _unless_gone(logs.advance)
        if self.kind == "version-2":
            surveys = [logs.survey() for logs in self.members.values()]
            self.epochs = committed_epochs([logs.found for logs in self.members.values()], surveys)
            self.proven = proofs((logs.found for logs in self.members.values()), logged_ends(surveys))
            for logs in self.members.values():
                for last, following in logs.ends_of_epochs():
                    # Where a history goes on with what is committed, all of it up to there is committed.
                    if following <= self.epochs.get(following >> 32, 0):
                        self._learn(last)
            return
        for logs in self.members.values():
            for mark in (logs.found.committed, *(chart.mark for chart in logs.in_order)):
                self._learn(mark)

    def _learn(self, mark: int) -> None:
        self.epochs[mark >> 32] = max(self.epochs.get(mark >> 32, 0), mark)

    # Positions.

    def earliest(self) -> int:
        """The position before the oldest transaction that is kept."""
        return min((chart.lowest for logs in self.members.values() for chart in logs.in_order), default=0)

    def latest(self) -> int:
        """The last zxid that may be shown; `earliest` if there is none."""
        shown = (_unless_gone(partial(self._latest_of, logs)) for logs in self.members.values())
        return max((self.earliest(), *(zxid for zxid in shown if zxid is not None)))

    def _latest_of(self, logs: MemberLogs) -> int:
        for chart in reversed(logs.in_order):
            limit = self._limit(logs, chart)
            for run in reversed(chart.runs):
                zxid = min(run.last, limit(run.first - 1, run.first))
                if zxid >= run.first:
                    return zxid
        return 0

    def route(
        self, after: int, *, until: int = _NO_LIMIT, count_max: int = _NO_LIMIT, avoid: Collection[str] = ()
    ) -> Route:
        """The route from `after` to `until`, with at most `count_max` transactions. `avoid`: members not to read."""
        legs: list[Leg] = []
        at = after
        while at < until and count_max > 0:
            leg = self._leg(at, until, count_max, avoid)
            if leg is None:
                break
            legs.append(leg)
            self._preferred = leg.span.member
            at = leg.until
            count_max -= leg.count
        return Route(after, tuple(legs))

    def _leg(self, after: int, until: int, count_max: int, avoid: Collection[str]) -> Leg | None:
        """The stretch of one file after `after`, from the member that was read last, or else the one that has most."""
        best: Leg | None = None
        names = sorted(self.members.keys() - set(avoid), key=lambda name: (name != self._preferred, name))
        for name in names:
            leg = _unless_gone(partial(self._leg_of, name, after, until, count_max))
            if leg is not None and name == self._preferred:
                return leg
            if leg is not None and (best is None or leg.until > best.until):
                best = leg
        return best

    def _leg_of(self, name: str, after: int, until: int, count_max: int) -> Leg | None:
        logs = self.members[name]
        chart = logs.chart_after(after)
        if chart is None:
            return None
        chart.advance()
        cutoff = _NO_LIMIT if chart.log.cutoff is None else chart.log.cutoff
        reach = min(chart.reach(after, self._limit(logs, chart)), until, cutoff)
        if reach <= after:
            return None
        end = min(reach, chart.nth(after, min(count_max, LEG_TRANSACTIONS_MAX)))
        stop = chart.stop if chart.log.is_newest else None
        span = Span(self.name, name, chart.log, start=chart.stake(after), end=stop, after=after, until=end)
        return Leg(span, chart.between(after, end))

    def _limit(self, logs: MemberLogs, chart: Chart) -> Callable[[int, int], int]:
        """The function that tells `Chart.reach` how far a run may be shown."""
        if self.uncommitted:
            return lambda before, first: 0 if is_missing(before, first, self.proven) else _NO_LIMIT
        if self.kind == "native":
            mark = logs.mark_for(chart)
            self._learn(mark)
            return lambda _before, first: max(mark, self.epochs.get(first >> 32, 0))
        ends = joined_ends(self.epochs, self.proven)

        def limit(before: int, first: int) -> int:
            # A new epoch is shown once all that there was before it has been.
            return 0 if is_missing(before, first, ends) else self.epochs.get(first >> 32, 0)

        return limit

    # Where it goes no further.

    def kept_from(self, after: int) -> int | None:
        """The oldest position that is kept, if it is after `after`, so that what follows `after` is lost; else None."""
        lowest = [chart.lowest for logs in self.members.values() for chart in logs.in_order]
        return min(lowest) if lowest and min(lowest) > after else None

    def obstacle(self, after: int, *, is_end: bool = False) -> str | None:
        """Why no route continues from `after`, although there is more to show; None if there is not. is_end: no more
        files are expected, so a proof that the logs went on is a reason, too."""
        if self.route(after, count_max=1).legs:
            return None
        if after >= self.latest():
            return self._lost_end(after) if is_end else None
        oldest = self.kept_from(after)
        if oldest is not None:
            return f"what follows zxid {after:#x} is no longer kept: the oldest log goes on from {oldest:#x}"
        reasons = [_unless_gone(partial(_obstacle, logs, after)) for logs in self.members.values()]
        proven = [zxid for zxid in self.proven.values() if zxid > after]
        reasons += [f"a snapshot proves that there was zxid {min(proven):#x}"] if proven else []
        return f"no member has what follows zxid {after:#x}: {'; '.join(filter(None, reasons))}"

    def _lost_end(self, after: int) -> str | None:
        proven = max(self.proven.values(), default=0)
        if proven <= after:
            return None
        return f"the logs end at zxid {after:#x}, and a snapshot proves that they went on to {proven:#x}"


def _obstacle(logs: MemberLogs, after: int) -> str:
    """What a member has instead of what follows `after`."""
    chart = logs.chart_after(after)
    later = next((other for other in logs.in_order if other.lowest > after), None)
    goes_on = f"and {later.log.name} goes on from {later.lowest:#x}" if later is not None else "and ends there"
    if chart is None:
        return f"{logs.found.directory} does not have it, {goes_on}"
    there = chart.reach(after, lambda _before, _first: _NO_LIMIT)
    if there > after:
        return f"{chart.log.place} does not say that what it has up to {there:#x} is committed, {goes_on}"
    run = next((run for run in chart.runs if run.last > after), None)
    found = chart.end_damage if run is None else chart.holes.get(run.first)
    if found is not None:
        return f"{chart.log.place} is damaged at offset {found.offset} ({found.reason})"
    return f"{chart.log.place} does not have it, {goes_on}"


def _unless_gone(look: Callable[[], _T]) -> _T | None:
    """The result of `look`; None if a file is gone, as the next listing will show. Raises PipelineError."""
    try:
        return look()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PipelineError(f"the logs cannot be read: {error}") from None


@define(eq=False)
class Following:
    """All ensembles in some directories. Call `poll` before anything else, and whenever there may be more."""

    dirs: Dirs
    uncommitted: bool = False
    ensembles: dict[str, Ensemble] = field(factory=dict)

    def poll(self) -> None:
        """Look at what there is now. Raises PipelineError, as `inventory` does, and for logs that do not say what is
        committed."""
        found = self._inventory()
        for name, members in found.ensembles.items():
            self._check(members)
            ensemble = self.ensembles.setdefault(name, Ensemble(name, self.uncommitted))
            ensemble.settle(members)
            ensemble.advance()
        for name in self.ensembles.keys() - found.ensembles.keys():
            del self.ensembles[name]

    def _inventory(self) -> Inventory:
        """List the directories. While they are followed, a file may go after it was listed: then try again."""
        for _ in range(_INVENTORY_ATTEMPTS if self.ensembles else 0):
            with contextlib.suppress(PipelineError):
                return inventory(self.dirs)
            time.sleep(_INVENTORY_PAUSE_SECONDS)
        return inventory(self.dirs)

    def _check(self, members: Sequence[MemberFiles]) -> None:
        if members[0].kind == "version-2" and len(members) == 1 and not self.uncommitted:
            raise PipelineError(
                f"{members[0].directory} is one member of ZooKeeper alone, whose log does not say what is committed: "
                f"give the directories of a majority (as {members[0].ensemble}=DIR where they are not side by side), "
                "or ask for uncommitted transactions too"
            )
