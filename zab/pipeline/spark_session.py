"""Makes the Spark session that the jobs run in: Java, Spark's home, settings, and the data sources of `zab.pipeline`.

    with job_session() as spark:                                        this machine, all its cores
    with job_session("spark://10.0.0.1:7077,10.0.0.2:7077") as spark:   a standalone cluster, with this package

Under `spark-submit`, Java and the cluster are given, and its settings win: only settings that it does not have are
added. If a session runs in this process already, it is used, and left running.

Invariants: once the session runs, the environment of the process is as it was before; the workers run this Python
(unless `PYSPARK_PYTHON` names another one for a cluster) and this code; a local session listens on the loopback
interface only.

Deliberately not here: any job, and the command line.
"""

import atexit
import contextlib
import functools
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

from zab.pipeline import check_spark
from zab.pipeline.class_archive import archive_options
from zab.pipeline.errors import PipelineError
from zab.pipeline.java import spark_java_home
from zab.pipeline.shipping import package_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PLAIN_LOG_LEVEL", "SHORT_WORK", "job_session", "plain_errors", "spark_home", "spark_session", "whole_text"]

PLAIN_LOG_LEVEL: Final = "off"
"""Errors are raised as exceptions; Spark's own log would repeat them, with stack traces."""

SHORT_WORK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java's options for work that is so short that its optimizing compiler would not pay."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_ARCHIVING: Final = "-XX:ArchiveClassesAtExit"
_LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss.SSS}} %-5p %c{{1}}: %m%n%ex
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = {level}
"""
_CONNECT_SECONDS: Final = 5.0
_LOOPBACK: Final = re.compile(r"spark://((127\.0\.0\.1|localhost):\d+,?)+")
_OURS: Final = re.compile(r"zab\.pipeline\.errors\.PipelineError: (.+)")


@contextlib.contextmanager
def job_session(
    url: str | None = None,
    *,
    name: str = "zab",
    memory: str = "2g",
    progress: bool = False,
    log_level: str = PLAIN_LOG_LEVEL,
    is_short: bool = False,
    settings: Mapping[str, str] | None = None,
) -> "Iterator[SparkSession]":
    """A session for the block, made by `spark_session`; stopped at the end unless it ran before.

    Errors of jobs in the block are converted by `plain_errors`."""
    is_ours = _running_session() is None
    spark = spark_session(
        url, name=name, memory=memory, progress=progress, log_level=log_level, is_short=is_short, settings=settings
    )
    try:
        with plain_errors():
            yield spark
    finally:
        if is_ours:
            spark.stop()


def spark_session(
    url: str | None = None,
    *,
    name: str = "zab",
    memory: str = "2g",
    progress: bool = False,
    log_level: str = PLAIN_LOG_LEVEL,
    is_short: bool = False,
    settings: Mapping[str, str] | None = None,
) -> "SparkSession":
    """The session that runs in this process, or a new one, with `zab.log` and the other sources registered.

    url: the cluster; by default this machine with all its cores. memory: of the driver (locally, that is everything),
    in Spark's notation. progress: show a bar of the running tasks on the terminal. log_level: for Spark's own log on
    standard error. is_short: the work is small, so the cost of the session matters most. settings: Spark settings,
    which override the recommended ones; Java options are appended.
    Raises PipelineError if there is no PySpark or no Java, Spark does not start, or the cluster does not answer."""
    spark = _running_session()
    # It imports PySpark, which has just been found to be there.
    from zab.pipeline.reading.log_source import register as register_sources

    if spark is None:
        if log_level == PLAIN_LOG_LEVEL:
            _silence_python_logs()
        given = dict(settings or {})
        java_options = _java_options(log_level, is_short, given.pop(_JAVA_OPTIONS, ""))
        chosen = {"spark.driver.memory": memory, "spark.app.name": name, _JAVA_OPTIONS: java_options}
        spark = _new_session(url, progress, chosen | given)
    register_sources(spark)
    return spark


def _java_options(log_level: str, is_short: bool, given: str) -> str:
    # Java cannot load classes from an archive while it writes one.
    archive = [] if _ARCHIVING in given else archive_options()
    return " ".join([_logging_option(log_level), *(SHORT_WORK if is_short else ()), *archive, given]).strip()


def _running_session() -> "SparkSession | None":
    try:
        check_spark()
    except ModuleNotFoundError as error:
        raise PipelineError(str(error)) from None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _new_session(url: str | None, progress: bool, settings: dict[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    submitted = _submitted_settings()
    url = submitted.get("spark.master", url or "local[*]")
    builder = SparkSession.builder.master(url)
    for key, value in (_recommended(url, progress) | settings).items():
        if key not in submitted:
            builder = builder.config(key, value)
    _check_reachable(url)
    with _environment({} if submitted else _needed_environment(url)):
        try:
            spark = builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            raise PipelineError(f"Spark did not start on {url}: {_first_line(error)}") from error
    if not submitted and not _is_local(url):
        spark.sparkContext.addPyFile(str(package_archive(_work_directory())))
    return spark


def _check_reachable(url: str) -> None:
    """Raise PipelineError if nothing listens there: Spark would try for a minute."""
    if not url.startswith("spark://"):
        return
    reasons = []
    for address in url.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
                return
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
    raise PipelineError(f"no Spark cluster answers at {url} ({'; '.join(reasons)})")


def _submitted_settings() -> dict[str, str]:
    """The settings of `spark-submit`; empty if it did not start this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _recommended(url: str, progress: bool) -> dict[str, str]:
    """The settings for jobs that measured best."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.sql.adaptive.enabled": "true",
        # The next two, which note where in Python a column was made and give each session classes of its own, cost a
        # tenth of a short query's time.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(_work_directory() / "warehouse"),
    }
    if _is_local(url):
        cores = _cores(url)
        settings |= {
            "spark.default.parallelism": str(cores),
            "spark.sql.shuffle.partitions": str(cores),
            "spark.local.dir": str(_work_directory() / "local"),
        }
    if _is_local(url) or _LOOPBACK.fullmatch(url):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _is_local(url: str) -> bool:
    return url == "local" or url.startswith("local[")


def _cores(url: str) -> int:
    named = re.match(r"local\[(\d+)", url)
    if named is not None:
        return int(named[1])
    if "*" not in url:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _needed_environment(url: str) -> dict[str, str | None]:
    """The environment variables that Spark's launcher and workers need; None for a variable that has to be unset."""
    needed: dict[str, str | None] = {"JAVA_HOME": str(spark_java_home()), "SPARK_REMOTE": None}
    if _is_local(url):
        needed |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        if "SPARK_HOME" not in os.environ:
            needed["SPARK_HOME"] = str(spark_home())
    else:
        needed["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        if _LOOPBACK.fullmatch(url):
            needed["SPARK_LOCAL_IP"] = "127.0.0.1"
    return needed


@contextlib.contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    _set_environment(changes)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def spark_home() -> Path:
    """A home for Spark with links into the installed PySpark; the package itself if that cannot be made.

    Spark puts `python/lib/pyspark.zip` of its home first on the path of its Python workers. Each of the four or five
    that a session starts would compile its imports from there, 0.5 s each. Without the file they import the installed
    package."""
    import pyspark

    package = Path(pyspark.__file__).absolute().parent
    home = Path(sys.prefix) / "share" / "zab" / f"spark-{pyspark.__version__}-{crc32(str(package).encode()):08x}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in ("bin", "data", "jars", "sbin"):
            # Another process may make the same link at the same moment.
            with contextlib.suppress(FileExistsError):
                (home / name).symlink_to(package / name)
    except OSError:
        return package
    return home


@functools.cache
def _work_directory() -> Path:
    """A directory for the files of a session: shuffle files, the archive for the workers. Removed with the process."""
    directory = tempfile.mkdtemp(prefix="zab-spark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _logging_option(level: str) -> str:
    file = _work_directory() / f"log4j2-{level}.properties"
    file.write_text(_LOGGING.format(level=level), encoding="utf-8")
    return f'"-Dlog4j2.configurationFile={file}"'


def _silence_python_logs() -> None:
    """Silence the loggers in which PySpark repeats exceptions that it raises."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Raise the PipelineError that a worker raised, instead of Spark's exception around it with all its traces."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        found = _OURS.search(whole_text(error))
        if found is None:
            raise
        raise PipelineError(found[1].strip()) from error


def whole_text(error: BaseException) -> str:
    """The text of Spark's exception, with the stack traces of all causes: one of them may be a worker's error."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        # PySpark's names: its own text leaves both out, unless it is told otherwise.
        parts += [str(current), getattr(current, "_stackTrace", None) or ""]
        current = getattr(current, "_cause", None)
    return "\n".join(parts)


def _first_line(error: BaseException) -> str:
    """The line of Spark's exception that says why: the last cause if there are several."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]
