"""Follows logs into Parquet: what `zab pipeline follow` does, exactly once, across kills and restarts.

    follow(spark, ["/var/lib/zab1", "/var/lib/zab2"], "/data/changes", "/data/changes.checkpoint")

The checkpoint directory says how far it got; run again with the same two directories, it goes on there. Spark writes
each batch into new files and then names them, in one step, in `_spark_metadata`: what is named there is all that
`spark.read.parquet` reads. A batch that was killed half-way may leave files that are named nowhere; on local disks they
are removed at the next start, so that other readers see each transaction once, too.

Invariants: output and checkpoint belong together, each holds the same id, and neither is used with another. Otherwise
Spark would take batches of a new checkpoint for ones that the output already has, and drop them. Two processes do not
write to one output (on local disks, where a lock says so).

Deliberately not here: the stream itself (`streaming.stream`), and the command line.
"""

import contextlib
import fcntl
import json
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import LOG, ddl
from zab.pipeline.spark_session import plain_errors, whole_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Progress", "follow"]

SPARK_METADATA: Final = "_spark_metadata"
_OURS_IN_OUT: Final = "_zab_follow.json"
_OURS_IN_CHECKPOINT: Final = "zab_follow.json"
_LOCK: Final = ".zab_follow.lock"
_LOOK_SECONDS: Final = 1
_NO_SPACE: Final = "No space left on device"


@frozen
class Progress:
    """After a batch: its number, the rows in it, and the zxid that each ensemble is read up to."""

    batch: int
    rows: int
    zxids: dict[str, int]


def follow(
    spark: "SparkSession",
    dirs: Iterable[str],
    out: str,
    checkpoint: str,
    *,
    starting: str | int = "earliest",
    rate: int | None = None,
    once: bool = False,
    every: float = 1.0,
    columns: Iterable[str] | None = None,
    uncommitted: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Write the transactions of these directories into Parquet files in `out`, and go on as more come.

    starting: `earliest`, `latest` or the first zxid wanted; a checkpoint that has begun overrides it. rate:
    transactions in a batch at most. once: return when all is written that is there now; otherwise it ends with an error
    or a KeyboardInterrupt, which is raised once the stream has stopped. every: seconds between batches. columns: of
    `schema.LOG`, else all. on_progress: called after batches with something new. Paths are local ones or URIs that
    Spark takes. Raises PipelineError."""
    out, checkpoint = _absolute(out), _absolute(checkpoint)
    options = {"dirs": json.dumps(list(dirs)), "startingZxid": str(starting), "uncommitted": str(uncommitted).lower()}
    if rate is not None:
        options["maxRowsPerTrigger"] = str(rate)
    names = _names(columns)
    with contextlib.ExitStack() as stack:
        stack.enter_context(plain_errors())
        files = _Files(spark)
        if not files.exists(f"{checkpoint}/offsets"):
            _try_start(options, names)
        is_local = _is_local(checkpoint)
        if is_local:
            stack.enter_context(_lock(checkpoint))
        _pair(files, out, checkpoint)
        if is_local and _is_local(out):
            _remove_unnamed(files, out)
        stream = spark.readStream.format("zab.log").schema(_ddl(names)).options(**options).load()
        stack.enter_context(_full_disk_named(out, checkpoint))
        _run(_start(stream, out, checkpoint, once, every), on_progress)


def _names(columns: Iterable[str] | None) -> list[str]:
    known = [column.name for column in LOG]
    names = known if columns is None else list(columns)
    for name in names:
        if name not in known:
            raise PipelineError(f"there is no column {name}; there are {', '.join(known)}")
    return names


def _ddl(names: list[str]) -> str:
    by_name = {column.name: column for column in LOG}
    return ddl(by_name[name] for name in names)


def _try_start(options: dict[str, str], names: list[str]) -> None:
    """Say at once what is wrong with the directories or with where to start. Raises PipelineError."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from zab.pipeline.streaming.stream import LogStreamReader

    reader = LogStreamReader(options, tuple(names))
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


def _start(stream: "DataFrame", out: str, checkpoint: str, once: bool, every: float) -> "StreamingQuery":
    writer = stream.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every} seconds").start()


