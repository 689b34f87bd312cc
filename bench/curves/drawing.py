"""Curves as PNG files, each in the colours of a light and of a dark page: NAME-light.png and NAME-dark.png.

A panel for each series, with a line for either side; the places are a logarithmic axis where they grow tenfold. The
colours are those of the pipeline's report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.curves.figures import SIDES, THEMES, Curve, Point, Series
from zab.pipeline.report.plots import bytes_text, count_text

_NAMES: Final = ("page", "ink", "muted", "grid", "zab", "zookeeper")
_LIGHT: Final = ("#ffffff", "#15181d", "#5a6270", "#dfe3e9", "#2a78d6", "#c98500")
_DARK: Final = ("#14161a", "#eceef2", "#a3abb8", "#333943", "#5b9cec", "#e0a030")
COLOURS: Final[Mapping[str, Mapping[str, str]]] = {
    theme: dict(zip(_NAMES, colours, strict=True)) for theme, colours in zip(THEMES, (_LIGHT, _DARK), strict=True)
}
LABELS: Final = {"zab": "zab", "zookeeper": "ZooKeeper"}
COLUMNS_MAX: Final = 3
PANEL_INCHES: Final = (3.9, 2.7)
DOTS_PER_INCH: Final = 130
LOGARITHMIC_FROM: Final = 20.0


def draw(curve: Curve, directory: Path) -> None:
    """Writes the file of each theme."""
    directory.mkdir(parents=True, exist_ok=True)
    for theme, colours in COLOURS.items():
        with mpl.rc_context(_settings(colours)):
            figure = _figure(curve, colours)
            # Without the version, the same figures make the same file.
            figure.savefig(directory / curve.drawing(theme), metadata={"Software": None})


def _figure(curve: Curve, colours: Mapping[str, str]) -> Figure:
    drawn = [series for series in curve.series if curve.points_of(series)]
    columns = 2 if len(drawn) == 4 else max(1, min(len(drawn), COLUMNS_MAX))
    rows = max(1, -(-len(drawn) // columns))
    width, height = PANEL_INCHES
    figure = Figure(figsize=(columns * width, rows * height + 0.3), dpi=DOTS_PER_INCH, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for series, axes in zip(drawn, panels, strict=False):
        _draw_panel(axes, curve.points_of(series), series, curve.across, colours)
    for axes in list(figure.axes)[len(drawn) :]:
        axes.remove()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(SIDES))
    return figure


def _draw_panel(axes: Axes, points: Sequence[Point], series: Series, across: str, colours: Mapping[str, str]) -> None:
    places = [point.x for point in points]
    for side in SIDES[::-1]:
        medians = [point.median(side) for point in points]
        axes.plot(places, medians, marker="o", markersize=4, linewidth=1.8, color=colours[side], label=LABELS[side])
        least = [min(point.values(side)) for point in points]
        most = [max(point.values(side)) for point in points]
        axes.fill_between(places, least, most, color=colours[side], alpha=0.18, linewidth=0)
    values = [point.median(side) for point in points for side in SIDES]
    if places[-1] >= 10 * places[0]:
        axes.set_xscale("log")
    if min(values) > 0 and max(values) / min(values) >= LOGARITHMIC_FROM:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, *values))
    axes.set_xticks(places)
    place_text = bytes_text if across.startswith("bytes") else count_text
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _at: place_text(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _at: count_text(value)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(series.name, loc="left")
    axes.set_xlabel(across)
    better = "more" if series.more_is_better else "less"
    axes.set_ylabel(f"{series.unit}\n({better} is better)")


def _settings(colours: Mapping[str, str]) -> Any:
    """The names of the settings are a literal type of hundreds."""
    return {
        "font.size": 9,
        "text.color": colours["ink"],
        "text.parse_math": False,
        "axes.titlesize": 9,
        "axes.titlecolor": colours["ink"],
        "axes.labelcolor": colours["muted"],
        "axes.edgecolor": colours["grid"],
        "axes.facecolor": colours["page"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": colours["grid"],
        "grid.linewidth": 0.7,
        "xtick.color": colours["muted"],
        "ytick.color": colours["muted"],
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
        "legend.frameon": False,
        "figure.facecolor": colours["page"],
    }
