"""The site of these pages: Sphinx with Furo (`make docs`). A link or an anchor that leads nowhere fails the build."""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "zab"
html_title = "zab"
html_theme = "furo"
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"sidebar_hide_name": False}
html_static_path = ["static"]
html_css_files = ["site.css"]

# The sources are the root's, so that pages link to each other as they do in the repository.
extensions = ["myst_parser"]
include_patterns = ["docs/*.md", "docs/**/*.md", "bench/*.md", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = ["docs/api"]
root_doc = "docs/index"
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
# Output that is shown with `…` in it is no JSON.
suppress_warnings = ["misc.highlighting_failure"]


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
    app.connect("build-finished", copy_drawings)


def add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    """The sidebar has the sections of the index, and the pages that each one's table names."""
    if name != root_doc:
        return
    trees = []
    for section in source[0].split("\n## ")[1:]:
        pages = re.findall(r"^\| \[([^]]+)\]\(([^)#]+)\.md\)", section, re.M)
        entries = [f"{title} <{page}>" for title, page in pages]
        lines = ["```{toctree}", ":hidden:", f":caption: {section.splitlines()[0]}", "", *entries, "```"]
        trees.append("\n".join(lines))
    source[0] += "\n" + "\n\n".join(trees) + "\n"


def copy_drawings(app: Sphinx, exception: Exception | None) -> None:
    """They are named in HTML, which Sphinx does not look into."""
    if exception is None:
        shutil.copytree(ROOT / "bench" / "curves", Path(app.outdir) / "bench" / "curves", dirs_exist_ok=True)
