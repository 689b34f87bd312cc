"""Draws the plots of the report: inline SVG that scales, keeps its text as text, and follows the page's colours.

    writes_over_time(facts, scope) -> Plot      sessions, hot_paths, handovers, value_sizes, subtrees, replicas

Every plot is drawn twice, for a wide and for a narrow screen; the page shows one of them. It is drawn in sentinel
colours that nothing else uses, and each is replaced by a CSS variable of the page, so that light and dark are the
page's business. What matplotlib writes around the drawing (document type, metadata, comments, names of namespaces) is
dropped. Only ids that are referred to are kept, with a prefix that contains `scope`, which is unique on the page.

Texts from the data are never read as formulas. `facts.printable` makes them visible and short, and the XML writer
escapes them.

Not here: what the numbers mean (`facts`), the text around the plots (`page`).
"""

import datetime
import io
import logging
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.report.facts import KINDS, EnsembleFacts, Histogram, Scale, printable

# It logs about its directories, which does not concern the user.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as error:
    raise PipelineError(f"the report needs matplotlib ({error}): pip install 'zab[pipeline]'") from None

__all__ = [
    "Plot",
    "bytes_text",
    "count_text",
    "handovers",
    "hot_paths",
    "milliseconds_text",
    "replicas",
    "sessions",
    "subtrees",
    "value_sizes",
    "writes_over_time",
]

INK: Final = "#010203"
MUTED: Final = "#010204"
GRID: Final = "#010205"
KIND_COLOURS: Final = dict(zip(KINDS, ("#020301", "#020302", "#020303", "#020304", "#020305"), strict=True))
GOOD: Final = "#030201"
WARN: Final = "#030202"
BAD: Final = KIND_COLOURS["refused"]
ACCENT: Final = KIND_COLOURS["create"]
NONE: Final = "#030204"

_VARIABLES: Final = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    GOOD: "good",
    WARN: "warn",
    NONE: "none",
    **{colour: kind for kind, colour in KIND_COLOURS.items()},
}
# The names of the settings are a literal type of hundreds.
_SETTINGS: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "zab",
    "text.parse_math": False,
    "font.size": 10,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 5,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
# Formats by the largest unit that changes between labels, from years to seconds; and what is written beside the axis.
_DATES: Final = ["%Y", "%b", "%d", "%H:%M", "%H:%M", "%H:%M:%S.%f"]
_DATES_BESIDE: Final = ["", "%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d"]
_SVG: Final = "{http://www.w3.org/2000/svg}"
_XLINK: Final = "{http://www.w3.org/1999/xlink}"
_FONT_FAMILY: Final = re.compile(r"font-family:[^;]*;? ?")
_REFERENCE: Final = re.compile(r"(?:^|url\()#([^)]+)")


@frozen
class Shape:
    """A width in inches of 72 units; about how many dates fit below; the longest label of a path."""

    name: str
    width: float
    date_count: int
    label_length: int


SHAPES: Final = (Shape("wide", 9.0, 8, 80), Shape("narrow", 3.7, 5, 34))


@frozen
class Plot:
    """`drawings`: the SVG element of each shape. `alt` describes the plot in a sentence."""

    title: str
    alt: str
    drawings: tuple[tuple[str, str], ...]


Draw = Callable[[Shape], Figure]


def _plot(scope: str, name: str, title: str, alt: str, draw: Draw) -> Plot:
    drawings = []
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        # Matplotlib warns of characters that its font lacks; the reader's browser has them.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        for shape in SHAPES:
            figure = draw(shape)
            drawings.append((shape.name, _svg(figure, f"{scope}{name}-{shape.name}", alt)))
    return Plot(title, alt, tuple(drawings))


