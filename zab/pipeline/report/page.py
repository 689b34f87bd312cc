"""Writes the report: one self-contained HTML page about one or more ensembles.

    page(ensembles, made=…, source=…) -> str        facts in, HTML out; needs no Spark

The part of an ensemble begins with plain sentences, worst first. Numbers follow, then plots, each with a table that can
be unfolded. The page refers to nothing outside of itself, its policy forbids it to load anything, and it has no script.
All text from the data goes through `printable` and `html.escape`.

Not here: finding the facts (`collect`), drawing (`plots`), the page's frame and its colours (`report.html`), which
sentences there are (`sentences`).
"""

import datetime
import string
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from zab.pipeline.report import plots
from zab.pipeline.report.facts import ROWS_MAX, EnsembleFacts, Problem, printable
from zab.pipeline.report.plots import Plot, bytes_text, count_text, milliseconds_text
from zab.pipeline.report.sentences import sentences, time_text

__all__ = ["page"]

_PATH_LENGTH: Final = 300


Cell = str | None


def page(ensembles: Sequence[EnsembleFacts], *, made: datetime.datetime, source: str, version: str = "") -> str:
    """The whole page. `source` says which directories were read."""
    names = ", ".join(printable(facts.ensemble, 60) for facts in ensembles)
    since = min(facts.since for facts in ensembles)
    until = max(facts.until for facts in ensembles)
    count = sum(len(facts.members) for facts in ensembles)
    body = "".join(_ensemble(facts, f"e{number}-", alone=len(ensembles) == 1) for number, facts in enumerate(ensembles))
    template = string.Template((files("zab.pipeline.report") / "report.html").read_text(encoding="utf-8"))
    made_text = time_text(made)
    return template.substitute(
        title=escape(f"zab report: {names}"),
        heading=escape(f"Ensemble {names}" if len(ensembles) == 1 else f"{len(ensembles)} ensembles"),
        lead=escape(f"{time_text(since)} to {time_text(until)} · {count} member{'s' if count != 1 else ''}"),
        body=body,
        footer=escape(
            f"Made by zab{version and f' {version}'} on {made_text}, all times in UTC, from {printable(source, 600)}. "
            "It counts committed transactions, each once, however many members hold it; the parts of a multi count "
            "one by one."
        ),
    )


def _ensemble(facts: EnsembleFacts, scope: str, *, alone: bool) -> str:
    parts = [] if alone else [f"<h2>Ensemble {_text(facts.ensemble, 60)}</h2>"]
    items = "".join(f"<li>{_sentence(text)}</li>" for text in sentences(facts))
    mood = " bad" if facts.health.problem_count else ""
    parts.append(f'<section class="card verdict{mood}"><h3>In short</h3><ul>{items}</ul></section>')
    parts.append(_tiles(facts))
    for section in _SECTIONS:
        parts.append(section(facts, scope))
    return "\n".join(part for part in parts if part)


def _text(text: str, limit: int = _PATH_LENGTH) -> str:
    return escape(printable(text, limit))


def _sentence(pieces: Sequence[tuple[str, str]]) -> str:
    """Pieces of a sentence: plain, strong, or code (which comes from the data)."""
    tags = {"strong": "strong", "code": "code"}
    return "".join(
        escape(printable(text, _PATH_LENGTH)) if kind == "plain" else f"<{tags[kind]}>{_text(text)}</{tags[kind]}>"
        for kind, text in pieces
    )


def _tiles(facts: EnsembleFacts) -> str:
    tiles = [
        ("operations", count_text(facts.operations)),
        ("refused", count_text(facts.refused)),
        ("sessions opened", count_text(facts.sessions.opened)),
        ("sessions expired", count_text(facts.sessions.expired)),
        ("new leaders", count_text(max(len(facts.epochs) - 1, 0))),
        ("bytes written", bytes_text(facts.sizes.written_bytes)),
    ]
    if facts.sizes.snapshot_zxid is not None:
        tiles.append(("znodes", count_text(facts.sizes.znodes)))
    tiles.append(("problems found", count_text(facts.health.problem_count)))
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    return f'<dl class="tiles">{cells}</dl>'


