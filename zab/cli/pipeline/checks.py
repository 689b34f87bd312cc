"""The jobs of `zab pipeline` that check: `verify` checks members' files, the replicas of brokers' topics, or the
entries of bookies; `history` checks the replies that clients got.

Wrong input is reported before Spark starts.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from zab.cli.pipeline.run import Run
from zab.cli.terminal import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from zab.pipeline.ledgers.comparing import LedgerFinding
    from zab.pipeline.topics.comparing import TopicFinding
    from zab.pipeline.verify.findings import Finding

__all__ = ["check_verify", "history_job", "verify_job"]

FindingT = TypeVar("FindingT", "Finding", "LedgerFinding", "TopicFinding")

_STATED_MAX: Final = 30


def check_verify(own: dict[str, Any]) -> None:
    """Whether the options of `verify` go together. Raises BadParameter."""
    for name, is_given in (
        ("--no-chains", not own["chains"]),
        ("--snapshots", own["snapshots"]),
        ("--replays", own["replays"]),
    ):
        for what in ("topics", "ledgers"):
            if own[what] and is_given:
                raise typer.BadParameter(f"it is about members, not about {what}", param_hint=name)
    if own["topics"] and own["ledgers"]:
        raise typer.BadParameter("it excludes --topics", param_hint="--ledgers")
    if own["topic"] and not own["topics"]:
        raise typer.BadParameter("it needs --topics", param_hint="--topic")
    for name, value in (("--ledger", own["ledger"]), ("--metadata", own["metadata"]), ("--logs", own["logs"])):
        if value and not own["ledgers"]:
            raise typer.BadParameter("it needs --ledgers", param_hint=name)
    if own["ledgers"] and not own["metadata"]:
        raise typer.BadParameter("it needs --metadata", param_hint="--ledgers")


def verify_job(
    run: Run,
    *,
    chains: Annotated[
        bool, typer.Option("--chains/--no-chains", help="Check the hash chain of native logs, batch by batch.")
    ] = True,
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="Check that all snapshots are whole, and the same on all members.")
    ] = False,
    replays: Annotated[
        int,
        typer.Option(
            "--replays",
            metavar="N",
            min=0,
            help="Compare the N newest snapshots with what the logs make of older ones.",
        ),
    ] = 0,
    topics: Annotated[
        bool, typer.Option("--topics", help="DIRS are log directories of brokers: compare the replicas of topics.")
    ] = False,
    topic: Annotated[list[str] | None, typer.Option("--topic", metavar="NAME", help="Only this topic.")] = None,
    ledgers: Annotated[
        bool, typer.Option("--ledgers", help="DIRS are directories of bookies: compare their entries with --metadata.")
    ] = False,
    metadata: Annotated[
        str | None,
        typer.Option("--metadata", metavar="PLACE", help="Of ledgers: output of `zab export`, or members' data."),
    ] = None,
    ledgers_root: Annotated[
        str, typer.Option("--ledgers-root", metavar="PATH", help="The znode that has the ledgers.")
    ] = "/ledgers",
    logs: Annotated[
        str | None,
        typer.Option(
            "--logs", metavar="PLACE", help="Of managed ledgers, whose copies in object stores count: as --metadata."
        ),
    ] = None,
    logs_root: Annotated[
        str, typer.Option("--logs-root", metavar="PATH", help="The znode that has the managed ledgers.")
    ] = "/logs",
    ledger: Annotated[
        str | None, typer.Option("--ledger", metavar="IDS", help="Only these ledgers, such as 3,7-12.")
    ] = None,
) -> "DataFrame":
    """Check that the members hold one history, and all of it; that the replicas of topics are the same; or that bookies
    have the entries of closed ledgers. Exit code 1 if not; every deviation has its place.

    A log that ends earlier, or begins later, is no deviation; it is reported on standard error."""
    if topics:
        return _topics(run, topic or [])
    if ledgers:
        assert metadata is not None
        return _ledgers(run, metadata, ledger, ledgers_root, logs, logs_root)
    _look(run)
    from zab.pipeline.jobs.sharing import as_rows
    from zab.pipeline.jobs.verify import VERIFY, findings_of

    findings = findings_of(run.spark, run.dirs, chains=chains, snapshots=snapshots, replays=replays)
    found = _deviations(run, findings, _shown)
    run.note(f"{len(found)} deviation{'s' * (len(found) != 1)}")
    run.shown = ("member", "kind", "zxid", "file", "offset", "sentence")
    return as_rows(run.spark, VERIFY, found)


def _deviations(run: Run, findings: Iterable[FindingT], shown: Callable[[FindingT], str]) -> list[FindingT]:
    """What is a fault; the rest is told on standard error, up to a limit."""
    stated: list[FindingT] = []
    found: list[FindingT] = []
    for one in findings:
        (found if one.deviation else stated).append(one)
    for one in stated[:_STATED_MAX]:
        run.note(shown(one))
    if len(stated) > _STATED_MAX:
        run.note(f"{len(stated) - _STATED_MAX} more that are no deviations")
    return found


def _shown(one: "Finding") -> str:
    who = f"{one.ensemble} member {one.member}" if one.member is not None else one.ensemble
    place = f" ({one.file}, offset {one.offset})" if one.file is not None and one.offset is not None else ""
    return f"{who}: {one.kind}: {one.sentence}{place}"


def _shown_of_topic(one: "TopicFinding") -> str:
    who = "" if one.broker is None else f", broker {one.broker}"
    return f"{one.topic}-{one.partition}{who}: {one.kind}: {one.sentence}"


def _look(run: Run) -> None:
    """Report directories without members' files before Spark starts. Raises PipelineError."""
    from zab.pipeline.errors import PipelineError
    from zab.pipeline.topics.replicas import find_replicas

    try:
        run.look()
    except PipelineError as error:
        try:
            has_topics = bool(find_replicas(run.dirs))
        except (PipelineError, OSError):
            has_topics = False
        if not has_topics:
            raise
        raise PipelineError(f"{error}; for the log directories of brokers there is --topics") from None