def _svg(figure: Figure, prefix: str, alt: str) -> str:
    """The drawing as one element for an HTML page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in root.iter():
        for child in list(parent):
            if not child.tag.startswith(_SVG) or child.tag == f"{_SVG}metadata":
                parent.remove(child)
    kept = _targets(root)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if element.get("id") not in kept:
            element.attrib.pop("id", None)
        for name, value in list(element.attrib.items()):
            del element.attrib[name]
            element.set(name.removeprefix(_XLINK), _prefixed(name.removeprefix(_XLINK), value, prefix))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib.update({"role": "img", "aria-label": alt, "class": prefix.rpartition("-")[2]})
    text = ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    return text


def _targets(root: ElementTree.Element) -> set[str]:
    """The ids that some attribute of the drawing refers to."""
    return {
        found
        for element in root.iter()
        for value in element.attrib.values()
        for found in _REFERENCE.findall(value)
    }  # fmt: skip


def _prefixed(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href":
        assert value.startswith("#"), value
        return f"#{prefix}-{value[1:]}"
    value = value.replace("url(#", f"url(#{prefix}-")
    # The page has a font of its own.
    return _FONT_FAMILY.sub("", value) if name == "style" else value


def count_text(value: float) -> str:
    """12, 1,234, 12.3 k, 4.5 M."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            return f"{value / (1000.0 if unit == ' k' else limit):.3g}{unit}"
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def bytes_text(value: float) -> str:
    """0 B, 512 B, 1.5 KiB, 3.2 GiB."""
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.3g} {unit}"


def milliseconds_text(value: float) -> str:
    """0.4 ms, 12 ms, 3.4 s, 5 min, 2.5 h, 3 days."""
    for limit, divisor, unit in (
        (1_000, 1, "ms"), (60_000, 1_000, "s"), (3_600_000, 60_000, "min"), (86_400_000 * 2, 3_600_000, "h"),
    ):  # fmt: skip
        if value < limit:
            return f"{value / divisor:.3g} {unit}"
    return f"{value / 86_400_000:.3g} days"


def _figure(shape: Shape, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(shape.width, height), layout="constrained")
    return figure, figure.add_subplot()


def _numbers(times: Sequence[datetime.datetime]) -> list[float]:
    # matplotlib counts days; its stubs do not say that it takes lists of times.
    return [float(date2num(time)) for time in times]  # type: ignore[no-untyped-call]


def _date_axis(axes: Axes, shape: Shape, scale: Scale) -> None:
    # Three dates at least, unless five are the most: just below three minutes, days or years it finds no dates between.
    fewest = min(3, shape.date_count // 2)
    locator = AutoDateLocator(  # type: ignore[no-untyped-call]
        minticks=fewest, maxticks=shape.date_count, tz=datetime.UTC
    )
    formatter = ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=datetime.UTC, formats=_DATES, offset_formats=_DATES_BESIDE
    )
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    ends = _numbers([scale.since, scale.until])
    axes.set_xlim(ends[0], ends[1])
    axes.xaxis.get_offset_text().set_color(MUTED)


def _counts_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _at: count_text(value)))
    axes.set_ylim(bottom=0)


def _legend(axes: Axes, columns: int) -> None:
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2, handlelength=0.9, handleheight=0.9,
        columnspacing=1.2, handletextpad=0.5, borderpad=0, labelcolor=INK,
    )  # fmt: skip


def writes_over_time(facts: EnsembleFacts, scope: str) -> Plot:
    """Operations per second by kind, stacked, with a line where a new leader begins."""
    scale = facts.scale
    seconds = scale.width_ms / 1000

    def draw(shape: Shape) -> Figure:
        figure, axes = _figure(shape, 2.9)
        starts = _numbers(scale.starts)
        below = [0.0] * scale.count
        for kind in KINDS:
            rates = [count / seconds for count in facts.writes[kind]]
            if any(rates):
                above = [one + other for one, other in zip(below, rates, strict=True)]
                axes.stairs(above, starts, baseline=below, fill=True, color=KIND_COLOURS[kind], label=kind, linewidth=0)
                below = above
        _legend(axes, 5 if shape.name == "wide" else 3)
        _date_axis(axes, shape, scale)
        _counts_axis(axes)
        for epoch in facts.epochs[1:][-40:]:
            at = _numbers([epoch.since])[0]
            axes.axvline(at, color=INK, linewidth=1, linestyle=(0, (3, 2)))
        axes.set_ylabel("operations a second")
        return figure

    leaders = f" {len(facts.epochs) - 1} dashed lines mark new leaders." if len(facts.epochs) > 1 else ""
    alt = f"Operations a second over time, by kind, of ensemble {printable(facts.ensemble, 60)}.{leaders}"
    return _plot(scope, "writes", "Writes over time", alt, draw)


