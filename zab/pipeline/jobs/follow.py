"""The job `follow`: writes logs to Parquet as they grow, exactly once, across kills and restarts.

    follow(spark, ["/var/lib/zab1", "/var/lib/zab2"], "/data/changes", "/data/changes.checkpoint")

The checkpoint directory says how far it got; run again with the same two directories, it goes on from there. Spark
writes each batch into new files and then lists them, in one step, in `_spark_metadata`; `spark.read.parquet` reads only
the listed files. A batch that was killed half-way may leave files that are not listed; on local disks the next start
removes them, so that other readers also see each transaction once.

Invariants: output and checkpoint belong together: both hold one id, and neither is used with another. Otherwise Spark
would take batches of a new checkpoint for ones that the output already has, and drop them. Two processes do not write
to one output (on local disks, where a lock prevents it).

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
    """The state after a batch: its number, its rows, and the zxid up to which each ensemble is read."""

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

    starting: `earliest`, `latest` or the first zxid wanted; ignored if the checkpoint has begun. rate: the most
    transactions of a batch. once: return when everything that is there now is written; otherwise the call ends with an
    error or a KeyboardInterrupt, which is raised once the stream has stopped. every: seconds between batches. columns:
    of `schema.LOG`; by default all. on_progress: called after each batch with something new. Paths are local ones or
    URIs that Spark takes. Raises PipelineError."""
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
    """Raise PipelineError at once if the directories, or the place to start, are wrong."""
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
    """Raise PipelineError if Spark's exception mentions a full disk."""
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
    """Note the SIGINTs in the block instead of raising KeyboardInterrupt, which would break the connection to the JVM
    in the middle of a call, with messages on standard error."""
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
    """A local path made absolute and without a scheme; a URI as it is."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path.rstrip("/") if "://" in path else os.path.abspath(os.path.expanduser(path))


@contextlib.contextmanager
def _lock(checkpoint: str) -> Iterator[None]:
    """Prevent other processes from using this checkpoint. The lock of a killed process is free."""
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
    """Check that output and checkpoint belong together; tie new ones together."""
    mine, theirs = f"{checkpoint}/{_OURS_IN_CHECKPOINT}", f"{out}/{_OURS_IN_OUT}"
    known, named = files.read(mine), files.read(theirs)
    if known is not None and known == named:
        return
    has_begun = files.exists(f"{checkpoint}/offsets")
    if named is not None:
        raise PipelineError(f"{out} was not written with the checkpoint {checkpoint}")
    if known is None and (has_begun or files.names(checkpoint) - {_LOCK}):
        raise PipelineError(f"{checkpoint} is not empty, and is no checkpoint of this command")
    if has_begun:
        raise PipelineError(f"{checkpoint} does not belong to {out}, which does not hold what was written with it")
    if files.names(out):
        raise PipelineError(f"{out} is not empty, and unknown to {checkpoint}: give a directory of its own")
    if known is None:
        known = json.dumps({"version": 1, "id": secrets.token_hex(16)})
        files.write(mine, known)
    files.write(theirs, known)


def _remove_unnamed(files: "_Files", out: str) -> None:
    """Remove the files of a batch that was killed before they were listed."""
    named = set(_named(files, f"{out}/{SPARK_METADATA}"))
    for name in files.names(out):
        if name.startswith("part-") and name.endswith(".parquet") and name not in named:
            files.remove(f"{out}/{name}")
            files.remove(f"{out}/.{name}.crc")


def _named(files: "_Files", metadata: str) -> Iterator[str]:
    """Yield the names of the files in Spark's list: in the newest summary, and in the entries after it."""
    batches = {name: name.removesuffix(".compact") for name in files.names(metadata)}
    numbered = {name: int(number) for name, number in batches.items() if number.isdecimal()}
    newest = max((number for name, number in numbered.items() if name.endswith(".compact")), default=-1)
    for name, number in numbered.items():
        if number < newest or (number == newest and not name.endswith(".compact")):
            continue
        for line in (files.read(f"{metadata}/{name}") or "").splitlines()[1:]:
            yield json.loads(line)["path"].rpartition("/")[2]


class _Files:
    """Access to small files, wherever Spark can write, through its file systems."""

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
        """The names in a directory; empty if there is none."""
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
        """Write all of the text or nothing."""
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