@contextlib.contextmanager
def _full_disk_named(out: str, checkpoint: str) -> Iterator[None]:
    """Raise PipelineError where Spark's exception says somewhere that a disk is full."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if _NO_SPACE not in whole_text(error):
            raise
        message = f"no space is left for {out}, {checkpoint} or Spark's temporary files; what is written there is whole"
        raise PipelineError(message) from error


def _run(query: "StreamingQuery", on_progress: Callable[[Progress], None] | None) -> None:
    told: Progress | None = None
    with _interrupts() as interrupts:
        try:
            is_over = False
            while not (is_over or interrupts):
                is_over = bool(query.awaitTermination(_LOOK_SECONDS))
                for one in map(_progress, query.recentProgress):
                    is_new = told is None or (one.batch > told.batch and one.zxids != told.zxids)
                    if is_new and on_progress is not None:
                        on_progress(one)
                    told = one if is_new else told
        finally:
            query.stop()
    if interrupts:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The SIGINTs that come in the block, noted and not raised: in the middle of a call to the JVM, one would leave the
    connection unusable, with messages on standard error."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def _progress(one: Any) -> Progress:
    offset = json.loads(one["sources"][0]["endOffset"] or "{}")
    zxids = {name: position["zxid"] for name, position in offset.get("ensembles", {}).items()}
    return Progress(one["batchId"], one["numInputRows"], zxids)


# The two directories.


def _is_local(path: str) -> bool:
    return path.startswith("/")


def _absolute(path: str) -> str:
    """A local path without its scheme and from the root; a URI as it is."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path.rstrip("/") if "://" in path else os.path.abspath(os.path.expanduser(path))


@contextlib.contextmanager
def _lock(checkpoint: str) -> Iterator[None]:
    """No other process writes with this checkpoint meanwhile; the lock of a process that was killed is free."""
    try:
        os.makedirs(checkpoint, exist_ok=True)
        file = open(os.path.join(checkpoint, _LOCK), "ab")  # noqa: SIM115 - closed below
    except OSError as error:
        raise PipelineError(f"{checkpoint} cannot be used for a checkpoint: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineError(f"{checkpoint} is in use by another process that follows") from None
        yield


def _pair(files: "_Files", out: str, checkpoint: str) -> None:
    """Make sure that output and checkpoint belong together, and that they do from now on."""
    mine, theirs = f"{checkpoint}/{_OURS_IN_CHECKPOINT}", f"{out}/{_OURS_IN_OUT}"
    known, named = files.read(mine), files.read(theirs)
    if known is not None and known == named:
        return
    has_begun = files.exists(f"{checkpoint}/offsets")
    if named is not None:
        raise PipelineError(f"{out} was written with another checkpoint than {checkpoint}")
    if known is None and (has_begun or files.names(checkpoint) - {_LOCK}):
        raise PipelineError(f"{checkpoint} is not empty, and no checkpoint of this command")
    if has_begun:
        raise PipelineError(f"{checkpoint} belongs to another output than {out}, which does not hold what it wrote")
    if files.names(out):
        raise PipelineError(f"{out} is not empty, and {checkpoint} knows nothing of it: give it a directory of its own")
    if known is None:
        known = json.dumps({"version": 1, "id": secrets.token_hex(16)})
        files.write(mine, known)
    files.write(theirs, known)


def _remove_unnamed(files: "_Files", out: str) -> None:
    """Remove what a batch wrote that was killed before it was named."""
    named = set(_named(files, f"{out}/{SPARK_METADATA}"))
    for name in files.names(out):
        if name.startswith("part-") and name.endswith(".parquet") and name not in named:
            files.remove(f"{out}/{name}")
            files.remove(f"{out}/.{name}.crc")


def _named(files: "_Files", metadata: str) -> Iterator[str]:
    """The names of the files in Spark's list: the newest summary, and what came after it."""
    batches = {name: name.removesuffix(".compact") for name in files.names(metadata)}
    numbered = {name: int(number) for name, number in batches.items() if number.isdecimal()}
    newest = max((number for name, number in numbered.items() if name.endswith(".compact")), default=-1)
    for name, number in numbered.items():
        if number < newest or (number == newest and not name.endswith(".compact")):
            continue
        for line in (files.read(f"{metadata}/{name}") or "").splitlines()[1:]:
            yield json.loads(line)["path"].rpartition("/")[2]


class _Files:
    """A few small files, wherever Spark can write, through its own file systems."""

    def __init__(self, spark: "SparkSession") -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(f"file://{path}" if _is_local(path) else path)
        return place.getFileSystem(self._configuration), place

    def exists(self, path: str) -> bool:
        system, place = self._at(path)
        return bool(system.exists(place))

    def names(self, path: str) -> set[str]:
        """Of what is in a directory; nothing where there is none."""
        system, place = self._at(path)
        return {one.getPath().getName() for one in system.listStatus(place)} if system.exists(place) else set()

    def read(self, path: str) -> str | None:
        system, place = self._at(path)
        if not system.exists(place):
            return None
        stream = system.open(place)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """All or nothing."""
        system, place = self._at(path)
        _, aside = self._at(f"{path}.tmp")
        stream = system.create(aside, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        system.delete(place, False)
        system.rename(aside, place)

    def remove(self, path: str) -> None:
        system, place = self._at(path)
        system.delete(place, False)