def sessions(facts: EnsembleFacts, scope: str) -> Plot | None:
    """How many sessions are open, and below how many expire."""
    found, scale = facts.sessions, facts.scale
    if not found.open_counts:
        return None

    def draw(shape: Shape) -> Figure:
        figure = Figure(figsize=(shape.width, 3.1), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [2, 1]})
        starts = _numbers(scale.starts)
        upper.stairs(found.open_counts, starts, color=KIND_COLOURS["session"], linewidth=1.6)
        upper.stairs(found.open_counts, starts, fill=True, color=KIND_COLOURS["session"], alpha=0.15, linewidth=0)
        upper.set_title("open sessions", loc="left", color=MUTED)
        lower.stairs(found.expired_counts, starts, fill=True, color=BAD, linewidth=0)
        lower.set_title("expired", loc="left", color=MUTED)
        for axes in (upper, lower):
            _date_axis(axes, shape, scale)
            axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
            axes.set_ylim(bottom=0)
        if not found.expired:
            lower.set_ylim(top=1)
        return figure

    alt = (
        f"Open sessions over time, at most {max(found.open_counts)}, and sessions that expired, {found.expired} in all."
    )
    return _plot(scope, "sessions", "Sessions", alt, draw)


def _bars(shape: Shape, labels: Sequence[str], values: Sequence[float], texts: Sequence[str], colour: str) -> Figure:
    """Horizontal bars, each below its label, so labels of any length fit any screen."""
    figure, axes = _figure(shape, 0.25 + 0.46 * len(labels))
    places = [float(-index) for index in range(len(labels))]
    axes.barh(places, values, height=0.34, color=colour, linewidth=0)
    for place, label, value, text in zip(places, labels, values, texts, strict=True):
        shown = printable(label, shape.label_length)
        axes.text(0, place + 0.24, shown, ha="left", va="bottom", color=INK, parse_math=False)
        axes.annotate(
            text, (value, place), (5, 0), textcoords="offset points",
            ha="left", va="center", color=MUTED, parse_math=False,
        )  # fmt: skip
    axes.set_ylim(-len(labels) + 0.6, 0.75)
    axes.set_xlim(0, max(values) * (1.18 if shape.name == "wide" else 1.4))
    axes.axis("off")
    return figure


def hot_paths(facts: EnsembleFacts, scope: str) -> Plot | None:
    """The znodes with the most writes."""
    if not facts.hot:
        return None
    rows = facts.hot[:10]
    texts = [f"{count_text(row.writes)} ({_percent(row.writes, facts.operations)})" for row in rows]
    alt = f"The {len(rows)} znodes with the most writes; the first is {printable(rows[0].path, 60)}, {texts[0]}."
    return _plot(
        scope, "hot", "Hot paths", alt,
        lambda shape: _bars(shape, [row.path for row in rows], [row.writes for row in rows], texts, ACCENT),
    )  # fmt: skip


def subtrees(facts: EnsembleFacts, scope: str) -> Plot | None:
    """Where the bytes of the newest snapshot are."""
    rows = [row for row in facts.sizes.subtrees[:8] if row.bytes]
    if not rows:
        return None
    texts = [f"{bytes_text(row.bytes)} in {count_text(row.znodes)} znodes" for row in rows]
    alt = f"The subtrees that hold most of the data; the first is {printable(rows[0].path, 60)}, {texts[0]}."
    return _plot(
        scope, "subtrees", "Where the data is", alt,
        lambda shape: _bars(
            shape, [row.path for row in rows], [row.bytes for row in rows], texts, KIND_COLOURS["change"]
        ),
    )  # fmt: skip


def _percent(part: float, whole: float) -> str:
    share = 100 * part / whole if whole else 0
    return f"{share:.0f} %" if share >= 1 or share == 0 else "<1 %"