def _topics(run: Run, names: list[str]) -> "DataFrame":
    from zab.pipeline.jobs.sharing import as_rows
    from zab.pipeline.jobs.verify_topics import VERIFY_TOPICS, replicas_in, verify_in

    replicas = replicas_in(run.dirs, names)
    verified = verify_in(run.spark, replicas)
    found = _deviations(run, verified.findings, _shown_of_topic)
    run.note(
        f"{count_of(verified.partition_count, 'partition')} of {count_of(verified.broker_count, 'broker')}, "
        f"{verified.batch_count:,} batches, {verified.byte_count:,} bytes; {count_of(len(found), 'deviation')}"
    )
    run.shown = ("topic", "partition", "broker", "kind", "offset", "until", "epoch", "file", "position", "sentence")
    return as_rows(run.spark, VERIFY_TOPICS, found)


def _ledgers(run: Run, metadata: str, ledgers: str | None, root: str, logs: str | None, logs_root: str) -> "DataFrame":
    from zab.pipeline.jobs.sharing import as_rows
    from zab.pipeline.jobs.verify_ledgers import VERIFY_LEDGERS, given_in, verify_in

    given = given_in(run.dirs, metadata, ledgers, root, logs=logs, logs_root=logs_root)
    verified = verify_in(run.spark, given)
    found = _deviations(run, verified.findings, _shown_of_ledger)
    stored = "" if logs is None else f", {verified.stored_count} in object stores"
    run.note(
        f"{count_of(verified.ledger_count, 'ledger')}, {verified.closed_count} closed, on "
        f"{count_of(verified.bookie_count, 'bookie')}{stored}: {verified.copy_count:,} copies of entries, "
        f"{verified.byte_count:,} bytes; {count_of(len(found), 'deviation')}"
    )
    run.shown = ("ledger", "entry", "last", "bookie", "kind", "file", "position", "sentence")
    return as_rows(run.spark, VERIFY_LEDGERS, found)


def _shown_of_ledger(one: "LedgerFinding") -> str:
    entries = "" if one.entry is None else f", entry {one.entry}"
    entries += f" to {one.last}" if one.last != one.entry else ""
    who = "" if one.bookie is None else f", bookie {one.bookie}"
    return f"ledger {one.ledger}{entries}{who}: {one.kind}: {one.sentence}"


def history_job(
    run: Run,
    *,
    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", show_default=False, help="Parquet files, or directories of such.")
    ],
) -> "DataFrame":
    """Check recorded client histories: linearizable writes and synced reads, monotonic reads. Exit code 1 if broken.

    Each violation has the smallest set of operations that shows it."""
    from zab.pipeline.history.files import check_file

    for file in files:
        check_file(file)
    from zab.pipeline.jobs.history import history, read_histories

    operations = read_histories(run.spark, files)
    found = run.cached(history(operations))
    undecided = found.where(~found.violation).collect()
    for row in undecided:
        run.note(f"{row.history} {row.path}: undecided: {row.sentence}")
    violations = found.where(found.violation)
    number = violations.count()
    run.note(f"{operations.count():,} operations; {number} violation{'s' * (number != 1)}")
    run.shown = ("path", "kind", "sentence", "witness")
    return violations
