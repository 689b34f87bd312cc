"""The drawings of curves: pictures with something in them, in the colours of their page.

matplotlib is the pipeline's, and imported by who draws: these tests can be collected without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.curves import __main__ as curves
from bench.curves.figures import SIDES, THEMES, Curve, Figures, Series, save
from bench.curves.page import PAGE, page
from tests.bench.short_runs import connections, shares, starts

pytestmark = pytest.mark.slow


def pixels(file: Path) -> Any:
    from matplotlib.image import imread

    return imread(file)


def has(image: Any, colour: str) -> bool:
    """Whether that colour is in it, in more than a spot."""
    import numpy as np
    from matplotlib.colors import to_rgb

    near = np.abs(image[:, :, :3] - np.array(to_rgb(colour))).max(axis=2) < 0.02
    return int(near.sum()) > 50


@pytest.mark.parametrize("curve", [connections(), starts()], ids=lambda curve: curve.name)
def test_a_drawing_has_the_lines_of_both_in_the_colours_of_its_page(curve: Curve, tmp_path: Path) -> None:
    from bench.curves.drawing import COLOURS, draw

    draw(curve, tmp_path / "curves")
    for theme, colours in COLOURS.items():
        image = pixels(tmp_path / "curves" / curve.drawing(theme))
        for name in ("page", "ink", "muted", "grid", *SIDES):
            assert has(image, colours[name]), (theme, name)
        other = COLOURS["dark" if theme == "light" else "light"]
        assert not has(image, other["zab"])


def test_a_single_place_and_values_that_are_no_logarithms_are_drawn(tmp_path: Path) -> None:
    from bench.curves.drawing import COLOURS, draw

    curve = Curve("odd", "Odd", "things", [Series("one", "ms"), Series("none", "ms")])
    curve.add("one", 1, "zookeeper", 0.0)
    curve.add("one", 1, "zab", -3.0)
    draw(curve, tmp_path)
    for theme, colours in COLOURS.items():
        image = pixels(tmp_path / curve.drawing(theme))
        assert has(image, colours["zab"])


def test_drawings_and_page_are_made_again_from_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "CURVES.md"
    written.write_text(PAGE.read_text())
    monkeypatch.setattr(curves, "PAGE", written)
    monkeypatch.setattr(curves, "PLACE", tmp_path)
    found = Figures([connections()], shares())
    save(found, tmp_path / "curves.json")
    assert curves.main(["--draw"]) == 0
    assert page(found).strip() in written.read_text()
    assert written.read_text().startswith(PAGE.read_text().split("<!--")[0])
    names = {path.name for path in (tmp_path / "curves").iterdir()}
    assert names == {f"connections-{theme}.png" for theme in THEMES}