def _section(title: str, plot: Plot | None, caption: str, tables: Sequence[str] = (), key: str = "") -> str:
    figure = ""
    if plot is not None:
        drawings = "".join(drawing for _, drawing in plot.drawings)
        figure = f"<figure>{drawings}{key}<figcaption>{escape(caption)}</figcaption></figure>"
    elif caption:
        figure = f'<p class="note">{escape(caption)}</p>'
    return f'<section class="card"><h3>{escape(title)}</h3>{figure}{"".join(tables)}</section>'


def _table(summary: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: frozenset[int]) -> str:
    """A table that can be unfolded; the columns in `numbers` are numbers, the others hold paths and names."""
    if not rows:
        return ""

    def cell(tag: str, index: int, value: Cell) -> str:
        text = "" if value is None else _text(value)
        kind = ' class="number"' if index in numbers else ' class="path"' if tag == "td" and index == 0 else ""
        return f"<{tag}{kind}>{text}</{tag}>"

    head = "".join(cell("th", index, name) for index, name in enumerate(heads))
    lines = "".join(f"<tr>{''.join(cell('td', i, value) for i, value in enumerate(row))}</tr>" for row in rows)
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    return f"<details><summary>{escape(summary)}</summary>{table}</details>"


def _numbers(*indexes: int) -> frozenset[int]:
    return frozenset(indexes)


def _writes(facts: EnsembleFacts, scope: str) -> str:
    width = milliseconds_text(facts.scale.width_ms)
    caption = f"Averages over {width}. A dashed line is the first transaction of a new leader."
    rows = [
        (
            str(epoch.epoch),
            time_text(epoch.since),
            f"{epoch.first_zxid:#x}",
            f"{epoch.last_zxid:#x}",
            f"{epoch.count:,}",
        )
        for epoch in facts.epochs[-ROWS_MAX:]
    ]
    heads = ("epoch", "first transaction", "first zxid", "last zxid", "transactions")
    table = _table("The leaders' epochs", heads, rows, _numbers(2, 3, 4))
    return _section("Writes over time", plots.writes_over_time(facts, scope), caption, [table])


def _replicas(facts: EnsembleFacts, scope: str) -> str:
    rows = [
        (
            member.member,
            member.kind,
            f"{member.log_count:,}",
            bytes_text(member.log_bytes),
            f"{member.snapshot_count:,}",
            bytes_text(member.snapshot_bytes),
            "" if member.first_zxid is None else f"{member.first_zxid:#x}",
            "" if member.last_zxid is None else f"{member.last_zxid:#x}",
            f"{member.count:,}",
        )
        for member in facts.members
    ]
    heads = (
        *("member", "files of", "logs", "their size", "snapshots", "their size"),
        *("first zxid", "last zxid", "transactions"),
    )
    tables = [
        _problems(facts.health.problems, facts.health.problem_count),
        _stated(facts.health.stated),
        _table("The members and their files", heads, rows, _numbers(2, 3, 4, 5, 6, 7, 8)),
    ]
    key = _key((("good", "holds all of it"), ("warn", "in part"), ("none", "not at all"), ("refused", "a problem")))
    key += "<p>A strip is thin where nobody wrote: the log does not show which members were up then.</p>"
    plot = plots.replicas(facts, scope)
    return _section("Health of the replicas", plot, facts.health.checked, tables, key if plot is not None else "")


def _problems(problems: Sequence[Problem], count: int) -> str:
    """A list, not a table: it has to be read on a phone, too."""
    if not problems:
        return ""
    items = [f"<li><strong>{_text(problem.kind)}</strong>: {_finding(problem)}</li>" for problem in problems]
    if count > len(problems):
        items.append(f"<li>and {count - len(problems):,} more: <code>zab pipeline verify</code> lists them all</li>")
    return f'<ul class="problems">{"".join(items)}</ul>'


def _stated(findings: Sequence[Problem]) -> str:
    """Findings that are no problem, in a list that can be unfolded."""
    if not findings:
        return ""
    items = "".join(f"<li>{_text(finding.kind)}: {_finding(finding)}</li>" for finding in findings)
    return f"<details><summary>Other findings, which are no problem</summary><ul>{items}</ul></details>"