def _histogram(
    shape: Shape, histogram: Histogram, colour: str, label: Callable[[float], str], axis: str, count_axis: str
) -> Figure:
    """One bar for each bin, all of one width: the bins grow by a factor. The edges are named below."""
    figure, axes = _figure(shape, 2.5)
    axes.bar(
        [index + 0.5 for index in range(len(histogram.counts))], histogram.counts, width=0.86, color=colour, linewidth=0
    )  # fmt: skip
    step = max(1, -(-len(histogram.edges) // (12 if shape.name == "wide" else 6)))
    shown = range(0, len(histogram.edges), step)
    axes.set_xticks(list(shown), [label(histogram.edges[index]) for index in shown])
    axes.set_xlim(0, len(histogram.counts))
    _counts_axis(axes)
    axes.set_xlabel(axis)
    axes.set_ylabel(count_axis)
    return figure


def handovers(facts: EnsembleFacts, scope: str) -> Plot | None:
    """The times from the end of a hold to the next one."""
    found = facts.locks.handovers
    if found is None or not found.total:
        return None
    alt = f"Distribution of {found.total} hand-over times of locks."
    if facts.locks.median_handover_ms is not None:
        alt += f" The median is {milliseconds_text(facts.locks.median_handover_ms)}."
    return _plot(
        scope, "handovers", "Lock hand-over times", alt,
        lambda shape: _histogram(
            shape, found, KIND_COLOURS["session"], milliseconds_text, "from release to the next holder", "hand-overs"
        ),
    )  # fmt: skip


def value_sizes(facts: EnsembleFacts, scope: str) -> Plot | None:
    """The sizes of the values written."""
    found = facts.sizes.values
    if found is None or not found.total:
        return None
    largest = bytes_text(facts.sizes.largest_bytes)
    alt = f"Distribution of the sizes of {count_text(found.total)} values written, the largest {largest}."
    return _plot(
        scope, "sizes", "Sizes of values", alt,
        lambda shape: _histogram(shape, found, KIND_COLOURS["change"], bytes_text, "bytes of a value", "writes"),
    )  # fmt: skip


def _coverage_colour(share: float) -> str:
    return GOOD if share >= 1 else WARN if share > 0 else NONE


def _runs(coverage: Sequence[float | None]) -> list[tuple[str, bool, int, int]]:
    """(colour, whether nothing was written, first, end) of runs of equal buckets, `end` excluded. Drawn as one, a run
    shows no seams.

    A bucket without writes does not show whether a member was down: it has the colour of the writes before it, or,
    at the beginning, after it."""
    written = [share for share in coverage if share is not None]
    colour = _coverage_colour(written[0]) if written else NONE
    runs: list[tuple[str, bool, int, int]] = []
    for index, share in enumerate(coverage):
        is_quiet = share is None
        colour = colour if share is None else _coverage_colour(share)
        if runs and runs[-1][:2] == (colour, is_quiet):
            runs[-1] = colour, is_quiet, runs[-1][2], index + 1
        else:
            runs.append((colour, is_quiet, index, index + 1))
    return runs


def replicas(facts: EnsembleFacts, scope: str) -> Plot | None:
    """One strip for each member: how much of the history its log holds, and where it deviates."""
    members = [member for member in facts.members if member.coverage]
    if not members:
        return None
    scale = facts.scale

    def draw(shape: Shape) -> Figure:
        figure, axes = _figure(shape, 0.75 + 0.5 * len(members))
        starts = _numbers(scale.starts)
        for row, member in enumerate(members):
            for colour, is_quiet, first, end in _runs(member.coverage):
                stretch = (starts[first], starts[end] - starts[first])
                height = 0.1 if is_quiet else 0.36
                axes.broken_barh([stretch], (-row - 0.06 - height / 2, height), color=colour, linewidth=0)
            times = [p.time for p in facts.health.problems if p.member == member.member and p.time is not None]
            # Without points it would still take part in the layout, at the origin of the figure.
            if times:
                axes.plot(_numbers(times), [-row - 0.06] * len(times), "D", color=BAD, markersize=6, clip_on=False)
            name = axes.text(
                0, -row + 0.16, f"member {printable(member.member, 30)}", transform=axes.get_yaxis_transform(),
                ha="left", va="bottom", color=INK, parse_math=False,
            )  # fmt: skip
            # It lies within the axes; the layout would make room for it beside them.
            name.set_in_layout(False)
        axes.set_ylim(-len(members) + 0.6, 0.6)
        axes.set_yticks([])
        axes.grid(visible=False)
        _date_axis(axes, shape, scale)
        return figure

    whole = sum(all(share is None or share >= 1 for share in member.coverage) for member in members)
    alt = (
        f"For each of {len(members)} members, how much of the history its log holds over time; {whole} hold all of it."
    )
    return _plot(scope, "replicas", "Health of the replicas", alt, draw)
