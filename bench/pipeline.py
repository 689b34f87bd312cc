"""The benchmark of the pipeline: decoding alone, through Spark beside Parquet of the same rows, and `verify`.

    python -m bench.pipeline [--transactions N] [--rounds N] [--quick] [--no-page]
    python -m bench.pipeline --scale [--transactions N] [--directory DIR] [--no-page]
                                    each job once, of N / 2 and N, with one worker and two

Makes native logs of two million transactions with datatree's own encoder, in segments of 64 MiB with their indexes, in
batches of 1, 10 and 100, and the same transactions as a log of ZooKeeper. `verify` compares three members that have the
same files. Everything is measured in CPU seconds of the whole process tree (driver, JVM and workers), because other
work on the machine distorts anything else. A figure is the median of alternating rounds. The result is written to
bench/PIPELINE.md. `--scale` says how cost grows with the history, in a table of its own there: by the processor and by
the clock, with what else the machine does. Its logs stay in DIR, if one is named, and are used again; `--make` makes
them and ends. Three kinds of history are restored: few znodes written often, each transaction a new znode, and multis.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from bench.machine import commit, system
from bench.process_tree import cpu_seconds, peak_mib
from bench.table import write_page
from datatree.log.epochs import save_mark
from datatree.record import Txn
from tests.pipeline.rigs.log_builder import FIRST, LINEAGE, SESSION, TIME, NativeFile, write_version2
from zab.host.storage.disk import RealDisk
from zab.pipeline.inventory import inventory
from zab.pipeline.jobs.audit import COLUMNS as AUDIT_COLUMNS
from zab.pipeline.jobs.audit import audit
from zab.pipeline.jobs.compact import compact
from zab.pipeline.jobs.verify import findings_of
from zab.pipeline.reading.frames import read_log
from zab.pipeline.reading.planning import Range, plan
from zab.pipeline.reading.spans import Span, batches
from zab.pipeline.report.collect import collect
from zab.pipeline.schema import LOG
from zab.pipeline.spark_session import job_session
from zab.pipeline.state.local_state import local_moment, local_state
from zab.pipeline.state.snapshot_output import State, write_native, write_version_2
from zab.pipeline.state.state_of import state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAGE = Path(__file__).parent / "PIPELINE.md"
TARGET = "make bench-pipeline"
SCALE_TARGET = "make bench-pipeline, how cost grows"
TRANSACTIONS = 2_000_000
SCALE_TRANSACTIONS = 5_000_000
EIGHT = ("zxid", "time", "session", "cxid", "type", "path", "data", "checksum")
EVERY = tuple(column.name for column in LOG)
BATCHES = (1, 10, 100)
SEGMENT_BYTES = 64 << 20
FRAME_TRANSACTIONS = 100
PATHS = 20_000
DATA_BYTES = 64

Columns = tuple[str, ...]


def main() -> int:
    options = _options()
    if options.scale:
        return _scale(options)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as made:
        directory = Path(made)
        _say(f"making {options.transactions:,} transactions four times over")
        sizes = {size: _make_native(directory / f"batches of {size}", options.transactions, size) for size in BATCHES}
        sizes[0] = _make_version2(directory / "ZooKeeper's", options.transactions)
        runs = _decode_runs(directory)
        runs += _index_runs(directory)
        _measure(runs, options.rounds)
        with job_session("local[1]", name="bench", memory="2g", settings=_settings(directory)) as spark:
            through = _spark_runs(spark, directory, options.transactions)
            _measure(through, options.rounds)
            memory = _worker_memory(spark, directory)
            compared = _verify_runs(spark, directory, options.transactions)
            _measure(compared, options.rounds)
        text = _page(options, sizes, runs, through, memory, compared)
    print(text)
    if options.page:
        write_page(PAGE, text, TARGET)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--transactions", type=int, help="in each log (2,000,000; with --scale 5,000,000)")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (5)")
    parser.add_argument("--quick", action="store_true", help="one round of a tenth, a look and not a measurement")
    parser.add_argument("--no-page", dest="page", action="store_false", help="leave bench/PIPELINE.md alone")
    parser.add_argument("--scale", action="store_true", help="how cost grows: each job, two sizes, one worker and two")
    parser.add_argument("--make", action="store_true", help="with --scale: only make the logs that --directory lacks")
    parser.add_argument("--directory", help="where the logs are made, and stay with --scale (a temporary directory)")
    options = parser.parse_args()
    if options.transactions is None:
        options.transactions = SCALE_TRANSACTIONS if options.scale else TRANSACTIONS
    if options.quick:
        options.transactions, options.rounds, options.page = options.transactions // 10, 1, False
    return options


# The logs.


def _transactions(count: int) -> Iterator[Txn]:
    """Mostly writes of data, as a service of configuration and locks has them; some creates, deletes and refusals."""
    rng = random.Random(1)
    values = [rng.randbytes(DATA_BYTES) for _ in range(1000)]
    for number in range(count):
        path = b"/app-k%08d-item" % rng.randrange(PATHS)
        head = FIRST + number, TIME + number // 10, SESSION + number % 50, number
        kind = rng.random()
        if kind < 0.85:
            yield Txn(*head, 5, 3, path, values[number % 1000], None)
        elif kind < 0.93:
            yield Txn(*head, 1, 3, path, values[number % 1000], (None, 0))
        elif kind < 0.98:
            yield Txn(*head, 2, 0, path, None, None)
        else:
            yield Txn(*head, -1, -101, path, None, (5,))


def _make_native(directory: Path, count: int, size: int) -> int:
    return _write_native(directory, _transactions(count), count, size)


def _write_native(directory: Path, transactions: Iterator[Txn], count: int, size: int) -> int:
    """A member's directory, with batches of `size`; its size in bytes."""
    version = directory / "version-1"
    per_segment = max(SEGMENT_BYTES // (150 + 90 // size), FRAME_TRANSACTIONS)
    previous, total = None, 0
    gathered: list[Txn] = []
    for txn in transactions:
        gathered.append(txn)
        if len(gathered) == per_segment or txn.zxid == FIRST + count - 1:
            groups = [gathered[at : at + size] for at in range(0, len(gathered), size)]
            per_frame = max(FRAME_TRANSACTIONS // size, 1)
            position = {} if previous is None else {"previous": previous}
            file = NativeFile.build(groups, per_frame=per_frame, lineage=LINEAGE, **position)
            file.write(version, index=True)
            previous, total = file.last, total + len(file.data)
            gathered = []
    return total


def _make_version2(directory: Path, count: int) -> int:
    path = write_version2(directory, [list(_transactions(count))])[0]
    return path.stat().st_size


# What is measured.


@dataclass
class Run:
    """One figure: `call` returns how many rows it read."""

    title: str
    columns: str
    way: str
    call: Callable[[], int]
    rates: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Rows a CPU second, the median."""
        return statistics.median(self.rates)


def _measure(runs: Sequence[Run], rounds: int) -> None:
    for run in runs:
        run.call()
    for turn in range(rounds):
        for run in runs:
            before = cpu_seconds()
            rows = run.call()
            run.rates.append(rows / (cpu_seconds() - before))
            _say(f"round {turn + 1}: {run.title}, {run.columns}, {run.way}: {run.rates[-1] / 1e6:.2f} M/s")


def _named(columns: Columns) -> str:
    return f"{len(columns)} columns" if columns != EVERY else "all columns"


def _spans(directory: Path) -> list[Span]:
    tasks = plan(inventory(str(directory)), Range(), uncommitted=True)
    return [span for task in tasks for span in task.spans]


def _decoding(spans: Sequence[Span], columns: Columns, use_index: bool) -> Callable[[], int]:
    def call() -> int:
        return sum(batch.num_rows for span in spans for batch in batches(span, columns, use_index=use_index))

    return call


def _decode_runs(directory: Path) -> list[Run]:
    runs = []
    for size in BATCHES:
        spans = _spans(directory / f"batches of {size}")
        for columns in (EIGHT, EVERY):
            for way, use_index in (("index", True), ("no index", False)):
                call = _decoding(spans, columns, use_index)
                runs.append(Run(f"batches of {size}", _named(columns), way, call))
    return runs


def _index_runs(directory: Path) -> list[Run]:
    spans = _spans(directory / "ZooKeeper's")
    return [
        Run("ZooKeeper's", _named(columns), "no index", _decoding(spans, columns, False)) for columns in (EIGHT, EVERY)
    ]


def _settings(directory: Path) -> dict[str, str]:
    return {
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
    }


def _touching(frame: DataFrame) -> Callable[[], int]:
    """A query that looks at every value of every column."""
    from pyspark.sql import functions as f

    sums = [f.count(f.lit(1)).alias("rows")]
    for name, kind in frame.dtypes:
        column = frame[name]
        if kind in ("string", "binary"):
            column = f.length(column)
        elif kind == "timestamp":
            column = f.unix_micros(column)
        elif kind.startswith("array"):
            column = f.size(column)
        sums.append(f.bit_xor(column.cast("bigint")).alias(name))

    def call() -> int:
        rows: int = frame.agg(*sums).collect()[0]["rows"]
        return rows

    return call


def _spark_runs(spark: SparkSession, directory: Path, transactions: int) -> list[Run]:
    runs = []
    for size in BATCHES:
        for columns in (EIGHT, EVERY):
            frame = read_log(spark, str(directory / f"batches of {size}"), columns=columns, uncommitted=True)
            runs.append(Run(f"batches of {size}", _named(columns), "zab.log", _touching(frame)))
    for columns in (EIGHT, EVERY):
        frame = read_log(spark, str(directory / "ZooKeeper's"), columns=columns, uncommitted=True)
        runs.append(Run("ZooKeeper's", _named(columns), "zab.log", _touching(frame)))
    _write_parquet(directory / "rows.parquet", _spans(directory / "batches of 100"))
    for columns in (EIGHT, EVERY):
        frame = spark.read.parquet(str(directory / "rows.parquet")).select(*columns)
        runs.append(Run("Parquet", _named(columns), "spark.read.parquet", _touching(frame)))
    assert all(run.call() == transactions for run in runs)
    return runs


def _write_parquet(path: Path, spans: Sequence[Span]) -> None:
    """As Spark would write it: snappy, a file for each segment."""
    path.mkdir()
    for number, span in enumerate(spans):
        table = pa.Table.from_batches(batches(span, EVERY))
        pq.write_table(table, path / f"{number}.parquet", compression="snappy")


def _worker_memory(spark: SparkSession, directory: Path) -> list[tuple[str, float]]:
    """The most memory that a Python worker had, of a small directory and of a large one."""
    (directory / "one segment" / "version-1").mkdir(parents=True)
    first = next((directory / "batches of 100" / "version-1").glob("log.*[0-9a-f]"))
    os.link(first, directory / "one segment" / "version-1" / first.name)
    found = []
    for name in ("one segment", "batches of 100"):
        frame = read_log(spark, str(directory / name), uncommitted=True)
        _touching(frame)()
        found.append((name, peak_mib("pyspark.daemon")))
    return found


def _verify_runs(spark: SparkSession, directory: Path, transactions: int) -> list[Run]:
    """Three members that hold the same: compared by digests, by their chains too, and with a snapshot of its end."""

    def comparing(title: str, *, chains: bool, replays: int = 0) -> Callable[[], int]:
        places = [f"e={place}" for place in members[title]]

        def call() -> int:
            findings = findings_of(spark, places, chains=chains, replays=replays)
            assert not any(one.deviation for one in findings), findings
            assert not replays or any(one.sentence.startswith("compared with") for one in findings), findings
            return transactions

        return call

    titles = [*(f"batches of {size}" for size in BATCHES), "ZooKeeper's"]
    members = {title: _three_members(directory, title) for title in titles}
    runs = [Run(title, "digests", "verify", comparing(title, chains=False)) for title in titles]
    runs += [Run(title, "chains too", "verify", comparing(title, chains=True)) for title in titles[:-1]]
    places = members["ZooKeeper's"]
    found = local_state(local_moment([f"e={place}" for place in places]))
    write_version_2(RealDisk(str(places[0]), lock=False), State(found.zxid, found.sessions, lambda: found.batches))
    runs.append(Run("ZooKeeper's", "a replay", "verify", comparing("ZooKeeper's", chains=False, replays=1)))
    return runs


def _three_members(directory: Path, title: str) -> list[Path]:
    places = []
    for number in (1, 2, 3):
        places.append(directory / f"{title} members" / f"server{number}")
        for file in sorted((directory / title).glob("version-*/*")):
            target = places[-1] / file.parent.name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(file, target)
        (places[-1] / "myid").write_text(f"{number}\n")
    return places


# How cost grows.


def _created(count: int) -> Iterator[Txn]:
    """Each transaction makes a znode, below a thousand directories."""
    rng = random.Random(2)
    directories = min(count, 1000)
    for number in range(count):
        head = FIRST + number, TIME + number // 10, SESSION + number % 50, number
        path, counter = b"/dir%05d" % number, number
        if number >= directories:
            path, counter = b"/dir%05d/child-%08d" % (rng.randrange(directories), number), 0
        yield Txn(*head, 1, counter, path, bytes(DATA_BYTES), (None, 0))


def _in_multis(count: int) -> Iterator[Txn]:
    """Four writes a multi: `count` is of multis."""
    rng = random.Random(3)
    data = bytes(DATA_BYTES)
    for number in range(count):
        parts = tuple((5, 3, b"/app-k%08d-item" % rng.randrange(PATHS), data, None) for _ in range(4))
        yield Txn(FIRST + number, TIME + number // 10, SESSION + number % 50, number, 14, 0, b"", None, parts)


def _kept(place: Path, transactions: Iterator[Txn], count: int) -> Path:
    """A member's directory with these transactions, made unless it is there."""
    if not (place / "version-1" / "committed").exists():
        _say(f"making {place.name}")
        shutil.rmtree(place, ignore_errors=True)
        _write_native(place, transactions, count, 10)
        save_mark(RealDisk(str(place), lock=False), LINEAGE, FIRST + count - 1)
    return place


def _restored(place: Path, out: Path) -> None:
    """What `zab restore` does, without what follows from its options."""
    moment = local_moment(str(place))
    found = local_state(moment)
    (out / "version-1").mkdir(parents=True)
    write_native(RealDisk(str(out), lock=False), State(moment.zxid, found.sessions, lambda: found.batches), LINEAGE)


def _scale_jobs(spark: SparkSession, place: Path, count: int, out: Path) -> list[Run]:
    """Each job on the directory of one member with so many transactions."""
    dirs = str(place)

    def decoded() -> int:
        return _touching(read_log(spark, dirs))()

    def audited() -> int:
        path = "/app-k00000007-item"
        return count if audit(read_log(spark, dirs, columns=AUDIT_COLUMNS), path=path).count() else 0

    def put_together() -> int:
        found = state_of(spark, dirs)
        return count if found.znodes.count() else 0

    def compacted() -> int:
        (made,) = compact(spark, dirs, str(out / "lake"))
        return made.transactions

    def verified() -> int:
        return count if not any(one.deviation for one in findings_of(spark, dirs)) else 0

    def reported() -> int:
        (facts,) = collect(spark, dirs)
        return facts.transactions

    calls = (decoded, audited, put_together, compacted, verified, reported)
    titles = ("decode", "audit of a path", "state", "compact", "verify", "report")
    return [Run(title, "", "", call) for title, call in zip(titles, calls, strict=True)]


def _restore_runs(directory: Path, count: int, out: Path) -> list[Run]:
    """`zab restore` of each kind of history."""

    def restoring(place: Path, rows: int) -> Callable[[], int]:
        def call() -> int:
            _restored(place, out / f"restored {place.name}")
            return rows

        return call

    kinds = (("few znodes", "written", count), ("new znodes", "created", count), ("multis", "multis", count // 4))
    return [
        Run(f"restore, {title}", "", "", restoring(directory / f"{name} {rows}", rows)) for title, name, rows in kinds
    ]


def _scale(options: argparse.Namespace) -> int:
    """A row for each job, size and count of workers."""
    counts = (options.transactions // 2, options.transactions)
    rows = [
        "| workers | transactions | job | rows a CPU second | rows a second | CPU s | s | worker MiB | load |",
        "|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as made:
        scratch, directory = Path(made), Path(options.directory or made)
        for count in counts:
            _kept(directory / f"written {count}", _transactions(count), count)
            _kept(directory / f"created {count}", _created(count), count)
            _kept(directory / f"multis {count // 4}", _in_multis(count // 4), count // 4)
        if options.make:
            return 0
        for count in counts:
            rows += _measured_rows(0, _restore_runs(directory, count, scratch / str(count)))
        for workers in (1, 2):
            with job_session(f"local[{workers}]", name="bench", memory="2g", settings=_settings(scratch)) as spark:
                # What is done for the first time costs Java seconds, whatever its size.
                first = _kept(scratch / "first", _transactions(10_000), 10_000)
                for run in _scale_jobs(spark, first, 10_000, scratch / f"first {workers}"):
                    run.call()
                for count in counts:
                    out = scratch / f"{workers} {count}"
                    rows += _measured_rows(workers, _scale_jobs(spark, directory / f"written {count}", count, out))
    text = "\n".join([f"- {system()}", f"- {commit()}", "", *rows]) + "\n"
    print(text)
    if options.page:
        write_page(PAGE, text, SCALE_TARGET)
    return 0


def _measured_rows(workers: int, runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        _say(f"{workers} workers: {run.title}")
        before, begun = cpu_seconds(), time.monotonic()
        rows = run.call()
        assert rows, run.title
        cpu, clock = cpu_seconds() - before, time.monotonic() - begun
        figures = f"{rows / cpu:,.0f} | {rows / clock:,.0f} | {cpu:.1f} | {clock:.1f}"
        memory = f"{peak_mib('pyspark.daemon' if workers else 'bench.pipeline'):.0f} | {os.getloadavg()[0]:.1f}"
        yield f"| {workers or '-'} | {rows:,} | {run.title} | {figures} | {memory} |"


# The page.


def _page(
    options: argparse.Namespace,
    sizes: dict[int, int],
    runs: list[Run],
    through: list[Run],
    memory: list[tuple[str, float]],
    compared: list[Run],
) -> str:
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}"
    lines = [
        f"- {machine}, Python {platform.python_version()}, pyarrow {pa.__version__}",
        f"- {options.transactions:,} transactions, {DATA_BYTES} bytes of data in most; {options.rounds} rounds",
        "",
        "Decoding alone, millions of transactions a CPU second:",
        "",
        "| log | MiB | 8 columns, index | 8 columns, no index | all, index | all, no index |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    rates = {(run.title, run.columns, run.way): run.rate / 1e6 for run in [*runs, *through]}
    for size, total in sizes.items():
        title = f"batches of {size}" if size else "ZooKeeper's"
        cells = [
            _cell(rates.get((title, _named(columns), way)))
            for columns in (EIGHT, EVERY)
            for way in ("index", "no index")
        ]
        lines.append(f"| {title} | {total >> 20} | {' | '.join(cells)} |")
    lines += [
        "",
        "Through Spark, local[1], a query that looks at every value; driver, JVM and worker together:",
        "",
        "| log | 8 columns | all columns |",
        "|---|---:|---:|",
    ]
    for title in dict.fromkeys(run.title for run in through):
        cells = [_cell(run.rate / 1e6) for run in through if run.title == title]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    held = ", ".join(f"{mib:.0f} MiB for {name}" for name, mib in memory)
    lines += ["", f"The most memory of a Python worker: {held}.", ""]
    lines += _verify_table(options.transactions, compared)
    return "\n".join(lines) + "\n"


def _verify_table(transactions: int, compared: list[Run]) -> list[str]:
    seconds = {(run.title, run.columns): transactions / run.rate for run in compared}
    ways = ("digests", "chains too", "a replay")
    lines = [
        f"`verify` through Spark, local[1], CPU seconds for three members with {transactions:,} transactions each; a",
        "replay of the log is compared with a snapshot:",
        "",
        "| log | digests | digests and chains | digests and a replay |",
        "|---|---:|---:|---:|",
    ]
    for title in dict.fromkeys(run.title for run in compared):
        lines.append(f"| {title} | {' | '.join(_cell(seconds.get((title, way))) for way in ways)} |")
    return lines


def _cell(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.2f}"


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