def _finding(problem: Problem) -> str:
    """What was found, and where."""
    place = [] if problem.member is None else [f"member {problem.member}"]
    if problem.zxid is not None:
        place.append(f"zxid {problem.zxid:#x}")
    if problem.time is not None:
        place.append(f"about {time_text(problem.time)}")
    if problem.file is not None:
        place.append(problem.file)
    if problem.offset is not None:
        place.append(f"offset {problem.offset:,}")
    where = " · ".join(_text(part) for part in place)
    return f"{_text(problem.sentence)}<br><small>{where}</small>"


def _key(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(f'<li><i style="background: var(--{colour})"></i>{escape(text)}</li>' for colour, text in entries)
    return f'<ul class="key">{items}</ul>'


def _sessions(facts: EnsembleFacts, scope: str) -> str:
    found = facts.sessions
    caption = (
        f"{found.opened:,} opened, {found.closed:,} closed by their clients, {found.expired:,} expired, "
        f"{f'{found.untold:,} closed or expired, ' if found.untold else ''}{found.open_at_end:,} open at the end."
    )
    if found.median_life_ms is not None:
        caption += f" Half of those that ended lived {milliseconds_text(found.median_life_ms)} or less."
    rows = [(time_text(wave.time), f"{wave.sessions:,}", f"{wave.ephemerals:,}") for wave in found.waves]
    table = _table("Waves of expiry", ("when", "sessions", "ephemerals that went"), rows, _numbers(1, 2))
    return _section("Sessions", plots.sessions(facts, scope), caption, [table])


def _hot(facts: EnsembleFacts, scope: str) -> str:
    caption = f"Of {count_text(facts.path_count)} paths that were written to, these had the most writes."
    rows = [(row.path, f"{row.writes:,}", bytes_text(row.bytes)) for row in facts.hot]
    table = _table("As a table", ("path", "writes", "bytes"), rows, _numbers(1, 2))
    return _section("Hot paths", plots.hot_paths(facts, scope), caption, [table])


def _locks(facts: EnsembleFacts, scope: str) -> str:
    found = facts.locks
    if not found.lock_count:
        return _section("Locks and elections", None, "Nothing in the log looks like a lock or an election.")
    rows = [
        (
            row.path,
            f"{row.holds:,}",
            f"{row.sessions:,}",
            _milliseconds(row.median_handover_ms),
            _milliseconds(row.longest_handover_ms),
            _milliseconds(row.longest_hold_ms),
            _milliseconds(row.longest_wait_ms),
            f"{row.overlaps:,}",
        )
        for row in found.rows
    ]
    heads = (
        *("lock", "holds", "sessions", "median hand-over", "longest hand-over"),
        *("longest hold", "longest wait", "overlaps"),
    )
    caption = f"{found.hold_count:,} holds of {found.lock_count:,} locks and elections."
    table = _table("Lock by lock", heads, rows, _numbers(1, 2, 3, 4, 5, 6, 7))
    return _section("Lock hand-over times", plots.handovers(facts, scope), caption, [table])


def _milliseconds(value: float | None) -> str:
    return "" if value is None else milliseconds_text(value)


def _sizes(facts: EnsembleFacts, scope: str) -> str:
    sizes = facts.sizes
    caption = (
        f"{bytes_text(sizes.written_bytes)} of values written; the largest value has {bytes_text(sizes.largest_bytes)}."
    )
    values = _section("Sizes of values", plots.value_sizes(facts, scope), caption)
    if sizes.snapshot_zxid is None:
        return values
    told = (
        f"The newest snapshot, at zxid {sizes.snapshot_zxid:#x}, holds {sizes.znodes:,} znodes "
        f"with {bytes_text(sizes.data_bytes)} of data."
    )
    rows = [(row.path, f"{row.znodes:,}", bytes_text(row.bytes)) for row in sizes.subtrees]
    table = _table("As a table", ("subtree", "znodes", "data"), rows, _numbers(1, 2))
    return values + _section("Where the data is", plots.subtrees(facts, scope), told, [table])


_SECTIONS: Final[tuple[Callable[[EnsembleFacts, str], str], ...]] = (
    _writes,
    _replicas,
    _sessions,
    _hot,
    _locks,
    _sizes,
)
