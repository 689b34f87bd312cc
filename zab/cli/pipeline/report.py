"""`zab pipeline report`: one HTML page about the state of an ensemble, in sentences and plots."""

import datetime
from importlib.metadata import version
from typing import Annotated, Final

import typer

from zab.cli.pipeline.run import Run
from zab.cli.terminal import count_of

__all__ = ["report_job"]

_ENDINGS: Final = (".html", ".htm")


def parse_page(text: str) -> str:
    """The name of a page. Raises BadParameter."""
    path = text.partition("?")[0] if "://" in text else text
    if not path.lower().endswith(_ENDINGS):
        raise typer.BadParameter("it does not end in .html")
    return text


def report_job(
    run: Run,
    *,
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", metavar="FILE", parser=parse_page, help="The page to write; its name ends in .html."
        ),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier page of that name.")] = False,
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="Also read all snapshots, and compare them with the logs.")
    ] = False,
) -> None:
    """Write one page about writes, sessions, hot paths, locks, sizes and the health of the replicas.

    The page is self-contained: it can be sent and kept. The bounds limit what is counted; the health covers all
    files."""
    from zab.pipeline.output import Target
    from zab.pipeline.places import open_place, shown

    target = Target(open_place(out), "html", is_file=True, overwrite=overwrite)
    target.check()
    from zab.pipeline.report.collect import collect
    from zab.pipeline.report.counting import Bounds
    from zab.pipeline.report.page import page

    found = run.look()
    run.note_extent()
    bounds = Bounds(run.range.since, run.range.until, run.range.zxid_min, run.range.zxid_max)
    facts = collect(run.spark, run.dirs, bounds=bounds, uncommitted=run.uncommitted, snapshots=snapshots)
    made = datetime.datetime.now(datetime.UTC)
    html = page(facts, made=made, source=found.shown, version=version("zab"))
    target.write_bytes(html.encode("utf-8"))
    problems = sum(one.health.problem_count for one in facts)
    found_problems = count_of(problems, "problem") if problems else "no problems"
    run.note(f"{shown(out)}: {count_of(len(facts), 'ensemble')}, {found_problems}")
